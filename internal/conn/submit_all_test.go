package conn_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// many is a dispatcher that hands calls over in one go, and what the connection leaves one by one.
type many struct {
	*dispatcher
	taken []int
}

// Runner implements kv.Dispatcher.
func (d *many) Runner() call.Runner { return d }

func (d *many) DispatchAll(calls []*call.Call) {
	for _, c := range calls {
		d.admit(c)
	}
	for len(calls) > 0 {
		n := d.cn.SubmitAll(calls)
		d.taken = append(d.taken, n)
		if calls = calls[n:]; len(calls) > 0 {
			d.submit(calls[0])
			calls = calls[1:]
		}
	}
}

func TestManyRequestsAreOneWrite(t *testing.T) {
	d := &many{dispatcher: connect(t, document)}
	before := d.cn.Stats.Writes.Load()
	keys := make([][]byte, 300)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%d", i)
	}
	for _, o := range kv.GetMulti(t.Context(), d, kv.Common{}, keys) {
		require.NoError(t, o.Err)
		require.Len(t, o.Result.Value, len(document.Value))
	}
	require.Equal(t, []int{300}, d.taken)
	d.settle()
	require.EqualValues(t, 1, d.cn.Stats.Writes.Load()-before)
}

// What the connection would not take one by one it does not take together either, and what stands before that is taken.
func TestOfManyRequestsTheFirstBadOneIsLeft(t *testing.T) {
	d := &many{dispatcher: connect(t, document)}
	docs := make([]kv.Upsert, 10)
	for i := range docs {
		docs[i].Key = []byte("k")
	}
	docs[3].Value = make([]byte, 20<<10)                       // large: copied when it is written
	docs[7].OnBehalfOf = "somebody"                            // the connection has no such feature
	docs[8].Collection, docs[8].Scope = "_default", "_default" // as the others
	for i, o := range kv.UpsertMulti(t.Context(), d, docs) {
		if i == 7 {
			require.ErrorContains(t, o.Err, "feature")
			continue
		}
		require.NoError(t, o.Err)
	}
	require.Equal(t, []int{7, 2}, d.taken)

	d.cn.Close(nil)
	d.taken = nil
	for _, o := range kv.UpsertMulti(t.Context(), d, docs[:2]) {
		require.ErrorIs(t, o.Err, conn.ErrClosed)
	}
	require.Equal(t, []int{0, 0}, d.taken)
}

func TestABatchEndsWhileItIsSubmitted(t *testing.T) {
	d := &many{dispatcher: connect(t, document)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range kv.UpsertMulti(ctx, d, make([]kv.Upsert, 3)) {
		require.Error(t, o.Err)
	}
	require.Empty(t, d.taken)
}

// What it costs that a connection takes none of many calls does not grow with their number: the sender of a burst tries
// again after each one that was left.
func TestWhatAConnectionLeavesCostsNothing(t *testing.T) {
	near, far := net.Pipe()
	go canned(far, document)
	o := over(near)
	o.Memcached, o.Features = false, []memd.Feature{memd.FeatureSnappy}
	cn, err := conn.Connect(t.Context(), "peer:1", &conn.Options{Options: o, Base: time.Now(), Handler: ignores{}})
	require.NoError(t, err)
	require.True(t, cn.Info().Features.Has(memd.FeatureSnappy))
	cn.Refuse()
	each := func(n int) time.Duration {
		calls := make([]*call.Call, n)
		for i := range calls {
			calls[i] = call.NewCall()
		}
		least := time.Hour
		for range 20 { // a busy machine may spoil some
			began := time.Now()
			for range 100 {
				if cn.SubmitAll(calls) != 0 {
					t.Fatal("the connection refuses")
				}
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	short, many := each(100), each(100_000)
	require.Less(t, many, 20*short+time.Millisecond)
	cn.Close(nil)
	_ = cn.Serve()
}

func TestAllocationsOfABatch(t *testing.T) {
	if conn.RaceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	d := &many{dispatcher: connect(t, document)}
	keys := make([][]byte, 16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%d", i)
	}
	bg := context.Background()
	n := testing.AllocsPerRun(1000, func() {
		d.taken = d.taken[:0]
		for _, o := range kv.GetMulti(bg, d, kv.Common{}, keys) {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
		}
	})
	require.LessOrEqual(t, n, 16+6.0, "the values, and what all of them share")
}
