package kv

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/couchcore/couchcore/internal/call"
)

// DefaultInFlight is how many operations of a batch are under way at a time unless the batch says otherwise.
const DefaultInFlight = 512

// Outcome is what became of one operation of a batch.
type Outcome[R any] struct {
	Result R
	Err    error
}

// Batch runs many operations at once, at most inFlight of them at a time (0 means DefaultInFlight), and waits for all
// of them. The outcomes are in the order of ops; each operation succeeds or fails for itself. When ctx ends the
// operations that are left fail with it. Keys and values of ops are lent until Batch returns. Besides the outcomes it
// takes memory for the operations that are under way, about 0.6 KiB each.
func Batch[R any, O Op[R]](ctx context.Context, d Dispatcher, ops []O, inFlight int) []Outcome[R] {
	b := &batch[R, O]{ops: ops}
	return b.do(ctx, d, len(ops), inFlight)
}

// GetMulti reads many documents of one collection at once, as Batch does.
func GetMulti(ctx context.Context, d Dispatcher, c Common, keys [][]byte) []Outcome[GetResult] {
	b := &batch[GetResult, Get]{one: Get{Common: c}, set: func(op *Get, i int) { op.Key = keys[i] }}
	return b.do(ctx, d, len(keys), 0)
}

// UpsertMulti writes many documents at once, as Batch does.
func UpsertMulti(ctx context.Context, d Dispatcher, docs []Upsert) []Outcome[MutationResult] {
	return Batch(ctx, d, docs, 0)
}

// batch runs its operations in chunks. Two chunks are under way at a time, so that the nodes have work while the
// outcomes of one are looked at.
type batch[R any, O Op[R]] struct {
	ctx    context.Context
	run    call.Runner
	all    call.Batcher // run, or nil when it takes one call at a time
	ops    []O
	one    O // without ops: set makes it the i-th operation
	set    func(op *O, i int)
	out    []Outcome[R]
	size   int // of a chunk
	chunks [2]chunk[R]
	small  struct { // memory for a small batch
		calls [16]*call.Call
		decs  [16]decoder[R]
	}
}

// chunk is some operations that follow one another: a slice of calls with one waiter.
type chunk[R any] struct {
	wait  sync.WaitGroup
	from  int
	calls []*call.Call // nil for an operation that has its outcome without a call
	decs  []decoder[R] // of the calls
}

// do runs n operations.
func (b *batch[R, O]) do(ctx context.Context, d Dispatcher, n, inFlight int) []Outcome[R] {
	run, leave := call.Compound(d.Runner())
	defer leave()
	b.run, b.out = run, make([]Outcome[R], n)
	var end func(error)
	b.ctx, end = call.Compose(ctx, b.run, "batch", "", "")
	defer end(nil) // each of its operations fails for itself
	b.all, _ = b.run.(call.Batcher)
	if inFlight <= 0 {
		inFlight = DefaultInFlight
	}
	used := 1
	if b.size = min(n, inFlight); n > inFlight && inFlight > 1 {
		b.size, used = inFlight/2, 2
	}
	calls, decs := b.small.calls[:], b.small.decs[:]
	if n := used * b.size; n > len(calls) {
		calls, decs = make([]*call.Call, n), make([]decoder[R], n)
	}
	for i := range used {
		from, to := i*b.size, (i+1)*b.size
		b.chunks[i].calls, b.chunks[i].decs = calls[from:from:to], decs[from:to]
	}
	turn := 0
	for from := 0; from < n; from += b.size {
		k := &b.chunks[turn%used]
		b.finish(k)
		b.start(k, from)
		turn++
	}
	for i := range used {
		b.finish(&b.chunks[(turn+i)%used])
	}
	return b.out
}

// op gives an operation, which is read before op is called again.
func (b *batch[R, O]) op(i int) *O {
	if b.set == nil {
		return &b.ops[i]
	}
	b.set(&b.one, i)
	return &b.one
}

// start dispatches the operations of a chunk.
func (b *batch[R, O]) start(k *chunk[R], from int) {
	n := min(b.size, len(b.out)-from)
	k.from, k.calls = from, k.calls[:n]
	k.wait.Add(n)
	all := true
	for i := range n {
		k.calls[i], k.decs[i] = b.load(k, from+i)
		all = all && k.calls[i] != nil
	}
	calls := k.calls
	if !all {
		calls = slices.DeleteFunc(slices.Clone(calls), func(c *call.Call) bool { return c == nil })
	}
	if b.all != nil {
		b.all.DispatchAll(calls)
		return
	}
	for _, c := range calls {
		b.run.Dispatch(c)
	}
}

// load gives the call of an operation; nil when the operation has its outcome already, or is read from several copies.
func (b *batch[R, O]) load(k *chunk[R], i int) (*call.Call, decoder[R]) {
	c := b.run.NewCall()
	c.InBatch(&k.wait)
	o := &b.out[i]
	dec, err := load[R](c, b.op(i))
	if err == nil && c.MayHedge() && c.Hedging(b.run) != nil {
		c.HedgeAsync(b.ctx, b.run, func(won *call.Call) error { return decode(won, dec, &o.Result) }, func(err error) {
			o.Err = err
			k.wait.Done()
		})
		return nil, nil
	}
	if err = prepared(b.ctx, b.run, c, err); err != nil {
		o.Err = err
		b.run.Release(c)
		k.wait.Done()
		return nil, nil
	}
	return c, dec
}

// finish waits for a chunk, if it is under way, and keeps its outcomes.
func (b *batch[R, O]) finish(k *chunk[R]) {
	if len(k.calls) == 0 {
		return
	}
	k.wait.Wait()
	for i, c := range k.calls {
		if c != nil {
			o := &b.out[k.from+i]
			o.Err = outcome(c, k.decs[i], &o.Result)
			b.run.Release(c)
		}
	}
	k.calls = k.calls[:0]
}

// BatchSeq runs the operations that ops yields, at most inFlight of them at a time (0 means DefaultInFlight), and
// yields their outcomes in the same order: it takes memory for those that are under way, however many there are. Each
// is sent as soon as ops yields it. A loop that ends before the last outcome cancels what is under way.
func BatchSeq[R any, O Op[R]](ctx context.Context, d Dispatcher, ops iter.Seq[O], inFlight int) iter.Seq2[R, error] {
	if inFlight <= 0 {
		inFlight = DefaultInFlight
	}
	return func(yield func(R, error) bool) {
		d, leave := compound(d)
		defer leave()
		next, stop := iter.Pull(ops)
		defer stop()
		ctx, end := call.Compose(ctx, d.Runner(), "batch", "", "")
		defer end(nil)
		all := context.WithoutCancel(ctx) // the calls themselves end with ctx
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
			if !yield(f.Wait(all)) {
				return
			}
		}
	}
}
