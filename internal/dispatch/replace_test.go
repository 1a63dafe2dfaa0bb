package dispatch

import (
	"context"
	"errors"
	"fmt"
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

// D166: a connection that a new one has replaced is closed with the router, also when Close comes while the map that
// came with the new one is considered. Applied holds up what considers it.
func TestCloseWhileAMapOfAReplacementIsConsidered_D166(t *testing.T) {
	routed(t, func(t *testing.T, m *mock.Cluster, r *Router) {
		synctest.Wait()
		closed := make(chan error, 1)
		r.o.Applied = func() {
			r.o.Applied = nil
			go func() { closed <- r.Close(context.Background(), errors.New("closed meanwhile")) }()
			time.Sleep(time.Second) // virtual: Close has got as far as it can
		}
		m.BumpRevision()
		require.NoError(t, r.Replace(t.Context(), r.Logins()[0].Connection))
		require.NoError(t, <-closed)
		synctest.Wait()
		require.Empty(t, m.Network().Links())
	})
}

// Close does not wait until every map that lies before the config goroutine was looked at.
func TestCloseDoesNotLookAtMaps_D141(t *testing.T) {
	routed(t, func(t *testing.T, m *mock.Cluster, r *Router) {
		synctest.Wait()
		held, goOn := make(chan struct{}), make(chan struct{})
		r.o.Applied = func() {
			r.o.Applied = nil
			close(held)
			<-goOn
		}
		m.BumpRevision()
		res, err := kv.Do(t.Context(), r, kv.GetClusterConfig{})
		require.NoError(t, err)
		r.maps.offers.offer(res.Value, 0, m.Node(0).Addr(), nil)
		<-held
		for i := range 15 {
			r.maps.offers.offer(fmt.Appendf(nil, `{"rev":%d,"revEpoch":1}`, 100+i), 0, m.Node(0).Addr(), nil)
		}
		require.True(t, r.maps.offers.pending())
		closed := make(chan error, 1)
		go func() { closed <- r.Close(context.Background(), errors.New("closed meanwhile")) }()
		synctest.Wait()
		close(goOn)
		require.NoError(t, <-closed)
		require.Nil(t, r.Refusal(), "none of those was looked at")
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
