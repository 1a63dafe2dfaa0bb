package main

import (
	"errors"
	"slices"
	"strconv"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
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

// failureOf describes an error; for nil the zero failure with the kind "none".
func failureOf(err error) failure {
	f := failure{Kind: "none", RetryReasons: []string{}}
	if err == nil {
		return f
	}
	f.Kind, f.Message = cberr.Couchbase.Name(), err.Error()
	if k := cberr.KindOf(err); k != nil {
		f.Kind = k.Name()
	}
	var usage *usageError
	if errors.As(err, &usage) {
		f.Kind = cberr.InvalidArgument.Name()
	}
	f.Ambiguous = ambiguous(err)
	info, _ := retry.InfoOf(err)
	f.RetryReasons = reasonNames(info.Reasons)
	var e *kv.Error
	if errors.As(err, &e) {
		f.Kind, f.Context, f.Ref = e.Kind(), e.Context, e.Ref
		if e.Answered {
			f.Status = statusText(e.Status)
		}
		f.sent(e.Endpoint, info)
		return f
	}
	var path *kv.PathError
	if errors.As(err, &path) {
		f.Status = statusText(path.Status)
	}
	endpoint, status := serviceError(err)
	if status != 0 {
		f.Status = strconv.Itoa(status)
	}
	f.sent(endpoint, info)
	return f
}

// serviceError is the node and the HTTP status of a failed request to a service.
func serviceError(err error) (endpoint string, status int) {
	var (
		q *query.Error
		n *analytics.Error
		s *search.Error
		v *views.Error
		h *httpsvc.Error
	)
	switch {
	case errors.As(err, &q):
		return q.Endpoint, q.Status
	case errors.As(err, &n):
		return n.Endpoint, n.Status
	case errors.As(err, &s):
		return s.Endpoint, s.Status
	case errors.As(err, &v):
		return v.Endpoint, v.Status
	case errors.As(err, &h):
		return h.Endpoint, 0
	}
	return "", 0
}

// sent counts the sends of a request of which some left the client if the last one has an endpoint.
func (f *failure) sent(endpoint string, info retry.Info) {
	if endpoint != "" {
		f.Attempts = info.Attempts()
	}
}

func reasonNames(rs retry.Reasons) []string {
	names := []string{}
	for r := range rs.All() {
		names = append(names, r.String())
	}
	return slices.Clip(names)
}
