package kv

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// ObserveState is what one node knows of a document.
type ObserveState uint8

// States of a document on a node.
const (
	ObserveFound     ObserveState = 0x00 // it is there, not yet on disk
	ObservePersisted ObserveState = 0x01 // it is on disk
	ObserveMissing   ObserveState = 0x80
	ObserveDeleted   ObserveState = 0x81 // it is deleted, the deletion is not yet on disk
)

func (s ObserveState) String() string {
	switch s {
	case ObserveFound:
		return "found"
	case ObservePersisted:
		return "persisted"
	case ObserveMissing:
		return "missing"
	case ObserveDeleted:
		return "deleted"
	}
	return fmt.Sprintf("ObserveState(0x%02x)", uint8(s))
}

// Observe asks one copy of a document for its state there.
type Observe struct {
	Common
	Key     []byte
	Replica int // from 1; 0 is the active copy
}

// ObserveResult is the result of Observe. The result's CAS is the document's.
type ObserveResult struct {
	Result
	State ObserveState
	// PersistHint is the node's estimate of when its queue will be on disk.
	PersistHint time.Duration
}

// encode implements Op. Vbucket and key are in the value; they get there when the request is appended.
func (o Observe) encode(r *call.Request) (decoder[ObserveResult], error) {
	setCommon(r, &o.Common)
	r.Opcode = memd.OpObserve
	r.Key = o.Key
	return decodeObserve, setReplica(r, o.Replica, "")
}

// decodeObserve makes the result of an Observe. The answer has the vbucket, the key, the state and the CAS.
func decodeObserve(r *call.Response) (ObserveResult, error) {
	if len(r.Value) < 4 {
		return ObserveResult{}, call.Malformed(r, "value", 4)
	}
	n := 4 + int(binary.BigEndian.Uint16(r.Value[2:]))
	if len(r.Value) != n+9 {
		return ObserveResult{}, call.Malformed(r, "value", n+9)
	}
	res := ObserveResult{
		Result: resultOf(r), State: ObserveState(r.Value[n]), PersistHint: time.Duration(r.CAS>>32) * time.Millisecond,
	}
	res.CAS = binary.BigEndian.Uint64(r.Value[n+1:])
	return res, nil
}

// ObserveSeqno asks one copy of a vbucket how far its history UUID has got there. A copy that does not know that
// history answers cberr.DocumentNotFound.
type ObserveSeqno struct {
	Common
	VBucket uint16
	UUID    uint64 // of the history, as a mutation token names it
	Replica int    // from 1; 0 is the active copy
}

// SeqnoResult is the result of ObserveSeqno.
type SeqnoResult struct {
	Result
	VBucket   uint16
	UUID      uint64 // of the vbucket's history now
	Persisted uint64 // the last sequence number on disk
	Current   uint64 // the last one in memory
	// FailedOver says that the vbucket's history is another one than was asked for, which ended at OldSeqno.
	FailedOver bool
	OldUUID    uint64
	OldSeqno   uint64
}

// encode implements Op.
func (o ObserveSeqno) encode(r *call.Request) (decoder[SeqnoResult], error) {
	setCommon(r, &o.Common)
	r.Opcode, r.ByVBucket, r.VBucket = memd.OpObserveSeqno, true, o.VBucket
	r.Value = binary.BigEndian.AppendUint64(nil, o.UUID)
	return decodeObserveSeqno, setReplica(r, o.Replica, "")
}

// decodeObserveSeqno makes the result of an ObserveSeqno.
func decodeObserveSeqno(r *call.Response) (SeqnoResult, error) {
	const short, long = 27, 43
	v := r.Value
	switch {
	case len(v) < 1:
		return SeqnoResult{}, call.Malformed(r, "value", short)
	case v[0] == 0 && len(v) != short:
		return SeqnoResult{}, call.Malformed(r, "value", short)
	case v[0] == 1 && len(v) != long:
		return SeqnoResult{}, call.Malformed(r, "value", long)
	case v[0] > 1:
		return SeqnoResult{}, unknownFormat(r.Opcode, uint32(v[0]))
	}
	res := SeqnoResult{
		Result: resultOf(r), VBucket: binary.BigEndian.Uint16(v[1:]), UUID: binary.BigEndian.Uint64(v[3:]),
		Persisted: binary.BigEndian.Uint64(v[11:]), Current: binary.BigEndian.Uint64(v[19:]),
	}
	if v[0] == 1 {
		res.FailedOver, res.OldUUID, res.OldSeqno = true, binary.BigEndian.Uint64(v[27:]),
			binary.BigEndian.Uint64(v[35:])
	}
	return res, nil
}
