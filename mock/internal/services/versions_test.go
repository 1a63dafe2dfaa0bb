package services_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// TestQueriesOfVersions runs statements whose answers depend on the version of the node that has the query service:
// since 7.6 a keyspace without an index is scanned, and errors have reasons since 7.1.
func TestQueriesOfVersions(t *testing.T) {
	for version, want := range map[string]struct {
		code   int
		reason bool
	}{
		"6.6": {4000, false}, "7.0": {4000, false}, "7.1": {4000, true}, "7.2": {4000, true}, "7.6": {0, true},
		"8.0": {0, true},
	} {
		t.Run(version, func(t *testing.T) {
			c := mock.Start(t, mock.Version(version), mock.Bucket("default", 8), mock.Bucket("e", 8, mock.Ephemeral()))
			a := newAsker(t, c)
			run := func(statement string) queryAnswer {
				t.Helper()
				return a.query(`{"statement":` + quoted(statement) + `}`).query(t)
			}
			require.Zero(t, run("INSERT INTO default VALUES ('k', 1)").code())
			require.Equal(t, want.code, run("SELECT * FROM default").code())
			require.Equal(t, 4000, run("SELECT * FROM e").code(), "an ephemeral bucket has no scans")
			require.Zero(t, run("SELECT * FROM default USE KEYS 'k'").code())
			if want.code == 0 {
				require.Contains(t, string(results(t, run("EXPLAIN SELECT * FROM default"))), `"#sequentialscan"`)
			}
			again := a.query(`{"statement":"INSERT INTO default VALUES ('k', 1)"}`)
			require.NotZero(t, again.query(t).code())
			require.Equal(t, want.reason, bytes.Contains(again.body, []byte(`"reason"`)), "%s", again.body)
		})
	}
}
