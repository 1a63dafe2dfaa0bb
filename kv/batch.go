package kv

import (
	"context"
	"iter"
	"slices"
)

// DefaultInFlight is how many operations of a batch are under way at a time unless the batch says otherwise.
const DefaultInFlight = 512

// Outcome is what became of one operation of a batch.
type Outcome[R any] struct {
	Result R
	Err    error
}

// Batch runs many operations at once, at most inFlight of them at a time (0 means DefaultInFlight), and waits for all of
// them. The outcomes are in the order of ops; each operation succeeds or fails for itself. When ctx ends the operations
// that are left fail with it. Keys and values of ops are lent until Batch returns.
func Batch[R any, O Op[R]](ctx context.Context, d Dispatcher, ops []O, inFlight int) []Outcome[R] {
	out := make([]Outcome[R], 0, len(ops))
	for r, err := range BatchSeq[R](ctx, d, slices.Values(ops), inFlight) {
		out = append(out, Outcome[R]{r, err})
	}
	return out
}

// BatchSeq runs the operations that ops yields, at most inFlight of them at a time (0 means DefaultInFlight), and yields
// their outcomes in the same order: it takes memory for those that are under way, however many there are. A loop that
// ends early cancels the rest.
func BatchSeq[R any, O Op[R]](ctx context.Context, d Dispatcher, ops iter.Seq[O], inFlight int) iter.Seq2[R, error] {
	if inFlight <= 0 {
		inFlight = DefaultInFlight
	}
	return func(yield func(R, error) bool) {
		next, stop := iter.Pull(ops)
		defer stop()
		window := make([]Future[R], 0, min(inFlight, DefaultInFlight))
		head := 0
		defer func() {
			for _, f := range window[head:] {
				f.Cancel()
			}
		}()
		for more := true; ; {
			for more && len(window)-head < inFlight {
				var op O
				if op, more = next(); more {
					if head > 0 && len(window) == cap(window) { // the ended ones make room
						window = window[:copy(window, window[head:])]
						head = 0
					}
					window = append(window, Start[R](ctx, d, op))
				}
			}
			if head == len(window) {
				return
			}
			f := window[head]
			window[head] = Future[R]{}
			head++
			if !yield(f.Wait(context.WithoutCancel(ctx))) { // the call itself ends with ctx
				return
			}
		}
	}
}

// GetMulti reads many documents of one collection at once, as Batch does.
func GetMulti(ctx context.Context, d Dispatcher, c Common, keys [][]byte) []Outcome[GetResult] {
	ops := make([]Get, len(keys))
	for i, k := range keys {
		ops[i] = Get{Common: c, Key: k}
	}
	return Batch(ctx, d, ops, 0)
}

// UpsertMulti writes many documents at once, as Batch does.
func UpsertMulti(ctx context.Context, d Dispatcher, docs []Upsert) []Outcome[MutationResult] {
	return Batch(ctx, d, docs, 0)
}
