package gocbcore

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// SelectError is a declaration that a manifest names and that the source does not have.
type SelectError struct {
	File, Name string
}

func (e *SelectError) Error() string { return fmt.Sprintf("%s has no declaration %s", e.File, e.Name) }

// selection is a source file of which some declarations are kept.
type selection struct {
	entry
	src   []byte
	set   *token.FileSet
	file  *ast.File
	found map[string]bool
}

// choose gives the part of a Go source file that an entry asks for: the declarations with their comments, byte for
// byte, behind a notice, and the imports that they need.
func choose(e entry, src []byte) ([]byte, error) {
	s := &selection{entry: e, src: src, set: token.NewFileSet(), found: map[string]bool{}}
	var err error
	if s.file, err = parser.ParseFile(s.set, e.file, src, parser.ParseComments); err != nil {
		return nil, err
	}
	var parts [][]byte
	used := map[string]bool{}
	for _, d := range s.file.Decls {
		parts = append(parts, s.declaration(d, used)...)
	}
	for _, name := range e.names {
		if !s.found[name] {
			return nil, &SelectError{e.file, name}
		}
	}
	var b bytes.Buffer
	b.Write(s.src[:s.offset(s.file.Name.End())])
	fmt.Fprintf(&b, "\n\n// Notice: couchcore has left parts of this file out. The whole of it is %s in\n// %s.\n",
		path.Base(e.file), Module)
	s.imports(&b, used)
	for _, p := range parts {
		b.WriteByte('\n')
		b.Write(p)
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

func (s *selection) offset(p token.Pos) int { return s.set.Position(p).Offset }

// declaration gives what is kept of one declaration, and notes the packages that it uses.
func (s *selection) declaration(d ast.Decl, used map[string]bool) (parts [][]byte) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if s.wants(funcName(d)) {
			note(d, used)
			parts = append(parts, s.text(d.Doc, d))
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT {
			return nil
		}
		return s.group(d, used)
	}
	return parts
}

// group gives what is kept of a group of types, variables or constants. A group of constants is kept or left out as a
// whole, because the values of its members depend on their places.
func (s *selection) group(d *ast.GenDecl, used map[string]bool) (parts [][]byte) {
	var wanted []ast.Spec
	for _, spec := range d.Specs {
		if s.wantsSpec(spec) {
			wanted = append(wanted, spec)
		}
	}
	switch {
	case len(wanted) == 0:
		return nil
	case len(wanted) == len(d.Specs) || d.Tok == token.CONST:
		note(d, used)
		return [][]byte{s.text(d.Doc, d)}
	}
	for _, spec := range wanted {
		note(spec, used)
		parts = append(parts, append([]byte(d.Tok.String()+" "), s.text(nil, spec)...))
	}
	return parts
}

func (s *selection) wantsSpec(spec ast.Spec) (yes bool) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return s.wants(spec.Name.Name)
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			yes = s.wants(name.Name) || yes
		}
	}
	return yes
}

// wants says whether the declaration of that name is kept. A type's name stands for its methods too.
func (s *selection) wants(name string) bool {
	owner, _, _ := strings.Cut(name, ".")
	named := false
	for _, n := range []string{name, owner} {
		if slices.Contains(s.names, n) {
			s.found[n], named = true, true
		}
	}
	return named == (s.how == take)
}

// text is a declaration's source, from its comment on.
func (s *selection) text(doc *ast.CommentGroup, n ast.Node) []byte {
	from := n.Pos()
	if doc != nil {
		from = doc.Pos()
	}
	return s.src[s.offset(from):s.offset(n.End())]
}

// imports writes the imports that are used.
func (s *selection) imports(b *bytes.Buffer, used map[string]bool) {
	for _, spec := range s.file.Imports {
		name := path.Base(unquoted(spec.Path.Value))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if used[name] {
			fmt.Fprintf(b, "\nimport %s\n", s.text(nil, spec))
		}
	}
}

func unquoted(lit string) string {
	text, err := strconv.Unquote(lit)
	if err != nil {
		return lit
	}
	return text
}

// note adds the names that stand before a dot and may be packages.
func note(n ast.Node, used map[string]bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok {
				used[id.Name] = true
			}
		}
		return true
	})
}

// funcName is a function's name, a method's with its type before it.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + d.Name.Name
	}
	return d.Name.Name
}
