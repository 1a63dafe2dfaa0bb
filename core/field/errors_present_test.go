package field_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// A call that was answered before says what it waits for now: its node, which does not answer to the handshake.
func TestACallSaysWhatItWaitsForNow_D176(t *testing.T) {
	s := scripted.New(t, 1)
	n := s.Nodes[0]
	var silent atomic.Bool
	n.SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode == memd.OpGet && !silent.Swap(true) {
			s.Reply(p, memd.StatusTmpFail, nil, nil)
			_ = s.Conn.Close()
			return true
		}
		return silent.Load() // and answers nothing from then on
	})
	b := ready(t, s)
	_, err := kv.Do(within(t, 500*time.Millisecond), b, kv.Get{Key: []byte("k")})
	require.ErrorContains(t, err, "waiting for a connection to its node")
	require.ErrorContains(t, err, "because: node "+n.Addr()+
		" is not connected: the attempt to connect is under way, without an answer for ")
	require.ErrorContains(t, err, "ETMPFAIL", "what it has met before is there too")
	require.NotContains(t, err.Error(), "waiting for the answer")
}

// A call to a dead node names it, and why it is not connected; so does one that waits for the first map.
func TestACallToADeadNodeNamesIt_D176(t *testing.T) {
	s := scripted.New(t, 2)
	b := ready(t, s)
	dead := s.Nodes[1]
	dead.Close()
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		_, nodes, ok := b.Locate([]byte(key))
		require.True(t, ok)
		if nodes[0] != dead.Addr() {
			continue
		}
		_, err := kv.Do(within(t, 500*time.Millisecond), b, kv.Get{Key: []byte(key)})
		require.ErrorContains(t, err, "because: node "+dead.Addr()+" is not connected: connection refused")
		require.NotContains(t, err.Error(), "first cluster map")
	}
	c := openConfig(t, core.Config{Seeds: core.SeedConfig{Hosts: []string{dead.Addr()}}})
	_, err := kv.Do(within(t, 300*time.Millisecond), c.Bucket("default"), kv.Get{Key: []byte("a")})
	require.ErrorContains(t, err, "because: node "+dead.Addr()+" is not connected: connection refused")
	require.NotContains(t, err.Error(), "dial tcp")
}

// WaitReady names every node that is not connected, with what each has met.
func TestWaitReadyNamesWhatEachNodeHasMet_D176(t *testing.T) {
	const closed = "127.0.0.1:1" // the system may give a free port to another test
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode == memd.OpSelectBucket {
			s.Reply(p, memd.StatusKeyNotFound, nil, nil)
			return true
		}
		return false
	})
	c := openConfig(t, core.Config{Seeds: core.SeedConfig{Hosts: []string{closed, s.Nodes[0].Addr()}}})
	err := c.Bucket("default").WaitReady(within(t, 500*time.Millisecond))
	require.ErrorContains(t, err, "node "+closed+" is not connected: connection refused")
	require.ErrorContains(t, err, "node "+s.Nodes[0].Addr()+` is not connected: the bucket "default" does not exist, or is `+
		`not ready on this node: SELECT_BUCKET "default" answered 0x01 KEY_ENOENT`)
}
