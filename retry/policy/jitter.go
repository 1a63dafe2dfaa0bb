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

// jitters are the names that a policy file knows. Additive adds up to half of the delay, as the requirements' own examples
// do; proportional is up to a fifth more or less.
var jitters = [jitterCount]struct {
	name  string
	apply func(curve retry.Backoff, p *retryDoc, dice retry.Dice) retry.Backoff
}{
	noJitter: {"none", func(b retry.Backoff, _ *retryDoc, _ retry.Dice) retry.Backoff { return b }},
	fullJitter: {"full", func(b retry.Backoff, _ *retryDoc, dice retry.Dice) retry.Backoff {
		return retry.FullJitter(b, dice)
	}},
	equalJitter: {"equal", func(b retry.Backoff, _ *retryDoc, dice retry.Dice) retry.Backoff {
		return retry.EqualJitter(b, dice)
	}},
	addedJitter: {"additive", func(b retry.Backoff, _ *retryDoc, dice retry.Dice) retry.Backoff {
		return retry.AddJitter(b, 0.5, dice)
	}},
	proportionalJitter: {"proportional", func(b retry.Backoff, _ *retryDoc, dice retry.Dice) retry.Backoff {
		return retry.PropJitter(b, 0.2, dice)
	}},
	decorrelatedJitter: {"decorrelated", func(_ retry.Backoff, p *retryDoc, dice retry.Dice) retry.Backoff {
		b := retry.Decorrelated(p.initial, p.max, dice)
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
			p.jitter = j
			return nil
		}
		known = append(known, jitters[j].name)
	}
	return r.fault(raw, fmt.Sprintf("is no jitter; there are %v", known))
}

// backoff is the policy's curve with its jitter, which may not pass the maximum.
func (p *retryDoc) backoff(dice retry.Dice) retry.Backoff {
	curve := retry.Exponential(p.initial, p.max, p.multiplier)
	return retry.Clamp(jitters[p.jitter].apply(curve, p, dice), 0, p.max)
}
