package promises_test

import (
	"context"
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

const ms = time.Millisecond

// world is a mock cluster in virtual time and a client of it.
type world struct {
	t *testing.T
	m *mock.Cluster
	c *core.Cluster
	b *core.Bucket
}

// virtual runs f in a bubble, with three nodes, two replicas and all services. Delays have no jitter: the jitter source
// always give 0.
func virtual(t *testing.T, f func(t *testing.T, w *world), change ...func(*core.Config)) {
	t.Helper()
	virtualOf(t, []mock.Option{mock.Nodes(3), mock.Replicas(2), mock.Bucket("default", 64)}, f, change...)
}

// virtualOf is virtual for another cluster.
func virtualOf(t *testing.T, opts []mock.Option, f func(t *testing.T, w *world), change ...func(*core.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, append(opts, mock.Virtual())...)
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = mock.DefaultUser, core.NewSecret(mock.DefaultPassword),
			m.Dial
		cfg.Retry.JitterSource = func() float64 { return 0 }
		for _, c := range change {
			c(&cfg)
		}
		c := openConfig(t, cfg)
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(within(t, 10*time.Second)))
		f(t, &world{t: t, m: m, c: c, b: b})
	})
}

// file is a policy file of the cluster's.
func file(t *testing.T, text string) func(*core.Config) {
	t.Helper()
	p, err := core.ParsePolicy([]byte(text))
	require.NoError(t, err)
	return func(c *core.Config) { c.Retry.Policy = p }
}

// strategy is one of the cluster's.
func strategy(s retry.Strategy) func(*core.Config) {
	return func(c *core.Config) { c.Retry.Strategy = s }
}

// fails lets requests with an opcode meet a fault: times of them, or all for 0.
func (w *world) fails(op memd.Opcode, times int, fault mock.Fault) *mock.Injection {
	return w.m.Inject(mock.Match{Opcodes: []memd.Opcode{op}, Times: times}, fault)
}

// refuses is fails with a status.
func (w *world) refuses(op memd.Opcode, times int, st memd.Status) *mock.Injection {
	return w.fails(op, times, mock.Status(st))
}

// upsert is a write with a strategy of its own, or the cluster's for nil.
func (w *world) upsert(s retry.Strategy) (took time.Duration, info retry.Info, err error) {
	w.t.Helper()
	began := time.Now()
	res, err := kv.Do(within(w.t, time.Minute), w.b, kv.Upsert{
		Key: []byte("k"), Value: []byte("v"),
		Common: kv.Common{Retry: s},
	})
	return time.Since(began), infoOf(res.RetryInfo(), err), err
}

// upsertIn is a write to another bucket.
func upsertIn(t *testing.T, b *core.Bucket, s retry.Strategy) (took time.Duration, err error) {
	t.Helper()
	began := time.Now()
	_, err = kv.Do(within(t, time.Minute), b, kv.Upsert{
		Key: []byte("k"), Value: []byte("v"),
		Common: kv.Common{Retry: s},
	})
	return time.Since(began), err
}

// asApp is a cluster with a user that has access to the bucket "default" alone, and asAppUser a client that is this
// user.
func asApp() []mock.Option {
	return []mock.Option{mock.Nodes(2), mock.Bucket("default", 64), mock.Bucket("absent", 64), mock.User("app", "app",
		"default")}
}

func asAppUser(c *core.Config) { c.Auth.Username, c.Auth.Password = "app", core.NewSecret("app") }

// get is a read.
func (w *world) get(s retry.Strategy) (took time.Duration, info retry.Info, err error) {
	w.t.Helper()
	began := time.Now()
	res, err := kv.Do(within(w.t, time.Minute), w.b, kv.Get{Key: []byte("k"), Common: kv.Common{Retry: s}})
	return time.Since(began), infoOf(res.RetryInfo(), err), err
}

func infoOf(of retry.Info, err error) retry.Info {
	if err != nil {
		of, _ = retry.InfoOf(err)
	}
	return of
}

// keyOn is a key whose active copy is on a node.
func (w *world) keyOn(node int) []byte {
	w.t.Helper()
	for i := range 4096 {
		key := []byte{'k', byte('0' + i/64), byte('0' + i%64)}
		if _, nodes, ok := w.b.Locate(key); ok && nodes[0] == w.m.Node(node).Addr() {
			return key
		}
	}
	w.t.Fatal("no key is on the node")
	return nil
}

// seen is what a strategy was asked.
type seen struct {
	retry.Request
	why retry.Reason
	at  time.Time
}

// recorder is a strategy that notes what it is asked, and then asks base.
type recorder struct {
	mu   sync.Mutex
	all  []seen
	base retry.Strategy
}

func (s *recorder) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.mu.Lock()
	s.all = append(s.all, seen{*r, why, time.Now()})
	s.mu.Unlock()
	return r.Ask(ctx, s.base, why)
}

func (s *recorder) asked() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.all...)
}

// every waits d each time, for whatever reason.
func every(d time.Duration) retry.Strategy { return retry.BestEffort{Backoff: retry.Constant(d)} }

// in is durations in milliseconds.
func in(of ...int) []time.Duration {
	ds := []time.Duration{}
	for _, d := range of {
		ds = append(ds, time.Duration(d)*ms)
	}
	return ds
}

// delays are those between the attempts of a call, as its log tells.
func delays(i retry.Info) []time.Duration {
	ds := []time.Duration{}
	for _, a := range i.Log {
		if a.Delay > 0 {
			ds = append(ds, a.Delay)
		}
	}
	return ds
}

// stops is a strategy that never retries.
type stops struct{}

func (stops) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.Stop()
}
