package core_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
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
		retry.NodeNotAvailable: {opts: []mock.Option{mock.Nodes(2), mock.Replicas(0)}, run: func(t *testing.T,
			m *mock.Cluster, c *core.Cluster,
		) {
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
		retry.EndpointNotWritable: {change: func(c *core.Config) { c.Limits.InFlight = 1 }, run: func(t *testing.T,
			m *mock.Cluster, c *core.Cluster,
		) {
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
		retry.BucketNotReady: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			set(t, c.Bucket("later"),
				"k")
		}},
		retry.NotReady: {
			before: func(m *mock.Cluster) {
				m.Inject(only(memd.OpGetClusterConfig, 0),
					mock.Status(memd.StatusKeyNotFound))
			},
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
			change: func(c *core.Config) { c.Auth.Password = core.NewSecret("wrong") },
			run:    func(t *testing.T, m *mock.Cluster, c *core.Cluster) { set(t, c.Bucket("default"), "k") },
		},
		retry.TLSError: {
			opts: []mock.Option{mock.TLS()}, change: func(c *core.Config) { tlsHosts(c); c.TLS.Enabled = true },
			run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) { set(t, c.Bucket("default"), "k") },
		},
		retry.BucketAccessError: {
			opts:   []mock.Option{mock.User("app", "secret", "other")},
			change: func(c *core.Config) { c.Auth.Username, c.Auth.Password = "app", core.NewSecret("secret") },
			run:    func(t *testing.T, m *mock.Cluster, c *core.Cluster) { set(t, c.Bucket("default"), "k") },
		},
		retry.ScopeNotFound: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			inCollection(t, c,
				"nowhere", "c", time.Second)
		}},
		retry.CollectionNotFound: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			inCollection(t, c, "s",
				"nothing", time.Second)
		}},
		retry.CredentialsFetchFailed: {
			change: func(c *core.Config) {
				c.Auth.Credentials = func(context.Context) (core.Credentials, error) {
					return core.Credentials{}, errors.New("vault is sealed")
				}
			},
			run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) { set(t, c.Bucket("default"), "k") },
		},
	}
}

// asked runs one request to a service and reads its rows.
func asked[R interface {
	Next() bool
	Close() error
}](rows R, err error) {
	if err != nil {
		return
	}
	for rows.Next() {
		continue
	}
	_ = rows.Close()
}

// answers has the first request to a service answered so, and makes it.
func answers(service mock.Service, a mock.Answer) provocation {
	return provocation{run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		m.Script(mock.ServiceMatch{Service: service, Times: 1}, a)
		const soon = 200 * time.Millisecond
		switch service { //nolint:exhaustive // the services that have reasons of their own
		case mock.QueryService:
			asked(c.Query(ctx(t), &query.Request{Statement: "SELECT 1", Timeout: soon, Readonly: true}))
		case mock.AnalyticsService:
			asked(c.Analytics(ctx(t), &analytics.Request{Statement: "SELECT 1", Timeout: soon, Readonly: true}))
		case mock.SearchService:
			asked(c.Search(ctx(t), &search.Request{Index: "i", Query: map[string]any{"match": "x"}, Timeout: soon}))
		case mock.ViewsService:
			asked(c.Bucket("default").View(ctx(t), &views.Request{Design: "d", View: "v", Timeout: soon}))
		case mock.ManagementService:
			if resp, err := c.Do(ctx(t), &core.HTTPRequest{
				Method: http.MethodGet, Path: "/pools",
				Timeout: soon,
			}); err == nil {
				_ = resp.Body.Close()
			}
		}
	}}
}

func failure(code int, message string, again bool) mock.Answer {
	return mock.Answer{Errors: []mock.ServiceError{{Code: code, Message: message, Retry: again}}}
}

// serviceProvocations has a way to each reason that requests to services can meet.
func serviceProvocations() map[retry.Reason]provocation {
	none := answers(mock.QueryService, mock.Answer{})
	none.opts = []mock.Option{mock.Services(mock.KVService, mock.ManagementService)}
	return map[retry.Reason]provocation{
		retry.ServiceNotAvailable: none,
		retry.ServiceResponseCodeIndicated: answers(mock.ManagementService,
			mock.Answer{Status: http.StatusServiceUnavailable}),
		retry.QueryPreparedStatementFailure: {run: func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
			m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1}, failure(4050, "unable to decode", false))
			asked(c.Query(ctx(t), &query.Request{Statement: "SELECT 1", Prepare: true}))
		}},
		retry.QueryIndexNotFound:        answers(mock.QueryService, failure(5000, "queryport.indexNotFound", false)),
		retry.QueryErrorRetryable:       answers(mock.QueryService, failure(13014, "come back", true)),
		retry.AnalyticsTemporaryFailure: answers(mock.AnalyticsService, failure(23000, "busy", false)),
		retry.SearchTooManyRequests:     answers(mock.SearchService, mock.Answer{Status: http.StatusTooManyRequests}),
		retry.ViewsNoActivePartition:    answers(mock.ViewsService, mock.Answer{Status: http.StatusFound}),
		retry.ViewsTemporaryFailure: answers(mock.ViewsService,
			mock.Answer{Status: http.StatusInternalServerError}),
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
		m := mock.Start(t,
			append([]mock.Option{
				mock.Nodes(1), mock.Bucket("default", 16, mock.WithCollection("s", "c")),
				mock.Virtual(),
			}, p.opts...)...)
		if p.before != nil {
			p.before(m)
		}
		change := p.change
		if change == nil {
			change = func(*core.Config) {}
		}
		p.run(t, m, open(t, m, change, func(cfg *core.Config) { cfg.Observe.Log = slog.New(h) }))
	})
	return h.seen
}

// CB-10, D69: every reason that exists is met on some way through the client. UNKNOWN is not a reason, and no code of
// the query service is known to say that the buffer of transactions is full.
func TestEveryReasonIsMet_CB10_D69(t *testing.T) {
	ways := provocations()
	maps.Copy(ways, serviceProvocations())
	for why := range retry.All() {
		if why == retry.Unknown || why == retry.QueryTransactionBufferFull || why == retry.EvaluationIndicated {
			continue // no server or client raises them: the last is a program's own, see retry.Do
		}
		t.Run(why.String(), func(t *testing.T) {
			p, ok := ways[why]
			require.True(t, ok, "no way to it is known")
			require.Contains(t, reasonsOf(t, p), why.String())
		})
	}
}
