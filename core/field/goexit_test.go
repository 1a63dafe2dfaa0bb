package field_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// leaver is code of the user's that ends its goroutine, as runtime.Goexit and a test's FailNow do, or panics, as long
// as it is on.
type leaver struct {
	on   atomic.Bool
	end  func()
	seen atomic.Int32
}

func (l *leaver) act() {
	if l.on.Load() {
		l.seen.Add(1)
		l.end()
	}
}

type leavingObserver struct{ l *leaver }

func (o leavingObserver) Attempt(retry.AttemptInfo)                         { o.l.act() }
func (o leavingObserver) Retry(*retry.Request, retry.Reason, time.Duration) { o.l.act() }
func (o leavingObserver) GaveUp(*retry.Request, retry.Reason, error)        { o.l.act() }
func (o leavingObserver) Enabled(context.Context, slog.Level) bool          { o.l.act(); return true }

func (o leavingObserver) Handle(context.Context, slog.Record) error { o.l.act(); return nil }
func (o leavingObserver) WithAttrs([]slog.Attr) slog.Handler        { return o }
func (o leavingObserver) WithGroup(string) slog.Handler             { return o }
func (o leavingObserver) Get(string) (s *tls.ClientSessionState, ok bool) {
	o.l.act()
	return nil, false
}
func (o leavingObserver) Put(string, *tls.ClientSessionState) { o.l.act() }
func (o leavingObserver) Write(b []byte) (int, error)         { o.l.act(); return len(b), nil }
func (o leavingObserver) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	o.l.act()
	return "", []*net.SRV{{Target: "10.0.0.1.", Port: 11210}}, nil
}

// leaving is a callback that may end its goroutine.
type leaving struct {
	change func(cfg *core.Config, l *leaver, dial func(context.Context, string, string) (net.Conn, error))
	tls    bool
	fails  bool // while it does so, no connection can be made, and its error says so
}

var leavings = map[string]leaving{
	"Dial": {fails: true, change: func(cfg *core.Config, l *leaver, dial func(context.Context, string,
		string) (net.Conn, error),
	) {
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			l.act()
			return dial(ctx, network, addr)
		}
	}},
	"NodeFilter": {change: func(cfg *core.Config, l *leaver, _ func(context.Context, string, string) (net.Conn,
		error),
	) {
		cfg.Seeds.Hosts = cfg.Seeds.Hosts[:1] // hosts of the configuration are not asked about
		cfg.Net.NodeFilter = func(string) error { l.act(); return nil }
	}},
	"Credentials": {fails: true, change: func(cfg *core.Config, l *leaver, _ func(context.Context, string,
		string) (net.Conn, error),
	) {
		own := core.Credentials{Username: cfg.Auth.Username, Password: cfg.Auth.Password}
		cfg.Auth.Username, cfg.Auth.Password = "", core.Secret{}
		cfg.Auth.Credentials = func(context.Context) (core.Credentials, error) { l.act(); return own, nil }
	}},
	"Resolver": {change: func(cfg *core.Config, l *leaver, _ func(context.Context, string, string) (net.Conn, error)) {
		cfg.Seeds.SRV, cfg.Seeds.Resolver = "_couchbase._tcp.example.com", leavingObserver{l}
	}},
	"RetryObserver": {change: func(cfg *core.Config, l *leaver, _ func(context.Context, string, string) (net.Conn,
		error),
	) {
		cfg.Observe.Retry = leavingObserver{l}
	}},
	"Log": {change: func(cfg *core.Config, l *leaver, _ func(context.Context, string, string) (net.Conn, error)) {
		cfg.Observe.Log = slog.New(leavingObserver{l})
	}},
	"Retry": {change: func(cfg *core.Config, l *leaver, _ func(context.Context, string, string) (net.Conn, error)) {
		cfg.Retry.Strategy = &oddStrategy{
			func() bool { return true },
			func() retry.Action { l.act(); return retry.After(time.Millisecond) },
		}
	}},
	"Retry's backoff": {change: func(cfg *core.Config, l *leaver, _ func(context.Context, string, string) (net.Conn,
		error),
	) {
		cfg.Retry.Strategy = retry.BestEffort{Backoff: func(int,
			time.Duration,
		) time.Duration {
			l.act()
			return time.Millisecond
		}}
	}},
	"Retry's translation": {change: func(cfg *core.Config, l *leaver, _ func(context.Context, string, string) (net.Conn,
		error),
	) {
		cfg.Retry.Strategy = retry.Func(func(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
			if r.Counted > 2 {
				return retry.StopWith(func(err error) error { l.act(); return err })
			}
			return retry.After(time.Millisecond)
		})
	}},
	"Classify": {change: func(cfg *core.Config, l *leaver, _ func(context.Context, string, string) (net.Conn, error)) {
		cfg.Retry.Classify = func(core.Answer) retry.Reason { l.act(); return retry.Unknown }
	}},
	"TLS.VerifyConnection": {tls: true, fails: true, change: func(cfg *core.Config, l *leaver, _ func(context.Context,
		string, string) (net.Conn, error),
	) {
		cfg.TLS.Config.VerifyConnection = func(tls.ConnectionState) error { l.act(); return nil }
	}},
	"TLS.Time": {tls: true, fails: true, change: func(cfg *core.Config, l *leaver, _ func(context.Context, string,
		string) (net.Conn, error),
	) {
		cfg.TLS.Config.Time = func() time.Time { l.act(); return time.Now() }
	}},
	"TLS.KeyLogWriter": {tls: true, fails: true, change: func(cfg *core.Config, l *leaver, _ func(context.Context,
		string, string) (net.Conn, error),
	) {
		cfg.TLS.Config.KeyLogWriter = leavingObserver{l}
	}},
	"TLS.ClientSessionCache": {tls: true, change: func(cfg *core.Config, l *leaver, _ func(context.Context, string,
		string) (net.Conn, error),
	) {
		cfg.TLS.Config.ClientSessionCache = leavingObserver{l}
	}},
}

// Code of the user's that ends its goroutine, or panics, fails what it was called for and ends nothing of the client's:
// calls end by their deadlines with an error that names it, they succeed as soon as it behaves, and Close has nothing
// to wait for.
func TestCallbacksThatEndTheirGoroutine_D135_D143(t *testing.T) {
	for name, c := range leavings {
		for how, end := range map[string]func(){
			"ends its goroutine": runtime.Goexit,
			"panics":             func() { panic("in the callback") },
		} {
			t.Run(name+" "+how, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { leaves(t, c, end) }) })
		}
	}
}

func leaves(t *testing.T, c leaving, end func()) {
	opts := []mock.Option{mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual()}
	if c.tls {
		opts = append(opts, mock.TLS())
	}
	m := mock.Start(t, opts...)
	l := &leaver{end: end}
	l.on.Store(true)
	cl := onMock(t, m, func(cfg *core.Config) {
		if c.tls {
			for i, h := range cfg.Seeds.Hosts {
				cfg.Seeds.Hosts[i] = strings.Replace(h, ":11210", ":11207", 1)
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(m.CA())
			cfg.TLS.Config = &tls.Config{RootCAs: pool}
		}
		c.change(cfg, l, m.Dial)
	})
	b := cl.Bucket("default")
	for round := range 3 {
		for i := range 12 { // each node
			// What the callbacks are asked about: a failure that is retried, one without a reason, and a lost
			// connection.
			busy := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 4}, mock.Status(memd.StatusTmpFail))
			odd := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Status(memd.StatusInternal))
			key, common := []byte{byte('a' + i)}, kv.Common{Timeout: time.Second}
			began := time.Now()
			_, upserted := kv.Do(fresh(t), b, kv.Upsert{Key: key, Common: common})
			_, _ = kv.Do(fresh(t), b, kv.Get{Key: key, Common: common})
			require.LessOrEqual(t, time.Since(began), 2*time.Second+10*time.Millisecond)
			busy.Remove()
			odd.Remove()
			if c.fails && round == 0 && upserted != nil {
				var gone *core.GoneError
				var panicked *core.PanicError
				require.True(t, errors.As(upserted, &gone) || errors.As(upserted, &panicked), "%v", upserted)
			}
		}
		rows, err := cl.Query(fresh(t), &query.Request{Statement: "SELECT 1", Readonly: true, Timeout: time.Second})
		if err == nil {
			_ = rows.Close()
		}
		for n := range 3 {
			require.NoError(t, m.CloseConns(n))
		}
		time.Sleep(time.Second)
	}
	require.NotZero(t, l.seen.Load())
	l.on.Store(false)
	time.Sleep(10 * time.Second)
	for i := range 12 {
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte{byte('a' + i)}})
		require.NoError(t, err)
	}
	rows, err := cl.Query(fresh(t), &query.Request{Statement: "SELECT 1", Readonly: true})
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	began := time.Now()
	require.NoError(t, cl.Close())
	require.Less(t, time.Since(began), time.Second)
}

// A function that kv.Go calls may end its goroutine too: others are called all the same, and Close has nothing to wait
// for.
func TestACallOfGoThatEndsItsGoroutine_D135(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
		c := onMock(t, m, func(*core.Config) {})
		b := c.Bucket("default")
		var called atomic.Int32
		for range 50 {
			kv.Go(fresh(t), b, kv.Upsert{Key: []byte("k")}, func(kv.MutationResult, error) {
				called.Add(1)
				runtime.Goexit()
			})
		}
		time.Sleep(time.Second)
		require.EqualValues(t, 50, called.Load())
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), time.Second)
	})
}

// Hooks of net/http/httptrace in the context of a request run on goroutines of net/http's: they are contained as well.
func TestHooksOfHTTPTrace_D135(t *testing.T) {
	for how, end := range map[string]func(){
		"end": runtime.Goexit, "panic": func() { panic("in a hook") },
		"work": func() {},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
				c := onMock(t, m, func(*core.Config) {})
				require.NoError(t, c.Bucket("default").WaitReady(fresh(t)))
				var hooks atomic.Int32
				act := func() {
					hooks.Add(1)
					end()
				}
				ctx := httptrace.WithClientTrace(within(t, time.Minute), &httptrace.ClientTrace{
					GetConn: func(string) { act() }, GotConn: func(httptrace.GotConnInfo) { act() },
					PutIdleConn:          func(error) { act() },
					GotFirstResponseByte: act, ConnectStart: func(string, string) { act() }, ConnectDone: func(string,
						string, error,
					) {
						act()
					},
					TLSHandshakeStart: act, WroteHeaderField: func(string, []string) { act() }, WroteHeaders: act,
					WroteRequest: func(httptrace.WroteRequestInfo) { act() },
					DNSStart:     func(httptrace.DNSStartInfo) { act() },
				})
				for range 3 {
					rows, err := c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: true})
					require.NoError(t, err)
					require.NoError(t, rows.Close())
				}
				require.NotZero(t, hooks.Load())
				require.NoError(t, c.Close())
			})
		})
	}
}

// A classification that ends its goroutine, or panics, has named no reason: the call fails at once with the server's
// answer.
func TestAClassificationThatGivesNoAnswerNamesNoReason_D135(t *testing.T) {
	for name, end := range map[string]func(){"ends": runtime.Goexit, "panics": func() { panic("in the callback") }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
				var asked atomic.Int32
				b := onMock(t, m, func(cfg *core.Config) {
					cfg.Retry.Classify = func(core.Answer) retry.Reason {
						asked.Add(1)
						end()
						return retry.Unknown
					}
				}).Bucket("default")
				require.NoError(t, b.WaitReady(fresh(t)))
				m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Status(memd.StatusInternal))
				began := time.Now()
				_, err := kv.Do(fresh(t), b, kv.Get{Key: []byte("k")})
				var e *kv.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, memd.StatusInternal, e.Status)
				require.Less(t, time.Since(began), 10*time.Millisecond)
				require.EqualValues(t, 1, asked.Load())
			})
		})
	}
}
