package conn_test

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// An answer that comes before its request has been written answers nothing: the number goes on waiting, and the call
// has the answer that comes after it.
func TestAnAnswerBeforeItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := dispatcherOver(t, struct{ net.Conn }{near})
		first := kv.Start(t.Context(), d, kv.Get{Key: []byte("first")})
		synctest.Wait() // it is being written
		second := kv.Start(t.Context(), d, kv.Get{Key: []byte("second")})
		p := &peer{numbers: map[uint32]int{}}
		next := uint32(conn.FirstSlot + 1<<16 | 1)
		overtaken := p.answer(nil, &memd.Packet{Opcode: memd.OpGet, Opaque: next, Key: []byte("early")})
		_, err := far.Write(overtaken)
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 1, d.cn.Stats.Orphans.Load())
		go p.serve(far)
		for want, f := range map[string]kv.Future[kv.GetResult]{"first": first, "second": second} {
			res, err := f.Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, string(res.Value))
		}
		require.Equal(t, 1, p.numbers[next], "the number that was answered early is the second request's")
	})
}

// An answer that comes a second time, when its number's slot has another request, does not answer that.
func TestAnAnswerThatComesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		d := dispatcherOver(t, struct{ net.Conn }{near})
		var p peer
		go p.serve(far)
		res, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("first")})
		require.NoError(t, err)
		require.Equal(t, "first", string(res.Value))
		synctest.Wait() // the slot is free again
		second := kv.Start(t.Context(), d, kv.Get{Key: []byte("held")})
		synctest.Wait()
		numbers := map[uint32]int{conn.FirstSlot | 1: 1, conn.FirstSlot | 2: 1}
		require.Equal(t, numbers, p.numbers, "one slot, and the next number of it")
		again, err := (&memd.Packet{
			Magic: memd.MagicRes, Opcode: memd.OpGet, Opaque: conn.FirstSlot | 1, Extras: make([]byte, 4),
			Value: []byte("first"),
		}).AppendTo(nil)
		require.NoError(t, err)
		_, err = far.Write(again)
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 1, d.cn.Stats.Orphans.Load())
		_, err = kv.Do(t.Context(), d, kv.Get{Key: []byte("release")})
		require.NoError(t, err)
		held, err := second.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, "held", string(held.Value))
	})
}
