package kv_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// holder keeps deadlines, and counts those that it was told to forget.
type holder struct {
	*fake
	letGo atomic.Int32
}

// Runner implements kv.Dispatcher.
func (x *holder) Runner() call.Runner { return x }

func (h *holder) LetGo(*call.Call) bool {
	h.letGo.Add(1)
	return true
}

// watched is a context that counts who stops watching it.
type watched struct {
	context.Context
	stopped atomic.Int32
}

// Value hides what it is made of, which the context package would watch instead.
func (*watched) Value(any) any { return nil }

func (w *watched) AfterFunc(f func()) func() bool {
	stop := context.AfterFunc(w.Context, f)
	return func() bool {
		w.stopped.Add(1)
		return stop()
	}
}

// When a reader has finished a call that was retried, its owner has forgotten its deadline, and its context the call.
func TestAFinishedCallIsForgotten(t *testing.T) {
	for name, known := range map[string]func(*call.Call){"lent": (*call.Call).Lend, "watched": (*call.Call).Watch} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " in a batch: ", batch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var asked atomic.Pointer[call.Call]
					h := &holder{}
					h.fake = newFake(func(c *call.Call) {
						send(c)
						require.True(t, c.MarkHeld())
						known(c)
						asked.Store(c)
					})
					h.home.Owner = h
					inner, cancel := context.WithCancel(t.Context())
					defer cancel()
					ctx := &watched{Context: inner}
					var ended atomic.Bool
					var o kv.Outcome[kv.MutationResult]
					go func() {
						defer ended.Store(true)
						op := kv.Upsert{Key: []byte("k"), Value: []byte("v")}
						if batch {
							o = kv.Batch(ctx, h, []kv.Upsert{op}, 0)[0]
						} else {
							o.Result, o.Err = kv.Do(ctx, h, op)
						}
					}()
					synctest.Wait()
					c := asked.Load()
					require.True(t, c.Held())
					epoch, _ := c.State.Sent()
					require.True(t, c.Win(epoch, &memd.Packet{Opcode: memd.OpSet, CAS: 7}, false))
					require.EqualValues(t, 1, h.letGo.Load())
					require.False(t, c.Held())
					require.EqualValues(t, map[string]int{"watched": 1}[name], ctx.stopped.Load(), "its context")
					synctest.Wait()
					require.True(t, ended.Load())
					require.NoError(t, o.Err)
					require.EqualValues(t, 7, o.Result.CAS)
				})
			})
		}
	}
}
