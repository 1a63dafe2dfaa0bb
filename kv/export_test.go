package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// NewPathResult makes a PathResult with the caller's index of its spec.
func NewPathResult(i int, path string, st memd.Status, value []byte) PathResult {
	return PathResult{Path: path, Status: st, Value: value, index: uint8(i)}
}

// ResultVia makes the result of an answer that came by a connection.
func ResultVia(v *call.Via, cas uint64, opaque uint32) Result {
	return Result{CAS: cas, facts: call.Facts{Via: v, Opaque: opaque}}
}

// Open is an operation whose methods are exported, as those of tests are.
type Open[R any] interface {
	Encode(r *call.Request) error
	Decode(r *call.Response) (R, error)
}

// Sealed is an operation of a test's.
type Sealed[R any, T Open[R]] struct{ Op T }

// Seal makes an operation of a test's one that can be run.
func Seal[R any, T Open[R]](op T) Sealed[R, T] { return Sealed[R, T]{op} }

func (s Sealed[R, T]) encode(r *call.Request) (decoder[R], error) { return s.Op.Decode, s.Op.Encode(r) }

// Encode has an operation of whatever type load r.
func Encode(op any, r *call.Request) error {
	for _, try := range []func(any, *call.Request) (bool, error){
		encodeOf[Result], encodeOf[GetResult], encodeOf[GetExResult],
		encodeOf[MutationResult], encodeOf[CounterResult], encodeOf[LookupInResult], encodeOf[MutateInResult],
		encodeOf[MetaResult], encodeOf[RandomResult], encodeOf[StatResult],
		encodeOf[Manifest], encodeOf[IDResult],
		encodeOf[FailoverLog], encodeOf[ObserveResult], encodeOf[SeqnoResult], encodeOf[RangeScan],
		encodeOf[ScanItems],
	} {
		if is, err := try(op, r); is {
			return err
		}
	}
	panic("an operation with a result that is new to this function")
}

func encodeOf[R any](op any, r *call.Request) (is bool, err error) {
	o, is := op.(Op[R])
	if is {
		_, err = o.encode(r)
	}
	return is, err
}
