package httpsvc

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// Facts are what the errors of all services say.
type Facts struct {
	Service  string
	Kind     *cberr.Kind
	Endpoint string
	Status   int    // of HTTP, 0 without an answer
	Said     string // what the service said
	Retry    retry.Info
	InDoubt  bool
	Cause    error
	Response *ResponseError // the answer, nil without one
}

// FactsOf are the facts of a failed request, but for what the service said. inner is the failure that the service told
// of, nil if it told of none; it is no cause of itself. ok is false when err is no *Error.
func FactsOf(err, inner error) (f Facts, ok bool) {
	var e *Error
	if !errors.As(err, &e) {
		return Facts{}, false
	}
	f = Facts{Service: e.Service, Kind: e.Kind, Endpoint: e.Endpoint, Retry: e.Retry, InDoubt: e.InDoubt, Cause: e.Cause, Response: e.Response}
	if inner != nil && f.Cause == inner { //nolint:errorlint // this very value
		f.Cause = nil
	}
	if f.Kind == cberr.AmbiguousTimeout {
		f.InDoubt = true // the service's own timeout is an answer, and still says nothing about the outcome
	}
	return f, true
}

// Text is an error's text: what failed, where, after how many retries, why, and whether it may have been applied.
func (f Facts) Text() string {
	var b strings.Builder
	b.WriteString(f.Service + ": " + KindText(f.Kind))
	if f.Endpoint != "" {
		b.WriteString(" on " + f.Endpoint)
	}
	switch n := f.Retry.Retries(); n {
	case 0:
	case 1:
		b.WriteString(" after 1 retry")
	default:
		b.WriteString(" after " + strconv.Itoa(n) + " retries")
	}
	if f.Retry.Parked {
		b.WriteString(", waiting for a retry")
	}
	because := ""
	if f.Cause != nil {
		because = f.Cause.Error()
	}
	switch {
	case f.Said != "" && strings.Contains(because, f.Said): // the cause says it
	case f.Said != "":
		b.WriteString(": " + f.Said)
	case f.Status >= 300 || f.Status > 0 && f.Status < 200:
		b.WriteString(": status " + strconv.Itoa(f.Status))
	}
	if because != "" {
		b.WriteString(", because: " + because)
	}
	if f.InDoubt {
		b.WriteString("; it may have been applied")
	}
	return b.String()
}

// Chain is what an error with these facts unwraps to.
func (f Facts) Chain() []error {
	errs := []error{cberr.Couchbase}
	if f.Kind != nil {
		errs[0] = f.Kind
	}
	if f.Cause != nil {
		errs = append(errs, f.Cause)
	}
	if f.Response != nil {
		errs = append(errs, f.Response)
	}
	return errs
}

// JSON is an error's context with the keys that the SDKs use, and those of one service.
func (f Facts) JSON(more map[string]any) ([]byte, error) {
	m := map[string]any{"msg": KindText(f.Kind)}
	put := func(key string, v any, is bool) {
		if is {
			m[key] = v
		}
	}
	put("endpoint", f.Endpoint, f.Endpoint != "")
	put("last_dispatched_to", f.Endpoint, f.Endpoint != "")
	put("http_status_code", f.Status, f.Status != 0)
	put("error_text", f.Said, f.Said != "")
	put("retry_attempts", f.Retry.Retries(), f.Retry.Retries() > 0)
	put("ambiguous", true, f.InDoubt)
	var reasons []string
	for r := range f.Retry.Reasons.All() {
		reasons = append(reasons, r.String())
	}
	put("retry_reasons", reasons, len(reasons) > 0)
	if f.Cause != nil {
		m["cause"] = f.Cause.Error()
	}
	for key, v := range more {
		put(key, v, v != nil && v != "")
	}
	return json.Marshal(m)
}

// secrets are the literals of a statement that follow a word for something secret.
var secrets = regexp.MustCompile(`(?i)((?:password|passwd|secret[a-z_]*|identified\s+by|access_?key[a-z_]*|session_?token|token|credential[a-z_]*)["'` + "`" + `]?\s*[:=]?\s*)("(?:[^"\\]|\\.|"")*"|'(?:[^'\\]|\\.|'')*')`)

// HideSecrets is a statement with stars in the place of its passwords and keys.
func HideSecrets(statement string) string {
	if !secrets.MatchString(statement) {
		return statement
	}
	return secrets.ReplaceAllString(statement, `${1}"*****"`)
}

// Shortened is text as far as it fits into an error.
func Shortened(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
