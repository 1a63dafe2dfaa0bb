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
	status      *grpcStatus // that it may be; nil: it is none
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
			return r.fault(raw, "is no reason")
		case why == retry.Unknown:
			return r.fault(raw, "is never retried")
		}
		f.reasons = f.reasons.With(why)
		return nil
	})
}

// checkCodes finds numbers that mean nothing in one of the services that the entry is for, and puts what they mean
// there in the place of gRPC's statuses.
func (e *entryDoc) checkCodes(f *failures, o ParseOptions) error {
	known := func(s retry.Service, n uint32) bool {
		if o.Code == nil || n == 0 {
			return false
		}
		if s == "" {
			return slices.ContainsFunc(services[:], func(s retry.Service) bool { _, ok := o.Code(s, n); return ok })
		}
		_, ok := o.Code(s, n)
		return ok
	}
	var named []retry.Service
	for _, n := range e.names {
		named = append(named, n.service)
	}
	slices.Sort(named)
	var codes []code
	for _, s := range slices.Compact(named) {
		for _, c := range f.codes {
			if known(s, c.number) {
				codes = append(codes, c)
				continue
			}
			where := "any service"
			if s != "" {
				where = fmt.Sprintf("the service %q", s)
			}
			if c.status == nil {
				return &ParseError{Path: c.path, Value: c.value, Reason: "has no reason in " + where}
			}
			switch st := c.status; {
			case st.reason != retry.Unknown:
				f.reasons = f.reasons.With(st.reason)
			case s != "" && s != retry.KV && known(s, st.http):
				codes = append(codes, code{number: st.http})
			default:
				return &ParseError{Path: c.path, Value: c.value, Reason: st.refusal(where)}
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
