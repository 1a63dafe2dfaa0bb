package field_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
)

// A server refuses GET_FAILOVER_LOG on a connection with unordered execution. The client asks over another connection
// of the node, and closes that when it has nothing to do.
func TestFailoverLogsWhereExecutionIsUnordered_D121(t *testing.T) {
	virtualMock(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		before := connections(m)
		w, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		for vb := range uint16(16) {
			for replica := range 2 {
				log, err := kv.Do(fresh(t), b, kv.GetFailoverLog{VBucket: vb, Replica: replica})
				require.NoError(t, err, "vbucket %d, copy %d", vb, replica)
				require.NotEmpty(t, log.Entries)
			}
		}
		require.Equal(t, before+3, connections(m), "one more for each node")

		var h kv.Histories
		uuid, err := h.Of(fresh(t), b, w.Token.VBucket)
		require.NoError(t, err)
		require.Equal(t, w.Token.UUID, uuid)
		_, err = kv.DoInHistory(fresh(t), b, &h, uuid, kv.Upsert{Key: []byte("k"), Value: []byte("v2")})
		require.NoError(t, err)

		time.Sleep(time.Minute)
		require.Equal(t, before, connections(m), "idle ones are closed")
		log, err := kv.Do(fresh(t), b, kv.GetFailoverLog{VBucket: w.Token.VBucket})
		require.NoError(t, err, "and made again")
		require.Equal(t, uuid, log.Entries[0].UUID)
		require.NoError(t, b.WaitReady(fresh(t)))
	})
}

// Many calls at once share the connection, whatever becomes of the nodes meanwhile.
func TestFailoverLogsThroughAFailover_D121(t *testing.T) {
	virtualMock(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		before := connections(m)
		var wg sync.WaitGroup
		ask := func() {
			for vb := range uint16(16) {
				wg.Go(func() {
					_, err := kv.Do(fresh(t), b, kv.GetFailoverLog{VBucket: vb})
					require.NoError(t, err)
				})
			}
			wg.Wait()
		}
		for range 10 {
			ask()
		}
		require.Equal(t, before+3, connections(m))
		require.NoError(t, m.FailoverHard(1))
		ask()
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
	})
}

// The node's other connections are not touched by a second one that cannot be made, and attempts to make it are paced.
func TestASecondConnectionThatIsRefused_D121(t *testing.T) {
	virtualScripted(t, 1, func(t *testing.T, s *scripted.Cluster, change func(*core.Config)) {
		b := ready(t, s, change)
		n := s.Nodes[0]
		n.SetHook(func(s *scripted.Session, p *memd.Packet) bool {
			if p.Opcode != memd.OpSelectBucket {
				return false
			}
			s.Reply(p, memd.StatusRateLimitedMaxConnections, nil, nil)
			return true
		})
		before := n.Accepted()
		var wg sync.WaitGroup
		for vb := range uint16(64) {
			wg.Go(func() {
				_, err := kv.Do(within(t, 10*time.Second), b, kv.GetFailoverLog{VBucket: vb})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.ErrorContains(t, err, "SELECT_BUCKET")
			})
		}
		require.NoError(t, upsert(t, b))
		require.NoError(t, b.WaitReady(within(t, time.Second)))
		wg.Wait()
		require.Less(t, n.Accepted()-before, 30, "attempts in 10 s")
		n.SetHook(nil)
		// longer than the pauses
		_, err := kv.Do(fresh(t), b, kv.GetFailoverLog{Common: kv.Common{Timeout: 9 * time.Second}})
		require.NoError(t, err)
		before = n.Accepted()
		time.Sleep(time.Minute)
		require.Equal(t, before, n.Accepted())
		require.Len(t, n.Sessions(), 1)
	})
}

// Where a node grants no unordered execution there is no second connection. With one, exactly the refused requests take
// it.
func TestWhichConnectionARequestTakes_D121(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		virtualScripted(t, 1, func(t *testing.T, s *scripted.Cluster, change func(*core.Config)) {
			s.Features[memd.FeatureUnorderedExecution] = unordered
			b := ready(t, s, change)
			n := s.Nodes[0]
			n.SetHook(func(s *scripted.Session, p *memd.Packet) bool {
				in := s.Features().Has(memd.FeatureUnorderedExecution)
				if ordered := p.Opcode == memd.OpGetFailoverLog; ordered && in || !ordered &&
					p.Opcode != memd.OpHello && in != unordered && !isHandshake(p.Opcode) {
					s.Reply(p, memd.StatusNotSupported, nil, nil)
					return true
				}
				return false
			})
			for range 10 {
				_, err := kv.Do(fresh(t), b, kv.GetFailoverLog{})
				require.NoError(t, err)
				require.NoError(t, upsert(t, b))
				_, err = kv.Do(fresh(t), b, kv.ObserveSeqno{})
				require.Error(t, err)
				require.NotErrorIs(t, err, cberr.UnsupportedOperation)
			}
			if unordered {
				require.Len(t, n.Sessions(), 2)
			} else {
				require.Len(t, n.Sessions(), 1)
			}
		})
	}
}

// isHandshake reports the requests that every connection begins with, or that ask it for a sign of life.
func isHandshake(op memd.Opcode) bool {
	return bytes.IndexByte([]byte{
		byte(memd.OpGetErrorMap), byte(memd.OpSASLListMechs), byte(memd.OpSASLAuth), byte(memd.OpSASLStep),
		byte(memd.OpSelectBucket),
		byte(memd.OpGetClusterConfig), byte(memd.OpNoop),
	}, byte(op)) >= 0
}

// connections counts the key-value connections of all nodes.
func connections(m *mock.Cluster) (count int) {
	for _, n := range m.Nodes() {
		count += n.Connections()
	}
	return count
}
