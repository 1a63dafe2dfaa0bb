package kv

import (
	"context"
	"iter"
	"slices"
	"sync"
)

// DefaultInFlight is how many operations of a batch are under way at a time unless the batch says otherwise.
const DefaultInFlight = 512

// Outcome is what became of one operation of a batch.
type Outcome[R any] struct {
	Result R
	Err    error
}

// BatchDispatcher is a Dispatcher that can take over many calls at once, which costs less than one after the other.
type BatchDispatcher interface {
	Dispatcher
	// NewCalls fills dst with calls, as NewCall gives one.
	NewCalls(dst []*Call)
	// ReleaseAll takes back finished calls as Release does; nil ones are left out. The slice is the caller's again.
	ReleaseAll(calls []*Call)
	// DispatchAll takes the calls over as Dispatch does. The slice is the caller's again when it returns.
	DispatchAll(calls []*Call)
}

// Batch runs many operations at once, at most inFlight of them at a time (0 means DefaultInFlight), and waits for all of
// them. The outcomes are in the order of ops; each operation succeeds or fails for itself. When ctx ends the operations
// that are left fail with it. Keys and values of ops are lent until Batch returns. Besides the outcomes it takes memory
// for the operations that are under way, about 1.2 KiB each. Reads that have all but keys and buffers in common, and no
// strategy, paths, expiry or hedge, take a fraction of that until something else happens to one than a good answer.
func Batch[R any, O Op[R]](ctx context.Context, d Dispatcher, ops []O, inFlight int) []Outcome[R] {
	if gets, ok := any(ops).([]Get); ok && len(gets) > 0 {
		if out, ok := reads(ctx, d, &gets[0].Common, nil, gets, inFlight); ok {
			return any(out).([]Outcome[R]) //nolint:forcetypeassert // there is one R that Get is an Op of
		}
	}
	b := newBatch[R, O](ctx, d, len(ops), inFlight)
	b.run(func(i int) *O { return &ops[i] })
	return b.out
}

// GetMulti reads many documents of one collection at once, as Batch does.
func GetMulti(ctx context.Context, d Dispatcher, c Common, keys [][]byte) []Outcome[GetResult] {
	if out, ok := reads(ctx, d, &c, keys, nil, 0); ok {
		return out
	}
	b := newBatch[GetResult, Get](ctx, d, len(keys), 0)
	op := Get{Common: c}
	b.run(func(i int) *Get {
		op.Key = keys[i]
		return &op
	})
	return b.out
}

// UpsertMulti writes many documents at once, as Batch does.
func UpsertMulti(ctx context.Context, d Dispatcher, docs []Upsert) []Outcome[MutationResult] {
	return Batch(ctx, d, docs, 0)
}

// group is what the calls of one portion of a batch have in common: the last of them to finish wakes who waits.
type group struct{ sync.WaitGroup }

// batch runs its operations in portions. Two of them are under way at a time, so that the nodes have work while the
// outcomes of one are looked at.
type batch[R any, O Op[R]] struct {
	ctx    context.Context
	d      Dispatcher
	many   BatchDispatcher // the same, nil when it is none
	out    []Outcome[R]
	size   int // of a portion
	places [2]portion
	used   int // of the places
	few    [16]*Call
}

// portion is some operations that follow one another.
type portion struct {
	group
	from  int
	calls []*Call // nil for an operation that has its outcome without a call
}

// portions says how many operations at most are in a portion of n with a limit, and whether one or two portions are under
// way at a time.
func portions(n, inFlight int) (size, used int) {
	if inFlight <= 0 {
		inFlight = DefaultInFlight
	}
	if n > inFlight && inFlight > 1 {
		return inFlight / 2, 2
	}
	return min(n, inFlight), 1
}

func newBatch[R any, O Op[R]](ctx context.Context, d Dispatcher, n, inFlight int) *batch[R, O] {
	b := &batch[R, O]{ctx: ctx, d: d, out: make([]Outcome[R], n)}
	b.size, b.used = portions(n, inFlight)
	b.many, _ = d.(BatchDispatcher)
	calls := b.few[:]
	if n := b.used * b.size; n > len(calls) {
		calls = make([]*Call, n)
	}
	for i := range b.used {
		b.places[i].calls = calls[i*b.size : i*b.size : (i+1)*b.size]
	}
	return b
}

// run has all operations' outcomes when it returns. op gives an operation, which is read before op is called again.
func (b *batch[R, O]) run(op func(i int) *O) {
	turn := 0
	for from := 0; from < len(b.out); from += b.size {
		p := &b.places[turn%b.used]
		b.finish(p, op)
		b.start(p, from, op)
		turn++
	}
	for i := range b.used {
		b.finish(&b.places[(turn+i)%b.used], op)
	}
}

// start dispatches the operations of a portion.
func (b *batch[R, O]) start(p *portion, from int, op func(i int) *O) {
	n := min(b.size, len(b.out)-from)
	p.from = from
	p.Add(n)
	all := true
	p.calls = p.calls[:n]
	if b.many != nil {
		b.many.NewCalls(p.calls)
	}
	for i := from; i < from+n; i++ {
		c := p.calls[i-from]
		if b.many == nil {
			c = b.d.NewCall()
		}
		c.form, c.group = formBatch, &p.group
		o := op(i)
		err := load[R](c, o)
		if err == nil && c.mayHedge() && c.hedge() != nil {
			hedgedAsync(b.ctx, b.d, c, *o, func(r R, err error) {
				b.out[i] = Outcome[R]{r, err}
				p.Done()
			})
			c = nil
		} else if err = prepared(b.ctx, c, err); err != nil {
			b.out[i].Err = err
			b.d.Release(c)
			p.Done()
			c = nil
		}
		all = all && c != nil
		p.calls[i-from] = c
	}
	calls := p.calls
	if !all {
		calls = slices.DeleteFunc(slices.Clone(calls), func(c *Call) bool { return c == nil })
	}
	if b.many != nil {
		b.many.DispatchAll(calls)
	} else {
		for _, c := range calls {
			b.d.Dispatch(c)
		}
	}
}

// finish waits for a portion, if it is under way, and keeps its outcomes.
func (b *batch[R, O]) finish(p *portion, op func(i int) *O) {
	if len(p.calls) == 0 {
		return
	}
	p.Wait()
	for k, c := range p.calls {
		if c != nil {
			o := &b.out[p.from+k]
			o.Err = outcome(c, op(p.from+k), &o.Result)
			if b.many == nil {
				b.d.Release(c)
			}
		}
	}
	if b.many != nil {
		b.many.ReleaseAll(p.calls)
	}
	p.calls = p.calls[:0]
}

// BatchSeq runs the operations that ops yields, at most inFlight of them at a time (0 means DefaultInFlight), and yields
// their outcomes in the same order: it takes memory for those that are under way, however many there are. Each is sent
// as soon as ops yields it. A loop that ends early cancels the rest.
func BatchSeq[R any, O Op[R]](ctx context.Context, d Dispatcher, ops iter.Seq[O], inFlight int) iter.Seq2[R, error] {
	if inFlight <= 0 {
		inFlight = DefaultInFlight
	}
	return func(yield func(R, error) bool) {
		next, stop := iter.Pull(ops)
		defer stop()
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
