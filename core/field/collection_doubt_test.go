package field_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A node has not known the default collection for one call, and does not answer when it is asked for the id. Only that
// call waits for the answer: others, of whatever form, are sent.
func TestOnlyARefusedCallWaitsForTheDefaultCollection_D248(t *testing.T) {
	virtualMock(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Status(memd.StatusUnknownCollection))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpCollectionsGetID}}, mock.Drop())
		refused := kv.Start(t.Context(), b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: time.Second}})
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		for _, op := range []kv.Upsert{
			{Key: []byte("k")},
			{Key: []byte("k"), Durability: memd.DurabilityMajority},
			{Key: []byte("k"), Value: make([]byte, 4096)}, // it is compressed
		} {
			_, err := kv.Do(context.Background(), b, op)
			require.NoError(t, err)
		}
		_, err := kv.Do(context.Background(), b, kv.GetReplica{Key: []byte("k"), Replica: 1})
		require.NoError(t, err)
		require.Less(t, time.Since(began), 50*time.Millisecond)
		_, err = refused.Wait(within(t, 10*time.Second))
		require.ErrorContains(t, err, "unambiguous timeout")
	})
}
