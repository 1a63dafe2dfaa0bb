package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
	"github.com/couchcore/couchcore/retry/policy"
)

// almostOne is the largest number that a jitter source gives.
var almostOne = math.Nextafter(1, 0)

// explanation is one question: what becomes of an operation that met this?
type explanation struct {
	service  retry.Service
	op       string
	strategy chosen
	own      chosen // that the call names itself
	retries  int    // that were made already
	moved    bool   // the answer brings a cluster map by which the operation goes elsewhere
	subject
}

// subject is an operation of one service and what it met.
type subject interface {
	// meet runs a real call of the client's through j, so that its error, its reason and its delay are the client's. It
	// gives the call's error.
	meet(j *judge) error
	// hedgeable reports whether the operation may be sent to several nodes at once.
	hedgeable() bool
	// hedged is what a failure says of the n-th attempt of a hedged operation, 0 being the first.
	hedged(n int, err error) error
	// mayMove reports whether the answer can bring a newer cluster map.
	mayMove() bool
	// lines describe for people what was met. kind is that of the failure that it is when nothing is retried.
	lines(kind string) [][2]string
}

// judged is what the client's own tables and its orchestrator made of it.
type judged struct {
	reason    *retry.Reason // nil when it is no retry matter
	retried   bool
	hedged    bool // retried by asking another node at once
	alone     bool // retried by asking the first node once more, after all hedges
	delay     time.Duration
	wait      time.Duration // before a failure that comes as at a deadline
	err       error         // nil for a success and a retry
	unpaid    bool          // the token bucket cannot pay for the retry when its delay is over
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
	before  int    // retries that were made already
	decided func() // called when the call is to be sent again; nil does nothing
	met     bool   // the call met what was asked about
	out     judged
}

// judge runs the call once: past are the random numbers of earlier retries, now those of the next one.
func (x *explanation) judge(past, now float64) (judged, error) {
	random := &loaded{past: past, now: now}
	how, err := x.strategy.of(x.service, x.op, random, x.own)
	if err != nil {
		return judged{}, err
	}
	return x.judgeAs(how, random)
}

// loaded is a jitter source that gives the same number until it is set, and a clock that only delays move.
type loaded struct {
	past, now float64
	turned    bool
	run       *retry.Rehearsal // nil before there are delays
}

func (d *loaded) elapsed() time.Duration {
	if d.run == nil {
		return 0
	}
	return d.run.Waited()
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
	j, err := x.judgeAs(applied{strategy: call.Strict}, &loaded{})
	if err != nil || j.retried {
		return nil //nolint:nilerr // nothing was met
	}
	return j.err
}

func (x *explanation) judgeAs(how applied, random *loaded) (judged, error) {
	if how.hedge != nil {
		if x.hedgeable() {
			how.strategy = call.Strict
		} else { // one plain send, as without the policy
			how.hedge = nil
		}
	}
	j := &judge{x: x, applied: how, random: random, before: x.retries, out: judged{by: how.name, applied: how}}
	j.orch = retry.New(retry.Options{Default: (*atAttempt)(j), Observer: (*watcher)(j), JitterSource: random.roll})
	err := x.meet(j)
	j.orch.Close(retry.ErrClosed)
	switch {
	case !j.met:
		return judged{}, fmt.Errorf("explain: the operation was refused before it met anything: %w", err)
	case !j.out.retried:
		j.out.err = err
		return j.askNodes()
	case j.out.unpaid:
		j.out.retried = false
		j.out.err = fmt.Errorf("%w: %w", retry.ErrThrottled, x.unretried())
	}
	return j.out, nil
}

// rehearse gives the decision about the failure of r when each one before it was the same.
func (j *judge) rehearse(r *retry.Request, why retry.Reason, ask func(*retry.Request, retry.Reason) retry.Action,
) retry.Rehearsed {
	j.random.run = &retry.Rehearsal{Ask: ask, Request: *r, Moved: j.x.moved}
	for range j.before {
		j.random.run.Next(why)
	}
	j.random.turned = true
	return j.random.run.Next(why)
}

// askNodes turns a failure after which other nodes are of use into the next hedge. When no node has seen the operation
// it goes on without hedges: the first node is asked once more, and from then on it is retried.
func (j *judge) askNodes() (judged, error) {
	h, n := j.applied.hedge, j.x.retries
	if h == nil || j.out.err == nil {
		return j.out, nil
	}
	unreached := retry.Transparent(j.out.err)
	if unreached && n >= h.MaxAttempts {
		later := *j.x
		later.retries = n - h.MaxAttempts
		how := j.applied
		how.hedge, how.strategy, how.entry = nil, policy.Unreached(), false
		return later.judgeAs(how, &loaded{past: j.random.past, now: j.random.now})
	}
	j.out.consulted = false // each attempt of a hedged call is the only one to its node
	p := hedge.Policy{MaxAttempts: h.MaxAttempts, NonFatal: hedge.NonFatal(h.IsNonFatal), Throttle: j.applied.file}
	var s hedge.Sequel
	var asked []string
	for i := range min(n+1, h.MaxAttempts) {
		asked = append(asked, strconv.Itoa(i))
		s = p.After(j.x.hedged(i, j.out.err), asked[i], i+1)
	}
	switch {
	case s.Ends || n >= h.MaxAttempts:
	case !s.Last && p.Throttle.Allowed(asked):
		j.out.delay = s.Wait
		j.out.retried, j.out.hedged, j.out.err = true, true, nil
	case unreached:
		j.out.retried, j.out.alone, j.out.err = true, true, nil
	}
	return j.out, nil
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
		if err := o.consider(x, past); err != nil {
			return o, err
		}
	}
	if !x.moved && x.mayMove() {
		moved := *x
		moved.moved = true
		err = o.consider(&moved, 0) // there is no jitter
	}
	return o, err
}

// consider takes in what can become of it when the earlier random numbers were past.
func (o *prospect) consider(x *explanation, past float64) error {
	short, err := x.judge(past, 0)
	if err != nil {
		return err
	}
	long, err := x.judge(past, almostOne)
	if err != nil {
		return err
	}
	all := []judged{short, long}
	if short.retried && !long.retried {
		longest, err := x.longest(past, short)
		if err != nil {
			return err
		}
		all = append(all, longest)
	}
	for _, j := range all {
		o.add(j)
	}
	return nil
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
	d := (*judge)(s).rehearse(r, why, func(r *retry.Request, why retry.Reason) retry.Action {
		return s.applied.strategy.RetryAfter(ctx, r, why)
	})
	s.out.delay, s.out.unpaid = d.Delay, d.Unpaid
	if wait, ends := d.Action.TimesOut(); ends {
		s.out.wait = wait
		return retry.TimeOutAfter(0)
	}
	return d.Action.WithDelay(d.Delay)
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
func (w *watcher) Retry(r *retry.Request, why retry.Reason, _ time.Duration) {
	if w.out.retried {
		return
	}
	w.out.retried = true
	if !w.out.consulted { // as the client does whatever the strategy
		w.out.delay = (*judge)(w).rehearse(r, why, nil).Delay
	}
	if w.decided != nil {
		w.decided()
	}
}

// GaveUp implements retry.Observer.
func (w *watcher) GaveUp(*retry.Request, retry.Reason, error) {}
