package kv

import (
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// MaxLockTime is the longest lock that a server grants; it cuts longer ones down to its default without a word.
const MaxLockTime = 30 * time.Second

// GetAndLock reads a document and locks it: until the lock ends only operations with the CAS of the result change it.
// It is not idempotent.
type GetAndLock struct {
	Common
	Key      []byte
	LockTime time.Duration // rounded up to seconds, at most MaxLockTime; 0 means the server's default of 15 s
	Into     []byte        // as in Get
	// KeepCompressed is as in Get.
	KeepCompressed bool
}

// encode implements Op.
func (g GetAndLock) encode(r *call.Request) (decoder[GetResult], error) {
	setCommon(r, &g.Common)
	r.Opcode = memd.OpGetLocked
	if g.LockTime < 0 {
		return nil, badArgument("lock time", "is negative")
	}
	seconds := int64(g.LockTime / time.Second)
	if g.LockTime%time.Second > 0 {
		seconds++
	}
	if g.LockTime > MaxLockTime {
		return nil, outOfRange("lock time in seconds", seconds, int64(MaxLockTime/time.Second))
	}
	r.Key, r.Into, r.KeepCompressed = g.Key, g.Into, g.KeepCompressed
	r.SetExtras32(uint32(seconds))
	return getResult, nil
}
