package field_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// readsOf notes how many reads of documents each write to a connection has.
type readsOf struct {
	net.Conn
	note func(reads int)
}

func (c readsOf) Write(b []byte) (int, error) {
	reads := 0
	for p := b; len(p) >= 24; p = p[24+binary.BigEndian.Uint32(p[8:]):] {
		if memd.Opcode(p[1]) == memd.OpGet {
			reads++
		}
	}
	if reads > 0 {
		c.note(reads)
	}
	return c.Conn.Write(b)
}

// Many calls wait for one connection, in its room or for their retry: they leave in one write as soon as it is there.
// With a write for each, how many of them leave before a failure would be up to the scheduler.
func TestCallsThatHaveWaitedTogetherLeaveTogether_D247(t *testing.T) {
	for name, refused := range map[string]bool{"for the connection": false, "for their retry": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 1), mock.Virtual())
				var mu sync.Mutex
				var writes []int
				var hold chan struct{}
				dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
					mu.Lock()
					until := hold
					mu.Unlock()
					if until != nil && refused {
						return nil, errors.New("refused")
					}
					if until != nil {
						<-until
					}
					c, err := m.Dial(ctx, network, addr)
					return readsOf{c, func(n int) {
						mu.Lock()
						defer mu.Unlock()
						writes = append(writes, n)
					}}, err
				}
				b := openMock(t, m, func(cfg *core.Config) {
					cfg.Net.Dial, cfg.Net.ConnectTimeout = dial, time.Minute
				})
				until := make(chan struct{})
				mu.Lock()
				hold = until
				mu.Unlock()
				require.NoError(t, m.ResetConns(0))
				time.Sleep(time.Second)
				const all = 200
				var calls []kv.Future[kv.GetResult]
				later := retry.BestEffort{Backoff: retry.Constant(20 * time.Second)}
				get := kv.Get{Common: kv.Common{Timeout: time.Minute, Retry: later}}
				for i := range all {
					get.Key = fmt.Appendf(nil, "k-%d", i)
					calls = append(calls, kv.Start(t.Context(), b, get))
				}
				time.Sleep(time.Second)
				mu.Lock()
				hold = nil
				mu.Unlock()
				close(until)
				for _, f := range calls {
					_, err := f.Wait(within(t, time.Minute))
					require.Error(t, err) // it does not exist
				}
				require.Equal(t, []int{all}, writes)
			})
		})
	}
}
