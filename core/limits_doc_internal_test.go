package core

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every number of the configuration that has bounds names them, and its default, where a user reads about it.
func TestEveryNumberNamesItsBounds(t *testing.T) {
	comments := map[string]string{} // by group and field
	f, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok {
			if fields, ok := s.Type.(*ast.StructType); ok {
				for _, field := range fields.Fields.List {
					for _, name := range field.Names {
						text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
						comments[strings.TrimSuffix(s.Name.Name, "Config")+"."+name.Name] = text
					}
				}
			}
		}
		return true
	})
	for _, l := range limits {
		text := comments[strings.Replace(l.name, "Limits.", "Limit.", 1)]
		require.True(t, names(text, "", l.max), "%s: at most %d", l.name, l.max)
		require.True(t, l.min == 0 || names(text, "", l.min), "%s: at least %d", l.name, l.min)
		require.True(t, l.def == 0 || names(text, "0 means ", l.def), "%s: 0 means %d", l.name, l.def)
	}
}

// names reports whether the text has the number behind a word, as it is or in a binary unit.
func names(text, before string, n int) bool {
	forms := []string{strconv.Itoa(n)}
	for size, name := range map[int]string{gib: "GiB", mib: "MiB", kib: "KiB"} {
		if n%size == 0 {
			forms = append(forms, fmt.Sprintf("%d %s", n/size, name))
		}
	}
	return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, before+form) })
}
