package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Unlock ends a lock. CAS is the one that GetAndLock gave; another one is cberr.CASMismatch and never retried, and a
// document without a lock is cberr.DocumentNotLocked.
type Unlock struct {
	Common
	Key []byte
	CAS uint64
}

// encode implements Op.
func (u Unlock) encode(r *call.Request) (decoder[Result], error) {
	setCommon(r, &u.Common)
	r.Opcode, r.Key, r.CAS = memd.OpUnlockKey, u.Key, u.CAS
	return onlyResult, nil
}
