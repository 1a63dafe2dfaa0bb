package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
)

// almostOne is the largest number that a jitter source gives.
var almostOne = math.Nextafter(1, 0)

// explanation is one question: what becomes of an operation that met this?
type explanation struct {
	service  retry.Service
	op       string
	strategy chosen
	own      chosen // that the call names itself
	attempt  int    // retries that were made already
	subject
}

// subject is an operation of one service and what it met.
type subject interface {
	// meet runs a real call of the client's through j, so that its error, its reason and its delay are the client's. It
	// gives the call's error.
	meet(j *judge) error
	// hedgeable reports whether the operation may be sent to several nodes at once.
	hedgeable() bool
	// mayFollow reports whether the first retry may come at once, because the answer can bring a newer cluster map.
	mayFollow() bool
	// lines describe for people what was met. kind is that of the failure that it is when nothing is retried.
	lines(kind string) [][2]string
}

// judged is what the client's own tables and its orchestrator made of it.
type judged struct {
	reason    *retry.Reason // nil when it is no retry matter
	retried   bool
	hedged    bool // retried by asking another node at once
	delay     time.Duration
	err       error // nil for a success and a retry
	unpaid    bool  // the token bucket cannot pay for the retry when its delay is over
	consulted bool
	by        string // the strategy, for people
	kind      retry.Kind
	applied   applied
}

// judge is the client's retry machinery for one call, which ends with its first decision.
type judge struct {
	x       *explanation
	applied applied
	random  *loaded
	orch    *retry.Orchestrator
	decided func() // called when the call is to be sent again; nil does nothing
	met     bool   // the call met what was asked about
	out     judged
}

// judge runs the call once: past are the random numbers of earlier retries, now those of the next one.
func (x *explanation) judge(past, now float64) (judged, error) {
	random := &loaded{past: past, now: now}
	how, err := x.strategy.of(x.service, x.op, random.roll, x.own)
	if err != nil {
		return judged{}, err
	}
	return x.judgeAs(how, random)
}

// loaded is a jitter source that gives the same number until it is set.
type loaded struct {
	past, now float64
	turned    bool
}

func (d *loaded) roll() float64 {
	if d.turned {
		return d.now
	}
	return d.past
}

// kind is the kind of the failure that it is when nothing is retried.
func (x *explanation) kind() string {
	if err := x.unretried(); err != nil {
		return failureOf(err).Kind
	}
	return ""
}

// unretried is the failure that it is when nothing is retried; or nil.
func (x *explanation) unretried() error {
	j, err := x.judgeAs(applied{strategy: dispatch.Strict}, &loaded{})
	if err != nil || j.retried {
		return nil //nolint:nilerr // nothing was met
	}
	return j.err
}

func (x *explanation) judgeAs(how applied, random *loaded) (judged, error) {
	if how.hedge != nil {
		if x.hedgeable() {
			how.strategy = dispatch.Strict
		} else { // one plain send, as without the policy
			how.hedge = nil
		}
	}
	j := &judge{x: x, applied: how, random: random, out: judged{by: how.name, applied: how}}
	j.orch = retry.New(retry.Options{Default: (*atAttempt)(j), Observer: (*watcher)(j), JitterSource: random.roll})
	err := x.meet(j)
	j.orch.Close(retry.ErrClosed)
	switch {
	case !j.met:
		return judged{}, fmt.Errorf("explain: the operation was refused before it met anything: %w", err)
	case !j.out.retried:
		j.out.err = err
		j.askNodes()
	case !j.out.consulted:
		j.out.delay = retry.Controlled(x.attempt, 0)
	}
	if j.charge(); j.out.unpaid {
		j.out.err = fmt.Errorf("%w: %w", retry.ErrThrottled, x.unretried())
	}
	return j.out, nil
}

// askNodes turns a failure after which other nodes are of use into the next hedge.
func (j *judge) askNodes() {
	h := j.applied.hedge
	if h == nil || j.out.err == nil {
		return
	}
	j.out.consulted = false // each attempt of a hedged call is the only one to its node
	var push retry.Pushback
	var carrier interface{ Pushback() retry.Pushback }
	if errors.As(j.out.err, &carrier) {
		push = carrier.Pushback()
	}
	// A replica may have less than the active copy.
	lags := j.x.service == retry.KV && j.x.attempt > 0 && errors.Is(j.out.err, cberr.DocumentNotFound)
	switch {
	case j.x.attempt+2 > h.MaxAttempts || push.Never() || !lags && !hedge.NonFatal(h.IsNonFatal)(j.out.err):
	case j.throttled():
	default:
		j.out.delay, _ = push.After()
		j.out.retried, j.out.hedged, j.out.err = true, true, nil
	}
}

// throttled reports whether a node that was asked, each of which has failed, has too few tokens for a further hedge.
func (j *judge) throttled() bool {
	for n := range min(j.x.attempt+1, mostReplayed) {
		if !j.applied.file.Tokens(strconv.Itoa(n)).Failure() {
			return true
		}
	}
	return false
}

// charge takes what the retries have cost from a full token bucket, the next one included.
func (j *judge) charge() {
	a := &j.applied
	if !j.out.retried || !j.out.consulted || !a.budgeted() || j.out.reason.Unseen() {
		return
	}
	if (j.x.attempt+1)*a.file.Cost(j.out.kind) > a.file.Capacity() {
		j.out.retried, j.out.unpaid = false, true
	}
}

// prospect is what can become of it: its random numbers may be any.
type prospect struct {
	judged         // one judgement: a retry if there can be one
	least, longest time.Duration
	other          *judged // the failure that it may be as well; nil for none
}

// prospect judges with the random numbers that make the shortest delays and with those that make the longest, and where
// a limit lets only the shorter ones pass, with the longest of those.
func (x *explanation) prospect() (o prospect, err error) {
	for _, past := range []float64{0, almostOne} {
		short, err := x.judge(past, 0)
		if err != nil {
			return o, err
		}
		long, err := x.judge(past, almostOne)
		if err != nil {
			return o, err
		}
		all := []judged{short, long}
		if short.retried && !long.retried {
			longest, err := x.longest(past, short)
			if err != nil {
				return o, err
			}
			all = append(all, longest)
		}
		for _, j := range all {
			o.add(j)
		}
	}
	return o, nil
}

// longest finds the longest delay that is retried, between one that is and one that is not.
func (x *explanation) longest(past float64, retried judged) (judged, error) {
	const steps = 32
	low, high := 0.0, almostOne
	for range steps {
		mid := (low + high) / 2
		j, err := x.judge(past, mid)
		switch {
		case err != nil:
			return retried, err
		case j.retried:
			retried, low = j, mid
		default:
			high = mid
		}
	}
	return retried, nil
}

// add takes one more judgement in.
func (o *prospect) add(j judged) {
	switch {
	case !j.retried && o.retried:
		o.other = &j
	case !j.retried:
		o.judged = j
	case !o.retried:
		if o.err != nil { // what came before was a failure
			failed := o.judged
			o.other = &failed
		}
		o.judged, o.least, o.longest = j, j.delay, j.delay
	default:
		o.least, o.longest = min(o.least, j.delay), max(o.longest, j.delay)
	}
}

// why notes the reason that the call's failure has.
func (j *judge) why(r retry.Reason) { j.out.reason = &r }

// mostReplayed bounds the earlier retries that are gone through for their delays.
const mostReplayed = 10_000

// atAttempt asks the strategy as if so many retries had been made, each for the same reason.
type atAttempt judge

// RetryAfter implements retry.Strategy.
func (s *atAttempt) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.out.consulted, s.out.kind = true, r.Kind
	r.Endpoint = node // the same one each time, so that its throttle counts
	for n := range min(s.x.attempt, mostReplayed) {
		earlier := *r
		earlier.BackoffStep = n
		setRetries(&earlier, why, n)
		d, again := s.applied.strategy.RetryAfter(ctx, &earlier, why).Delay()
		if !again {
			break
		}
		r.LastDelay, r.Waited = d, r.Waited+d
	}
	s.random.turned = true
	r.Started = time.Now().Add(-r.Waited)
	r.BackoffStep = s.x.attempt
	setRetries(r, why, s.x.attempt)
	a := s.applied.strategy.RetryAfter(ctx, r, why)
	return a.WithDelay(a.Wait(s.x.attempt, r.Pushback, why)) // the orchestrator does so, but it has seen no retry
}

// setRetries counts retries as the orchestrator does: those that no server has seen apart.
func setRetries(r *retry.Request, why retry.Reason, n int) {
	if why.Unseen() {
		r.Transparent, r.UnseenSteps = n, n
	} else {
		r.Attempts = n
	}
}

// Inline implements retry.Inline.
func (s *atAttempt) Inline() bool { return true }

// watcher sees the orchestrator's decision.
type watcher judge

// Attempt implements retry.Observer.
func (w *watcher) Attempt(i retry.AttemptInfo) {
	if w.out.reason == nil {
		w.out.reason = &i.Reason
	}
}

// Retry implements retry.Observer.
func (w *watcher) Retry(_ *retry.Request, _ retry.Reason, d time.Duration) {
	if w.out.retried {
		return
	}
	w.out.retried, w.out.delay = true, d
	if w.decided != nil {
		w.decided()
	}
}

// GaveUp implements retry.Observer.
func (w *watcher) GaveUp(*retry.Request, retry.Reason, error) {}
