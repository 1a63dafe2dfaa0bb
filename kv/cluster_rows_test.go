package kv_test

import (
	"bytes"
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// B31 to B33, K1, K11 to K14: a document there and back, what must and must not exist, and its removal.
func TestDocumentsOnACluster_B31_B32_B33(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		key := []byte("k\x00\xff")
		for _, c := range places {
			for _, value := range [][]byte{{}, []byte("text"), {0, 0xff, 0x80}, []byte(`{"a":1}`), bytes.Repeat([]byte("long "), 20000)} {
				put, err := kv.Do(testContext(t), b, kv.Upsert{
					Common: c, Key: key, Value: value,
					Flags: kv.FormatBinary.Flags(),
				})
				require.NoError(t, err)
				require.NotZero(t, put.CAS)
				got, err := kv.Do(testContext(t), b, kv.Get{Common: c, Key: key})
				require.NoError(t, err)
				require.Equal(t, put.CAS, got.CAS)
				require.Equal(t, kv.FormatBinary, kv.FormatOf(got.Flags))
				require.True(t, bytes.Equal(value, got.Value))
			}
			_, err := kv.Do(testContext(t), b, kv.Insert{Common: c, Key: key})
			require.ErrorIs(t, err, cberr.DocumentExists)
			_, err = kv.Do(testContext(t), b, kv.Remove{Common: c, Key: key, CAS: 1})
			require.ErrorIs(t, err, cberr.CASMismatch)
			gone, err := kv.Do(testContext(t), b, kv.Remove{Common: c, Key: key})
			require.NoError(t, err)
			require.NotZero(t, gone.Token.Seqno)
			_, err = kv.Do(testContext(t), b, kv.Get{Common: c, Key: key})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
			_, err = kv.Do(testContext(t), b, kv.Replace{Common: c, Key: key})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
			null, err := kv.Do(testContext(t), b, kv.GetOrNull{Common: c, Key: key})
			require.NoError(t, err)
			require.True(t, null.Absent)
			is, err := kv.Do(testContext(t), b, kv.Exists{Common: c, Key: key})
			require.NoError(t, err)
			require.False(t, is.Exists)
		}
	})
}

// B34, K17, K18: counters begin where they are told to, wrap upwards and stop at 0; without an initial value they are
// not created, whatever their expiry.
func TestCountersOnACluster_B34(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		for _, c := range places {
			key, ten := []byte("n"), uint64(10)
			_, err := kv.Do(testContext(t), b, kv.Increment{
				Common: c, Key: key, Delta: 1,
				Expiry: kv.ExpireAfter(time.Hour),
			})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
			count := func(up bool, delta uint64) uint64 {
				t.Helper()
				var res kv.CounterResult
				var err error
				if up {
					res, err = kv.Do(testContext(t), b, kv.Increment{Common: c, Key: key, Delta: delta, Initial: &ten})
				} else {
					res, err = kv.Do(testContext(t), b, kv.Decrement{Common: c, Key: key, Delta: delta, Initial: &ten})
				}
				require.NoError(t, err)
				return res.Value
			}
			require.EqualValues(t, 10, count(true, 5), "created with its initial value alone")
			require.EqualValues(t, 15, count(true, 5))
			require.EqualValues(t, 12, count(false, 3))
			require.EqualValues(t, 0, count(false, 100))
			require.Equal(t, uint64(math.MaxUint64), count(true, math.MaxUint64))
			require.EqualValues(t, 1, count(true, 2), "it wraps")
			insert(t, b, c, "n", `"text"`)
			_, err = kv.Do(testContext(t), b, kv.Increment{Common: c, Key: key, Delta: 1, Initial: &ten})
			require.ErrorIs(t, err, cberr.DeltaInvalid)
		}
	})
}

// B35, B37, K15, K16: values at both ends, of documents that are there, in the version that is meant.
func TestJoinedValuesOnACluster_B35_B37(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		key, v := []byte("k"), []byte("x")
		_, err := kv.Do(testContext(t), b, kv.Append{Key: key, Value: v})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		_, err = kv.Do(testContext(t), b, kv.Prepend{Key: key, Value: v})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		cas := insert(t, b, kv.Common{}, "k", "middle")
		put, err := kv.Do(testContext(t), b, kv.Append{Key: key, Value: []byte("end"), CAS: cas})
		require.NoError(t, err)
		_, err = kv.Do(testContext(t), b, kv.Prepend{Key: key, Value: []byte("begin"), CAS: put.CAS})
		require.NoError(t, err)
		require.Equal(t, "beginmiddleend", read(t, b, kv.Common{}, "k"))
		for name, op := range map[string]subject{
			"upsert": on("", kv.Upsert{Key: key, Value: v, CAS: cas}), "replace": on("", kv.Replace{
				Key: key, Value: v,
				CAS: cas,
			}),
			"append": on("", kv.Append{Key: key, Value: v, CAS: cas}), "prepend": on("", kv.Prepend{
				Key: key, Value: v,
				CAS: cas,
			}),
			"remove":    on("", kv.Remove{Key: key, CAS: cas}),
			"mutate-in": on("", kv.MutateIn{Key: key, CAS: cas, Specs: []kv.MutateSpec{kv.ReplacePath("", v)}}),
		} {
			_, err := op.do(testContext(t), b)
			require.ErrorIs(t, err, cberr.CASMismatch, name)
		}
	})
}

// B46, B47, K1, K5, K6: a lock keeps everybody out who does not name its CAS, ends by itself, and is undone once.
func TestLocksOnACluster_B46_B47(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		key, v := []byte("k"), []byte("x")
		cas := insert(t, b, kv.Common{}, "k", "1")
		_, err := kv.Do(testContext(t), b, kv.Unlock{Key: key, CAS: cas})
		require.ErrorIs(t, err, cberr.DocumentNotLocked)
		lock, err := kv.Do(testContext(t), b, kv.GetAndLock{Key: key, LockTime: 20 * time.Second})
		require.NoError(t, err)
		require.NotEqual(t, cas, lock.CAS)
		got, err := kv.Do(testContext(t), b, kv.Get{Key: key})
		require.NoError(t, err)
		require.Equal(t, uint64(math.MaxUint64), got.CAS, "a locked document's CAS is not to be used")
		_, err = kv.Do(testContext(t), b, kv.Upsert{Common: kv.Common{Retry: never{}}, Key: key, Value: v})
		require.ErrorIs(t, err, cberr.DocumentLocked)
		_, err = kv.Do(testContext(t), b, kv.Unlock{Key: key, CAS: lock.CAS + 1})
		require.ErrorIs(t, err, cberr.CASMismatch)
		require.Zero(t, kvError(t, err).Retry.Retries())
		_, err = kv.Do(testContext(t), b, kv.Replace{Key: key, Value: v, CAS: lock.CAS})
		require.NoError(t, err, "which unlocks it")
		_, err = kv.Do(testContext(t), b, kv.Upsert{Key: key, Value: v})
		require.NoError(t, err)

		_, err = kv.Do(testContext(t), b, kv.GetAndLock{Key: key, LockTime: 2 * time.Second})
		require.NoError(t, err)
		began := time.Now()
		res, err := kv.Do(testContext(t), b, kv.Upsert{
			Key: key, Value: v,
			Common: kv.Common{Timeout: 10 * time.Second},
		})
		require.NoError(t, err, "by default it is waited for")
		require.Positive(t, res.RetryInfo().Retries())
		require.InDelta(t, 2*time.Second, time.Since(began), float64(1500*time.Millisecond))
		for _, bad := range []time.Duration{-1, kv.MaxLockTime + 1} {
			_, err = kv.Do(testContext(t), b, kv.GetAndLock{Key: key, LockTime: bad})
			require.ErrorIs(t, err, cberr.InvalidArgument)
		}
		_, err = kv.Do(testContext(t), b, kv.Unlock{Key: key})
		require.ErrorIs(t, err, cberr.InvalidArgument)
	})
}

// B48: a value that is too large, here, and for the server.
func TestValuesThatAreTooLarge_B48(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		_, err := kv.Do(testContext(t), b, kv.Upsert{Key: []byte("k"), Value: make([]byte, kv.MaxValueLen+1)})
		require.ErrorIs(t, err, cberr.ValueTooLarge)
		require.Zero(t, m.Frames(memd.OpSet), "nothing is sent")
		_, err = kv.Do(testContext(t), b, kv.Upsert{Key: []byte("k"), Value: make([]byte, kv.MaxValueLen)})
		require.NoError(t, err)
		_, err = kv.Do(testContext(t), b, kv.Append{Key: []byte("k"), Value: []byte("x")})
		require.ErrorIs(t, err, cberr.ValueTooLarge)
		require.True(t, kvError(t, err).Answered)
	})
}

// B53, S17: a call that is canceled ends once, as canceled; one that has ended is not canceled any more. K4: a call
// that changes something is in doubt once it was written, and not sent again.
func TestCancellationOnACluster_B53(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		insert(t, b, kv.Common{}, "k", "1")
		in := m.Inject(mock.Match{Key: []byte("k")}, mock.Hold())
		ends := make(chan error, 2)
		p := kv.Go(context.Background(), b, kv.Get{Key: []byte("k")}, func(_ kv.GetResult, err error) { ends <- err })
		f := kv.Start(context.Background(), b, kv.GetAndTouch{Key: []byte("k")})
		require.NoError(t, in.WaitFired(testContext(t), 2))
		require.True(t, p.Cancel())
		require.False(t, p.Cancel())
		require.True(t, f.Cancel())
		err := <-ends
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.False(t, kvError(t, err).Ambiguous())
		_, err = f.Wait(testContext(t))
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.True(t, kvError(t, err).Ambiguous(), "it may have been executed")
		in.Release()
		in.Remove()
		done := kv.Start(context.Background(), b, kv.Get{Key: []byte("k")})
		_, err = done.Wait(testContext(t))
		require.NoError(t, err)
		require.False(t, done.Cancel())
		require.Empty(t, ends)

		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGAT}, Times: 1}, mock.CloseAfter())
		before := m.Frames(memd.OpGAT)
		_, err = kv.Do(testContext(t), b, kv.GetAndTouch{Key: []byte("k"), Expiry: kv.ExpireAfter(time.Hour)})
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.True(t, kvError(t, err).Ambiguous())
		require.Equal(t, before+1, m.Frames(memd.OpGAT))
	})
}
