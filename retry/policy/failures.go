package policy

import (
	"cmp"
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
	status      *grpcStatus // that it may be; nil: it is no status
	path, value string
}

// readFailures reads a list of the names of reasons, in any case, and of numbers as JSON integers or "0x..".
func readFailures(r *reader, f *failures) error {
	const want = `the name of a reason, an integer, or a number as "0x86"`
	return r.array(func(int) error {
		if r.dec.PeekKind() == '0' {
			n, err := r.integer(1, math.MaxUint32, "an integer above 0 of 32 bits")
			if err == nil {
				c := code{number: uint32(n), path: r.at(), value: strconv.FormatUint(n, 10)}
				if r.grpcForm() && n < uint64(len(grpcStatuses)) {
					c.status = &grpcStatuses[n]
				}
				f.codes = append(f.codes, c)
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
			f.codes = append(f.codes, code{number: uint32(n), path: r.at(), value: raw})
			return nil
		}
		why, err := retry.Parse(text)
		switch status := grpcStatusOf(text); {
		case err != nil && status != nil:
			f.codes = append(f.codes, code{status: status, path: r.at(), value: raw})
			return nil
		case err != nil:
			return r.fault(raw, "is not a reason")
		case why == retry.Unknown:
			return r.fault(raw, "is never retried")
		}
		f.reasons = f.reasons.With(why)
		return nil
	})
}

// checkCodes finds numbers that mean nothing in one of the services that the entry is for, or two things, and puts what
// they mean there in the place of gRPC's statuses.
func (e *entryDoc) checkCodes(f *failures, o ParseOptions) error {
	known := func(s retry.Service, n uint32) (retry.Reason, bool) {
		if o.Code == nil || n == 0 {
			return retry.Unknown, false
		}
		if s != "" {
			return o.Code(s, n)
		}
		for _, s := range services {
			if why, ok := o.Code(s, n); ok {
				return why, true
			}
		}
		return retry.Unknown, false
	}
	var named []retry.Service
	for _, n := range e.names {
		named = append(named, n.service)
	}
	slices.Sort(named)
	var codes []code
	for _, s := range slices.Compact(named) {
		for _, c := range f.codes {
			fault := func(reason string) error { return &ParseError{Path: c.path, Value: c.value, Reason: reason} }
			why, ok := known(s, c.number)
			switch st := c.status; {
			case ok && st != nil:
				return fault(st.ambiguous(s, c.number, why))
			case ok:
				codes = append(codes, c)
			case st == nil:
				return fault("has no reason in " + where(s))
			case st.reason != retry.Unknown:
				f.reasons = f.reasons.With(st.reason)
			default:
				if _, ok := known(s, st.http); s == "" || s == retry.KV || !ok {
					return fault(st.refusal(s))
				}
				codes = append(codes, code{number: st.http})
			}
		}
	}
	f.codes = codes
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
