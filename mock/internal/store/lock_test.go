package store

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

func TestStoreLockTimes(t *testing.T) {
	for seconds, want := range map[uint32]time.Duration{
		0: 15 * time.Second, 1: time.Second, 30: 30 * time.Second, 31: 15 * time.Second,
		math.MaxUint32: 15 * time.Second,
	} {
		s := newStoreTest()
		s.set(t, storeValue, 0)
		require.Equal(t, success, s.do(memd.OpGetLocked, func(o *Op) { o.Lock = seconds }).Status)
		s.now = storeStart.Add(want - 1)
		require.Equal(t, isLocked, s.do(memd.OpSet, nil).Status, seconds)
		s.now = storeStart.Add(want)
		require.Equal(t, success, s.do(memd.OpSet, nil).Status, seconds)
	}
}

// TestStoreLockHasACASOfItsOwn_D241: a document has the CAS again that it had before its lock, when that is given back
// and when its time is over (kv_engine since 7.2.4, MB-59746). Before that release the lock's stayed.
func TestStoreLockHasACASOfItsOwn_D241(t *testing.T) {
	for _, stays := range []bool{false, true} {
		for _, over := range []bool{false, true} {
			s := newStoreTest()
			first := s.set(t, storeValue, 0).CAS
			lock := s.do(memd.OpGetLocked, func(o *Op) { o.LockStays = stays })
			require.Greater(t, lock.CAS, first)
			require.Equal(t, storeValue, string(lock.Value))
			for _, op := range []memd.Opcode{memd.OpGet, memd.OpGetMeta} {
				require.Equal(t, uint64(lockedCAS), s.do(op, nil).CAS, "%v", op)
			}
			if s.now = s.now.Add(15 * time.Second); !over {
				s.now = s.now.Add(-time.Second)
				require.Equal(t, isLocked, s.do(memd.OpSet, cas(first)).Status)
				require.Equal(t, success, s.do(memd.OpUnlockKey, cas(lock.CAS)).Status)
			}
			has, hasNot := first, lock.CAS
			if stays {
				has, hasNot = lock.CAS, first
			}
			for _, op := range []memd.Opcode{memd.OpGet, memd.OpGetMeta} {
				require.Equal(t, has, s.do(op, nil).CAS, "%v", op)
			}
			require.Equal(t, exists, s.do(memd.OpSet, cas(hasNot)).Status)
			require.Equal(t, success, s.do(memd.OpSet, cas(has)).Status)
		}
	}
}

// TestStoreCountsBeforeItLooksAtALock: a locked document that is no number is one to a counter too.
func TestStoreCountsBeforeItLooksAtALock(t *testing.T) {
	s := newStoreTest()
	s.set(t, "text", 0)
	require.Equal(t, success, s.do(memd.OpGetLocked, nil).Status)
	require.Equal(t, memd.StatusDeltaBadVal, s.do(memd.OpIncrement, nil).Status)
}
