package core_test

import (
	"context"
	"errors"
	"log/slog"
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

// provocation makes a client meet one reason.
type provocation struct {
	opts   []mock.Option
	change func(*core.Config)
	before func(m *mock.Cluster) // before the client is opened
	run    func(t *testing.T, m *mock.Cluster, c *core.Cluster)
}

// status has one request of the opcode answered with st.
func status(op memd.Opcode, st memd.Status) provocation {
	return provocation{run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		m.Inject(only(op, 1), mock.Status(st))
		set(t, c.Bucket("default"), "k")
		get(t, c.Bucket("default"), "k")
	}}
}

// The calls of provocations: what becomes of them does not matter, as long as they end.
func set(t *testing.T, b *core.Bucket, key string) {
	t.Helper()
	_, _ = kv.Do(ctx(t), b, kv.Upsert{Key: []byte(key), Common: kv.Common{Timeout: 200 * time.Millisecond}})
}

func get(t *testing.T, b *core.Bucket, key string) {
	t.Helper()
	_, _ = kv.Do(ctx(t), b, kv.Get{Key: []byte(key), Common: kv.Common{Timeout: 200 * time.Millisecond}})
}

func inCollection(t *testing.T, c *core.Cluster, scope, collection string, timeout time.Duration) {
	t.Helper()
	_, _ = kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{
		Key: []byte("k"), Common: kv.Common{Scope: scope, Collection: collection, Timeout: timeout},
	})
}

// provocations has a way to each reason that key-value calls can meet.
func provocations() map[retry.Reason]provocation {
	ready := func(t *testing.T, c *core.Cluster) *core.Bucket {
		t.Helper()
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		return c.Bucket("default")
	}
	return map[retry.Reason]provocation{
		retry.SocketNotAvailable: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			b := ready(t, c)
			require.NoError(t, m.Kill(0))
			time.Sleep(100 * time.Millisecond)
			set(t, b, "k")
		}},
		retry.NodeNotAvailable: {opts: []mock.Option{mock.Nodes(2), mock.Replicas(0)}, run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			b := ready(t, c)
			key := keyOn(t, b, m.Node(1).Addr())
			require.NoError(t, m.Failover(1))
			time.Sleep(5 * time.Second)
			set(t, b, string(key))
		}},
		retry.CircuitBreakerOpen: {change: breaker, run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			b := ready(t, c)
			trip(t, m, b, []byte("k"))
			get(t, b, "k")
		}},
		retry.EndpointNotWritable: {change: func(c *core.Config) { c.MaxInFlight = 1 }, run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			b := ready(t, c)
			m.Inject(only(memd.OpGet, 1), mock.Drop())
			kv.Start(ctx(t), b, kv.Get{Key: []byte("k")})
			set(t, b, "k")
		}},
		retry.WriteFailed: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			b := ready(t, c)
			for _, l := range m.Network().Links() {
				l.Up().FailAfter(10, errors.New("cut"))
			}
			set(t, b, "k")
		}},
		retry.KVNotMyVBucket: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			m.Inject(only(memd.OpSet, 1), mock.NotMyVBucket(true, nil))
			set(t, c.Bucket("default"), "k")
		}},
		retry.KVCollectionOutdated: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			m.Inject(only(memd.OpSet, 1), mock.Status(memd.StatusUnknownCollection))
			inCollection(t, c, "s", "c", time.Second)
		}},
		retry.CollectionMapRefreshInProgress: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			m.Inject(only(memd.OpCollectionsGetID, 0), mock.Drop())
			inCollection(t, c, "s", "c", 5*time.Second)
		}},
		retry.BucketNotReady: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) { set(t, c.Bucket("later"), "k") }},
		retry.NotReady: {
			before: func(m *mock.Cluster) { m.Inject(only(memd.OpGetClusterConfig, 0), mock.Status(memd.StatusKeyNotFound)) },
			run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
				time.Sleep(time.Second)
				set(t, c.Bucket("default"), "k")
			},
		},
		retry.KVErrorMapRetryIndicated: {
			before: func(m *mock.Cluster) {
				m.SetErrorMap([]byte(`{"version":2,"revision":9,"errors":{"7ff0":{"name":"A","desc":"b","attrs":["retry-later"]}}}`))
			},
			run: status(memd.OpSet, 0x7ff0).run,
		},
		retry.KVLocked: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			b := ready(t, c)
			set(t, b, "k")
			_, err := kv.Do(ctx(t), b, kv.GetAndLock{Key: []byte("k"), LockTime: 10 * time.Second})
			require.NoError(t, err)
			set(t, b, "k")
		}},
		retry.KVSyncWriteInProgress:         status(memd.OpSet, memd.StatusSyncWriteInProgress),
		retry.KVSyncWriteReCommitInProgress: status(memd.OpSet, memd.StatusSyncWriteReCommitInProgress),
		retry.KVTemporaryFailure:            status(memd.OpSet, memd.StatusTmpFail),
		retry.SocketClosedWhileInFlight: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			m.Inject(only(memd.OpGet, 1), mock.CloseBefore())
			get(t, ready(t, c), "k")
		}},
		retry.AuthenticationError: {
			change: func(c *core.Config) { c.Password = core.NewSecret("wrong") },
			run:    func(t *testing.T, m *mock.Cluster, c *core.Cluster) { set(t, c.Bucket("default"), "k") },
		},
		retry.TLSError: {
			opts: []mock.Option{mock.TLS()}, change: func(c *core.Config) { tlsHosts(c); c.UseTLS = true },
			run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) { set(t, c.Bucket("default"), "k") },
		},
		retry.BucketAccessError: {
			opts:   []mock.Option{mock.User("app", "secret", "other")},
			change: func(c *core.Config) { c.Username, c.Password = "app", core.NewSecret("secret") },
			run:    func(t *testing.T, m *mock.Cluster, c *core.Cluster) { set(t, c.Bucket("default"), "k") },
		},
		retry.ScopeNotFound:      {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) { inCollection(t, c, "nowhere", "c", time.Second) }},
		retry.CollectionNotFound: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) { inCollection(t, c, "s", "nothing", time.Second) }},
		retry.CredentialsFetchFailed: {
			change: func(c *core.Config) {
				c.Credentials = func(context.Context) (core.Credentials, error) {
					return core.Credentials{}, errors.New("vault is sealed")
				}
			},
			run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) { set(t, c.Bucket("default"), "k") },
		},
	}
}

// reasonLog is a log handler that keeps the reasons of all decisions.
type reasonLog struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (h *reasonLog) Enabled(context.Context, slog.Level) bool { return true }
func (h *reasonLog) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *reasonLog) WithGroup(string) slog.Handler            { return h }
func (h *reasonLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "reason" {
			h.mu.Lock()
			h.seen[a.Value.String()] = true
			h.mu.Unlock()
		}
		return true
	})
	return nil
}

// reasonsOf runs a provocation and gives the reasons of all decisions that it led to.
func reasonsOf(t *testing.T, p provocation) map[string]bool {
	h := &reasonLog{seen: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, append([]mock.Option{mock.Nodes(1), mock.Bucket("default", 16, mock.WithCollection("s", "c")), mock.Virtual()}, p.opts...)...)
		if p.before != nil {
			p.before(m)
		}
		change := p.change
		if change == nil {
			change = func(*core.Config) {}
		}
		p.run(t, m, open(t, m, change, func(cfg *core.Config) { cfg.Log = slog.New(h) }))
	})
	return h.seen
}

// CB-10, D69: every reason that exists is met on some way through the client.
func TestEveryReasonIsMet_CB10_D69(t *testing.T) {
	ways := provocations()
	for why := range retry.All() {
		p, ok := ways[why]
		if !ok {
			continue
		}
		t.Run(why.String(), func(t *testing.T) { require.Contains(t, reasonsOf(t, p), why.String()) })
	}
}
