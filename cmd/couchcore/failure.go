package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
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
	var said interface{ Ambiguous() bool }
	if errors.As(err, &said) {
		f.Ambiguous = said.Ambiguous()
	}
	info, _ := retry.InfoOf(err)
	f.RetryReasons = reasonNames(info.Reasons)
	var e *kv.Error
	var h *httpsvc.Error
	switch {
	case errors.As(err, &e):
		f.Kind, f.Context, f.Ref = e.Kind(), e.Context, e.Ref
		if e.Answered {
			f.Status = fmt.Sprintf("0x%02x", uint16(e.Status))
		}
		f.sent(e.Endpoint, info)
	case errors.As(err, &h):
		f.sent(h.Endpoint, info)
	}
	return f
}

// sent counts the sends of a request of which some left the client if the last one has an endpoint.
func (f *failure) sent(endpoint string, info retry.Info) {
	if endpoint != "" {
		f.Attempts = info.Retries() + 1
	}
}

func reasonNames(rs retry.Reasons) []string {
	names := []string{}
	for r := range rs.All() {
		names = append(names, r.String())
	}
	return slices.Clip(names)
}
