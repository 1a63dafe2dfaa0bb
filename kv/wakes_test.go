package kv_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// lenders lends memory to many reads at a time.
type lenders struct {
	*lender
	mu  sync.Mutex
	all []*kv.Reads
}

func (l *lenders) NewReads() *kv.Reads {
	r := &kv.Reads{}
	r.SetCollection(0)
	return r
}

func (l *lenders) DispatchReads(r *kv.Reads) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r)
}

func (l *lenders) dispatched() []*kv.Reads {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

// What a reader has gathered is told when it flushes, or when that is as much as it gathers. Nobody keeps anything of the
// packets' memory.
func TestAReaderTellsWhatItHasGathered(t *testing.T) {
	for _, batches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const many, full = 39, 32
			l := &lenders{lender: newLender()}
			var ended atomic.Int32
			got, errs, buf := make([]kv.GetResult, many), make([]error, many), make([][]byte, many)
			for i := range many {
				if i%3 == 1 {
					buf[i] = make([]byte, 1, 20)
				}
				go func() {
					op := kv.Get{Key: []byte("k"), Into: buf[i]}
					if batches {
						o := kv.Batch(context.Background(), l, []kv.Get{op}, 0)[0]
						got[i], errs[i] = o.Result, o.Err
					} else {
						got[i], errs[i] = kv.Do(context.Background(), l, op)
					}
					ended.Add(1)
				}()
				synctest.Wait()
			}
			var w kv.Wakes
			packets := make([]byte, 0, 100*many)
			for i, r := range l.dispatched() {
				from := len(packets)
				packets = fmt.Appendf(packets, "value %02d", i)
				p := memd.Packet{Opcode: memd.OpGet, CAS: uint64(i + 1), Extras: []byte{0, 0, 1, byte(i)}, Value: packets[from:], Datatype: memd.DatatypeJSON}
				require.True(t, r.Win(0, &p, false, fakeVia, &w))
			}
			synctest.Wait()
			require.LessOrEqual(t, int(ended.Load()), full, "the rest is gathered")
			if !batches {
				require.EqualValues(t, full, ended.Load())
			}
			w.Flush()
			clear(packets[:cap(packets)])
			synctest.Wait()
			require.EqualValues(t, many, ended.Load())
			for i, g := range got {
				require.NoError(t, errs[i])
				want := fmt.Sprintf("value %02d", i)
				if buf[i] != nil {
					require.Same(t, &buf[i][0], &g.Value[0])
					want = "\x00" + want
				}
				require.Equal(t, want, string(g.Value))
				require.EqualValues(t, i+1, g.CAS)
				require.EqualValues(t, 256+i, g.Flags)
				require.Equal(t, memd.DatatypeJSON, g.Datatype)
				require.Equal(t, fakeVia.Endpoint, g.Endpoint())
			}
			w.Flush() // once
			synctest.Wait()
		})
	}
}

// What has been told is forgotten: an idle connection would keep the memory that answers came in, and what callers asked for.
func TestAReaderForgetsWhatItHasTold(t *testing.T) {
	l := &lenders{lender: newLender()}
	var w kv.Wakes
	packet := []byte("a value of an answer")
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = kv.Do(context.Background(), l, kv.Get{Key: []byte("k")})
	}()
	for len(l.dispatched()) == 0 {
		runtime.Gosched()
	}
	r := l.all[0]
	require.True(t, r.Win(0, &memd.Packet{Opcode: memd.OpGet, Extras: make([]byte, 4), Value: packet}, false, fakeVia, &w))
	w.Flush()
	<-asked
	read, answer := weak.Make(r), weak.Make(&packet[0])
	r, packet, l.all = nil, nil, nil
	runtime.GC()
	require.Nil(t, answer.Value())
	require.Nil(t, read.Value())
	runtime.KeepAlive(&w)
}

// A call that is waited for has finished when the reader flushes, too.
func TestAReaderGathersCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, full = 20, 16
		var mu sync.Mutex
		var calls []*kv.Call
		d := newFake(func(c *kv.Call) {
			send(c)
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, c)
		})
		var ended, well atomic.Int32
		for range many {
			go func() {
				res, err := kv.Do(context.Background(), d, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
				if err == nil && res.CAS == 7 {
					well.Add(1)
				}
				ended.Add(1)
			}()
			synctest.Wait()
		}
		var w kv.Wakes
		mu.Lock()
		defer mu.Unlock()
		for _, c := range calls {
			epoch, _ := c.State.Sent()
			require.True(t, c.Win(epoch, &memd.Packet{Opcode: memd.OpSet, CAS: 7}, false, &w))
		}
		synctest.Wait()
		require.EqualValues(t, full, ended.Load())
		w.Flush()
		synctest.Wait()
		require.EqualValues(t, many, ended.Load())
		require.EqualValues(t, many, well.Load())
	})
}

// holder keeps deadlines, and counts those that it was told to forget.
type holder struct {
	*fake
	letGo atomic.Int32
}

func (h *holder) LetGo(*kv.Call) bool {
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

// So has one that others know of, as one that was retried: its owner has forgotten its deadline by then, and its context the call.
func TestAReaderGathersCallsThatOthersKnowOf(t *testing.T) {
	for name, known := range map[string]func(*kv.Call){"lent": (*kv.Call).Lend, "watched": (*kv.Call).Watch} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " in a batch: ", batch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var asked atomic.Pointer[kv.Call]
					h := &holder{}
					h.fake = newFake(func(c *kv.Call) {
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
					var w kv.Wakes
					require.True(t, c.Win(epoch, &memd.Packet{Opcode: memd.OpSet, CAS: 7}, false, &w))
					require.EqualValues(t, 1, h.letGo.Load())
					require.False(t, c.Held())
					synctest.Wait()
					require.False(t, ended.Load(), "it is gathered")
					require.EqualValues(t, map[string]int{"watched": 1}[name], ctx.stopped.Load(), "its context")
					w.Flush()
					synctest.Wait()
					require.True(t, ended.Load())
					require.NoError(t, o.Err)
					require.EqualValues(t, 7, o.Result.CAS)
				})
			})
		}
	}
}
