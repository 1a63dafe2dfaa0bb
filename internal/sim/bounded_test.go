package sim_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A call that ends without an answer leaves its place on the connection taken, because the answer may come yet. A node
// that never answers has that many places at most: then the connection is replaced. The simulation makes too few calls
// to come to that.
func TestAnswersThatNeverComeAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 16_384
		m := mock.Start(t, mock.Nodes(1), mock.Virtual(), mock.Latency(200*time.Microsecond), mock.Bucket("default", 1))
		var dials atomic.Int64
		c := open(t, m, func(cfg *core.Config) {
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				return m.Dial(ctx, network, addr)
			}
		})
		defer func() { require.NoError(t, c.Close()) }()
		b := c.Bucket("default")
		ready, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, b.WaitReady(ready))
		before := dials.Load()
		unanswered := func(n int) {
			keys := make([][]byte, n)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "k-%d", i)
			}
			for _, o := range kv.GetMulti(t.Context(), b, kv.Common{Timeout: 100 * time.Millisecond}, keys) {
				require.Error(t, o.Err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		unanswered(most)
		require.Equal(t, before, dials.Load(), "as many as may be missing")
		unanswered(1)
		require.Equal(t, before+1, dials.Load(), "one more")
		in.Remove()
		_, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		_, err = kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
	})
}
