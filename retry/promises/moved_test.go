package promises_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// newerMap is a map that is so many revisions newer than the cluster's, and has every document on the n-th next node.
func (w *world) newerMap(n int) []byte {
	var m map[string]any
	require.NoError(w.t, json.Unmarshal(w.m.ConfigJSON("default"), &m))
	epoch, rev := w.m.Revision()
	m["rev"], m["revEpoch"] = rev+int64(n), epoch
	servers, _ := m["vBucketServerMap"].(map[string]any)
	list, _ := servers["serverList"].([]any)
	servers["serverList"] = append(append([]any{}, list[n%len(list):]...), list[:n%len(list)]...)
	text, err := json.Marshal(m)
	require.NoError(w.t, err)
	return text
}

// TestWhatAServerSentElsewhereGoesThereAtOnceButOnceOnly: a newer map that comes with the refusal names another node.
// The first such retry has no delay; those after it have the delays of the client's own backoff.
func TestWhatAServerSentElsewhereGoesThereAtOnceButOnceOnly(t *testing.T) {
	recorded := []mock.Option{mock.Nodes(3), mock.Bucket("default", 64), mock.RecordFrames()}
	virtualOf(t, recorded, func(t *testing.T, w *world) {
		for n := range 4 {
			w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Skip: n, Times: 1},
				mock.NotMyVBucket(true, w.newerMap(n+1)))
		}
		began := time.Now()
		_, err := kv.Do(t.Context(), w.b, kv.Upsert{Key: []byte("k")})
		require.Error(t, err, "no node has the documents that the last map says")
		var at []time.Duration
		nodes := map[int]bool{}
		for _, f := range w.m.FrameLog() {
			if f.Opcode == memd.OpSet {
				at, nodes[f.Node] = append(at, f.At.Sub(began)), true
			}
		}
		require.Greater(t, len(at), 3)
		require.Zero(t, at[1], "the first")
		require.Equal(t, []time.Duration{ms, 11 * ms}, at[2:4], "the others")
		require.Len(t, nodes, 3)
	})
}
