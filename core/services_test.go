package core_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// rowReader is what the rows of all services have in common.
type rowReader interface {
	Next() bool
	Row() []byte
	Err() error
	Close() error
}

// typed is one of the services of rows, asked through a cluster's own methods.
type typed struct {
	name    string
	service mock.Service
	run     func(ctx context.Context, c *core.Cluster, writes bool) (rowReader, error)
}

var typedServices = []typed{
	{"query", mock.QueryService, func(ctx context.Context, c *core.Cluster, writes bool) (rowReader, error) {
		r, err := c.Query(ctx, &query.Request{Statement: "x", Readonly: !writes})
		return r, err
	}},
	{"analytics", mock.AnalyticsService, func(ctx context.Context, c *core.Cluster, writes bool) (rowReader, error) {
		r, err := c.Analytics(ctx, &analytics.Request{Statement: "x", Readonly: !writes})
		return r, err
	}},
	{"search", mock.SearchService, func(ctx context.Context, c *core.Cluster, _ bool) (rowReader, error) {
		r, err := c.Search(ctx, &search.Request{Index: "i", Query: map[string]any{"match": "x"}})
		return r, err
	}},
	{"views", mock.ViewsService, func(ctx context.Context, c *core.Cluster, _ bool) (rowReader, error) {
		r, err := c.Bucket("default").View(ctx, &views.Request{Design: "d", View: "v"})
		return r, err
	}},
}

// all reads the rows to their end.
func all(rows rowReader, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		out = append(out, string(rows.Row()))
	}
	return out, rows.Err()
}

// withServices runs a test for each service against a fresh cluster in a bubble, over plain HTTP and over HTTP/2.
func withServices(t *testing.T, f func(t *testing.T, s typed, m *mock.Cluster, c *core.Cluster),
	change ...func(*core.Config),
) {
	t.Helper()
	for _, s := range typedServices {
		for name, opts := range map[string][]mock.Option{"plain": nil, "http2": {mock.TLS(), mock.HTTP2()}} {
			t.Run(s.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := mock.Start(t, append(opts, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())...)
					c := open(t, m, func(cfg *core.Config) {
						if opts != nil {
							tlsHosts(cfg)
							cfg.TLS.Config = trusting(m)
						}
						for _, f := range change {
							f(cfg)
						}
					})
					require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
					f(t, s, m, c)
				})
			})
		}
	}
}

func rows(texts ...string) mock.Answer { return mock.Answer{Rows: texts} }

func script(m *mock.Cluster, s typed, answers ...mock.Answer) *mock.Script {
	return m.Script(mock.ServiceMatch{Service: s.service}, answers...)
}

// TestServicesGiveRows, from the node that answers.
func TestServicesGiveRows(t *testing.T) {
	withServices(t, func(t *testing.T, s typed, m *mock.Cluster, c *core.Cluster) {
		script(m, s, rows(`{"n":1}`, `{"n":2}`))
		for range 4 {
			got, err := all(s.run(ctx(t), c, false))
			require.NoError(t, err)
			require.Equal(t, []string{`{"n":1}`, `{"n":2}`}, got)
		}
		nodes := map[int]int{}
		for _, r := range m.ServiceLog(s.service) {
			nodes[r.Node]++
			require.Equal(t, "Administrator", r.User)
		}
		require.Equal(t, map[int]int{0: 2, 1: 2}, nodes) // in turn
	})
}

// asking is a strategy that notes what it is asked, and says stop.
type asking struct{ got *[]retry.Request }

func (a asking) RetryAfter(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
	*a.got = append(*a.got, *r)
	return retry.Stop()
}

func (asking) Inline() bool { return true }

// TestServicesInheritTheStrategyD79D83: the configured strategy is asked, with the service's configured deadline.
func TestServicesInheritTheStrategyD79D83(t *testing.T) {
	strategy := asking{new([]retry.Request)}
	withServices(t, func(t *testing.T, s typed, m *mock.Cluster, c *core.Cluster) {
		*strategy.got = nil
		script(m, s, mock.Answer{Status: 503, Header: http.Header{"Retry-After": {"1"}}, Body: []byte("x")})
		began := time.Now()
		_, err := all(s.run(t.Context(), c, true))
		require.Error(t, err)
		require.Len(t, *strategy.got, 1)
		r := (*strategy.got)[0]
		require.Equal(t, s.name, string(r.Service))
		minutes := map[string]time.Duration{"query": 1, "search": 2, "analytics": 3, "views": 4}[s.name]
		require.Equal(t, began.Add(minutes*time.Minute), r.Deadline)
	}, func(cfg *core.Config) {
		cfg.Retry.Strategy = strategy
		cfg.HTTP.QueryTimeout, cfg.HTTP.SearchTimeout, cfg.HTTP.AnalyticsTimeout, cfg.HTTP.ViewTimeout = time.Minute,
			2*time.Minute, 3*time.Minute, 4*time.Minute
	})
}

// TestServicesEndByTheirDeadline: silence, a stall amid the rows, a trickle; and the caller's cancellation (D84).
func TestServicesEndByTheirDeadlineD84(t *testing.T) {
	stall := rows(`{"n":1}`, `{"n":2}`, `{"n":3}`)
	stall.StallRows = 2
	trickle := rows(strings.Repeat(`"`, 2), `"`+strings.Repeat("x", 1000)+`"`)
	trickle.Chunk, trickle.Trickle = 1, 100*time.Millisecond
	for name, a := range map[string]mock.Answer{"never": {Never: true}, "stall": stall, "trickle": trickle} {
		withServices(t, func(t *testing.T, s typed, m *mock.Cluster, c *core.Cluster) {
			script(m, s, a)
			for _, writes := range []bool{false, true} {
				began := time.Now()
				limited, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				got, err := all(s.run(limited, c, writes))
				require.Equal(t, 3*time.Second, time.Since(began), name)
				if name == "stall" {
					require.Len(t, got, 2)
				}
				inDoubt := writes && (s.name == "query" || s.name == "analytics")
				require.ErrorIs(t, err, map[bool]error{
					true:  cberr.AmbiguousTimeout,
					false: cberr.UnambiguousTimeout,
				}[inDoubt])
				var e interface{ Ambiguous() bool }
				require.ErrorAs(t, err, &e)
				require.Equal(t, inDoubt, e.Ambiguous())
			}
			gone := errors.New("gone")
			canceled, cancel := context.WithCancelCause(t.Context())
			began := time.Now()
			time.AfterFunc(time.Second, func() { cancel(gone) })
			_, err := all(s.run(canceled, c, false))
			require.Equal(t, time.Second, time.Since(began))
			require.ErrorIs(t, err, cberr.RequestCanceled)
			require.ErrorIs(t, err, gone)
		})
	}
}

// TestServicesCutAmidTheRows: what was given out stays, the rest is an error, nothing is sent again, and the connection
// is not used again.
func TestServicesCutAmidTheRows(t *testing.T) {
	withServices(t, func(t *testing.T, s typed, m *mock.Cluster, c *core.Cluster) {
		cut := rows(`{"n":1}`, `{"n":2}`, `{"n":3}`)
		cut.CutRows = 2
		script(m, s, cut)
		got, err := all(s.run(ctx(t), c, true))
		require.NotEmpty(t, got)
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.Len(t, m.ServiceLog(s.service), 1)
		// Before the first row it is another matter.
		first := rows(`{"n":1}`)
		first.CutBytes = 5
		script(m, s, first, rows(`{"n":1}`))
		got, err = all(s.run(ctx(t), c, false))
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Len(t, m.ServiceLog(s.service), 3)
		remotes := map[string]bool{}
		for _, r := range m.ServiceLog(s.service) {
			remotes[r.Remote] = true
		}
		if m.ServiceLog(s.service)[0].Proto == "HTTP/1.1" { // over HTTP/2 only the stream is broken
			require.Len(t, remotes, 3)
		}
	})
}

// TestServicesCutAnywhere: whatever arrives in whatever pieces is the same answer, and what is cut is never a wrong
// one.
func TestServicesCutAnywhere(t *testing.T) {
	withServices(t, func(t *testing.T, s typed, m *mock.Cluster, c *core.Cluster) {
		want := []string{`{"n":1}`, `{"n":"]},\"x"}`}
		whole := rows(want...)
		whole.Chunk = 1
		script(m, s, whole)
		got, err := all(s.run(ctx(t), c, false))
		require.NoError(t, err)
		require.Equal(t, want, got)
		for n := 1; n < 60; n += 4 {
			cut := rows(want...)
			cut.CutBytes = n
			script(m, s, cut)
			got, err := all(s.run(ctx(t), c, true))
			if err == nil {
				require.Equal(t, want, got) // sent again, whole
			}
			require.Subset(t, append([]string{""}, want...), append(got, ""))
		}
	})
}

// TestServicesBoundARow: one that is longer is a typed error, and what came before it stays.
func TestServicesBoundARow(t *testing.T) {
	withServices(t, func(t *testing.T, s typed, m *mock.Cluster, c *core.Cluster) {
		script(m, s, rows(`"short"`, `"`+strings.Repeat("x", 5000)+`"`))
		got, err := all(s.run(ctx(t), c, false))
		require.Equal(t, []string{`"short"`}, got)
		require.ErrorIs(t, err, cberr.DecodingFailure)
		require.ErrorContains(t, err, "limit 5000")
	}, func(cfg *core.Config) { cfg.Limits.Row = 5000 })
}

// TestServicesDoNotFollowRedirects: credentials go nowhere else.
func TestServicesDoNotFollowRedirects(t *testing.T) {
	withServices(t, func(t *testing.T, s typed, m *mock.Cluster, c *core.Cluster) {
		script(m, s, mock.Answer{
			Status: 307, Header: http.Header{"Location": {"http://10.0.0.9/elsewhere"}},
			Body: []byte("x"),
		})
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := all(s.run(limited, c, false))
		require.ErrorIs(t, err, cberr.Couchbase)
		for _, l := range m.Network().Links() {
			require.NotContains(t, l.RemoteAddr(), "10.0.0.9")
		}
	})
}

// TestServiceThatIsAbsent is waited for, and says so: nothing of it was sent.
func TestServiceThatIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual(), mock.Services(mock.KVService))
		c := open(t, m)
		for _, s := range typedServices {
			limited, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := all(s.run(limited, c, true))
			cancel()
			require.ErrorIs(t, err, cberr.UnambiguousTimeout, s.name)
			info, _ := retry.InfoOf(err)
			require.Equal(t, retry.ServiceNotAvailable, info.Reason)
		}
	})
}

// TestHedgedRequestsToAnyService: one that no node offers is absent, whatever else the nodes have.
func TestHedgedRequestsToAnyService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual(),
			mock.Services(mock.KVService, mock.QueryService))
		c := open(t, m)
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		for service, want := range map[core.Service]error{
			core.Eventing: cberr.UnambiguousTimeout,
			core.Backup:   cberr.UnambiguousTimeout, core.Index: cberr.UnambiguousTimeout, 99: cberr.InvalidArgument,
		} {
			_, err := c.Do(ctx(t), &core.HTTPRequest{
				Service: service, Method: "GET", Path: "/api/v1/status", Timeout: time.Second,
				Hedge: &core.Hedge{MaxAttempts: 2},
			})
			require.ErrorIs(t, err, want, service)
			require.Empty(t, c.Endpoints(service))
		}
	})
}

// TestServiceThatComes: a request that waits for a node that offers the service goes there once the map has it.
func TestServiceThatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual(),
			mock.NodeServices(0, mock.KVService))
		// the node that comes is not one of its hosts
		c := open(t, m, func(cfg *core.Config) { cfg.Auth.AllowPlain = true })
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		m.ScriptQuery("x", rows(`1`))
		time.AfterFunc(2*time.Second, func() { m.AddNode() })
		began := time.Now()
		got, err := all(c.Query(ctx(t), &query.Request{Statement: "x"}))
		require.NoError(t, err)
		require.Equal(t, []string{"1"}, got)
		require.Less(t, time.Since(began), 6*time.Second)
		log := m.ServiceLog(mock.QueryService)
		require.Len(t, log, 1)
		require.Equal(t, 1, log[0].Node)
	})
}

// TestViewsGoWhereDataIs: nodes without active vbuckets of the bucket are not asked.
func TestViewsGoWhereDataIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual(),
			mock.NodeServices(1, mock.ViewsService, mock.QueryService))
		c := open(t, m)
		m.Script(mock.ServiceMatch{Service: mock.ViewsService}, rows(`{"id":"a"}`))
		for range 6 {
			_, err := all(typedServices[3].run(ctx(t), c, false))
			require.NoError(t, err)
		}
		asked := map[int]int{}
		for _, r := range m.ServiceLog(mock.ViewsService) {
			asked[r.Node]++
		}
		require.Equal(t, map[int]int{0: 3, 2: 3}, asked)
	})
}

// TestCloseEndsRows: rows under way end with the cluster.
func TestCloseEndsRows(t *testing.T) {
	withServices(t, func(t *testing.T, s typed, m *mock.Cluster, c *core.Cluster) {
		stall := rows(`{"n":1}`, `{"n":2}`, `{"n":3}`)
		stall.StallRows, stall.Chunk = 2, 1
		script(m, s, stall)
		r, err := s.run(t.Context(), c, false)
		require.NoError(t, err)
		require.True(t, r.Next())
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		began := time.Now()
		for r.Next() { // what has come already
		}
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, r.Err(), retry.ErrClosed)
		require.ErrorIs(t, r.Err(), cberr.RequestCanceled)
	})
}
