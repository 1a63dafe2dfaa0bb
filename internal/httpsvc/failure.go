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

// Failure is what the errors of the services with rows have in common; the error type of each service embeds it.
type Failure struct {
	Kind     *cberr.Kind // nil prints as cberr.Couchbase
	Status   int         // of HTTP, 0 when there was no answer
	Text     string      // the answer, as far as it was kept, when it holds no error list
	Endpoint string      // the node of the last attempt, "" when there was none
	Retry    retry.Info  // attempts, reasons, time waited
	InDoubt  bool        // the service may have executed the request; not of one that only reads
	Cause    error       // what the last attempt met; nil when the service's answer says it all

	service  string
	said     string // what the service said, in short
	answer   error  // the error of the answer alone, where the cause holds it
	response *ResponseError
}

// NewFailure begins the error of an answer of service.
func NewFailure(service string, a *Answer) Failure {
	return Failure{service: service, Status: a.Status, Endpoint: a.Endpoint}
}

// Say sets what the service said, where an entry of its error list says more than Text.
func (f *Failure) Say(said string) { f.said = said }

func (f *Failure) failure() *Failure { return f }

// FailureOf gives the error of a request that has ended with err: what the service said, if it said anything, completed
// with what the client knows of the request. ok is false when err does not come from a request.
func FailureOf[E any, P interface {
	*E
	error
	failure() *Failure
}](err error) (p P, ok bool) {
	req, ok := errors.AsType[*Error](err)
	if !ok {
		return nil, false
	}
	p = new(E)
	cause := req.Cause
	if said, ok := errors.AsType[P](err); ok {
		*p = *said
		p.failure().answer = said
		if cause == error(said) { //nolint:errorlint // this very value: the answer is no cause of itself
			cause = nil
		}
	}
	f := p.failure()
	f.service, f.Kind, f.Endpoint, f.Retry, f.Cause = req.Service, req.Kind, req.Endpoint, req.Retry, cause
	f.response = req.Response
	// The service's own timeout is an answer, and still says nothing about the outcome.
	f.InDoubt = f.InDoubt || req.InDoubt || f.Kind == cberr.AmbiguousTimeout
	return p, true
}

func (f *Failure) told() string {
	if f.said != "" {
		return f.said
	}
	return Shortened(f.Text)
}

// Error says what failed, on which node, after how many retries, why, and whether it may have been executed. The
// request is not in it.
func (f *Failure) Error() string {
	var b strings.Builder
	if f.service != "" {
		b.WriteString(f.service + ": ")
	}
	b.WriteString(KindText(f.Kind))
	if f.Endpoint != "" {
		b.WriteString(" on " + f.Endpoint)
	}
	b.WriteString(retried(f.Retry.Retries()))
	if f.Retry.Parked {
		b.WriteString(", waiting for a retry")
	}
	said, because := f.told(), causeText(f.Cause, f.answer, f.Kind)
	switch {
	case said != "" && strings.Contains(because, said): // the cause says it
	case said != "":
		b.WriteString(": " + said)
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

// causeText is the text of a cause without what the error says itself: what the service has answered, whose error is
// answer, and the kind. It is empty when that is all.
func causeText(cause, answer error, kind *cberr.Kind) string {
	if cause == nil {
		return ""
	}
	text := cause.Error()
	if answer == nil {
		return text
	}
	own := KindText(cberr.KindOf(answer))
	text = strings.ReplaceAll(text, answer.Error(), own)
	if own == KindText(kind) {
		text = strings.TrimSuffix(strings.TrimSuffix(text, own), ": ")
	}
	return text
}

// Unwrap gives the kind, the cause and the answer, as far as there are any.
func (f *Failure) Unwrap() []error {
	errs := []error{cberr.Couchbase}
	if f.Kind != nil {
		errs[0] = f.Kind
	}
	if f.Cause != nil {
		errs = append(errs, f.Cause)
	}
	if f.response != nil {
		errs = append(errs, f.response)
	}
	return errs
}

// RetryInfo says how often and why the request was sent again.
func (f *Failure) RetryInfo() retry.Info { return f.Retry }

// Ambiguous reports whether the service may have executed the request although it failed.
func (f *Failure) Ambiguous() bool { return f.InDoubt }

// FailureJSON is an error's context with the keys that the SDKs use, and those of one service.
func FailureJSON(f *Failure, more map[string]any) ([]byte, error) {
	m := map[string]any{"msg": KindText(f.Kind)}
	put := func(key string, v any, is bool) {
		if is {
			m[key] = v
		}
	}
	put("endpoint", f.Endpoint, f.Endpoint != "")
	put("last_dispatched_to", f.Endpoint, f.Endpoint != "")
	put("http_status_code", f.Status, f.Status != 0)
	put("error_text", f.told(), f.told() != "")
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
