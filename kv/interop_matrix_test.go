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

// theirWays are the places of the matrix where CouchbaseMock comes to something else than the mock of this module, with
// the reason. It has no collections and no durable writes, so those parts of the matrix are left out.
var theirWays = map[string]string{
	// It does not know GET_META.
	"exists absent no CAS": "unsupported_operation", "exists present no CAS": "unsupported_operation",
	"exists locked no CAS": "unsupported_operation", "exists deleted no CAS": "unsupported_operation",
	// Its locks answer with the status of servers before 7.0, which is temporary, except to what names a CAS or stores.
	"get-and-lock locked no CAS": "temporary_failure", "increment locked no CAS": "temporary_failure",
	"decrement locked no CAS": "temporary_failure", "unlock locked another CAS": "temporary_failure",
	"unlock present its CAS": "temporary_failure", "unlock present another CAS": "temporary_failure",
	// Its append does not accept the CAS of a lock.
	"append locked its CAS": "cas_mismatch", "append locked another CAS": "cas_mismatch",
	// It looks at the lock before it looks whether the document exists.
	"insert locked no CAS": "document_locked",
}

// The matrix against the real CouchbaseMock.
func TestTheMatrixOnCouchbaseMock(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}}, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		c, err := core.Open(t.Context(), core.Config{
			Hosts: m.Addresses("default"), Username: "default", Password: core.NewSecret("secret"), KVTimeout: 10 * time.Second,
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(testContext(t)))

		golden, err := os.ReadFile("testdata/matrix.golden")
		require.NoError(t, err)
		want := map[string]string{}
		for line := range strings.Lines(string(golden)) {
			if f := strings.Fields(line); len(f) > 3 {
				want[strings.Join(f[:len(f)-1], " ")] = f[len(f)-1]
			}
		}
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
		require.Equal(t, theirWays, differences)
	})
}

// Sub-document requests against the real CouchbaseMock.
func TestSubdocOnCouchbaseMock(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}}, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		c, err := core.Open(t.Context(), core.Config{
			Hosts: m.Addresses("default"), Username: "default", Password: core.NewSecret("secret"), KVTimeout: 10 * time.Second,
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(testContext(t)))
		key := []byte("k")
		insert(t, b, kv.Common{}, "k", `{"a":{"b":[1,2,3]},"n":5}`)
		res, err := kv.Do(testContext(t), b, kv.MutateIn{Key: key, Specs: []kv.MutateSpec{
			kv.CountPathBy("n", 3), kv.AppendArray("a.b", []byte("4")), kv.UpsertPath("a.c", []byte(`"x"`)),
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
		_, err = kv.Do(testContext(t), b, kv.MutateIn{Key: key, Specs: []kv.MutateSpec{kv.UpsertPath("z", []byte("1")), kv.InsertPath("n", []byte("1"))}})
		var pe *kv.PathError
		require.ErrorAs(t, err, &pe)
		require.Equal(t, 1, pe.Index)
		_, err = kv.Do(testContext(t), b, kv.LookupPath{Key: key, Spec: kv.GetPath("z")})
		require.ErrorAs(t, err, &pe, "all or nothing")
	})
}
