package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
	"github.com/couchcore/couchcore/retry/policy"
)

// Hedge asks for a request that only reads to be sent to more nodes than one: first to one of them, then, each time
// Delay has passed without an answer, to one that has not been asked yet. The first good answer wins and the others are
// cancelled. Each node is asked once. Its fields:
//
//	MaxAttempts int              // nodes at most, the first included; below 2 there is only that one
//	Delay       time.Duration    // from one node to the next; 0 asks all at once
//	NonFatal    func(error) bool // after which failures other nodes are still of use; nil: those with a retry reason
//
// That a node cannot be reached, or that the connection to it is lost before anything comes back, is never the end,
// whatever NonFatal says.
type Hedge = httpsvc.Hedge

// hedge is how a request is hedged, nil for not at all: as it says itself, or as the policy says unless it names a
// strategy of its own.
func (c *Cluster) hedge(service Service, operation string, own *Hedge, strategy retry.Strategy) *Hedge {
	e, _ := c.policy.Load().For(retry.Service(service.String()), operation)
	rule := ruleOf[Hedge](&e)
	own = rule.HedgeOf(strategy, own)
	if own == nil || own.MaxAttempts < 2 {
		return nil
	}
	return own
}

// hedgedRequest is what hedgeHTTP needs to know of a request.
type hedgedRequest struct {
	service             Service
	operation, bucket   string
	inBucket, scope     string // for spans: that the names in a statement are of
	statement           string // for spans: one that has parameters
	idempotent, onlyOne bool   // onlyOne: it names its node, or cannot be sent twice
	own                 *Hedge
	strategy            retry.Strategy
}

// hedgeHTTP runs a request that may be hedged: run sends it with the Doer that it is given. A request that is not to be
// hedged, or cannot be, is run once. close gives back a result that came after the first one.
func hedgeHTTP[R any](
	ctx context.Context, c *Cluster, r hedgedRequest, run func(context.Context, httpsvc.Doer) (R, error),
	closeIt func(R),
) (res R, err error) {
	var none R
	ctx, end := c.http.Observe(ctx, observe.Target{
		Service: r.service.String(), Operation: r.operation, Bucket: cmp.Or(r.bucket, r.inBucket), Scope: r.scope,
	}, r.statement)
	defer func() { end(err) }()
	ctx, leave := c.enter(ctx)
	defer leave()
	if r.own != nil && r.own.MaxAttempts > 1 && r.strategy != nil {
		return none, errHedgedAndRetried
	}
	d := c.doer()
	h := c.hedge(r.service, r.operation, r.own, r.strategy)
	if h == nil || !r.idempotent || r.onlyOne {
		return run(ctx, d)
	}
	svc, known := httpx.InMap(r.service)
	if !known {
		return run(ctx, d)
	}
	addrs, _ := c.endpoints(svc, r.bucket)
	if len(addrs) < 2 {
		return run(ctx, d)
	}
	start := int(c.cfg.Retry.JitterSource() * float64(len(addrs)))
	x := &hedgedHTTP[R]{
		c: c, d: d, ctx: ctx, addrs: slices.Concat(addrs[start:], addrs[:start]), run: run,
		close: closeIt, began: time.Now(), limit: c.hedgeLimit(r),
	}
	p := hedge.Policy{
		MaxAttempts: min(h.MaxAttempts, len(addrs)), Delay: h.Delay, Idempotent: true, Throttle: c.policy.Load(),
		NonFatal: hedge.NonFatal(h.NonFatal),
	}
	res, stats, err := hedge.Do(ctx, p, x.try)
	c.orch.Hedged(retry.Service(r.service.String()), r.operation, stats.Sent, stats.Failed)
	res, err = x.end(res, err)
	if retry.Transparent(err) && ctx.Err() == nil {
		res, err = run(ctx, waiting{d, x.limit, x.began})
	}
	return res, err
}

var errHedgedAndRetried = fmt.Errorf("%w: Hedge is set beside Retry: a request is hedged or retried, not both",
	cberr.InvalidArgument)

// waiting sends a request that no node has taken yet as soon as there is one that does.
type waiting struct {
	d     httpsvc.Doer
	limit time.Duration // of all attempts together, if nothing else says one
	began time.Time     // of the first attempt
}

// Do implements httpsvc.Doer.
func (w waiting) Do(ctx context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	later := *r
	later.Strategy = policy.Unreached()
	later.Timeout = leftOf(ctx, r.Timeout, w.limit, w.began)
	return w.d.Do(ctx, &later)
}

// leftOf is the timeout of a request whose attempts have begun: that which it names, or else limit unless ctx has a
// deadline, is the time of all of them together.
func leftOf(ctx context.Context, named, limit time.Duration, began time.Time) time.Duration {
	if _, ok := ctx.Deadline(); named == 0 && !ok {
		named = limit
	}
	if named > 0 {
		named = max(named-time.Since(began), 1)
	}
	return named
}

// hedgeLimit is the time of a request that names none: the policy's, or the service's.
func (c *Cluster) hedgeLimit(r hedgedRequest) time.Duration {
	e, _ := c.policy.Load().For(retry.Service(r.service.String()), r.operation)
	return cmp.Or(e.Timeout, c.cfg.httpTimeout(r.service))
}

// hedgedHTTP is one request on its way to several nodes.
type hedgedHTTP[R any] struct {
	c     *Cluster
	d     httpsvc.Doer
	ctx   context.Context
	addrs []string
	run   func(context.Context, httpsvc.Doer) (R, error)
	close func(R)
	began time.Time
	limit time.Duration
	seen  seen

	mu   sync.Mutex
	won  bool // one attempt has a result
	over bool // the caller has left
	best R
}

var errLost = errors.New("another node has answered first")

// try asks one node. The result outlives the race, so its context is no child of the race's: it ends with the caller's,
// when the result is closed, or when another one has won.
func (x *hedgedHTTP[R]) try(race context.Context, n int, avoid *hedge.Avoid) (R, error) {
	avoid.Use(x.addrs[n])
	ctx, cancel := context.WithCancelCause(x.ctx)
	stop := context.AfterFunc(race, func() { cancel(errLost) })
	d := &pinned{d: x.d, addr: x.addrs[n], end: func() { cancel(nil) }, began: x.began, limit: x.limit, seen: &x.seen}
	r, err := x.run(ctx, d)
	if err != nil {
		stop()
		cancel(nil)
		return r, err
	}
	x.mu.Lock()
	lost := !stop() || x.won || x.over
	if !lost {
		x.won, x.best = true, r
	}
	x.mu.Unlock()
	d.returned()
	if lost {
		x.close(r)
		cancel(nil)
		var none R
		return none, errLost
	}
	return r, nil
}

// end gives the outcome, and closes a result that came when the race was over.
func (x *hedgedHTTP[R]) end(r R, err error) (R, error) {
	x.mu.Lock()
	x.over = true
	late := err != nil && x.won
	best := x.best
	x.mu.Unlock()
	if late {
		x.close(best)
	}
	return r, err
}

// pinned sends requests to one node, once, and says when the last of their answers was closed.
type pinned struct {
	d     httpsvc.Doer
	addr  string
	end   func()
	began time.Time     // of the first attempt
	limit time.Duration // of all attempts together, if nothing else says one
	seen  *seen

	mu   sync.Mutex
	open int
	done bool
}

// Do implements httpsvc.Doer.
func (p *pinned) Do(ctx context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	once := *r
	once.Endpoint, once.Strategy = p.addr, call.Strict
	once.Timeout = leftOf(ctx, r.Timeout, p.limit, p.began)
	once.Seen = p.seen.of(r.Operation)
	resp, err := p.d.Do(ctx, &once)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	resp.Body = &pinnedBody{ReadCloser: resp.Body, p: p}
	return resp, nil
}

// returned says that no further request will come.
func (p *pinned) returned() { p.change(func() { p.done = true }) }

func (p *pinned) change(f func()) {
	p.mu.Lock()
	f()
	end := p.done && p.open == 0
	p.mu.Unlock()
	if end {
		p.end()
	}
}

type pinnedBody struct {
	io.ReadCloser
	p    *pinned
	once sync.Once
}

// Close closes the answer, and ends the request's context with the last of them.
func (b *pinnedBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() { b.p.change(func() { b.p.open-- }) })
	return err
}

// seen counts the requests that the nodes of a hedged operation have seen, by their own operation: a statement may be
// prepared first.
type seen struct {
	mu sync.Mutex
	n  map[string]*atomic.Int32
}

func (s *seen) of(operation string) *atomic.Int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = map[string]*atomic.Int32{}
	}
	if s.n[operation] == nil {
		s.n[operation] = &atomic.Int32{}
	}
	return s.n[operation]
}
