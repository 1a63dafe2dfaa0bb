package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/control"
)

const testingPage = "docs/testing.md"

// TestTheGuideForTestersDoesWhatItSays runs the page's requests and commands, in order, against one mock cluster. What
// the page shows of an answer must be in it.
func TestTheGuideForTestersDoesWhatItSays(t *testing.T) {
	m, c := startMock(t, mock.Nodes(2), mock.VBuckets(1024), mock.RecordFrames())
	api, err := control.Listen(m, "127.0.0.1:0", control.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, api.Close()) }()
	defer http.DefaultClient.CloseIdleConnections()
	requests, commands := 0, 0
	for _, b := range blocksOf(t, testingPage) {
		switch b.language {
		case "http":
			for _, x := range exchangesOf(t, b.text) {
				x.run(t, api.URL())
				requests++
			}
		case "console":
			line, want, _ := strings.Cut(strings.TrimPrefix(b.text, "$ couchcore "), "\n")
			r := c.run(words(line)...)
			if want == "exit 1\n" {
				require.Equal(t, exitFailed, r.code, line)
			} else {
				require.Zero(t, r.code, r.stderr)
				first, _, _ := strings.Cut(r.stdout, "\n")
				contains(t, jsonOf(t, want), jsonOf(t, first), line)
			}
			commands++
		}
	}
	require.Greater(t, requests, 20)
	require.Greater(t, commands, 4)
}

// exchange is a request of the page with what it shows of the answer.
type exchange struct {
	method, path, body string
	status             int
	answer             any
}

// exchangesOf reads a block: a line with method and path, lines of a body, and a line with status and answer.
func exchangesOf(t *testing.T, text string) (out []exchange) {
	t.Helper()
	var x exchange
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		first, after, _ := strings.Cut(line, " ")
		switch status, err := strconv.Atoi(first); {
		case err == nil && x.method != "":
			x.status, x.answer = status, jsonOf(t, after)
			out = append(out, x)
			x = exchange{}
		case x.method == "":
			require.Contains(t, []string{"GET", "POST", "PUT", "DELETE"}, first, line)
			x.method, x.path = first, after
		default:
			x.body += line
		}
	}
	require.Empty(t, x.method, "a request without an answer")
	return out
}

func (x exchange) run(t *testing.T, url string) {
	t.Helper()
	rq, err := http.NewRequestWithContext(t.Context(), x.method, url+x.path, strings.NewReader(x.body))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(rq)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, x.status, answer.StatusCode, "%s %s: %s", x.method, x.path, text)
	contains(t, x.answer, jsonOf(t, string(text)), x.method+" "+x.path)
}

func jsonOf(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// contains checks that a value has all that another shows: members of objects by name, all elements of lists.
func contains(t *testing.T, shown, value any, where string) {
	t.Helper()
	switch s := shown.(type) {
	case map[string]any:
		object, ok := value.(map[string]any)
		require.True(t, ok, "%s: %v", where, value)
		for name, v := range s {
			require.Contains(t, object, name, where)
			contains(t, v, object[name], where+" "+name)
		}
	case []any:
		list, ok := value.([]any)
		require.True(t, ok, "%s: %v", where, value)
		require.Len(t, list, len(s), where)
		for i := range s {
			contains(t, s[i], list[i], where)
		}
	default:
		require.Equal(t, shown, value, where)
	}
}

// Every program on the page is a part of an Example or a test that runs.
func TestProgramsOfTheGuideForTestersAreTested(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "mock", "guide_test.go"))
	require.NoError(t, err)
	programs := 0
	for _, b := range blocksOf(t, testingPage) {
		if b.language == "go" {
			programs++
			require.True(t, partOf([]string{string(source)}, b.text), "mock/guide_test.go does not have:\n%s", b.text)
		}
	}
	require.Positive(t, programs)
}
