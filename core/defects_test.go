package core_test

import (
	"context"
	"net"
	"reflect"
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
			require.Zero(t, res.RetryInfo().Attempts)
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
			require.Zero(t, res.RetryInfo().Attempts)
			require.Equal(t, m.Node(2).Addr(), res.Endpoint)
		}
	})
}

// D56: calls that wait for a first connection are bounded; those beyond the bound have a reason at once.
func TestCallsThatWaitForAConnectionAreBounded_D56(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := core.Open(t.Context(), core.Config{Username: "u", QueueLimit: 10, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
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

// What is between the client and its operations, and takes calls in states that only they know.
var inner = map[string]bool{"Dispatch": true, "DispatchAll": true, "Release": true, "ReleaseAll": true}

// each calls every exported method of v with a context that ends soon and otherwise with nothing, and says how long it took.
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
		m.Func.Call(args)
		f(m.Name, contextual, time.Since(began))
		cancel()
	}
}

// D65: what can block takes a context and obeys it, while nobody answers; what takes none returns at once.
func TestWhatBlocksTakesAContext_D65(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := core.Open(t.Context(), core.Config{Username: "u", Hosts: []string{"h:1"}, HTTPHosts: []string{"h:2"}, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
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

// D41: every method may be called after Close, and returns.
func TestEveryMethodAfterClose_D41(t *testing.T) {
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
