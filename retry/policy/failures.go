package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/retry"
)

// failures is a list of reasons and of the services' own numbers.
type failures struct {
	reasons retry.Reasons
	codes   []code
}

type code struct {
	number      uint32
	path, value string
}

// readFailures reads a list of the names of reasons, in any case, and of numbers as JSON integers or "0x..".
func readFailures(r *reader, f *failures) error {
	const want = `the name of a reason, an integer, or a number as "0x86"`
	return r.array(func(int) error {
		if r.dec.PeekKind() == '0' {
			n, err := r.integer(1, math.MaxUint32, "an integer above 0 of 32 bits")
			if err == nil {
				f.codes = append(f.codes, code{uint32(n), r.at(), strconv.FormatUint(n, 10)})
			}
			return err
		}
		text, raw, err := r.text(want)
		if err != nil {
			return err
		}
		if len(text) > 2 && strings.EqualFold(text[:2], "0x") {
			n, err := strconv.ParseUint(text[2:], 16, 32)
			if err != nil || n == 0 {
				return r.fault(raw, "must be "+want)
			}
			f.codes = append(f.codes, code{uint32(n), r.at(), raw})
			return nil
		}
		why, err := retry.Parse(text)
		switch {
		case err != nil:
			return r.fault(raw, "is no reason")
		case why == retry.Unknown:
			return r.fault(raw, "is never retried")
		}
		f.reasons = f.reasons.With(why)
		return nil
	})
}

// checkCodes finds numbers that mean nothing in one of the services that the entry is for.
func (e *entryDoc) checkCodes(codes []code, o ParseOptions) error {
	known := func(s retry.Service, n uint32) bool {
		if o.Code == nil {
			return false
		}
		_, ok := o.Code(s, n)
		return ok
	}
	var named []retry.Service
	for _, n := range e.names {
		named = append(named, n.service)
	}
	slices.Sort(named)
	for _, s := range slices.Compact(named) {
		for _, c := range codes {
			if s == "" && !slices.ContainsFunc(services[:], func(s retry.Service) bool { return known(s, c.number) }) {
				return &ParseError{Path: c.path, Value: c.value, Reason: "has no reason in any service"}
			}
			if s != "" && !known(s, c.number) {
				return &ParseError{Path: c.path, Value: c.value, Reason: fmt.Sprintf("has no reason in the service %q", s)}
			}
		}
	}
	return nil
}

// numbers are the codes alone, each once.
func (f *failures) numbers() []uint32 {
	var list []uint32
	for _, c := range f.codes {
		list = append(list, c.number)
	}
	slices.SortFunc(list, cmp.Compare[uint32])
	return slices.Compact(list)
}
