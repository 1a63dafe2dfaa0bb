package core_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// D39: calls that wait for a connection that is being made anew leave with it, and not by their deadlines.
func TestQueuedCallsOutliveAReconnect_D39(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
		require.NoError(t, err)
		m.Inject(only(memd.OpHello, 1), mock.Delay(50*time.Millisecond))
		require.NoError(t, m.CloseConns(0))
		synctest.Wait()
		began := time.Now()
		var fs []kv.Future[kv.MutationResult]
		for range 100 {
			fs = append(fs, kv.Start(ctx(t), b, kv.Upsert{Key: key}))
		}
		for _, f := range fs {
			res, err := f.Wait(ctx(t))
			require.NoError(t, err)
			require.Zero(t, res.RetryInfo().Counted)
		}
		require.Equal(t, 50*time.Millisecond, time.Since(began))
	})
}

// D49: a node that leaves answers what was sent to it before.
func TestANodeThatLeavesAnswersFirst_D49(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(2).Addr())
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
		require.NoError(t, err)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Nodes: []int{2}}, mock.DelayReply(6*time.Second))
		var fs []kv.Future[kv.GetResult]
		for range 50 {
			fs = append(fs, kv.Start(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: 9 * time.Second}}))
		}
		synctest.Wait()
		require.NoError(t, m.RemoveNode(2))
		time.Sleep(4 * time.Second)
		mp, _ := b.Map()
		require.Len(t, mp.Nodes, 2)
		for _, f := range fs {
			res, err := f.Wait(ctx(t))
			require.NoError(t, err)
			require.Zero(t, res.RetryInfo().Counted)
			require.Equal(t, m.Node(2).Addr(), res.Endpoint())
		}
	})
}

// D56: calls that wait for a first connection are bounded; those beyond the bound have a reason at once.
func TestCallsThatWaitForAConnectionAreBounded_D56(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := core.Open(t.Context(), core.Config{
			Net: core.NetConfig{
				Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
			},
			Auth:   core.AuthConfig{Username: "u"},
			Limits: core.LimitConfig{Queue: 10},
		})
		require.NoError(t, err)
		never := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
		waiting := 0
		var fs []kv.Future[kv.GetResult]
		for range 1000 {
			fs = append(fs, kv.Start(ctx(t), c.Bucket("b"), kv.Get{Key: []byte("k"), Common: kv.Common{Retry: never}}))
		}
		synctest.Wait()
		for _, f := range fs {
			select {
			case <-f.Done():
			default:
				waiting++
			}
		}
		require.Equal(t, 160, waiting)
		require.NoError(t, c.Close())
		for _, f := range fs {
			_, err := f.Wait(ctx(t))
			require.Error(t, err)
		}
	})
}

// watched remembers the calls that are made.
type watched struct {
	*core.Bucket
	calls []weak.Pointer[call.Call]
}

// Runner implements kv.Dispatcher.
func (w *watched) Runner() call.Runner { return watchedRunner{w.Bucket.Runner(), w} }

// watchedRunner is the bucket's runner but for the calls that it makes.
type watchedRunner struct {
	call.Runner
	w *watched
}

func (r watchedRunner) NewCall() *call.Call {
	c := call.NewCall() // a new one, which no other call has used
	r.w.calls = append(r.w.calls, weak.Make(c))
	return c
}

// alive is how many of the calls are still referred to.
func (w *watched) alive() (n int) {
	for range 3 {
		runtime.GC()
	}
	for _, c := range w.calls {
		if c.Value() != nil {
			n++
		}
	}
	return n
}

// D58: a call that has ended is forgotten, also one that has waited for a connection or for its retry on the way and
// would have had an hour left.
func TestAnEndedCallIsForgotten_D58(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(m *mock.Cluster)
		ends    error
	}{
		"answered": {func(*mock.Cluster) {}, nil},
		"retried":  {func(m *mock.Cluster) { m.Inject(only(memd.OpSet, 50), mock.Status(memd.StatusTmpFail)) }, nil},
		"queued": {func(m *mock.Cluster) {
			m.Inject(only(memd.OpHello, 0), mock.Delay(50*time.Millisecond))
			_ = m.CloseConns(0)
			synctest.Wait()
		}, nil},
		"refused": {
			func(m *mock.Cluster) { m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTooBig)) },
			cberr.ValueTooLarge,
		},
		"canceled": {
			func(m *mock.Cluster) { m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail)) },
			cberr.RequestCanceled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			limited(t, func(cfg *core.Config) { cfg.Retry.Strategy = retry.BestEffort{} },
				func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
					require.NoError(t, b.WaitReady(ctx(t)))
					w := &watched{Bucket: b}
					c.arrange(m)
					long, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					func() {
						var fs []kv.Future[kv.MutationResult]
						for range 50 {
							fs = append(fs, kv.Start(long, w, kv.Upsert{
								Key:    []byte("k"),
								Common: kv.Common{Timeout: time.Hour},
							}))
						}
						if errors.Is(c.ends, cberr.RequestCanceled) {
							time.Sleep(time.Second)
							for _, f := range fs {
								f.Cancel()
							}
						}
						for _, f := range fs {
							_, err := f.Wait(long)
							require.ErrorIs(t, err, c.ends)
						}
					}()
					_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("other")})
					require.Error(t, err)
					time.Sleep(time.Second)
					require.Zero(t, w.alive())
				})
		})
	}
}

// What is between the client and its operations, and takes calls in states that only they know; and what package fmt
// alone calls.
var inner = map[string]bool{"Dispatch": true, "DispatchAll": true, "Release": true, "Format": true}

// each calls every exported method of v with a context that ends soon and otherwise with nothing, and says how long it
// took.
func each(t *testing.T, v any, f func(name string, contextual bool, took time.Duration)) {
	typ := reflect.TypeOf(v)
	for i := range typ.NumMethod() {
		m := typ.Method(i)
		if inner[m.Name] || m.Name == "Close" {
			continue
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		args, contextual := []reflect.Value{reflect.ValueOf(v)}, false
		for j := 1; j < m.Type.NumIn(); j++ {
			in := m.Type.In(j)
			switch {
			case m.Type.IsVariadic() && j == m.Type.NumIn()-1:
			case in == reflect.TypeFor[context.Context]():
				args, contextual = append(args, reflect.ValueOf(short)), true
			case in.Kind() == reflect.Pointer:
				args = append(args, reflect.New(in.Elem()))
			case in.Kind() == reflect.Func:
				args = append(args, reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value { return nil }))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		began := time.Now()
		returned, patience := make(chan struct{}), time.NewTimer(time.Minute)
		go func() {
			m.Func.Call(args)
			close(returned)
		}()
		select {
		case <-returned:
			patience.Stop()
		case <-patience.C:
			t.Fatalf("%s does not return", m.Name)
		}
		f(m.Name, contextual, time.Since(began))
		cancel()
	}
}

// D65: what can block takes a context and obeys it, while there is no answer; what takes none returns at once.
func TestWhatBlocksTakesAContext_D65(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := core.Open(t.Context(), core.Config{
			Seeds: core.SeedConfig{Hosts: []string{"h:1"}, HTTPHosts: []string{"h:2"}},
			Net: core.NetConfig{
				Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
			},
			Auth: core.AuthConfig{Username: "u"},
		})
		require.NoError(t, err)
		for _, v := range []any{c, c.Bucket("b")} {
			each(t, v, func(name string, contextual bool, took time.Duration) {
				if !contextual {
					require.Zero(t, took, name)
				}
				require.LessOrEqual(t, took, 105*time.Millisecond, name)
			})
		}
		require.NoError(t, c.Close())
	})
}

// D41: a scan goes on over the connection that began it. While that one is being made again, the scan has no
// connection, and what goes on is told so at once.
func TestAScanGoesOnWhileItsConnectionIsMadeAnew_D41(t *testing.T) {
	for _, conns := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 8), mock.Virtual())
			c := open(t, m, func(cfg *core.Config) {
				cfg.KV.Connections, cfg.Maps.PollInterval = conns,
					300*time.Millisecond
			})
			b := c.Bucket("default")
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
			require.NoError(t, err)
			vb, _, _ := b.Locate([]byte("k"))
			scan, err := kv.Do(ctx(t), b, kv.RangeScanCreate{VBucket: vb, Range: &kv.ScanRange{}})
			require.NoError(t, err)
			m.Inject(only(memd.OpHello, 0), mock.Delay(time.Second))
			require.NoError(t, m.CloseConns(0))
			synctest.Wait()
			began := time.Now()
			var gone *call.ConnectionGoneError
			_, err = kv.Do(ctx(t), b, kv.RangeScanContinue{Scan: scan})
			require.ErrorAs(t, err, &gone)
			_, err = kv.Do(ctx(t), b, kv.RangeScanCancel{Scan: scan})
			require.ErrorAs(t, err, &gone)
			for _, s := range b.Status() {
				require.False(t, s.Connected)
			}
			_ = c.Diagnostics()
			require.NoError(t, c.SetCredentials(core.Credentials{
				Username: "Administrator",
				Password: core.NewSecret("password"),
			}))
			require.Zero(t, time.Since(began))
			require.NoError(t, b.WaitReady(ctx(t)))
			_, err = kv.Do(ctx(t), b, kv.RangeScanContinue{Scan: scan})
			require.ErrorAs(t, err, &gone)
		})
	}
}

// D41: every method may be called before anything is connected and after Close, and returns.
func TestEveryMethodAfterClose_D41(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := core.Open(t.Context(), core.Config{
			Seeds: core.SeedConfig{Hosts: []string{"h:1"}},
			Net: core.NetConfig{
				Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
			},
			Auth: core.AuthConfig{Username: "u"},
		})
		require.NoError(t, err)
		b := c.Bucket("b")
		for range 2 {
			for _, v := range []any{c, b} {
				each(t, v, func(name string, _ bool, took time.Duration) {
					require.LessOrEqual(t, took, 105*time.Millisecond, name)
				})
			}
			time.Sleep(10 * time.Second)
			require.NoError(t, c.Close())
		}
	})
	virtual(t, func(t *testing.T, m *mock.Cluster, _ *core.Bucket) {
		c := open(t, m)
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		require.NoError(t, c.Close())
		for _, v := range []any{c, b} {
			each(t, v, func(name string, _ bool, took time.Duration) {
				require.LessOrEqual(t, took, 105*time.Millisecond, name)
			})
		}
	})
}
