package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// PollDurability is durability of the older kind: the client asks the nodes until enough of them have a mutation. It
// works with servers that have no synchronous writes, and proves less: a mutation that is lost in a failover meanwhile
// is reported, not prevented. It excludes a durability level.
type PollDurability struct {
	PersistTo   int // nodes that must have it on disk, the active one among them; 0 to 4
	ReplicateTo int // replicas that must have it; 0 to 3
	// ByCAS asks for the document's CAS instead of the mutation's sequence number, also where there is a token.
	ByCAS bool
	// Timeout bounds the polling when neither the context nor the operation does; 0 means 10 s.
	Timeout time.Duration
}

// Pauses between two rounds of questions, growing by two.
const (
	pollFirst          = time.Millisecond
	pollMax            = 100 * time.Millisecond
	defaultPollTimeout = 10 * time.Second
)

// mutated is a result of a write.
type mutated interface{ mutation() MutationResult }

func (m MutationResult) mutation() MutationResult { return m }

// DoPolled runs a write and waits until enough nodes have it. The result is the write's, also when the waiting fails:
// then the error is cberr.AmbiguousTimeout at the deadline, cberr.DurabilityAmbiguous when a failover may have lost the
// mutation, or what has ended the waiting otherwise; Ambiguous is true. More nodes than the bucket has copies are
// cberr.DurabilityImpossible, and nothing is written.
func DoPolled[R mutated, O Op[R]](ctx context.Context, d Dispatcher, op O, p PollDurability) (r R, err error) {
	var req call.Request
	if _, err := encode[R](&req, &op); err == nil && req.Durability != 0 { // other failures are the call's own
		cause := badArgument("durability", "is a level together with polling")
		return r, &Error{
			Op: verbOf(&req), Scope: req.Scope(), Collection: req.Collection(),
			Err: cberr.InvalidArgument, Cause: cause,
		}
	}
	d, leave := compound(d)
	defer leave()
	w := watched{key: req.Key, removed: req.Opcode == memd.OpDelete, poll: p, d: d}
	w.common = Common{
		Scope: req.Scope(), Collection: req.Collection(), CollectionID: req.CollectionID(),
		OnBehalfOf: req.OnBehalfOf(), Block: req.Block(),
	}
	if s := call.SpecOf(req.Opcode); s != nil {
		w.verb = s.Name
	}
	ctx, end := call.Compose(ctx, d.Runner(), "poll_durability", req.Scope(), req.Collection())
	defer func() { end(err) }()
	var cancel context.CancelFunc
	if limit := p.limit(req.Timeout); limit > 0 {
		if _, bounded := ctx.Deadline(); !bounded || req.Timeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
	}
	if err := w.possible(ctx, req.Retry()); err != nil {
		return r, err
	}
	if r, err = Do(ctx, d, op); err != nil {
		return r, err
	}
	m := r.mutation()
	w.cas, w.token = m.CAS, m.Token
	return r, w.wait(ctx)
}

func (p *PollDurability) limit(timeout time.Duration) time.Duration {
	switch {
	case timeout != 0:
		return timeout
	case p.Timeout > 0:
		return p.Timeout
	}
	return defaultPollTimeout
}

// watched is a mutation whose copies are asked after.
type watched struct {
	d       Dispatcher
	verb    string
	common  Common
	key     []byte
	removed bool
	cas     uint64
	token   MutationToken
	poll    PollDurability
}

func (w *watched) fails(kind, cause error, written bool) *Error {
	return &Error{
		Op: w.verb, Bucket: w.token.Bucket, Scope: w.common.Scope, Collection: w.common.Collection, Err: kind,
		Cause: cause, InDoubt: written,
	}
}

// possible says why the bucket can never have enough copies. Until there is a map it waits as the write itself does.
func (w *watched) possible(ctx context.Context, s retry.Strategy) error {
	p := w.poll
	if p.PersistTo < 0 || p.PersistTo > MaxReplicas+1 || p.ReplicateTo < 0 || p.ReplicateTo > MaxReplicas {
		return w.fails(cberr.InvalidArgument, badArgument("persist to or replicate to", "is out of range"), false)
	}
	l, err := awaitMap(ctx, w.d, call.MapWait{Verb: w.verb, Retry: s})
	if err != nil {
		return err
	}
	if n := l.NumReplicas(); p.ReplicateTo > n || p.PersistTo > n+1 {
		cause := fmt.Errorf("the bucket has %d replicas: %w", n, cberr.DurabilityImpossible)
		return w.fails(cberr.DurabilityImpossible, cause, false)
	}
	return nil
}

// have is what is known of one copy.
type have struct{ replicated, persisted bool }

// polling is the state of the waiting: what the newest answer of each copy has proved.
type polling struct {
	known   [MaxReplicas + 1]have
	cancel  [MaxReplicas + 1]func() bool // ends the question that is under way; nil: none is
	answers chan pollAnswer              // has room for one of each copy
}

type pollAnswer struct {
	copy int
	have have
	err  error
}

// wait asks all copies, again and again, until enough of them have the mutation. A copy that is slow to answer delays
// none of the others, and no node once enough of these have it.
func (w *watched) wait(ctx context.Context) error {
	if w.poll.PersistTo == 0 && w.poll.ReplicateTo == 0 {
		return nil
	}
	p := polling{answers: make(chan pollAnswer, MaxReplicas+1)}
	defer p.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := pollFirst; ; {
		select {
		case <-timer.C:
			l, err := awaitMap(ctx, w.d, call.MapWait{Verb: w.verb})
			switch {
			case ctx.Err() != nil:
				return w.ended(ctx, p.known)
			case err != nil:
				return w.fails(cberr.DurabilityAmbiguous, err, true)
			}
			w.ask(ctx, l, &p)
			timer.Reset(pause)
			pause = min(2*pause, pollMax)
		case a := <-p.answers:
			p.cancel[a.copy], p.known[a.copy] = nil, a.have
			switch {
			case a.err != nil && ctx.Err() != nil:
				return w.ended(ctx, p.known)
			case a.err != nil:
				return a.err
			case w.enough(p.known):
				return nil
			}
		case <-ctx.Done():
			return w.ended(ctx, p.known)
		}
	}
}

// stop ends the questions that are still under way.
func (p *polling) stop() {
	for _, cancel := range p.cancel {
		if cancel != nil {
			cancel()
		}
	}
}

func (w *watched) enough(known [MaxReplicas + 1]have) bool {
	persisted, replicated := 0, 0
	for i, h := range known {
		if h.persisted {
			persisted++
		}
		if h.replicated && i > 0 { // the active copy is no replica
			replicated++
		}
	}
	return persisted >= w.poll.PersistTo && replicated >= w.poll.ReplicateTo
}

// PollError says how far a mutation has got when the waiting for it ended.
type PollError struct {
	Persisted, PersistTo    int
	Replicated, ReplicateTo int
	Cause                   error
}

func (e *PollError) Error() string {
	return fmt.Sprintf("on disk on %d of %d nodes, on %d of %d replicas: %v", e.Persisted, e.PersistTo, e.Replicated,
		e.ReplicateTo, e.Cause)
}

func (e *PollError) Unwrap() error { return e.Cause }

func (w *watched) ended(ctx context.Context, known [MaxReplicas + 1]have) error {
	e := &PollError{PersistTo: w.poll.PersistTo, ReplicateTo: w.poll.ReplicateTo, Cause: context.Cause(ctx)}
	for i, h := range known {
		if h.persisted {
			e.Persisted++
		}
		if h.replicated && i > 0 {
			e.Replicated++
		}
	}
	kind := cberr.RequestCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = cberr.AmbiguousTimeout
	}
	return w.fails(kind, e, true)
}

// ask asks every copy that is not being asked: also those that have answered before, because another node may have
// become that copy.
func (w *watched) ask(ctx context.Context, l call.Layout, p *polling) {
	vb := l.VBucket(w.key)
	bySeqno := !w.token.IsZero() && !w.poll.ByCAS
	if bySeqno {
		vb = w.token.VBucket
	}
	for i := range min(l.NumReplicas()+1, len(p.known)) {
		switch {
		case p.cancel[i] != nil:
			continue
		case l.NodeIndex(vb, i) < 0:
			p.known[i] = have{}
			continue
		}
		if bySeqno {
			op := ObserveSeqno{Common: w.common, VBucket: vb, UUID: w.token.UUID, Replica: i}
			p.cancel[i] = Go(ctx, w.d, op, func(r SeqnoResult, err error) {
				h, err := w.bySeqno(i, r, err)
				p.answers <- pollAnswer{i, h, err}
			}).Cancel
		} else {
			op := Observe{Common: w.common, Key: w.key, Replica: i}
			p.cancel[i] = Go(ctx, w.d, op, func(r ObserveResult, err error) {
				h, err := w.byCAS(i, r, err)
				p.answers <- pollAnswer{i, h, err}
			}).Cancel
		}
	}
}

// bySeqno says what an answer to OBSERVE_SEQNO proves; an error ends the waiting.
func (w *watched) bySeqno(replica int, r SeqnoResult, err error) (have, error) {
	switch {
	case errors.Is(err, cberr.DocumentNotFound) && replica == 0:
		// the active copy does not know the history any more
		return have{}, w.fails(cberr.DurabilityAmbiguous, err, true)
	case err != nil:
		return have{}, w.fatal(err)
	case r.FailedOver && r.OldSeqno < w.token.Seqno:
		cause := fmt.Errorf("the history ended at %d before mutation %d: %w", r.OldSeqno, w.token.Seqno,
			cberr.DurabilityAmbiguous)
		return have{}, w.fails(cberr.DurabilityAmbiguous, cause, true)
	}
	return have{replicated: r.Current >= w.token.Seqno, persisted: r.Persisted >= w.token.Seqno}, nil
}

// byCAS says what an answer to OBSERVE proves; an error ends the waiting.
func (w *watched) byCAS(replica int, r ObserveResult, err error) (have, error) {
	if err != nil {
		return have{}, w.fatal(err)
	}
	if w.removed {
		return have{replicated: r.State >= ObserveMissing, persisted: r.State == ObserveMissing}, nil
	}
	same := r.State <= ObservePersisted && r.CAS == w.cas
	if !same && replica == 0 {
		cause := fmt.Errorf("the document has been changed again: %w", cberr.DurabilityAmbiguous)
		return have{}, w.fails(cberr.DurabilityAmbiguous, cause, true)
	}
	return have{replicated: same, persisted: same && r.State == ObservePersisted}, nil
}

// fatal gives the error of a question that it makes no sense to repeat; a copy that is out of reach is just not
// counted.
func (w *watched) fatal(err error) error {
	for _, kind := range [...]*cberr.Kind{
		cberr.UnsupportedOperation, cberr.FeatureNotAvailable, cberr.InvalidArgument, cberr.AuthenticationFailure,
		cberr.CollectionNotFound, cberr.ScopeNotFound, cberr.DecodingFailure,
	} {
		if errors.Is(err, kind) {
			return w.fails(kind, err, true)
		}
	}
	return nil
}
