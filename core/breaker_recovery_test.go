package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// The poll that came first after the sleep window was taken for the one who sends the canary, and sent none: the
// breaker stayed open for good.
func TestABreakerClosesAlthoughThePollComesFirst(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		in := m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		for range 10 {
			_, err := kv.Do(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: 20 * time.Millisecond}})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		}
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Retry: never}})
		require.ErrorIs(t, err, cberr.CircuitBreakerOpen)
		in.Remove()
		time.Sleep(20 * time.Second) // several polls of each node
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)
	}, func(c *core.Config) {
		c.Retry.CircuitBreaker = &core.CircuitBreaker{Volume: 10, SleepWindow: time.Second}
	})
}

// A call's deadline may be its context's; which of the two timers is first is chance, and the breaker counts it all the
// same.
func TestABreakerCountsDeadlinesOfContexts(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		for range 10 {
			in, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, err := kv.Do(in, b, kv.Get{Key: key})
			cancel()
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		}
		time.Sleep(time.Millisecond) // the last one's other timer
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Retry: never}})
		require.ErrorIs(t, err, cberr.CircuitBreakerOpen)
	}, breaker)
}
