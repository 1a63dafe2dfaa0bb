package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// failure is an error as JSON shows it.
type failure struct {
	Kind         string   `json:"kind"`
	Message      string   `json:"message"`
	Ambiguous    bool     `json:"ambiguous"`
	Status       string   `json:"status"`
	Context      string   `json:"context"`
	Ref          string   `json:"ref"`
	Attempts     int      `json:"attempts"`
	RetryReasons []string `json:"retry_reasons"`
}

// failureOf describes an error; the zero failure with the kind "none" when there is none.
func failureOf(err error) failure {
	f := failure{Kind: "none", RetryReasons: []string{}}
	if err == nil {
		return f
	}
	f.Kind, f.Message = cberr.Couchbase.Name(), err.Error()
	if k := cberr.KindOf(err); k != nil {
		f.Kind = k.Name()
	}
	var e *kv.Error
	if errors.As(err, &e) {
		f.Kind, f.Ambiguous, f.Context, f.Ref = e.Kind(), e.Ambiguous(), e.Context, e.Ref
		if e.Answered {
			f.Status = fmt.Sprintf("0x%02x", uint16(e.Status))
		}
		if e.Endpoint != "" {
			f.Attempts = e.Retry.Retries() + 1
		}
		f.RetryReasons = reasonNames(e.Retry.Reasons)
	}
	return f
}

func reasonNames(rs retry.Reasons) []string {
	names := []string{}
	for r := range rs.All() {
		names = append(names, r.String())
	}
	return slices.Clip(names)
}
