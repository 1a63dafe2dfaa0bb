package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
)

const errorsPage = "docs/errors.md"

// TestTheGuideToErrorsIsThatOfTheCode fails when docs/errors.md is stale: `go test ./cmd/couchcore -run TheGuide
// -update` writes it.
func TestTheGuideToErrorsIsThatOfTheCode(t *testing.T) {
	checkGenerated(t, errorsPage, map[string]func(t *testing.T) string{
		"errors": func(*testing.T) string {
			return errorTable("error", []string{"error", "means", "what to do"}, func(r *errorRow) []string {
				return []string{"`" + r.Name + "`", r.Means, r.Do}
			})
		},
		"reasons": func(*testing.T) string {
			return errorTable("reason", []string{"reason", "means", "what to do"}, func(r *errorRow) []string {
				return []string{"`" + r.Name + "`", r.Means, r.Do}
			})
		},
		"statuses": func(*testing.T) string {
			return errorTable("kv", []string{"status", "means", "error", "retried as", "what to do"},
				func(r *errorRow) []string {
					return []string{r.Code + " " + r.Name, r.Means, codeOf(r.Kind), codeOf(r.Reason), r.Do}
				})
		},
		"query codes": servicePage, "analytics codes": servicePage, "search codes": servicePage,
		"views codes": servicePage,
	})
}

// servicePage is the table of the service that the name of the test begins with.
func servicePage(t *testing.T) string {
	t.Helper()
	service, _, _ := strings.Cut(t.Name()[strings.LastIndexByte(t.Name(), '/')+1:], "_")
	return errorTable(service, []string{"answer", "error", "means", "retried as", "what to do"},
		func(r *errorRow) []string {
			return []string{strings.TrimPrefix(r.Code, "code "), codeOf(r.Kind), r.Means, codeOf(r.Reason), r.Do}
		})
}

func codeOf(name *string) string {
	if name == nil {
		return "-"
	}
	return "`" + *name + "`"
}

func errorTable(of string, head []string, cells func(r *errorRow) []string) string {
	rows := [][]string{head}
	for _, r := range errorRows() {
		if r.Of == of {
			rows = append(rows, cells(&r))
		}
	}
	return tableOf(rows...)
}

func TestEveryErrorHasAText(t *testing.T) {
	n := 0
	for k := range cberr.All() {
		n++
		require.NotEmpty(t, kindTexts[k].means, k.Name())
		require.NotEmpty(t, kindTexts[k].do, k.Name())
	}
	require.Len(t, kindTexts, n)
	for _, r := range errorRows() {
		require.NotEmpty(t, r.Means, r.Code+r.Name)
		require.NotEmpty(t, r.Do, r.Code+r.Name)
	}
}

func TestErrorsNamesWhatItIsAsked(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	golden(t, "errors", transcript(
		"errors document_not_found", "errors ETMPFAIL", "errors 0x86", "errors kv_locked", "errors 4040", "errors 429",
		"errors 429 --json", "errors nosuch", "errors 99999",
	))
	list := couchcore("errors")
	require.Zero(t, list.code)
	for k := range cberr.All() {
		require.Contains(t, list.stdout, "\n"+k.Name()+" ")
		o := couchcore("errors", k.Name(), "--json").object(t)
		require.Equal(t, kindTexts[k].do, o["do"])
	}
	require.Greater(t, strings.Count(couchcore("errors", "--json").stdout, "\n"), 250)
}
