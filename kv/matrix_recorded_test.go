package kv_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// notAsRecorded are places of the matrix where the mock comes to something else than kv_engine did, and why.
var notAsRecorded = map[string]string{
	"get-replica present no CAS":      "a replica of the mock has a write at once",
	"get-replica locked no CAS":       "the same",
	"delete-with-meta locked no CAS":  "the removal had lost a conflict there: TestALostConflictComesBeforeALock",
	"delete-with-meta locked its CAS": "the same",
}

// The matrix was run on kv_engine 8.0.0, and on the mock as it was then. testdata/kv_engine_8.0.0.matrix has what
// kv_engine came to where the two differed, but for durable TOUCH, which the client does not send any more (D122). The
// file is never written from the mock.
func TestTheMatrixIsThatOfKVEngine(t *testing.T) {
	recorded, err := os.ReadFile("testdata/kv_engine_8.0.0.matrix")
	require.NoError(t, err)
	golden := matrixGolden(t)
	differ := map[string]string{}
	for line := range strings.Lines(string(recorded)) {
		f := strings.Fields(line)
		place, outcome := strings.Join(f[:len(f)-1], " "), f[len(f)-1]
		require.NotEmpty(t, golden[place], place)
		if golden[place] != outcome {
			differ[place] = notAsRecorded[place]
			require.NotEmpty(t, differ[place], "%s: kv_engine comes to %s", place, outcome)
		}
	}
	require.Equal(t, notAsRecorded, differ)
}

// A write with metadata whose revision loses is refused before its CAS and a lock are looked at. In two places of the
// recorded matrix that was so: all cells had one revision, and a document that is new in a vbucket begins behind the
// revisions of those that were deleted there.
func TestALostConflictComesBeforeALock(t *testing.T) {
	m := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 1))
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
	cl, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, cl.Close()) }()
	b := cl.Bucket("default")
	remove := func(key string, revision, cas uint64) string {
		return ourName(discard(kv.Do(testContext(t), b, kv.DeleteWithMeta{
			Common: kv.Common{Retry: never{}}, Key: []byte(key), CheckCAS: cas,
			Meta: kv.Meta{RevSeqno: revision, StoreCAS: 1 << 62},
		})))
	}
	in(t, b, kv.Common{}, []byte("before"), "present", "5")
	require.Equal(t, "ok", remove("before", 1000, 0))
	newest := uint64(1000)
	for cas, want := range map[string]string{
		"no CAS": cberr.DocumentLocked.Name(), "its CAS": "ok", "another CAS": cberr.DocumentLocked.Name(),
	} {
		has := in(t, b, kv.Common{}, []byte(cas), "locked", "5")
		sent := map[string]uint64{"its CAS": has, "another CAS": has + 1000}[cas]
		require.Equal(t, cberr.CASMismatch.Name(), remove(cas, 1000, sent), cas)
		newest *= 10
		require.Equal(t, want, remove(cas, newest, sent), "%s, and a revision that wins", cas)
	}
}
