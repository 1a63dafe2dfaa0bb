package field_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A collection is dropped and created again, and one node lags behind: it still knows the old one. Once another node
// has refused the old id, the client does not take it up again from the node that lags, where it would write to the
// dropped collection.
func TestARefusedIDIsNotTakenUpAgain_D212(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, _ := mocked(t, m)
		require.NoError(t, second(m.CreateScope("default", "shop")))
		require.NoError(t, second(m.CreateCollection("default", "shop", "orders")))
		orders := c.Bucket("default").Collection("shop", "orders")
		var here, there []byte // of the node that is up to date, and of the one that lags
		for i := 0; here == nil || there == nil; i++ {
			key := fmt.Appendf(nil, "k-%d", i)
			_, nodes, ok := c.Bucket("default").Locate(key)
			if !ok {
				require.NoError(t, c.Bucket("default").WaitReady(within(t, time.Second)))
				continue
			}
			if nodes[0] == m.Node(0).Addr() {
				here = key
			} else {
				there = key
			}
		}
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpCollectionsGetID}}, mock.Delay(50*time.Millisecond))
		for round := range 6 { // which node a lookup asks first changes
			_, err := kv.Do(within(t, time.Second), orders, kv.Upsert{Key: here})
			require.NoError(t, err)
			require.NoError(t, m.SetManifestLag("default", true, 1))
			require.NoError(t, m.DropCollection("default", "shop", "orders"))
			require.NoError(t, second(m.CreateCollection("default", "shop", "orders")))
			refused := kv.Start(within(t, 5*time.Second), orders, kv.Upsert{Key: here})
			time.Sleep(10 * time.Millisecond) // the node has refused the old id, and the new one is looked up
			done := kv.Start(within(t, 5*time.Second), orders, kv.Upsert{Key: there, Value: []byte("v")})
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, m.SetManifestLag("default", false, 1))
			_, err = refused.Wait(within(t, 5*time.Second))
			require.NoError(t, err)
			_, err = done.Wait(within(t, 5*time.Second))
			require.NoError(t, err)
			synctest.Wait()
			_, err = kv.Do(within(t, time.Second), orders, kv.Get{Key: there})
			require.NoError(t, err, "round %d", round)
		}
	})
}
