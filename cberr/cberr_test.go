package cberr_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
)

func TestEveryKindHasItsOwnNameAndIsACouchbaseError(t *testing.T) {
	names, texts := map[string]bool{}, map[string]bool{}
	for k := range cberr.All() {
		require.Regexp(t, regexp.MustCompile("^[a-z]+(_[a-z]+)*$"), k.Name())
		require.False(t, names[k.Name()], k.Name())
		require.False(t, texts[k.Error()], k.Error())
		names[k.Name()], texts[k.Error()] = true, true
		require.ErrorIs(t, k, cberr.Couchbase)
		require.ErrorIs(t, k, k)
		require.Equal(t, k, cberr.KindOf(fmt.Errorf("outer: %w", k)))
	}
}

// The list that All yields and the exported variables are the same, or a kind was forgotten.
func TestTheTableIsComplete(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "cberr.go", nil, 0)
	require.NoError(t, err)
	declared := 0
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, s := range g.Specs {
				if v := s.(*ast.ValueSpec); v.Names[0].IsExported() {
					declared++
				}
			}
		}
	}
	n := 0
	for range cberr.All() {
		n++
	}
	require.Equal(t, declared, n)
}

func TestTimeoutsMatchTheStandardDeadline(t *testing.T) {
	for _, k := range []*cberr.Kind{cberr.Timeout, cberr.AmbiguousTimeout, cberr.UnambiguousTimeout} {
		require.ErrorIs(t, k, cberr.Timeout)
		require.ErrorIs(t, k, context.DeadlineExceeded)
	}
	require.NotErrorIs(t, cberr.AmbiguousTimeout, cberr.UnambiguousTimeout)
	require.NotErrorIs(t, cberr.Timeout, cberr.AmbiguousTimeout)
	require.NotErrorIs(t, cberr.RequestCanceled, context.DeadlineExceeded)
	require.NotErrorIs(t, cberr.RequestCanceled, context.Canceled)
}

func TestKindOfTakesTheFirstBranch(t *testing.T) {
	err := errors.Join(fmt.Errorf("x: %w", cberr.AmbiguousTimeout), cberr.AuthenticationFailure)
	require.Equal(t, cberr.AmbiguousTimeout, cberr.KindOf(err))
	require.Nil(t, cberr.KindOf(errors.New("other")))
	require.Nil(t, cberr.KindOf(nil))
}
