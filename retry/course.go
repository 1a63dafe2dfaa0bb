package retry

import "time"

// course is how an operation has gone so far: what a decision depends on besides the failure that it is about.
type course struct {
	Info           // its log is not yet a copy
	step      int  // of the backoff
	unseens   int  // the steps that transparent retries made
	moved     bool // the free re-route is used up
	lost      bool // a connection was lost once
	lastDelay time.Duration
	unseen    time.Duration // delays before transparent retries
}

// turn is what a course makes of one failure.
type turn struct {
	seen Reasons // before it
	step int
	made int  // retries of any kind
	free bool // its retry has no delay, and the backoff does not count it
	// transparent is true of a failure that no server's logic has seen, as far as that is known: its retry is outside
	// of every limit.
	transparent bool
	why         Reason
	pushback    Pushback
}

// failed enters a failure.
func (c *course) failed(why Reason, hint *Hint) turn {
	t := turn{
		seen: c.Reasons, step: c.step, made: c.Retries(), why: why, pushback: hint.Pushback,
		free: why == KVNotMyVBucket && hint.Moved, transparent: why.Unseen(),
	}
	if c.moved { // guard: one free re-route
		t.free = false
	}
	if why == SocketClosedWhileInFlight && !hint.seen && !c.lost { // guard: one transparent loss
		t.transparent, c.lost = true, true
	}
	c.Reason, c.Reasons = why, c.Reasons.With(why)
	return t
}

// controlled is what becomes of a failure whose reason is always retried.
func (t *turn) controlled() Action {
	delay := time.Duration(0)
	if !t.free {
		delay = Controlled(t.step, 0)
	}
	return After(delay)
}

// delay is the wait before the next attempt.
func (t *turn) delay(a Action) time.Duration { return a.Wait(t.made, t.pushback, t.why) }

// pushed reports whether the server named a delay, after which the backoff starts afresh.
func (t *turn) pushed() bool {
	_, named := t.pushback.After()
	return named && !t.why.AlwaysRetry()
}

// decided enters the delay that a failure is followed by.
func (c *course) decided(free bool, delay time.Duration) {
	c.moved = c.moved || free
	c.lastDelay = delay
}

// waited enters what was waited of a delay.
func (c *course) waited(d time.Duration, transparent bool) {
	c.Waited += d
	if transparent {
		c.unseen += d
	}
}

// again enters a retry: a transparent one counts against no limit, a free one is no step of the backoff, and one whose
// delay a server has pushed lets the backoff start afresh.
func (c *course) again(transparent, free, pushed bool) {
	if transparent {
		c.Transparent++
	} else {
		c.Counted++
	}
	switch {
	case pushed:
		c.step, c.unseens = 0, 0
	case !free:
		c.step++
		if transparent {
			c.unseens++
		}
	}
}

// tell is what a strategy sees of the course at a failure.
func (c *course) tell(r *Request, t *turn) {
	r.Counted, r.Transparent = c.Counted, c.Transparent
	r.BackoffStep, r.UnseenSteps = c.step, c.unseens
	r.Reasons, r.Unseen = t.seen, t.transparent
	r.LastDelay, r.Waited, r.WaitedUnseen = c.lastDelay, c.Waited, c.unseen
}

// charges reports whether a retry is paid for, when its delay is over: a transparent one costs nothing.
func charges(b Budget, transparent bool) bool { return b != nil && !transparent }

// Rehearsal foretells what an orchestrator decides about an operation that meets the same failure again and again. It
// counts and waits by the orchestrator's own rules, but sends nothing and lets no time pass. It is for tools that
// explain decisions, and belongs to one goroutine.
type Rehearsal struct {
	// Ask is the operation's strategy; it is not asked about reasons that are always retried.
	Ask func(*Request, Reason) Action
	// Request is what is told of each failure, besides what the Rehearsal counts: the operation, its Pushback, Kind,
	// Code, and whether the first one is Unseen.
	Request Request
	Moved   bool // as in Hint

	c course
}

// Rehearsed is the orchestrator's decision about one failure.
type Rehearsed struct {
	Action Action
	Delay  time.Duration // before the retry, if there is to be one
	Unpaid bool          // when the delay is over, the budget refuses the retry
}

// Next meets the failure once more and decides. Whatever the decision, the operation then counts as retried after the
// delay: a caller may ask what would become of a retry that is not made.
func (p *Rehearsal) Next(why Reason) (d Rehearsed) {
	hint := Hint{Pushback: p.Request.Pushback, Moved: p.Moved, seen: !p.Request.Unseen}
	t := p.c.failed(why, &hint)
	r := p.Request
	p.c.tell(&r, &t)
	if why.AlwaysRetry() {
		d.Action = t.controlled()
	} else {
		r.Started = time.Now().Add(-r.Waited)
		d.Action = p.Ask(&r, why)
	}
	if _, again := d.Action.Delay(); again {
		d.Delay = t.delay(d.Action)
		p.c.decided(t.free, d.Delay)
		p.c.waited(d.Delay, t.transparent)
		if b := d.Action.budget; charges(b, t.transparent) {
			_, paid, _ := take(b, r.Kind)
			d.Unpaid = !paid
		}
	}
	p.c.again(t.transparent, t.free, t.pushed())
	return d
}

// Waited is the sum of the delays so far.
func (p *Rehearsal) Waited() time.Duration { return p.c.Waited }
