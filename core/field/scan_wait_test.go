package field_test

import (
	"context"
	"fmt"
	"math"
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

// waitsFor runs f in virtual time, with a mock of one node and a mutation that it does not have yet. No other
// connection may be made.
func waitsFor(t *testing.T, f func(t *testing.T, m *mock.Cluster, b *core.Bucket, future kv.MutationToken)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual(), mock.Nodes(1))
		b := openMock(t, m)
		r, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("scan1"), Value: []byte("v")})
		require.NoError(t, err)
		future := r.Token
		future.Seqno += 1000
		made := m.Count(mock.Match{Opcodes: []memd.Opcode{memd.OpHello}})
		f(t, m, b, future)
		time.Sleep(30 * time.Second)
		require.Zero(t, made.Fired(), "another connection was made")
		_, err = kv.Do(fresh(t), b, kv.Get{Key: []byte("scan1")})
		require.NoError(t, err)
	})
}

// waiting is a scan that the node lets wait for a mutation.
func waiting(future kv.MutationToken) kv.RangeScanCreate {
	return kv.RangeScanCreate{
		Common: kv.Common{Timeout: 10 * time.Second}, VBucket: future.VBucket,
		Range: kv.PrefixRange([]byte("scan")), Snapshot: future, SnapshotWait: 9 * time.Second,
	}
}

// A node may hold up what follows a scan that waits for a mutation: its connection is not taken for one that has
// vanished, neither while it waits nor when it has ended in the client alone, because its deadline passed while the
// node waited for the second time, or because its context has ended.
func TestAScanThatWaitsKeepsItsConnection_D281(t *testing.T) {
	behind := func(t *testing.T, b *core.Bucket) {
		_, err := kv.Do(fresh(t), b, kv.ObserveSeqno{VBucket: 1, Common: kv.Common{Timeout: 500 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	}
	t.Run("deadline", func(t *testing.T) {
		waitsFor(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket, future kv.MutationToken) {
			scan := kv.Start(within(t, time.Minute), b, waiting(future))
			time.Sleep(time.Second)
			behind(t, b)
			_, err := scan.Wait(within(t, time.Minute))
			require.ErrorIs(t, err, cberr.AmbiguousTimeout)
			behind(t, b)
		})
	})
	t.Run("context", func(t *testing.T) {
		waitsFor(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket, future kv.MutationToken) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := kv.Do(ctx, b, waiting(future))
			require.ErrorIs(t, err, cberr.Timeout)
			behind(t, b)
			behind(t, b)
		})
	})
}

// A scan that waits for ever does not keep for ever what follows it: its connection is replaced in the end.
func TestAScanThatWaitsForEverIsLeft_D281(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual(), mock.Nodes(1))
		b := openMock(t, m)
		r, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("scan1"), Value: []byte("v")})
		require.NoError(t, err)
		scan := waiting(r.Token)
		scan.Snapshot.Seqno += 1000
		scan.SnapshotWait = math.MaxInt64
		_, err = kv.Do(fresh(t), b, scan)
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		require.Eventually(t, func() bool {
			_, err := kv.Do(fresh(t), b, kv.Get{Key: []byte("scan1")})
			return err == nil
		}, 80*time.Second, time.Second)
	})
}

// A scan of all vbuckets holds up nothing while it waits for a mutation.
func TestAConsistentScanHoldsUpNothing_D282(t *testing.T) {
	waitsFor(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket, future kv.MutationToken) {
		ctx, began, over := within(t, time.Minute), time.Now(), make(chan error)
		scan := kv.Scan{
			Range: kv.PrefixRange([]byte("scan")), ConsistentWith: []kv.MutationToken{future}, Concurrency: 4,
		}
		go func() {
			s, err := scan.Run(ctx, b)
			if err == nil {
				for s.Next(ctx) {
				}
				err = s.Err()
				s.Close()
			}
			over <- err
		}()
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			at := time.Now()
			_, err := kv.Do(fresh(t), b, kv.Get{Key: []byte("scan1")})
			require.NoError(t, err)
			require.Less(t, time.Since(at), 50*time.Millisecond)
		}
		require.ErrorIs(t, <-over, cberr.UnambiguousTimeout)
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}

// A scan is given what it waits for, also with a strategy that retries nothing.
func TestAConsistentScanGoesOn_D282(t *testing.T) {
	never := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
	waitsFor(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket, future kv.MutationToken) {
		next := future
		next.Seqno -= 999
		ctx := within(t, time.Minute)
		s, err := kv.Scan{
			Common: kv.Common{Retry: never}, Range: kv.PrefixRange([]byte("scan")),
			ConsistentWith: []kv.MutationToken{next},
		}.Run(ctx, b)
		require.NoError(t, err)
		time.Sleep(time.Second)
		r, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("scan1"), Value: []byte("v")})
		require.NoError(t, err)
		require.Equal(t, next.Seqno, r.Token.Seqno)
		require.True(t, s.Next(ctx))
		require.False(t, s.Next(ctx))
		require.NoError(t, s.Err())
		s.Close()
	})
}

// Durable writes that follow one another do not hide that the other end of their connection is gone. A node has a
// second and a half for each, also where the client waits for less.
func TestDurableWritesHideNoSilence_D281(t *testing.T) {
	for timeout, most := range map[time.Duration]time.Duration{
		4 * time.Second: 5500 * time.Millisecond, 400 * time.Millisecond: 3500 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual(), mock.Nodes(2), mock.Replicas(1))
			b := openMock(t, m)
			write := kv.Upsert{
				Key: []byte("k"), Common: kv.Common{Timeout: timeout}, Durability: memd.DurabilityMajority,
			}
			_, err := kv.Do(fresh(t), b, write)
			require.NoError(t, err)
			for _, l := range m.Network().Links() {
				l.Up().Drop()
				l.Down().Drop()
			}
			began, done := time.Now(), make(chan time.Duration, 200)
			for range cap(done) { // one is in flight all the time
				go func() {
					if _, err := kv.Do(fresh(t), b, write); err == nil {
						done <- time.Since(began)
					}
				}()
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(10 * time.Second)
			require.NotEmpty(t, done)
			require.Less(t, <-done, most)
		})
	}
}

// The client asks for no sign of life behind a durable write that the node may keep waiting: what followed would wait
// with it.
func TestNoSignOfLifeIsAskedForBehindADurableWrite_D282(t *testing.T) {
	virtualMock(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		time.Sleep(time.Second)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.DelayReply(9*time.Second))
		asked := m.Frames(memd.OpNoop)
		writes := make(chan error, 20)
		for i := range cap(writes) { // over the connections to all nodes
			go func() {
				_, err := kv.Do(within(t, time.Minute), b, kv.Upsert{
					Key: fmt.Append(nil, "k", i), Value: []byte("v"), Durability: memd.DurabilityMajority,
				})
				writes <- err
			}()
		}
		time.Sleep(8 * time.Second)
		require.Equal(t, asked, m.Frames(memd.OpNoop))
		for range cap(writes) {
			require.NoError(t, <-writes)
		}
		time.Sleep(8 * time.Second)
		require.Greater(t, m.Frames(memd.OpNoop), asked, "otherwise it is asked for")
	})
}

// An answer of several packets that comes in slowly is a sign of life.
func TestALongAnswerIsASignOfLife_D283(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual(), mock.Nodes(1))
		b := openMock(t, m)
		made := m.Count(mock.Match{Opcodes: []memd.Opcode{memd.OpHello}})
		time.Sleep(time.Second)
		for _, l := range m.Network().Links() {
			l.Down().SetBandwidth(30)
		}
		began := time.Now()
		s, err := kv.Do(within(t, 10*time.Minute), b, kv.Stat{Common: kv.Common{Timeout: 10 * time.Minute}})
		require.NoError(t, err)
		require.NotEmpty(t, s.Stats)
		require.Greater(t, time.Since(began), 10*time.Second, "it has to be long")
		require.Zero(t, made.Fired(), "another connection was made")
	})
}
