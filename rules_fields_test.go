package couchcore_test

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheDocumentationNamesEveryField: go doc shows an alias of an internal struct, and a struct with an internal one
// in it, without the fields of that. So the comment of the alias, or of the embedded field, names all of them.
func TestTheDocumentationNamesEveryField(t *testing.T) {
	structs := map[string][]string{} // exported fields, by "package.Name"
	type use struct{ where, of, text string }
	var uses []use
	require.NoError(t, walkGo(os.DirFS("."), func(file string, f *ast.File, _ *token.FileSet) {
		dir := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || isBelow(dir, "mock") {
			return
		}
		eachType(f, func(s *ast.TypeSpec, doc string) {
			fields, is := s.Type.(*ast.StructType)
			switch {
			case is && isBelow(dir, "internal"):
				structs[path.Base(dir)+"."+s.Name.Name] = exportedNames(fields)
			case isBelow(dir, "internal") || !s.Name.IsExported() || isBelow(dir, "cmd"):
			case s.Assign.IsValid():
				uses = append(uses, use{dir + "." + s.Name.Name, internalName(s.Type), doc})
			case is:
				for _, field := range fields.Fields.List {
					if len(field.Names) == 0 {
						text := field.Doc.Text() + field.Comment.Text() + doc
						uses = append(uses, use{dir + "." + s.Name.Name, internalName(field.Type), text})
					}
				}
			}
		})
	}))
	seen := 0
	for _, u := range uses {
		for _, name := range structs[u.of] {
			seen++
			require.Regexp(t, `\b`+regexp.QuoteMeta(name)+`\b`, u.text, "the comment of %s, which is %s", u.where, u.of)
		}
	}
	require.Greater(t, seen, 50, "the fields of errors alone are more")
}

func eachType(f *ast.File, visit func(s *ast.TypeSpec, doc string)) {
	for _, d := range f.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE {
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					visit(s, d.Doc.Text()+s.Doc.Text()+s.Comment.Text())
				}
			}
		}
	}
}

func exportedNames(s *ast.StructType) (names []string) {
	for _, field := range s.Fields.List {
		for _, n := range field.Names {
			if n.IsExported() {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// internalName is a type of another package, as in "call.Error"; "" for any other.
func internalName(t ast.Expr) string {
	switch x := t.(type) {
	case *ast.StarExpr:
		return internalName(x.X)
	case *ast.IndexExpr:
		return internalName(x.X)
	case *ast.SelectorExpr:
		if p, ok := x.X.(*ast.Ident); ok {
			return p.Name + "." + x.Sel.Name
		}
	}
	return ""
}
