package field_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Many callbacks that wait at one time do not wait for one goroutine: among thousands that want the processors it would
// come to few of them in each of its turns, and callbacks were a minute late.
func TestManyCallbacksHaveManyGoroutines_D213(t *testing.T) {
	const calls = 400
	// The goroutine that ends the calls goes on until all have ended, unless the system pauses its thread.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, _ := mocked(t, m)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		most := 0
		for range 10 {
			var ended sync.WaitGroup
			var first atomic.Bool
			var before, while int
			for i := range calls {
				ended.Add(1)
				get := kv.Get{Key: fmt.Appendf(nil, "k-%d", i), Common: kv.Common{Timeout: time.Second}}
				kv.Go(t.Context(), c.Bucket("default"), get, func(kv.GetResult, error) {
					if first.CompareAndSwap(false, true) {
						while = runtime.NumGoroutine()
					}
					ended.Done()
				})
			}
			before = runtime.NumGoroutine()
			ended.Wait()
			most = max(most, while-before)
		}
		require.GreaterOrEqual(t, most, 6, "goroutines for the callbacks of %d calls", calls)
	})
}
