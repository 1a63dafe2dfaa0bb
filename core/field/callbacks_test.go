package field_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// resolverFunc is a core.Resolver.
type resolverFunc func() ([]*net.SRV, error)

func (f resolverFunc) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	records, err := f()
	return "", records, err
}

// A resolver that gives an error beside good records, or nothing in their place, has given the good ones. One that
// gives nothing else, panics or ends its goroutine has found nothing; hosts of the configuration are tried all the
// same.
func TestPartialResultsOfAResolver_D135(t *testing.T) {
	good := &net.SRV{Target: "10.0.0.1.", Port: 11210}
	for name, c := range map[string]struct {
		found bool
		give  resolverFunc
	}{
		"a record and an error": {true, func() ([]*net.SRV, error) {
			return []*net.SRV{good},
				errors.New("and some were odd")
		}},
		"nothing in between": {true, func() ([]*net.SRV, error) { return []*net.SRV{nil, good, nil}, nil }},
		"both": {true, func() ([]*net.SRV, error) {
			return []*net.SRV{nil, good},
				errors.New("and some were odd")
		}},
		"nothing at all": {false, func() ([]*net.SRV, error) { return nil, nil }},
		"only nothing":   {false, func() ([]*net.SRV, error) { return []*net.SRV{nil}, nil }},
		"a panic":        {false, func() ([]*net.SRV, error) { panic("in the resolver") }},
		"the end of its goroutine": {false, func() ([]*net.SRV, error) {
			runtime.Goexit()
			return nil, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
				require.Contains(t, m.ConnString(), "10.0.0.1")
				c := onMock(t, m, func(cfg *core.Config) {
					cfg.Seeds.SRV, cfg.Seeds.Resolver = "_couchbase._tcp.example.com", c.give
					if c.found {
						cfg.Seeds.Hosts = []string{"10.9.9.9"} // an address without a listener
					}
				})
				require.NoError(t, c.Bucket("default").WaitReady(fresh(t)))
			})
		})
	}
}

// oddConn is a connection whose methods do what act does.
type oddConn struct {
	net.Conn
	act    func(method string)
	closed *atomic.Int32
}

func (c *oddConn) Read(b []byte) (int, error)  { c.act("Read"); return c.Conn.Read(b) }
func (c *oddConn) Write(b []byte) (int, error) { c.act("Write"); return c.Conn.Write(b) }
func (c *oddConn) RemoteAddr() net.Addr        { c.act("RemoteAddr"); return c.Conn.RemoteAddr() }
func (c *oddConn) LocalAddr() net.Addr         { c.act("LocalAddr"); return c.Conn.LocalAddr() }

func (c *oddConn) SetDeadline(t time.Time) error {
	c.act("SetDeadline")
	return c.Conn.SetDeadline(t)
}

func (c *oddConn) SetReadDeadline(t time.Time) error {
	c.act("SetReadDeadline")
	return c.Conn.SetReadDeadline(t)
}

func (c *oddConn) SetWriteDeadline(t time.Time) error {
	c.act("SetWriteDeadline")
	return c.Conn.SetWriteDeadline(t)
}

func (c *oddConn) Close() error {
	defer c.closed.Add(1)
	defer c.Conn.Close()
	c.act("Close")
	return nil
}

// A connection that the user's Dial gives may panic in any method, at any time: that ends the connection and nothing
// else.
func TestAConnectionThatPanics_D135(t *testing.T) {
	for _, method := range []string{
		"Read", "Write", "RemoteAddr", "LocalAddr", "SetDeadline", "SetReadDeadline",
		"SetWriteDeadline", "Close",
	} {
		for name, after := range map[string]int32{"at once": 0, "later": 8} {
			t.Run(method+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual())
					var calls, left, closed atomic.Int32
					left.Store(3) // panics
					act := func(called string) {
						if called == method && calls.Add(1) > after && left.Add(-1) >= 0 {
							panic("in the connection's " + method)
						}
					}
					c := onMock(t, m, func(cfg *core.Config) {
						cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
							nc, err := m.Dial(ctx, network, addr)
							if err != nil {
								return nil, err
							}
							return &oddConn{nc, act, &closed}, nil
						}
					})
					for i := range 20 {
						_, err := kv.Do(fresh(t), c.Bucket("default"), kv.Get{
							Key:    []byte{byte('a' + i)},
							Common: kv.Common{Timeout: 5 * time.Second},
						})
						require.ErrorContains(t, err, "not found")
						if i%5 == 0 {
							require.NoError(t, m.CloseConns(i%2))
						}
					}
					rows, err := c.Query(fresh(t), &query.Request{Statement: "SELECT 1", Readonly: true})
					if err == nil {
						err = rows.Close()
					}
					require.NoError(t, err)
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

// A dialer that gives a connection and an error has failed, and what it gave is closed. A nil of its own type is no
// connection.
func TestADialerThatGivesHalf_D135(t *testing.T) {
	for name, give := range map[string]func(nc net.Conn, closed *atomic.Int32) (net.Conn, error){
		"both": func(nc net.Conn, closed *atomic.Int32) (net.Conn, error) {
			return &oddConn{nc, func(string) {}, closed}, errors.New("and an error")
		},
		"a nil of a type": func(nc net.Conn, closed *atomic.Int32) (net.Conn, error) {
			closed.Add(1)
			_ = nc.Close()
			return (*oddConn)(nil), nil
		},
		"a nil TCP connection": func(nc net.Conn, closed *atomic.Int32) (net.Conn, error) {
			closed.Add(1)
			_ = nc.Close()
			return (*net.TCPConn)(nil), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
				var dials, closed atomic.Int32
				c := onMock(t, m, func(cfg *core.Config) {
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						nc, err := m.Dial(ctx, network, addr)
						if err == nil && dials.Add(1) <= 2 {
							return give(nc, &closed)
						}
						return nc, err
					}
				})
				require.NoError(t, c.Bucket("default").WaitReady(fresh(t)))
				require.EqualValues(t, 2, closed.Load())
			})
		})
	}
}

// stuckConn is a connection whose methods do not come back once it is stuck, until the test ends.
type stuckConn struct {
	net.Conn
	close bool // Close does not come back either
	stuck *atomic.Bool
	end   chan struct{}
}

func (c *stuckConn) Write(b []byte) (int, error) {
	if c.stuck.Load() {
		<-c.end
	}
	return c.Conn.Write(b)
}

func (c *stuckConn) Close() error {
	if c.close && c.stuck.Load() {
		<-c.end
	}
	return c.Conn.Close()
}

// Methods of a connection that the user's Dial gives may not come back. Calls end by their deadlines all the same, and
// Close of the cluster in its time.
func TestAConnectionThatDoesNotComeBack_D135(t *testing.T) {
	for name, closes := range map[string]bool{"Write": false, "Write and Close": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
				var stuck atomic.Bool
				end := make(chan struct{})
				c := onMock(t, m, func(cfg *core.Config) {
					cfg.CloseTimeout = time.Second
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						nc, err := m.Dial(ctx, network, addr)
						if err != nil {
							return nil, err
						}
						return &stuckConn{nc, closes, &stuck, end}, nil
					}
				})
				b := c.Bucket("default")
				require.NoError(t, b.WaitReady(fresh(t)))
				began := time.Now()
				var calls sync.WaitGroup
				stuck.Store(true)
				for i, timeout := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
					calls.Go(func() {
						_, err := kv.Do(context.Background(), b, kv.Get{
							Key:    []byte{byte('a' + i)},
							Common: kv.Common{Timeout: timeout},
						})
						if err == nil || time.Since(began) > timeout+10*time.Millisecond {
							t.Errorf("%v after %v: %v", timeout, time.Since(began), err)
						}
					})
				}
				time.Sleep(500 * time.Millisecond)
				require.NoError(t, m.CloseConns(0))
				calls.Wait()
				began = time.Now()
				if err := c.Close(); err != nil {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorContains(t, err, `bucket "default"`)
				}
				require.LessOrEqual(t, time.Since(began), 2*time.Second)
				close(end)
			})
		})
	}
}

// Numbers for jitter and for choosing nodes may be anything.
func TestOddDice_D135(t *testing.T) {
	for name, random := range map[string]func() float64{
		"below": func() float64 { return -1 }, "far below": func() float64 { return math.Inf(-1) },
		"one":   func() float64 { return 1 },
		"above": func() float64 { return 1e300 }, "far above": func() float64 { return math.Inf(1) }, "none": math.NaN,
		"a panic": func() float64 { panic("in the random") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Bucket("default", 16), mock.Virtual())
				began := time.Now()
				c := onMock(t, m, func(cfg *core.Config) { cfg.Retry.JitterSource = random })
				b := c.Bucket("default")
				for node := range 3 {
					m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
					_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
					require.NoError(t, err)
					require.NoError(t, m.CloseConns(node))
				}
				for _, hedge := range []*core.Hedge{nil, {MaxAttempts: 2, Delay: time.Millisecond}} {
					rows, err := c.Query(fresh(t), &query.Request{Statement: "SELECT 1", Readonly: true, Hedge: hedge})
					require.NoError(t, err)
					require.NoError(t, rows.Close())
				}
				require.NoError(t, c.Close())
				require.Less(t, time.Since(began), 2*time.Second)
			})
		})
	}
}

// A zero logger, a nil handler and a handler that panics discard.
func TestOddLogHandlers_D135(t *testing.T) {
	for name, log := range map[string]*slog.Logger{
		"zero": {}, "a nil handler": slog.New((*slog.TextHandler)(nil)), "panics": slog.New(panickingHandler{}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
				c := onMock(t, m, func(cfg *core.Config) { cfg.Observe.Log = log })
				require.NoError(t, c.Bucket("default").WaitReady(fresh(t)))
				require.NoError(t, m.CloseConns(0))
				time.Sleep(time.Second)
				require.NoError(t, c.Close())
			})
		})
	}
}

type panickingHandler struct{}

func (panickingHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (panickingHandler) Handle(context.Context, slog.Record) error { panic("in the handler") }
func (panickingHandler) WithAttrs([]slog.Attr) slog.Handler        { return nil }
func (panickingHandler) WithGroup(string) slog.Handler             { return nil }

// Providers of spans and metrics whose parts give nothing, or panic.
type (
	tracers struct {
		nooptrace.TracerProvider
		give trace.Tracer
	}
	emptyTracer struct{ nooptrace.Tracer }
	panicTracer struct{ nooptrace.Tracer }
	meters      struct {
		noopmetric.MeterProvider
		give metric.Meter
	}
	emptyMeter struct{ noopmetric.Meter }
	panicMeter struct{ noopmetric.Meter }
)

func (p tracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return p.give }

func (emptyTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	return nil, nil
}

func (panicTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic("in the tracer")
}

func (p meters) Meter(string, ...metric.MeterOption) metric.Meter { return p.give }

func (emptyMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, nil
}

func (panicMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	panic("in the meter")
}

// Telemetry that gives nothing or panics is left out.
func TestOddTelemetry_D135(t *testing.T) {
	for name, change := range map[string]func(*core.Config){
		"a nil tracer":     func(cfg *core.Config) { cfg.Observe.TracerProvider = tracers{} },
		"nil spans":        func(cfg *core.Config) { cfg.Observe.TracerProvider = tracers{give: emptyTracer{}} },
		"panicking spans":  func(cfg *core.Config) { cfg.Observe.TracerProvider = tracers{give: panicTracer{}} },
		"a nil provider":   func(cfg *core.Config) { cfg.Observe.TracerProvider = (*tracers)(nil) },
		"a nil meter":      func(cfg *core.Config) { cfg.Observe.MeterProvider = meters{} },
		"nil instruments":  func(cfg *core.Config) { cfg.Observe.MeterProvider = meters{give: emptyMeter{}} },
		"panicking meters": func(cfg *core.Config) { cfg.Observe.MeterProvider = meters{give: panicMeter{}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual())
				c := onMock(t, m, change)
				upserted, queried := writeAndQuery(t, c)
				require.NoError(t, upserted)
				require.NoError(t, queried)
				hedge := &core.Hedge{MaxAttempts: 2, Delay: time.Millisecond}
				rows, err := c.Query(fresh(t), &query.Request{Statement: "SELECT 1", Readonly: true, Hedge: hedge})
				require.NoError(t, err)
				require.NoError(t, rows.Close())
			})
		})
	}
}

// A provider of credentials that panics, ends its goroutine, or gives an error beside credentials has failed: nothing
// is sent.
func TestHalfCredentials_D135(t *testing.T) {
	for name, give := range map[string]func() (core.Credentials, error){
		"a panic": func() (core.Credentials, error) { panic("in the provider") },
		"an error beside": func() (core.Credentials, error) {
			return core.Credentials{Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword)},
				errors.New("revoked")
		},
		"the end of its goroutine": func() (core.Credentials, error) {
			runtime.Goexit()
			return core.Credentials{}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
				var asked atomic.Int32
				c := onMock(t, m, func(cfg *core.Config) {
					cfg.Auth.Username, cfg.Auth.Password = "", core.Secret{}
					cfg.Auth.Credentials = func(context.Context) (core.Credentials, error) {
						if asked.Add(1) <= 2 {
							return give()
						}
						return core.Credentials{
							Username: mock.DefaultUser,
							Password: core.NewSecret(mock.DefaultPassword),
						}, nil
					}
				})
				b := c.Bucket("default")
				time.Sleep(time.Millisecond)
				require.Zero(t, m.Frames(memd.OpHello), "nothing is sent without credentials")
				_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{
					Timeout: 5 * time.Second,
					Retry:   retry.BestEffort{},
				}})
				require.NoError(t, err)
			})
		})
	}
}

// oddStrategy is a strategy whose methods do what its fields do.
type oddStrategy struct {
	inline func() bool
	after  func() retry.Action
}

func (s *oddStrategy) Inline() bool { return s.inline() }

func (s *oddStrategy) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return s.after()
}

// Strategies and classifiers that panic or answer something odd fail the call that they are asked about.
func TestOddStrategiesAndClassifiers_D135(t *testing.T) {
	action := func() retry.Action { return retry.Action{} }
	panics := func() retry.Action { panic("in the strategy") }
	yes, no := func() bool { return true }, func() bool { return false }
	for name, s := range map[string]retry.Strategy{
		"a nil of a type":    (*oddStrategy)(nil),
		"a zero action":      &oddStrategy{yes, action},
		"a panic":            &oddStrategy{yes, panics},
		"a panic elsewhere":  &oddStrategy{no, panics},
		"a panic when asked": &oddStrategy{func() bool { panic("in Inline") }, action},
		"a negative delay":   &oddStrategy{yes, func() retry.Action { return retry.After(-time.Hour) }},
		"a panicking backoff": retry.BestEffort{Backoff: func(int,
			time.Duration,
		) time.Duration {
			panic("in the backoff")
		}},
		"the goroutine's end": &oddStrategy{no, func() retry.Action { runtime.Goexit(); return retry.Stop() }},
	} {
		t.Run(name, func(t *testing.T) {
			virtualMock(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
				began := time.Now()
				_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: s}})
				require.Less(t, time.Since(began), time.Second)
				require.Equal(t, name == "a negative delay", err == nil, "%v", err)
				_, err = kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
				require.NoError(t, err)
			})
		})
	}
	for name, classify := range map[string]func(core.Answer) retry.Reason{
		"an unknown reason": func(core.Answer) retry.Reason { return 250 },
		"a panic":           func(core.Answer) retry.Reason { panic("in the classifier") },
	} {
		t.Run("a classifier: "+name, func(t *testing.T) {
			virtualMock(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Status(memd.StatusInternal))
				_, err := kv.Do(fresh(t), b, kv.Get{Key: []byte("k")})
				require.Error(t, err)
				_, err = kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
				require.NoError(t, err)
			}, func(cfg *core.Config) { cfg.Retry.Classify = classify })
		})
	}
}
