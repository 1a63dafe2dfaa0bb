package policy

import (
	"fmt"
	"slices"
	"strconv"
)

var retryFields = []field[retryDoc]{
	{name: "maxAttempts", required: true, read: func(r *reader, p *retryDoc) (err error) {
		p.maxAttempts, err = readAttempts(r)
		return err
	}},
	{name: "initialBackoff", read: func(r *reader, p *retryDoc) (err error) {
		p.initial, err = r.duration(1)
		return err
	}},
	{name: "maxBackoff", read: func(r *reader, p *retryDoc) (err error) {
		p.max, err = r.duration(1)
		return err
	}},
	{name: "backoffMultiplier", read: func(r *reader, p *retryDoc) (err error) {
		p.multiplier, _, err = r.positive()
		return err
	}},
	{name: "delays", read: func(r *reader, p *retryDoc) error {
		err := r.array(func(int) error {
			d, err := r.ownDuration()
			p.delays = append(p.delays, d)
			return err
		})
		if err == nil && p.delays == nil {
			return r.fault("[]", "must not be empty")
		}
		return err
	}},
	{name: "retryableReasons", grpc: "retryableStatusCodes", required: true, read: func(r *reader, p *retryDoc) error {
		if err := readFailures(r, &p.failures); err != nil {
			return err
		}
		if p.failures.reasons == 0 && len(p.failures.codes) == 0 {
			return r.fault("[]", "must not be empty")
		}
		return nil
	}},
	{name: "jitter", read: readJitter},
	{name: "softLimit", read: func(r *reader, p *retryDoc) (err error) {
		p.soft, err = r.duration(1)
		return err
	}},
	{name: "hardLimit", read: func(r *reader, p *retryDoc) (err error) {
		p.hard, err = r.duration(1)
		return err
	}},
	{name: "fit", read: func(r *reader, p *retryDoc) error {
		text, raw, err := r.text("the name of a fit")
		if err != nil {
			return err
		}
		i := slices.Index(fits[:], text)
		if i < 0 {
			return r.fault(raw, fmt.Sprintf("is not a fit: choose one of %v", fits))
		}
		p.fit = Fit(i)
		return nil
	}},
	{name: "pinned", read: func(r *reader, p *retryDoc) (err error) {
		p.pinned, err = r.boolean()
		return err
	}},
}

// check compares the fields of a retry policy.
func (p *retryDoc) check(r *reader) error {
	for _, c := range []struct {
		name  string
		is    bool
		value string
	}{
		{"initialBackoff", p.initial > 0, written(p.initial)},
		{"maxBackoff", p.max > 0, written(p.max)},
		{"backoffMultiplier", p.multiplier > 0, strconv.FormatFloat(p.multiplier, 'g', -1, 64)},
	} {
		switch {
		case p.delays == nil && !c.is:
			return &ParseError{Path: r.under(c.name), Reason: "is required where there are no delays"}
		case p.delays != nil && c.is:
			return &ParseError{Path: r.under(c.name), Value: c.value, Reason: "stands beside delays, which say all"}
		}
	}
	switch {
	case p.delays != nil && p.spread() == decorrelatedJitter:
		return &ParseError{
			Path: r.under("jitter"), Value: jitters[decorrelatedJitter].name,
			Reason: "goes by initialBackoff and maxBackoff, not by delays",
		}
	case p.hard > 0 && p.soft > p.hard:
		return &ParseError{Path: r.under("softLimit"), Value: written(p.soft), Reason: "lies above the hardLimit of " +
			written(p.hard)}
	case p.hard == 0 && p.fit != Drop && p.fit != GiveUp:
		return &ParseError{Path: r.under("fit"), Value: p.fit.String(), Reason: "needs a hardLimit"}
	}
	return nil
}
