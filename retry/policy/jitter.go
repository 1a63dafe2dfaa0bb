package policy

import (
	"fmt"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// jitter is a row of the table of jitters.
type jitter uint8

const (
	noJitter jitter = iota
	fullJitter
	equalJitter
	addedJitter
	proportionalJitter
	decorrelatedJitter

	jitterCount
)

// The most that a jitter makes a delay longer by.
const (
	addedPart        = 0.5
	proportionalPart = 0.2
)

// jitters are the names that a policy file knows. Additive adds up to half of the delay, as the requirements' own
// examples do; proportional is up to a fifth more or less.
var jitters = [jitterCount]struct {
	name  string
	more  float64 // the most that it makes a delay longer by, as a part of the delay
	apply func(curve retry.Backoff, p *retryDoc, random retry.JitterSource) retry.Backoff
}{
	noJitter: {"none", 0, func(b retry.Backoff, _ *retryDoc, _ retry.JitterSource) retry.Backoff { return b }},
	fullJitter: {"full", 0, func(b retry.Backoff, _ *retryDoc, random retry.JitterSource) retry.Backoff {
		return retry.FullJitter(b, random)
	}},
	equalJitter: {"equal", 0, func(b retry.Backoff, _ *retryDoc, random retry.JitterSource) retry.Backoff {
		return retry.EqualJitter(b, random)
	}},
	addedJitter: {"additive", addedPart, func(b retry.Backoff, _ *retryDoc, random retry.JitterSource) retry.Backoff {
		return retry.AddJitter(b, addedPart, random)
	}},
	proportionalJitter: {"proportional", proportionalPart, func(b retry.Backoff, _ *retryDoc,
		random retry.JitterSource,
	) retry.Backoff {
		return retry.PropJitter(b, proportionalPart, random)
	}},
	decorrelatedJitter: {"decorrelated", 0, func(_ retry.Backoff, p *retryDoc,
		random retry.JitterSource,
	) retry.Backoff {
		b := retry.Decorrelated(p.initial, p.max, random)
		return func(step int, last time.Duration) time.Duration {
			if step == 0 { // a delay that a server named comes before, but the backoff starts afresh
				last = 0
			}
			return b(step, last)
		}
	}},
}

func readJitter(r *reader, p *retryDoc) error {
	text, raw, err := r.text("the name of a jitter")
	if err != nil {
		return err
	}
	var known []string
	for j := range jitterCount {
		if jitters[j].name == text {
			p.jitter = &j
			return nil
		}
		known = append(known, jitters[j].name)
	}
	return r.fault(raw, fmt.Sprintf("is not a jitter: choose one of %v", known))
}

// spread is the jitter in force: full for gRPC's curve, as gRPC has it, and none for delays that are listed.
func (p *retryDoc) spread() jitter {
	switch {
	case p.jitter != nil:
		return *p.jitter
	case p.delays != nil:
		return noJitter
	}
	return fullJitter
}

// backoff is the policy's curve with its jitter. The jitter may not pass the maximum, nor end there: the curve stops so
// far below it that the longest delays are as random as the others. What is listed has no maximum.
func (p *retryDoc) backoff(random retry.JitterSource) retry.Backoff {
	j := &jitters[p.spread()]
	if p.delays != nil {
		return j.apply(retry.Schedule(p.delays...), p, random)
	}
	top := p.max
	if j.more > 0 {
		top = time.Duration(float64(p.max) / (1 + j.more))
	}
	return retry.Clamp(j.apply(retry.Exponential(p.initial, top, p.multiplier), p, random), 0, p.max)
}
