package field_test

import (
	"context"
	"errors"
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
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
		cfg.Net.NodeFilter = core.AnyNode
		cfg.Limits.InFlight, cfg.Maps.NoNotifications, cfg.Maps.PollInterval = 1, true, 100*time.Millisecond
		c := openConfig(t, cfg)
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(fresh(t)))
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
