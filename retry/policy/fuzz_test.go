package policy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry/policy"
)

// FuzzParse checks that no input makes Parse panic, that every error is a *ParseError, and that what is accepted means
// the same when it is laid out anew and read again.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(data)
	}
	for _, text := range []string{
		``, `{}`, `[]`, `{"operationConfig":[]}`, throttling(map[string]string{"tokenRatio": `0.5466`}),
		hedgingPolicy(map[string]string{"hedgingDelay": `"0.000000001s"`, "pinned": `true`}),
		retryPolicy(map[string]string{"jitter": `"decorrelated"`, "backoffMultiplier": `1e-300`, "maxBackoff": `"9223372036s"`}),
		retryPolicy(map[string]string{"retryableReasons": `["\u0030x86",134,"kv_LOCKED"]`, "hardLimit": `"2s"`}),
		retryPolicy(map[string]string{"maxAttempts": `18446744073709551616`}),
		`{"operationConfig":[{"name":[{"service":"kv","operation":"\ud83d\ude00"}]}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := policy.Parse(data, policy.ParseOptions{Code: reasonOf})
		var e *policy.ParseError
		if err != nil {
			require.ErrorAs(t, err, &e)
			require.NotEmpty(t, e.Reason)
			require.Less(t, len(e.Error()), 2000)
			return
		}
		again := jsontext.Value(data).Clone()
		require.NoError(t, again.Indent())
		require.Equal(t, describe(t, data), describe(t, again))
		require.NoError(t, again.Compact())
		require.Equal(t, describe(t, data), describe(t, again))
	})
}
