package kv_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// theirWays reads the places of the matrix where CouchbaseMock comes to something else than the mock of this module
// from the page that explains them: what it comes to, by operation, state and CAS.
func theirWays(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../mock/FIDELITY.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## The matrix of operations\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	ways := map[string]string{}
	for line := range strings.Lines(section) {
		cols := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cols) != 5 || cols[0] == "operation" {
			continue
		}
		require.NotEmpty(t, cols[4], "%s: why", line)
		for op := range strings.SplitSeq(cols[0], ", ") {
			for state := range strings.SplitSeq(cols[1], ", ") {
				for cas := range strings.SplitSeq(cols[2], ", ") {
					place := op + " " + state + " " + cas
					require.Empty(t, ways[place], place)
					ways[place] = strings.Trim(cols[3], "`")
				}
			}
		}
	}
	require.NotEmpty(t, ways)
	return ways
}

// The page is read without CouchbaseMock, too: every place that it names is one of the matrix.
func TestThePageOnTheMatrixNamesItsPlaces(t *testing.T) {
	golden := matrixGolden(t)
	for place, outcome := range theirWays(t) {
		require.NotEmpty(t, golden[place], place)
		require.NotEqual(t, golden[place], outcome, "%s is no difference", place)
	}
}

// matrixGolden are the outcomes by operation, state and CAS.
func matrixGolden(t *testing.T) map[string]string {
	t.Helper()
	golden, err := os.ReadFile("testdata/matrix.golden")
	require.NoError(t, err)
	want := map[string]string{}
	for line := range strings.Lines(string(golden)) {
		if f := strings.Fields(line); len(f) > 3 {
			want[strings.Join(f[:len(f)-1], " ")] = f[len(f)-1]
		}
	}
	return want
}

// The matrix against the real CouchbaseMock.
func TestTheMatrixOnCouchbaseMock(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}},
		func(t *testing.T, m *testkit.CouchbaseMockServer) {
			c, err := core.Open(t.Context(), core.Config{
				Seeds: core.SeedConfig{Hosts: m.Addresses("default")},
				Auth:  core.AuthConfig{Username: "default", Password: core.NewSecret("secret")},
				KV:    core.KVConfig{Timeout: 10 * time.Second},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(testContext(t)))

			want := matrixGolden(t)
			differences := map[string]string{}
			n := 0
			for _, op := range matrixOps() {
				for _, state := range docStates {
					for _, casOf := range []string{"no CAS", "its CAS", "another CAS"} {
						place := op.name + " " + state + " " + casOf
						if want[place] == "" {
							continue
						}
						n++
						key := fmt.Appendf(nil, "m-%d", n)
						doc := "5"
						if op.object {
							doc = `{"n":5}`
						}
						x := cell{common: kv.Common{}, key: key}
						switch has := in(t, b, kv.Common{}, key, state, doc); casOf {
						case "its CAS":
							x.cas = has
						case "another CAS":
							x.cas = has + 1
						}
						x.common.Retry = never{}
						if got := ourName(op.ours(testContext(t), b, x)); got != want[place] {
							differences[place] = got
						}
					}
				}
			}
			require.Equal(t, len(want), n)
			for _, place := range slices.Sorted(maps.Keys(differences)) {
				t.Logf("%s: %s, not %s", place, differences[place], want[place])
			}
			require.Equal(t, theirWays(t), differences)
		})
}

// Sub-document requests against the real CouchbaseMock.
func TestSubdocOnCouchbaseMock(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}},
		func(t *testing.T, m *testkit.CouchbaseMockServer) {
			c, err := core.Open(t.Context(), core.Config{
				Seeds: core.SeedConfig{Hosts: m.Addresses("default")},
				Auth:  core.AuthConfig{Username: "default", Password: core.NewSecret("secret")},
				KV:    core.KVConfig{Timeout: 10 * time.Second},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(testContext(t)))
			key := []byte("k")
			insert(t, b, kv.Common{}, "k", `{"a":{"b":[1,2,3]},"n":5}`)
			res, err := kv.Do(testContext(t), b, kv.MutateIn{Key: key, Specs: []kv.MutateSpec{
				kv.IncrementPath("n", 3), kv.ArrayAppend("a.b", []byte("4")), kv.UpsertPath("a.c", []byte(`"x"`)),
				{Op: memd.OpSubdocDictUpsert, Path: "meta.x", Value: []byte("7"), Xattr: true, CreateParents: true},
			}})
			require.NoError(t, err)
			require.Equal(t, "8", string(res.Paths[0].Value))
			look, err := kv.Do(testContext(t), b, kv.LookupIn{Key: key, Specs: []kv.LookupSpec{
				kv.GetPath("a.b[-1]"), kv.ExistsPath("no"), kv.CountPath("a.b"), kv.GetXattr("meta.x"),
			}})
			require.NoError(t, err)
			require.Equal(t, "4", string(look.Paths[0].Value))
			ok, err := look.Paths[1].Exists()
			require.NoError(t, err)
			require.False(t, ok)
			require.Equal(t, "4", string(look.Paths[2].Value))
			require.Equal(t, "7", string(look.Paths[3].Value))
			_, err = kv.Do(testContext(t), b,
				kv.MutateIn{Key: key, Specs: []kv.MutateSpec{
					kv.UpsertPath("z", []byte("1")),
					kv.InsertPath("n", []byte("1")),
				}})
			var pe *kv.PathError
			require.ErrorAs(t, err, &pe)
			require.Equal(t, 1, pe.Index)
			_, err = kv.Do(testContext(t), b, kv.LookupPath{Key: key, Spec: kv.GetPath("z")})
			require.ErrorAs(t, err, &pe, "all or nothing")
		})
}
