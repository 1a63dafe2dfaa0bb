package core_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// What an SDK that is built on this client asks for.

// sdk runs f in a bubble with a mock of two nodes with two buckets, and a client.
func sdk(t *testing.T, f func(t *testing.T, m *mock.Cluster, c *core.Cluster), change ...func(*core.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Bucket("other", 64), mock.Virtual(),
			mock.Latency(100*time.Microsecond), mock.User("Administrator", "password"))
		f(t, m, open(t, m, change...))
	})
}

// A bucket is closed alone: its calls end, wherever they are, the other bucket's go on, and the name can be opened
// again.
func TestOneBucketIsClosed(t *testing.T) {
	sdk(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		one, other := c.Bucket("default"), c.Bucket("other")
		require.NoError(t, c.WaitReady(ctx(t)))
		m.Inject(mock.Match{Bucket: "default", Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		m.Inject(mock.Match{Bucket: "default", Opcodes: []memd.Opcode{memd.OpSet}}, mock.Status(memd.StatusTmpFail))
		flying := kv.Start(context.Background(), one, kv.Get{Key: []byte("k")})
		parked := kv.Start(context.Background(), one, kv.Upsert{Key: []byte("k"), Common: kv.Common{
			Retry: retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
				return retry.After(time.Second)
			}),
		}})
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		require.NoError(t, one.Close())
		require.Zero(t, time.Since(began))
		_, first := flying.Wait(ctx(t))
		_, second := parked.Wait(ctx(t))
		_, later := kv.Do(ctx(t), one, kv.Get{Key: []byte("k")})
		for _, err := range []error{first, second, later} {
			require.ErrorIs(t, err, cberr.RequestCanceled)
			require.ErrorIs(t, err, retry.ErrClosed)
		}
		require.Zero(t, time.Since(began))
		require.NoError(t, one.Close())
		_, err := kv.Do(ctx(t), other, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		for _, d := range c.Diagnostics().Services["kv"] {
			require.Equal(t, "other", d.Namespace)
		}
		again := c.Bucket("default")
		require.NotSame(t, one, again)
		require.NoError(t, again.WaitReady(ctx(t)))
		_, err = kv.Do(ctx(t), again, kv.Exists{Key: []byte("k")})
		require.NoError(t, err)
	})
}

// One bucket's connections are pinged, and what has failed is an error that can be looked at.
func TestOneBucketIsPinged(t *testing.T) {
	sdk(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		c.Bucket("default")
		c.Bucket("other")
		require.NoError(t, c.WaitReady(ctx(t)))
		m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpNoop}}, mock.Drop())
		r, err := c.Ping(ctx(t), core.PingOptions{
			Services: []string{"kv"}, Bucket: "other", Timeout: 200 * time.Millisecond,
		})
		require.NoError(t, err)
		require.Len(t, r.Services["kv"], 2)
		for _, d := range r.Services["kv"] {
			require.Equal(t, "other", d.Namespace)
			if d.Remote == m.Node(1).Addr() {
				require.ErrorIs(t, d.Err, cberr.Timeout)
				require.Equal(t, d.Err.Error(), d.Error)
				continue
			}
			require.NoError(t, d.Err)
		}
	})
}

// HELLO asks for everything but the features that are named.
func TestFeaturesThatAreNotAskedFor(t *testing.T) {
	without := []memd.Feature{memd.FeatureCollections, memd.FeatureSyncReplication}
	sdk(t, func(t *testing.T, _ *mock.Cluster, c *core.Cluster) {
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		for _, s := range b.Status() {
			require.True(t, s.Features.Has(memd.FeatureXError))
			for _, f := range without {
				require.False(t, s.Features.Has(f), f)
			}
		}
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Durability: memd.DurabilityMajority})
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
	}, func(cfg *core.Config) { cfg.KV.WithoutFeatures = without })
}

// A circuit breaker counts what the program calls a failure, among the answers and among the calls without one.
func TestABreakerIsToldWhatIsHealthy(t *testing.T) {
	var asked atomic.Int64
	sdk(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		for range 20 { // not found: the program says that this is well
			_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
		}
		synctest.Wait()
		require.EqualValues(t, 20, asked.Load())
		m.Inject(only(memd.OpGet, 0), mock.Status(memd.StatusTmpFail))
		for range 40 {
			_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Retry: never}})
			require.Error(t, err)
		}
		synctest.Wait()
		_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Retry: never}})
		require.ErrorIs(t, err, cberr.CircuitBreakerOpen)
	}, breaker, func(cfg *core.Config) {
		cfg.Retry.CircuitBreaker.Healthy = func(err error) bool {
			asked.Add(1)
			var e *kv.Error
			return errors.As(err, &e) && e.Status == memd.StatusKeyNotFound
		}
	})
}

// A wait for readiness has a strategy of its own, and may be for one bucket alone.
func TestAWaitHasItsOwnStrategy(t *testing.T) {
	sdk(t, func(t *testing.T, _ *mock.Cluster, c *core.Cluster) {
		b := c.Bucket("default")
		require.ErrorIs(t, b.WaitReady(ctx(t)), cberr.AuthenticationFailure)
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.WaitReady(short, core.Ready{Bucket: "default", Strategy: retry.BestEffort{}}),
			cberr.AuthenticationFailure)
		require.Equal(t, time.Second, time.Since(began))
	}, func(cfg *core.Config) { cfg.Auth.Password = core.NewSecret("wrong") })
}

// The provider of credentials is told whom they are for.
func TestCredentialsAreForAServiceAndANode(t *testing.T) {
	var mu sync.Mutex
	asked := map[core.LoginTarget]bool{}
	sdk(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		rows, err := c.Query(ctx(t), &query.Request{Statement: "SELECT 1"})
		require.NoError(t, err)
		require.NoError(t, rows.Close())
		mu.Lock()
		defer mu.Unlock()
		var queries int
		for i := range 2 {
			require.True(t, asked[core.LoginTarget{Service: "kv", Endpoint: m.Node(i).Addr()}])
			if asked[core.LoginTarget{Service: "query", Endpoint: m.Node(i).ServiceAddr(mock.QueryService)}] {
				queries++
			}
		}
		require.Equal(t, 1, queries)
	}, func(cfg *core.Config) {
		cfg.Auth.Credentials = func(ctx context.Context) (core.Credentials, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[core.LoginTargetOf(ctx)] = true
			return core.Credentials{Username: "Administrator", Password: core.NewSecret("password")}, nil
		}
	})
	require.Zero(t, core.LoginTargetOf(context.Background()))
}

// Roots are replaced while the client is open: connections that could not be made are made, for all services.
func TestRootsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual(), mock.TLS())
		c := open(t, m, tlsHosts, func(cfg *core.Config) { cfg.TLS.Config = &tls.Config{RootCAs: x509.NewCertPool()} })
		b := c.Bucket("default")
		require.ErrorIs(t, b.WaitReady(ctx(t)), cberr.TLSFailure)
		var ce *core.ConfigError
		require.ErrorAs(t, c.SetTLS(nil), &ce)
		require.ErrorAs(t, c.SetTLS(&tls.Config{InsecureSkipVerify: true}), &ce)
		require.NoError(t, c.SetTLS(trusting(m)))
		c.RenewLogins()
		began := time.Now()
		require.NoError(t, b.WaitReady(ctx(t)))
		require.Less(t, time.Since(began), time.Second)
		rows, err := c.Query(ctx(t), &query.Request{Statement: "SELECT 1"})
		require.NoError(t, err)
		require.NoError(t, rows.Close())
	})
}

// Reasons come in the order in which they were met.
func TestReasonsComeInOrder(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(only(memd.OpSet, 1), mock.Status(memd.StatusTmpFail))
		m.Inject(only(memd.OpSet, 1), mock.Status(memd.StatusLocked))
		res, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: retry.BestEffort{}}})
		require.NoError(t, err)
		info := res.RetryInfo()
		want := []retry.Reason{info.Log[0].Reason, info.Log[1].Reason}
		require.ElementsMatch(t, []retry.Reason{retry.KVTemporaryFailure, retry.KVLocked}, want)
		require.Equal(t, want, info.InOrder())
		require.Empty(t, retry.Info{}.InOrder())
		info.Log = info.Log[1:] // as in the middle of a long log
		slices.Reverse(want)
		require.Equal(t, want, info.InOrder())
	})
}

// A call whose end does not block runs its function where the answer is read. It is told exactly once, also when the
// call is canceled, cannot be made, or when the function panics or ends its goroutine; other calls go on.
func TestCallsEndInline(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		do := func(op kv.Get, f func()) (kv.GetResult, error) {
			type outcome struct {
				kv.GetResult
				error
			}
			told := make(chan outcome, 2)
			kv.GoInline(ctx(t), b, op, func(r kv.GetResult, err error) {
				told <- outcome{r, err}
				f()
			})
			o := <-told
			synctest.Wait()
			require.Empty(t, told)
			return o.GetResult, o.error
		}
		nothing := func() {}
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		for range 100 {
			r, err := do(kv.Get{Key: []byte("k")}, nothing)
			require.NoError(t, err)
			require.Equal(t, "v", string(r.Value))
		}
		_, err = do(kv.Get{Key: []byte("absent")}, nothing)
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		_, err = do(kv.Get{}, nothing)
		require.ErrorIs(t, err, cberr.InvalidArgument)
		_, err = do(kv.Get{Key: []byte("k")}, func() { panic("mine") })
		require.NoError(t, err)
		_, err = do(kv.Get{Key: []byte("k"), Common: kv.Common{Block: true}}, runtime.Goexit)
		require.NoError(t, err)
		_, err = do(kv.Get{Key: []byte("k")}, nothing)
		require.NoError(t, err)
		m.Inject(only(memd.OpGet, 1), mock.Drop())
		told := make(chan error, 2)
		running := kv.GoInline(ctx(t), b, kv.Get{Key: []byte("k")}, func(_ kv.GetResult, err error) { told <- err })
		synctest.Wait()
		require.True(t, running.Cancel())
		require.ErrorIs(t, <-told, cberr.RequestCanceled)
		require.False(t, running.Cancel())
		require.Empty(t, told)
	})
}
