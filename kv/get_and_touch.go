package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetAndTouch reads a document and sets its expiry; the zero Expiry removes it. It is not idempotent: once it may have
// reached a server it is never sent again.
type GetAndTouch struct {
	Common
	Key        []byte
	Expiry     Expiry
	Durability memd.DurabilityLevel // as in Touch
	Into       []byte               // as in Get
	// KeepCompressed is as in Get.
	KeepCompressed bool
}

// encode implements Op.
func (g GetAndTouch) encode(r *call.Request) (decoder[GetResult], error) {
	setCommon(r, &g.Common)
	r.Opcode = memd.OpGAT
	if err := notDurable(g.Durability, "get-and-touch"); err != nil {
		return nil, err
	}
	exp, err := g.Expiry.wire()
	if err != nil {
		return nil, err
	}
	r.Key, r.Into = g.Key, g.Into
	r.KeepCompressed = g.KeepCompressed
	r.SetExtras32(exp)
	return getResult, nil
}
