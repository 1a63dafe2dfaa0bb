package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// An event that ends a call's wait may come between the moment at which no way was found and the moment at which the
// call begins to wait. These tests stretch that time: the strategy is asked in between, and the event happens while it
// thinks.

// meanwhile is a strategy in whose first decision something happens; after that calls wait for much longer than the
// test takes.
func meanwhile(t *testing.T, want retry.Reason, happens func()) retry.Strategy {
	first := true
	return retry.Func(func(_ context.Context, _ *retry.Request, why retry.Reason) retry.Action {
		if first {
			first = false
			if why != want {
				t.Errorf("reason %v instead of %v", why, want)
			}
			happens()
		}
		return retry.After(time.Hour)
	})
}

// soon is a call's end within the time of a few retries with short delays.
func soon(t *testing.T, began time.Time) {
	t.Helper()
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestNoWakeUpIsMissedWhenABreakerCloses(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		in := trip(t, m, b, key)
		time.Sleep(5 * time.Second)
		in.Remove()
		began := time.Now()
		// the canary flies
		closes := meanwhile(t, retry.CircuitBreakerOpen, func() { time.Sleep(10 * time.Millisecond) })
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Retry: closes, Timeout: time.Minute}})
		require.NoError(t, err)
		require.Equal(t, 10*time.Millisecond, time.Since(began))
	}, breaker)
}

func TestNoWakeUpIsMissedWhenAConnectionComesUp(t *testing.T) {
	for name, in := range map[string]kv.Common{"default": {}, "lookup": {Scope: "s", Collection: "c"}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				for i := range 3 {
					require.NoError(t, m.Kill(i))
				}
				time.Sleep(time.Second)
				want := retry.SocketNotAvailable
				if in.Scope != "" {
					want = retry.CollectionMapRefreshInProgress
				}
				began := time.Now()
				in.Timeout = time.Minute
				in.Retry = meanwhile(t, want, func() {
					for i := range 3 {
						if err := m.Respawn(i); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(9 * time.Second) // more than the longest pause between two attempts to connect
				})
				_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: in})
				require.NoError(t, err)
				soon(t, began)
			})
		})
	}
}

func TestNoWakeUpIsMissedWhenANewMapHasTheNode(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		require.NoError(t, m.FailoverHard(0))
		require.NoError(t, m.FailoverHard(1))
		time.Sleep(5 * time.Second)
		var lost []byte // a key whose vbucket has no node any more
		for i := range byte(255) {
			if _, nodes, ok := b.Locate([]byte{i}); ok && nodes[0] == "" {
				lost = []byte{i}
			}
		}
		require.NotNil(t, lost)
		began := time.Now()
		found := meanwhile(t, retry.NodeNotAvailable, func() {
			if err := m.Rebalance(); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Second)
		})
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: lost, Common: kv.Common{Retry: found, Timeout: time.Minute}})
		require.NoError(t, err)
		soon(t, began)
	})
}

func TestNoWakeUpIsMissedWhenANewMapHasTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual(),
			mock.NodeServices(0, mock.KVService, mock.ManagementService))
		// the node that comes is not one of its hosts
		c := open(t, m, func(cfg *core.Config) { cfg.Auth.AllowPlain = true })
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		began := time.Now()
		found := meanwhile(t, retry.ServiceNotAvailable, func() {
			if m.AddNode() < 0 {
				t.Error("no node was added")
			}
			if err := m.Rebalance(); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Second)
		})
		in, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		rows, err := c.Query(in, &query.Request{Statement: "SELECT 1", Readonly: true, Retry: found})
		require.NoError(t, err)
		require.NoError(t, rows.Close())
		soon(t, began)
	})
}
