package field_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// A connection that has as many calls in flight as it may still takes what the client itself asks the node for: the
// newest map, and a sign of life. None of that takes a call's place either.
func TestAFullConnectionTakesTheClientsOwnRequests_D255(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 16), mock.Virtual())
		c, b := openBoth(t, m, func(c *core.Config) {
			c.Limits.InFlight, c.Maps.NoNotifications, c.Maps.PollInterval = 1, true, 100*time.Millisecond
		})
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Delay(2*time.Second))
		layout, err := b.Layout(fresh(t))
		require.NoError(t, err)
		for node := range 3 {
			key := []byte("a")
			for layout.NodeIndex(layout.VBucket(key), 0) != node {
				key = append(key, 'a')
			}
			kv.Start(fresh(t), b, kv.Upsert{Key: key})
		}
		synctest.Wait()
		_, err = kv.Do(fresh(t), b, kv.Get{Key: []byte("another"), Common: kv.Common{Retry: retry.Func(
			func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })}})
		var ke *kv.Error
		require.True(t, errors.As(err, &ke) && errors.Is(err, cberr.TemporaryFailure), err)
		require.Equal(t, retry.EndpointNotWritable, ke.Retry.Reason, "the connections are full")

		m.BumpRevision()
		_, want := layout.Version()
		time.Sleep(time.Second)
		layout, err = b.Layout(fresh(t))
		require.NoError(t, err)
		_, got := layout.Version()
		require.Equal(t, want+1, got)

		pings, err := c.Ping(fresh(t), core.PingOptions{Services: []string{"kv"}, Timeout: time.Second})
		require.NoError(t, err)
		require.Len(t, pings.Services["kv"], 3)
		for _, p := range pings.Services["kv"] {
			require.Equal(t, "ok", p.State, p.Error)
		}
	})
}

// A map that takes its time leaves the only place on a connection to calls.
func TestTheClientsOwnRequestsTakeNoPlace_D255(t *testing.T) {
	virtualMock(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}}, mock.Delay(90*time.Millisecond))
		time.Sleep(time.Second)
		for i := range 300 {
			_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte{'k', byte(i)}, Common: kv.Common{Retry: retry.Func(
				func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })}})
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
	}, func(c *core.Config) {
		c.Limits.InFlight, c.Maps.NoNotifications, c.Maps.PollInterval = 1, true, 100*time.Millisecond
	})
}

// A connection that is replaced is closed when the client's own requests on it have been answered, too.
func TestALoginWaitsForTheClientsOwnRequests_D255(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Virtual())
		c, _ := openBoth(t, m)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpNoop}}, mock.Delay(300*time.Millisecond))
		time.AfterFunc(100*time.Millisecond, c.RenewLogins)
		pings, err := c.Ping(fresh(t), core.PingOptions{Services: []string{"kv"}, Bucket: "default"})
		require.NoError(t, err)
		require.Len(t, pings.Services["kv"], 3)
		for _, p := range pings.Services["kv"] {
			require.Equal(t, "ok", p.State, p.Error)
		}
	})
}

// The deadlines of all calls in flight pass together, with as many calls behind them. The table of opaques has no room
// for these beside the answers that are missing: the connection ends, and does not look for room again and again.
func TestACrowdOfDeadlinesLeavesNoLoop_D257(t *testing.T) {
	const most = 49152
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Virtual())
		b := openMock(t, m, func(c *core.Config) { c.Limits.InFlight, c.Limits.Queue = most, most })
		silent := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		var calls sync.WaitGroup
		start := func(limit time.Duration) {
			for range most {
				calls.Go(func() {
					in := kv.Common{Timeout: limit, Block: true}
					if _, err := kv.Do(t.Context(), b, kv.Get{Common: in, Key: []byte("k")}); err == nil {
						t.Error("a call without an answer has succeeded")
					}
				})
			}
			synctest.Wait()
		}
		start(100 * time.Millisecond)
		start(time.Second)
		calls.Wait()
		silent.Remove()
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
	})
}
