package kv

import "github.com/couchcore/couchcore/memd"

// Unlock ends a lock. CAS is the one that GetAndLock gave; another one is cberr.CASMismatch and never retried, and a
// document without a lock is cberr.DocumentNotLocked.
type Unlock struct {
	Common
	Key []byte
	CAS uint64
}

// Encode implements Op.
func (u Unlock) Encode(r *Request) error {
	r.Common, r.Opcode, r.Key, r.CAS = u.Common, memd.OpUnlockKey, u.Key, u.CAS
	return nil
}

// Decode implements Op.
func (u Unlock) Decode(r *Response) (Result, error) { return r.Result, nil }
