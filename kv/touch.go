package kv

import (
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Touch sets a document's expiry; the zero Expiry removes it. It is not idempotent.
type Touch struct {
	Common
	Key    []byte
	Expiry Expiry
	// Any durability level is refused here, because servers refuse it at every level: cberr.FeatureNotAvailable, and
	// nothing is sent.
	Durability memd.DurabilityLevel
}

// encode implements Op.
func (t Touch) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &t.Common)
	r.Opcode = memd.OpTouch
	if err := notDurable(t.Durability, "touch"); err != nil {
		return nil, err
	}
	exp, err := t.Expiry.wire()
	if err != nil {
		return nil, err
	}
	r.Key = t.Key
	r.SetExtras32(exp)
	return mutationResult, nil
}

// notDurable refuses a durability level for an operation that a server refuses at every level (kv_engine,
// ep_engine.cc).
func notDurable(level memd.DurabilityLevel, name string) error {
	if level == memd.DurabilityNone {
		return nil
	}
	return &ArgumentError{
		Field: "durability level", Reason: "no server makes a " + name + " durable", Kind: cberr.FeatureNotAvailable,
	}
}
