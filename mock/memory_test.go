package mock_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// TestDocumentsTakeLittleMemory holds what a document of 256 bytes takes beside its value: for the active copy, and for
// a replica, which shares the value and the version.
func TestDocumentsTakeLittleMemory(t *testing.T) {
	const documents, beside, replica = 20_000, 200, 110
	for _, replicas := range []int{0, 1} {
		c := mock.Start(t, mock.Nodes(2), mock.Replicas(replicas), mock.VBuckets(8))
		require.NoError(t, c.LimitApplyLog("default", 64))
		r := login(t, c, baseFeatures...)
		heap := func() int {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before, written := heap(), 0
		for i := range documents {
			key := strconv.Itoa(i)
			vb, nodes, err := c.Where("default", key)
			require.NoError(t, err)
			if nodes[0] != 0 {
				continue
			}
			written++
			set := memd.Packet{
				Opcode: memd.OpSet, VBucket: uint16(vb), Key: []byte("\x00" + key), Extras: make([]byte, 8),
				Value: make([]byte, 256),
			}
			require.Equal(t, memd.StatusSuccess, r.call(set).Status)
		}
		took := (heap() - before) / written
		t.Logf("%d replicas: %d bytes a document", replicas, took)
		require.Less(t, took, 256+beside+replicas*replica)
		require.NoError(t, c.Close())
	}
}
