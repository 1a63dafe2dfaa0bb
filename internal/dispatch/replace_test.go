package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// D46: a connection that has taken another one's place may die while the other one still has calls in flight. The node
// is connected to again at once, however long those calls take.
func TestAReplacementThatDiesIsReplacedAtOnce_D46(t *testing.T) {
	routed(t, func(t *testing.T, m *mock.Cluster, r *Router) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Delay(4*time.Second))
		slow := kv.Start(t.Context(), r, kv.Get{Key: []byte("k")})
		time.Sleep(time.Millisecond)
		replaced := make(chan error, 3)
		for range 3 { // each time another connection takes the place of the one before, and dies
			before := r.Logins()[0].Connection
			go func() { replaced <- r.Replace(t.Context(), before) }()
			time.Sleep(100 * time.Millisecond)
			after := r.Logins()[0].Connection
			require.NotEqual(t, before, after)
			// a connection without an answer waits before the next one
			_, err := kv.Do(t.Context(), r, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			links := m.Network().Links()
			links[len(links)-1].Reset()
			time.Sleep(time.Millisecond)
			began := time.Now()
			_, err = kv.Do(t.Context(), r, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			require.Less(t, time.Since(began), 10*time.Millisecond)
			require.Len(t, r.Logins(), 1)
			require.NotEqual(t, after, r.Logins()[0].Connection)
		}
		_, err := slow.Wait(t.Context())
		require.NoError(t, err, "the old connection was left in peace")
		time.Sleep(drainLimit)
		for range 3 {
			require.NoError(t, <-replaced)
		}
		require.Len(t, m.Network().Links(), 1, "nothing is left of those that were replaced")
	})
}

// The maps that come with a connection are tens of kibibytes, and every connection brings the same: none keeps them.
func TestAConnectionKeepsNoMaps(t *testing.T) {
	routed(t, func(t *testing.T, _ *mock.Cluster, r *Router) {
		synctest.Wait()
		r.nodes.mu.Lock()
		defer r.nodes.mu.Unlock()
		require.NotEmpty(t, r.nodes.byAddr)
		for p := range r.nodes.pipelines() {
			info := p.conn.Load().Info()
			require.Empty(t, info.Config)
			require.Empty(t, info.ErrorMap)
			require.NotEmpty(t, info.ID, "what others need of it is there")
		}
	})
}

// A call may find its connection full and come too late to wait for it: the next one has taken those that wait.
func TestACallThatWaitsForRoomOnAConnectionThatIsGone(t *testing.T) {
	routed(t, func(t *testing.T, _ *mock.Cluster, r *Router) {
		id := r.Logins()[0].Connection
		_, old := r.connection(id)
		held := &heldUp{r, func() { require.NoError(t, r.Replace(t.Context(), id)) }, func(p *pipeline, c *call.Call) {
			require.True(t, p.awaitRoom(old, c))
		}}
		began := time.Now()
		_, err := kv.Do(t.Context(), held, kv.Upsert{Key: []byte("k"), Common: kv.Common{Block: true}})
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
	})
}
