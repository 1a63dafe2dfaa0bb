package kv_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// echo answers a read of key k-N after some time with the key itself; keys that end in 7 are missing.
func echo(inFlight *atomic.Int32, most *atomic.Int32) *fake {
	return newFake(func(c *call.Call) {
		c.Share()
		c.State.Sent()
		c.Watch()
		if n := inFlight.Add(1); n > most.Load() {
			most.Store(n)
		}
		key := string(c.Req.Key)
		time.AfterFunc(time.Duration(key[len(key)-1]%5)*time.Millisecond, func() {
			inFlight.Add(-1)
			if !c.State.Answered(c.State.Epoch()) {
				return
			}
			p := &memd.Packet{Opcode: c.Req.Opcode, Extras: be32, Value: []byte(key)}
			if key[len(key)-1] == '7' {
				p.Status = memd.StatusKeyNotFound
			}
			give(c, p)
		})
	})
}

func keysOf(n int) (keys [][]byte) {
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, "k-%d", i))
	}
	return keys
}

func TestABatchGivesOutcomesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		keys := keysOf(5000)
		out := kv.GetMulti(testContext(t), echo(&now, &most), kv.Common{}, keys)
		require.Len(t, out, len(keys))
		for i, o := range out {
			if i%10 == 7 {
				require.ErrorIs(t, o.Err, cberr.DocumentNotFound)
				continue
			}
			require.NoError(t, o.Err)
			require.Equal(t, string(keys[i]), string(o.Result.Value))
		}
		require.LessOrEqual(t, most.Load(), int32(kv.DefaultInFlight))
		require.Greater(t, most.Load(), int32(kv.DefaultInFlight/2))
	})
}

func TestABatchOfWrites(t *testing.T) {
	out := kv.UpsertMulti(testContext(t), answering(memd.Packet{CAS: cas, Extras: tokenOf}),
		[]kv.Upsert{{Key: []byte("a")}, {}, {Key: []byte("b")}})
	require.NoError(t, out[0].Err)
	require.EqualValues(t, 9, out[0].Result.Token.Seqno)
	require.ErrorIs(t, out[1].Err, cberr.InvalidArgument, "each operation fails for itself")
	require.NoError(t, out[2].Err)
	require.Empty(t, kv.Batch(testContext(t), refusing(memd.StatusInvalid, 0, ""), []kv.Get{}, 0))
}

// A batch without end takes memory for what is under way and no more.
func TestABatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, made atomic.Int32
		endless := func(yield func(kv.Get) bool) {
			for yield(kv.Get{Key: fmt.Appendf(nil, "k-%d0", made.Add(1))}) {
			}
		}
		given := int32(0)
		for r, err := range kv.BatchSeq(testContext(t), echo(&now, &most), iter.Seq[kv.Get](endless), 16) {
			require.NoError(t, err)
			given++
			require.Equal(t, fmt.Sprintf("k-%d0", given), string(r.Value))
			require.LessOrEqual(t, made.Load()-given, int32(16))
			if given == 1000 {
				break
			}
		}
		require.LessOrEqual(t, most.Load(), int32(16))
		synctest.Wait()
	})
}

func TestABatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(testContext(t))
		time.AfterFunc(time.Second, cancel)
		out := kv.Batch(ctx, silent(), slices.Repeat([]kv.Get{{Key: []byte("k")}}, 100), 10)
		require.Len(t, out, 100)
		for _, o := range out {
			require.ErrorIs(t, o.Err, cberr.RequestCanceled)
		}
	})
}

func TestABatchOfOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		ops := make([]kv.Get, 30)
		for i := range ops {
			ops[i].Key = fmt.Appendf(nil, "k-%d", i)
		}
		out := kv.Batch(testContext(t), echo(&now, &most), ops, 1)
		require.EqualValues(t, 1, most.Load())
		require.Equal(t, "k-29", string(out[29].Result.Value))
		require.Error(t, out[27].Err)
	})
}
