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

// A name is found as a reader of a log, a program or another client's documentation writes it; what is unknown is
// refused with names that look like it.
func TestErrorsFindsANameAsItIsWritten(t *testing.T) {
	for name, want := range map[string]string{
		"TMPFAIL": "ETMPFAIL", "tmpfail": "ETMPFAIL", "etmpfail": "ETMPFAIL", "memd.StatusTmpFail": "ETMPFAIL",
		"E_TMP_FAIL": "ETMPFAIL", "key_enoent": "KEY_ENOENT", "DocumentNotFound": "document_not_found",
		"document not found": "document_not_found", "ErrDocumentNotFound": "document_not_found",
		"cberr.CASMismatch": "cas_mismatch", "KVLocked": "KV_LOCKED", "retry.KVLocked": "KV_LOCKED",
		"retry.SocketClosedWhileInFlight": "SOCKET_CLOSED_WHILE_IN_FLIGHT", "access": "EACCESS", "locked": "LOCKED",
		"Locked": "LOCKED", "AuthenticationFailure": "authentication_failure",
	} {
		require.Equal(t, want, couchcore("errors", name, "--json").object(t)["name"], name)
	}
	for name, want := range map[string]string{
		"ENOENT": "did you mean KEY_ENOENT, SUBDOC_PATH_ENOENT?", "ETMPFIAL": "did you mean ETMPFAIL?",
		"documentnotfuond": "did you mean document_not_found", "SOCKET": "did you mean SOCKET_",
		"nosuch": "`couchcore errors` lists the errors", "_": "`couchcore errors` lists the errors",
		"E": "`couchcore errors` lists the errors", "99999": "`couchcore errors` lists the errors",
	} {
		couchcore("errors", name).failsWith(t, exitUsage, want)
	}
	for _, r := range errorRows() {
		if r.Name != "" {
			found := named(errorRows(), r.Name)
			require.Len(t, found, 1, r.Name)
			require.Equal(t, r, found[0])
		}
	}
}
