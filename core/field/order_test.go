package field_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// Calls for one key are sent in the order in which they were made, over one connection, however many each node has. All
// connections are used.
func TestCallsForOneKeyKeepTheirOrder(t *testing.T) {
	const keys, writes, connections = 40, 100, 3
	s := scripted.New(t, 2)
	var mu sync.Mutex
	seen, carried, used := map[string][]string{}, map[string]*scripted.Session{}, map[*scripted.Session]bool{}
	for _, n := range s.Nodes {
		n.SetHook(func(session *scripted.Session, p *memd.Packet) bool {
			if p.Opcode != memd.OpSet {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			key := session.Key(p)
			if other := carried[key]; other != nil && other != session {
				t.Errorf("%s came over two connections", key)
			}
			seen[key], carried[key], used[session] = append(seen[key], string(p.Value)), session, true
			return false
		})
	}
	b := ready(t, s, func(c *core.Config) { c.KV.Connections = connections })
	var futures []kv.Future[kv.MutationResult]
	ctx := within(t, 30*time.Second)
	for i := range writes {
		for k := range keys {
			futures = append(futures, kv.Start(ctx, b, kv.Upsert{
				Key:   fmt.Appendf(nil, "key %d", k),
				Value: []byte(strconv.Itoa(i)),
			}))
		}
	}
	for _, f := range futures {
		_, err := f.Wait(ctx)
		require.NoError(t, err)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, seen, keys)
	for key, values := range seen {
		require.Len(t, values, writes)
		for i, v := range values {
			require.Equal(t, strconv.Itoa(i), v, key)
		}
	}
	require.Len(t, used, connections*len(s.Nodes))
}
