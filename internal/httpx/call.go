package httpx

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// call is one request on its way: an operation of the orchestrator. Its attempts run on the caller's goroutine; the
// orchestrator only wakes it.
type call struct {
	made      *attempt // what the dialer knows of the latest attempt
	c         *Client
	r         *httpsvc.Request
	ctx       context.Context
	state     retry.State
	operation string
	began     time.Time
	endpoint  string
	avoid     map[string]bool        // nodes that this request could not reach
	turn      uint32                 // of the attempt among the service's nodes
	attempts  int                    // that were handed to net/http
	size      int                    // of the body
	queued    bool                   // it waited for another request's retry
	lead      lead                   // the gate's queues that the request is at the head of
	ended     error                  // an end that no retry can change; nil: none
	refusal   *httpsvc.ResponseError // the latest answer that was a failure
	whole     *whole                 // nil: not observed
	times     times

	again   chan struct{} // has a value when the orchestrator says that the next attempt is due
	done    chan struct{} // closed when the orchestrator has ended the call, with the next two
	err     error
	inDoubt bool
}

// Do sends the request until a service has answered it, at most until its deadline, which is the earlier one of ctx's
// and the request's own, or the service's if neither is there. Without a Judge it gives the answer whatever its status,
// but for 429, 503 and 504: those are failures, and are retried where the rules allow it. It blocks for the headers,
// and for as much of the body as the Judge reads; the rest streams, until the deadline, and must be closed. The error
// is an *httpsvc.Error, or what the request's Before has said.
func (c *Client) Do(ctx context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	k := &call{
		c: c, r: r, operation: r.Operation, began: time.Now(), again: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if k.operation == "" {
		k.operation = r.Method
	}
	strategy, timeout := r.Strategy, time.Duration(0)
	if c.o.Policy != nil {
		strategy, timeout = c.o.Policy(retry.Service(r.Service.String()), k.operation, r.Strategy)
	}
	ctx, end := c.limit(ctx, timeout, r)
	k.ctx = ctx
	k.state.Idempotent = httpsvc.Reads(r.Method, r.Idempotent)
	k.state.Strategy = strategy
	k.state.Deadline, _ = ctx.Deadline()
	observed := k.begin(ctx)
	resp, err := k.run()
	k.c.gate.leave(&k.lead)
	observed(err)
	k.report()
	if r.Stream != nil && k.attempts == 0 {
		closeBody(ctx, r.Stream.Body) // otherwise net/http has
	}
	if err != nil {
		end()
		return nil, err
	}
	if b, ok := resp.Body.(*body); ok {
		b.end = append(b.end, end)
	}
	return resp, nil
}

// limit gives the context of a request: it ends at the deadline, with the client, and when end is called. Until then
// the request is under way.
func (c *Client) limit(ctx context.Context, timeout time.Duration, r *httpsvc.Request) (_ context.Context, end func()) {
	if r.Timeout > 0 {
		timeout = r.Timeout
	}
	if _, limited := ctx.Deadline(); timeout <= 0 && !limited {
		if c.o.Timeout != nil {
			timeout = c.o.Timeout(r.Service)
		}
		setDefault(&timeout, defaultTimeout)
	}
	place := c.o.Door.Place()
	place.Hold()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	cancelTimeout := func() {}
	if timeout > 0 {
		ctx, cancelTimeout = context.WithTimeout(ctx, timeout)
	}
	return ctx, func() {
		stop()
		cancelTimeout()
		cancel(nil)
		place.Leave()
	}
}

func (k *call) run() (*httpsvc.Response, error) {
	for {
		if resp := k.attempt(); resp != nil {
			if won, _ := k.state.Finish(); won {
				k.state.Settle(nil)
				resp.Retry = k.state.Info()
				return resp, nil
			}
			resp.Body.Close()
		}
		if k.ended != nil {
			return nil, k.ended
		}
		select {
		case <-k.again:
			k.retried()
		case <-k.done:
			return nil, k.failure()
		case <-k.ctx.Done():
			if errors.Is(k.ctx.Err(), context.DeadlineExceeded) {
				k.c.o.Orchestrator.Expire(k)
			} else {
				k.c.o.Orchestrator.Cancel(k, context.Cause(k.ctx))
			}
			<-k.done
			return nil, k.failure()
		}
	}
}

// place chooses the node of an attempt. It waits for the first cluster map, once. A new request also waits while the
// gate keeps it back, because the node has told another one of the same path to come back later. It is false when the
// call has ended, or the orchestrator was asked.
func (k *call) place() (ok bool) {
	if next := k.c.next[k.r.Service]; next != nil { // one turn, however often the attempt looks for a node
		k.turn = next.Add(1)
	}
	joined := false // the queue
	defer func() {
		if joined {
			k.c.gate.queued.Add(-1)
		}
	}()
	for waited := false; ; {
		since := k.c.o.Orchestrator.Wakes()
		ch := k.c.pick(k)
		if ch.unknown && !waited && k.c.o.AwaitMap != nil {
			waited = true
			if k.c.o.AwaitMap(k.ctx, k.r.Bucket); k.ctx.Err() != nil {
				return false
			}
			continue
		}
		if now := time.Now(); !ch.bar.is(now) {
			k.endpoint = ch.addr
			switch {
			case ch.foreign:
				k.stop(k.invalidEndpoint())
				return false
			case ch.unknown:
				k.notSentFor(cmp.Or(k.r.Bucket, health.AnyService), since, retry.ServiceNotAvailable,
					k.withoutNode(errNoMap))
				return false
			case ch.addr == "":
				k.notSent(since, retry.ServiceNotAvailable, k.withoutNode(errNoEndpoint))
				return false
			case k.attempts == 0 && !k.c.gate.pass(&k.lead, ch.addr, k.r.Path, now):
				continue
			case k.lead.addr == ch.addr:
				k.c.gate.again(&k.lead)
			default: // the request has a node that is not the one whose queues it leads
				k.c.gate.leave(&k.lead)
			}
			return true
		}
		if !joined {
			joined, k.queued = true, true
			if k.c.gate.queued.Add(1) > mostQueued {
				k.notSent(since, retry.EndpointNotWritable, errQueueFull)
				return false
			}
		}
		if !k.standBack(&ch.bar) {
			return false
		}
	}
}

// standBack waits until the gate may let the request go. It is false when the request has ended before.
func (k *call) standBack(bar *barred) bool {
	var due <-chan time.Time
	if !bar.led { // a request that goes first closes changed when it is answered
		t := time.NewTimer(time.Until(bar.until))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
	case <-bar.changed:
	case <-k.ctx.Done():
		return false
	}
	return true
}

// attempt sends the request once. It gives the answer if that is for the caller. Otherwise the call has ended, or the
// orchestrator has been asked and will call Dispatch or Done.
func (k *call) attempt() *httpsvc.Response {
	if k.r.Before != nil {
		if err := k.r.Before(k.ctx); err != nil {
			k.finish(err)
			return nil
		}
	}
	if !k.place() {
		return nil
	}
	ctx, cancel := context.WithCancel(k.ctx)
	w := &wire{state: &k.state, seen: k.r.Seen, made: &attempt{ctx: ctx}}
	k.made = w.made
	h, err := k.request(context.WithValue(w.trace(traced(ctx)), attemptKey{}, w.made))
	if err != nil {
		cancel()
		k.unmade(err)
		return nil
	}
	k.attempts++
	span := k.attempted()
	began := time.Now()
	resp, err := k.c.hc.Do(h) //nolint:bodyclose // the receiver of the body closes it
	if err != nil {
		cancel()
		k.times.attempt(w, began)
		span.end(w, lostAttempt(k.r.UniqueID))
		epoch := w.lost()
		k.count(epoch, time.Since(began), err)
		k.failed(epoch, false, withoutURL(err))
		return nil
	}
	return k.answered(w, span, began, resp, k.newBody(ctx, cancel, resp.Body))
}

// unmade handles an attempt whose request could not be made: nothing was sent.
func (k *call) unmade(err error) {
	var cf *credentialsError
	switch {
	case k.ctx.Err() != nil: // run ends the call
	case errors.As(err, &cf):
		k.notSent(0, retry.CredentialsFetchFailed, err)
	case errors.Is(err, errTurned):
		k.notSent(k.c.o.Orchestrator.Wakes(), retry.SocketNotAvailable, err)
	default:
		k.stop(err)
	}
}

// answered handles an attempt that was answered, and gives the answer if that is for the caller.
func (k *call) answered(w *wire, span observed, began time.Time, resp *http.Response, b *body) *httpsvc.Response {
	epoch := w.end()
	k.c.sick.well(k.endpoint)
	if resp.StatusCode < http.StatusOK { // net/http passes over all of them but 101
		span.end(w, attemptOf(k.r.UniqueID, resp.StatusCode))
		b.close()
		if k.state.Answered(epoch) {
			k.finish(k.describe(errSwitched, !k.state.Idempotent, k.state.Info()))
		}
		return nil
	}
	a := &httpsvc.Response{
		Status: resp.StatusCode, Header: resp.Header, Body: b, Endpoint: k.endpoint,
		RowLimit: k.c.o.RowLimit, RowDepth: k.c.o.RowDepth,
		Framed: resp.ContentLength >= 0 || len(resp.TransferEncoding) > 0 || resp.ProtoMajor > 1,
	}
	v, err := k.judgeIn(a, b)
	k.times.attempt(w, began)
	k.count(epoch, time.Since(began), err)
	w.answered(err == nil && (v.give || v.why == retry.Unknown))
	span.end(w, attemptOf(k.r.UniqueID, a.Status))
	switch {
	case err != nil:
		b.close()
		k.failed(epoch, true, err)
		return nil
	case !k.state.Answered(epoch):
		b.close()
		return nil
	case v.give:
		k.well()
		k.c.gate.answered(&k.lead, k.endpoint, k.r.Path, time.Now())
		b.given.Store(true)
		return a
	}
	if !v.hint.InDoubt {
		k.state.NotApplied()
	}
	b.drain()
	k.refused(v, a.Status)
	return nil
}

// refused handles an answer that is a failure: it may be retried, or it ends the call.
func (k *call) refused(v judgement, status int) {
	throttled := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if !throttled {
		k.c.gate.answered(&k.lead, k.endpoint, k.r.Path, time.Now())
	}
	if v.why == retry.Unknown {
		k.well()
		k.finish(k.describe(v.err, v.hint.InDoubt && !k.state.Idempotent, k.state.Info()))
		return
	}
	k.c.o.Orchestrator.MaybeRetry(k, v.why, v.err, v.hint)
	if !throttled {
		return
	}
	// The strategy has answered already, if it is one that does not block. Otherwise the server's own delay has to do:
	// it would be chance whether the strategy's is there yet.
	now := time.Now()
	delay, _ := v.hint.Pushback.After()
	if log := k.state.Info().Log; len(log) > 0 && k.c.o.Orchestrator.AnswersAtOnce(k) {
		delay = max(delay, log[len(log)-1].Delay)
	}
	if p := k.state.Phase(); delay > 0 && (p == retry.PhaseParked || p == retry.PhaseDeciding) {
		k.c.gate.refused(&k.lead, k.endpoint, k.r.Path, now.Add(delay))
	}
}

// well says that the node has given an answer that is no retryable failure.
func (k *call) well() {
	if k.c.o.Well != nil {
		k.c.o.Well(k.endpoint)
	}
}

// failed is an attempt without a whole answer: never sent if nothing was written, otherwise in flight. begun says that
// the answer had begun when the connection died: the service has seen the request.
func (k *call) failed(epoch uint32, begun bool, err error) {
	if k.ctx.Err() != nil || k.c.ctx.Err() != nil {
		return // the deadline, the caller or the client ends the call, and knows whether it was on the wire
	}
	if k.avoid == nil {
		k.avoid = map[string]bool{}
	}
	k.avoid[k.endpoint] = true
	k.c.sick.add(k.endpoint, time.Now())
	switch {
	case epoch == 0:
		k.notSent(k.c.o.Orchestrator.Wakes(), retry.SocketNotAvailable, err)
	case begun:
		k.c.o.Orchestrator.AnswerLost(k, epoch, err)
	default:
		k.c.o.Orchestrator.ConnLost(k, epoch, err)
	}
}

// notSent is the end of an attempt that reached no socket. since is what Wakes gave before a node was looked for.
func (k *call) notSent(since uint64, why retry.Reason, cause error) {
	k.notSentFor(health.AnyService, since, why, cause)
}

// notSentFor is notSent where a condition of that bucket counts, because only the bucket's map would name a node:
// without it, what keeps the bucket from being opened keeps the request from being sent.
func (k *call) notSentFor(bucket string, since uint64, why retry.Reason, cause error) {
	if !k.state.NotSent() {
		return
	}
	if better, err := k.c.o.Health.Refine(why, bucket, ""); err != nil {
		why, cause = better, err
	}
	k.c.o.Orchestrator.MaybeRetry(k, why, cause, retry.Hint{Wakes: since})
}

// stop ends the call with a failure that is the client's own, in place of an attempt.
func (k *call) stop(cause error) {
	info := k.state.Info()
	info.Unsent++
	k.finish(k.describe(cause, false, info))
}

// finish ends the call with err, unless it has ended already.
func (k *call) finish(err error) {
	if won, _ := k.state.Finish(); won {
		k.state.Settle(err)
		k.ended = err
	}
}

// Retry implements retry.Op.
func (k *call) Retry() *retry.State { return &k.state }

// Context implements retry.Op.
func (k *call) Context() context.Context { return k.ctx }

// Size implements retry.Op: a parked call holds what its body is made of. One that was read while it was sent cannot be
// sent again.
func (k *call) Size() int {
	if k.r.Stream != nil && k.r.Stream.Again == nil {
		return -1
	}
	return k.size
}

// Dispatch implements retry.Op: it wakes the caller's goroutine.
func (k *call) Dispatch() { k.again <- struct{}{} }

// Done implements retry.Op.
func (k *call) Done(err error, inDoubt bool) {
	k.err, k.inDoubt = err, inDoubt
	close(k.done)
}

// Describe implements retry.Op.
func (k *call) Describe(r *retry.Request) {
	r.Service, r.Operation, r.Endpoint, r.ID = retry.Service(k.r.Service.String()), k.operation, k.endpoint,
		k.r.UniqueID
	r.Bucket, r.Started = k.r.Bucket, k.began
}

// Explain implements retry.Explainer. What keeps a bucket from being opened is told beside what matters to any request:
// with a map it is no reason for a request to a service, but may be why there is no newer one to go by.
func (k *call) Explain(cause error) error {
	return k.c.o.Health.Known(cmp.Or(k.r.Bucket, health.AnyService), cause)
}
