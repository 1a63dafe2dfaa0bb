package field_test

import (
	"context"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// TestDeadlinesOfASilentNodeAreLookedAtTogether_D258: each deadline of a call in flight had the client look at all
// calls of that connection. Where a node did not answer, that took most of a processor. Each look is a goroutine that a
// timer starts, so they can be counted. A slow machine looks seldom in any case.
func TestDeadlinesOfASilentNodeAreLookedAtTogether_D258(t *testing.T) {
	const calls, apart = 15_000, 100 * time.Microsecond // with 16,384 answers missing, the connection ends
	m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16))
	b := openMock(t, m, func(c *core.Config) { c.Limits.Queue = calls })
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
	all := make([]kv.Future[kv.GetResult], calls)
	first := time.Now().Add(time.Second)
	for i := range all {
		left := max(time.Until(first.Add(time.Duration(i)*apart)), time.Millisecond)
		all[i] = kv.Start(context.Background(), b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: left}})
	}
	time.Sleep(time.Until(first))
	before := goroutinesStarted()
	for _, p := range all {
		_, err := p.Wait(t.Context())
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	}
	require.Less(t, goroutinesStarted()-before, uint64(calls/4))
}

func goroutinesStarted() uint64 {
	s := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
