package core_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// hedged runs f for each way to start a read.
func hedged(t *testing.T, f func(t *testing.T, m *mock.Cluster, b *core.Bucket, get func(context.Context,
	kv.Get) (kv.GetResult, error)),
) {
	for name, get := range map[string]func(context.Context, kv.Dispatcher, kv.Get) (kv.GetResult, error){
		"Do": kv.Do[kv.GetResult, kv.Get],
		"Start": func(ctx context.Context, d kv.Dispatcher, g kv.Get) (kv.GetResult, error) {
			return kv.Start(ctx, d, g).Wait(context.WithoutCancel(ctx))
		},
		"Go": func(ctx context.Context, d kv.Dispatcher, g kv.Get) (r kv.GetResult, err error) {
			done := make(chan struct{})
			kv.Go(ctx, d, g, func(res kv.GetResult, e error) { r, err = res, e; close(done) })
			<-done
			return r, err
		},
		"Batch": func(ctx context.Context, d kv.Dispatcher, g kv.Get) (kv.GetResult, error) {
			out := kv.Batch(ctx, d, []kv.Get{{}, g}, 0) // one without a key beside it
			return out[1].Result, out[1].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				_, err := kv.Do(ctx(t), b, kv.Upsert{
					Key: []byte("k"), Value: []byte("v"),
					Durability: memd.DurabilityMajority,
				})
				require.NoError(t, err)
				time.Sleep(time.Second) // all copies have it
				f(t, m, b, func(ctx context.Context, g kv.Get) (kv.GetResult, error) {
					g.Key = []byte("k")
					return get(ctx, b, g)
				})
			})
		})
	}
}

const hedgeDelay = 20 * time.Millisecond

func three() *kv.Hedge { return &kv.Hedge{MaxAttempts: 3, Delay: hedgeDelay} }

// GA6-11, GA6-13, GA6-17: while the active copy is silent the replicas are asked one after the other, each on a node of
// its own, and the first good answer wins. It says that it came from a replica.
func TestAHedgedReadGoesOnToTheReplicas(t *testing.T) {
	hedged(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket, get func(context.Context, kv.Get) (kv.GetResult,
		error),
	) {
		_, nodes, _ := b.Locate([]byte("k"))
		for silent, after := range []time.Duration{0, hedgeDelay, 2 * hedgeDelay} {
			began := time.Now()
			r, err := get(ctx(t), kv.Get{Hedge: three(), Into: make([]byte, 0, 8)})
			require.NoError(t, err)
			require.Equal(t, "v", string(r.Value))
			require.Equal(t, after, time.Since(began))
			require.Equal(t, silent > 0, r.FromReplica)
			require.Equal(t, nodes[silent], r.Endpoint())
			op := memd.OpGet
			if silent > 0 {
				op = memd.OpGetReplica
			}
			m.Inject(mock.Match{Opcodes: []memd.Opcode{op}, Nodes: []int{numberOf(m, nodes[silent])}}, mock.Drop())
		}
		began := time.Now() // there is no answer
		_, err := get(ctx(t), kv.Get{Hedge: three()})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 2500*time.Millisecond, time.Since(began))
	})
}

func numberOf(m *mock.Cluster, addr string) int {
	for i, n := range m.Nodes() {
		if n.Addr() == addr {
			return i
		}
	}
	return -1
}

// A replica that has no such document may lag; the active copy knows.
func TestAReplicasNotFoundIsNoAnswerAndTheActivesIs(t *testing.T) {
	hedged(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket, get func(context.Context, kv.Get) (kv.GetResult,
		error),
	) {
		m.Inject(only(memd.OpGetReplica, 0), mock.Status(memd.StatusKeyNotFound))
		slow := m.Inject(only(memd.OpGet, 1), mock.DelayReply(3*hedgeDelay))
		began := time.Now()
		r, err := get(ctx(t), kv.Get{Hedge: three()})
		require.NoError(t, err)
		require.False(t, r.FromReplica)
		require.Equal(t, 3*hedgeDelay, time.Since(began))
		slow.Remove()
		m.Inject(only(memd.OpGet, 0), mock.Status(memd.StatusKeyNotFound))
		began = time.Now()
		_, err = get(ctx(t), kv.Get{Hedge: three()})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		require.Zero(t, time.Since(began))
	})
}

// GA6-14, GA6-15, GA6-16: a failure that the others may survive brings the next read at once, another one ends the
// call; when all have failed the active copy's failure is the call's.
func TestFailuresOfHedgedReads(t *testing.T) {
	hedged(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket, get func(context.Context, kv.Get) (kv.GetResult,
		error),
	) {
		busy := m.Inject(only(memd.OpGet, 0), mock.Status(memd.StatusTmpFail))
		began := time.Now()
		r, err := get(ctx(t), kv.Get{Hedge: three()})
		require.NoError(t, err)
		require.True(t, r.FromReplica)
		require.Zero(t, time.Since(began))
		require.Equal(t, 1, busy.Fired(), "each read is sent once")

		fatal := &kv.Hedge{MaxAttempts: 3, Delay: hedgeDelay, NonFatal: func(error) bool { return false }}
		_, err = get(ctx(t), kv.Get{Hedge: fatal})
		require.ErrorIs(t, err, cberr.TemporaryFailure)

		m.Inject(only(memd.OpGetReplica, 0), mock.Status(memd.StatusKeyNotFound))
		_, err = get(ctx(t), kv.Get{Hedge: three()})
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.NotErrorIs(t, err, cberr.DocumentNotFound)
		require.Zero(t, time.Since(began))
	})
}

// GA6-19: the caller's cancel ends all reads of the call.
func TestCancellingAHedgedRead(t *testing.T) {
	hedged(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket, get func(context.Context, kv.Get) (kv.GetResult,
		error),
	) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet, memd.OpGetReplica}}, mock.Drop())
		mine := errors.New("enough")
		c, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*hedgeDelay, func() { cancel(mine) })
		began := time.Now()
		_, err := get(c, kv.Get{Hedge: three()})
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.ErrorIs(t, err, mine)
		require.Less(t, time.Since(began), 3*hedgeDelay+10*time.Millisecond)
		time.Sleep(2500 * time.Millisecond) // a connection forgets an ended call at its deadline
		for _, n := range b.Status() {
			require.Zero(t, n.InFlight)
		}
	})
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet, memd.OpGetReplica}}, mock.Drop())
		f := kv.Start(t.Context(), b, kv.Get{Key: []byte("k"), Hedge: three()})
		time.Sleep(hedgeDelay)
		require.True(t, f.Cancel())
		_, err := f.Wait(t.Context())
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.False(t, f.Cancel())
	})
}

// GA6-18, GA6-52: a policy file hedges reads that name neither hedges nor a strategy; other operations are sent once.
func TestHedgesOfAPolicyFile(t *testing.T) {
	const entry = `{"operationConfig":[{"name":[{"service":"kv"}],"hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"0.02s",
		"nonFatalReasons":["KV_TEMPORARY_FAILURE"]}}]}`
	withPolicy(t, entry, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		time.Sleep(time.Second)
		m.Inject(only(memd.OpGet, 0), mock.Drop())
		r, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		require.True(t, r.FromReplica)
		_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Retry: retry.BestEffort{}}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		in := m.Inject(only(memd.OpSet, 0), mock.Drop())
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("w")})
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		require.Equal(t, 1, in.Fired())
	})
}

// GA6-22, GA6-23: nodes in trouble get no hedges, first reads are sent all the same.
func TestTheThrottleDropsHedges(t *testing.T) {
	withPolicy(t, `{"operationConfig":[],"retryThrottling":{"maxTokens":2,"tokenRatio":0.1}}`,
		func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			m.Inject(only(memd.OpGet, 0), mock.Status(memd.StatusTmpFail))
			for range 2 {
				_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
				require.ErrorIs(t, err, retry.ErrThrottled)
			}
			gets, replicas := m.Frames(memd.OpGet), m.Frames(memd.OpGetReplica)
			_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Hedge: three()})
			require.ErrorIs(t, err, cberr.TemporaryFailure)
			require.Equal(t, gets+1, m.Frames(memd.OpGet))
			require.Equal(t, replicas, m.Frames(memd.OpGetReplica))
		})
}

// Where there is only one copy, or the map names no others, a hedged read is an ordinary one.
func TestAHedgedReadWithoutReplicasIsOneGet(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		m.Inject(only(memd.OpGet, 1), mock.Status(memd.StatusTmpFail))
		r, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Hedge: three()})
		require.NoError(t, err)
		require.Equal(t, 1, r.RetryInfo().Counted)
		require.False(t, r.FromReplica)
		f := kv.Start(ctx(t), b, kv.Get{Key: []byte("k"), Hedge: three()})
		r, err = f.Wait(ctx(t))
		require.NoError(t, err)
		require.Equal(t, "v", string(r.Value))
	}, mock.Replicas(0))
}

// GA6-50: hedges are counted as retries of their operation.
func TestHedgesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(2), mock.Bucket("default", 64), mock.Virtual())
		c := open(t, m)
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet, memd.OpGetReplica}}, mock.Drop())
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k"), Hedge: three()})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		s := c.RetryStats().Operations[retry.OperationKey{Service: "kv", Operation: "get"}]
		require.EqualValues(t, 2, s.Hedges)
		require.Equal(t, [8]uint64{1, 1}, s.Histogram)
	})
}
