package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

type explainCmd struct {
	Service      string `required:"" help:"The service that answered: kv, query, search, views, analytics, management, eventing or backup."`
	Op           string `required:"" help:"The operation: as in upsert for kv, query for the row services, the HTTP method for the others."`
	Status       string `placeholder:"0xNN" help:"The status of kv's answer."`
	Code         string `placeholder:"N" help:"The error code of a row service's answer."`
	HTTP         string `name:"http" placeholder:"N" help:"The HTTP status of the answer (default with --code: 200)."`
	RetryAfter   string `placeholder:"V" help:"The Retry-After header of the answer: seconds or a date (default: none)."`
	Reason       string `placeholder:"NAME" help:"The reason itself, instead of an answer."`
	LostSocket   bool   `help:"The connection was lost before the answer."`
	Body         string `placeholder:"FILE" help:"The body of the answer (default: what --code says, or nothing)."`
	ErrorMap     string `placeholder:"FILE" help:"The error map of the kv node that answered (default: none)."`
	Strategy     string `placeholder:"STRATEGY" help:"fast-fail, best-effort or @policy.json (default: fast-fail)."`
	MostAttempts int    `placeholder:"N" help:"The most attempts that a policy file may ask for (default: 5)."`
	OwnStrategy  string `placeholder:"STRATEGY" help:"The strategy that the call names itself: fast-fail or best-effort (default: none)."`
	Idempotent   bool   `help:"The operation is idempotent, although its kind is not (default: no)."`
	Readonly     bool   `help:"The statement only reads; the same as --idempotent (default: no)."`
	Prepared     bool   `help:"The client keeps the plan of the statement (default: no)."`
	WithCAS      bool   `name:"with-cas" help:"The kv request named a CAS (default: no)."`
	Retries      int    `aliases:"attempt" help:"How many retries were made already (default: 0)."`
}

// explained is a decision as JSON.
type explained struct {
	Reason    *string    `json:"reason"`
	Decision  string     `json:"decision"` // "retry" or "fail"; "succeed" for an answer that is no failure
	DelayMS   []float64  `json:"delay_ms"` // the least and the most; null when there is no retry
	Error     *errorKind `json:"error"`
	Consulted bool       `json:"consulted_strategy"`
	// Unpaid says that the delay passes, and that the token bucket of the policy file cannot pay for the retry then.
	Unpaid  bool     `json:"unpaid,omitempty"`
	Assumes []string `json:"assumes,omitempty"`
	// Policy is the entry of a policy file as the client understands it.
	Policy json.RawMessage `json:"policy,omitempty"`
}

// errorKind is a failure's kind.
type errorKind = string

// Run implements the command.
func (c *explainCmd) Run(a *app) error {
	x, err := c.explanation()
	if err != nil {
		return err
	}
	o, err := x.prospect()
	if err != nil {
		return err
	}
	res := explained{
		Decision: "fail", Consulted: o.consulted, Policy: json.RawMessage(o.applied.policy), Unpaid: o.unpaid,
		Assumes: o.applied.assumes(),
	}
	if o.reason != nil {
		res.Reason = new(o.reason.String())
	}
	switch {
	case o.retried:
		res.Decision, res.DelayMS = "retry", o.delays()
	case o.err == nil:
		res.Decision = "succeed"
	default:
		res.Error = new(failureOf(o.err).Kind)
	}
	if a.json {
		return a.emit(res)
	}
	return a.showExplained(x, o, res)
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// opNames are the operations that have a row in the client's table.
func opNames() []string {
	var names []string
	for op := range 256 {
		if s := call.SpecOf(memd.Opcode(op)); s != nil {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

func ms(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// showExplained writes a decision for people.
func (a *app) showExplained(x *explanation, j prospect, res explained) error {
	reason := "none: not a retry matter"
	if j.reason != nil {
		reason = fmt.Sprintf("%v  (%s)", *j.reason, flagsOf(*j.reason))
	}
	lines := append(x.lines(x.kind()), [2]string{"reason", reason}, [2]string{"decision", x.decision(j.judged, res)})
	if j.retried && *j.reason == retry.QueryPreparedStatementFailure {
		lines = append(lines, [2]string{"before", "the client forgets the prepared plan and prepares the statement " +
			"again"})
	}
	if j.other != nil {
		lines = append(lines, [2]string{"or", x.failing(*j.other, failureOf(j.other.err).Kind) +
			", when the random delays are long"})
	}
	if text := j.applied.policy; text != "" {
		lines = append(lines, [2]string{"policy", text})
	}
	if file := j.applied.file; j.applied.budgeted() && j.consulted {
		lines = append(lines, [2]string{"budget", fmt.Sprintf("%s, a retry after this failure (%v) costs %d",
			file.Bucket(), j.kind, file.Cost(j.kind))})
	}
	for _, text := range res.Assumes {
		lines = append(lines, [2]string{"assumes", text})
	}
	for _, l := range lines {
		if err := a.print("%-11s %s", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

// flagsOf says in words what the reason table has of r.
func flagsOf(r retry.Reason) string {
	safe := "not safe for non-idempotent operations"
	if r.AllowsNonIdempotent() {
		safe = "safe for non-idempotent operations"
	}
	switch {
	case r.AlwaysRetry():
		return safe + ", always retried"
	case r.Terminal():
		return safe + ", terminal, strategy decides"
	}
	return safe + ", strategy decides"
}

func (x *explanation) decision(j judged, res explained) string {
	switch {
	case res.Decision == "succeed":
		return "succeed: the operation has its result"
	case res.Decision == "fail":
		return x.failing(j, *res.Error)
	case j.alone:
		return fmt.Sprintf("retry at once on the first node, not hedged any more (%s, %s)", j.by, after(x.retries))
	case j.hedged && j.delay > 0:
		return fmt.Sprintf("retry on another node after %s (%s, %s)", span(res.DelayMS), j.by, after(x.retries))
	case j.hedged:
		return fmt.Sprintf("retry at once on another node (%s, %s)", j.by, after(x.retries))
	}
	text := "retry after " + span(res.DelayMS)
	if !j.consulted {
		text += fmt.Sprintf(" (whatever the strategy, %s", after(x.retries))
	} else {
		text += fmt.Sprintf(" (%s, %s", j.by, after(x.retries))
	}
	if x.retries == 0 {
		text += x.later()
	}
	return text + ")"
}

// after says how many retries were made.
func after(retries int) string {
	if retries == 1 {
		return "after 1 retry"
	}
	return fmt.Sprintf("after %d retries", retries)
}

// later says what comes after some more retries.
func (x *explanation) later() string {
	later := *x
	later.retries = 3
	o, err := later.prospect()
	switch {
	case err != nil:
		return ""
	case !o.retried:
		return "; after 3 it would fail"
	case o.other != nil:
		return "; after 3 it would be " + span(o.delays()) + " or fail"
	}
	return "; after 3 it would be " + span(o.delays())
}

// failing describes a failure.
func (x *explanation) failing(j judged, kind string) string {
	text := "fail: " + kind
	var given *givenError
	if errors.As(j.err, &given) {
		return text + fmt.Sprintf(", the caller gets the answer with its status %d", given.status)
	}
	if failureOf(j.err).Ambiguous {
		text += ", may have been applied"
	}
	switch {
	case j.unpaid:
		return text + ", when the delay is over: the token bucket cannot pay for the retry"
	case errors.Is(j.err, retry.ErrThrottled):
		return text + ", the node has too few tokens left"
	case j.wait > 0:
		after := span([]float64{ms(j.wait), ms(j.wait)})
		return text + fmt.Sprintf(", after %s: the limit of %s is reached then", after, j.by)
	case errors.Is(j.err, retry.ErrExhausted):
		return text + fmt.Sprintf(", the limit of %s is reached", j.by)
	case j.consulted:
		return text + fmt.Sprintf(" (%s decides)", j.by)
	case j.reason != nil && x.strategy.file != nil && j.by == x.strategy.flag:
		return text + fmt.Sprintf(" (hedged by %s: no other node is asked)", j.by)
	case j.reason != nil:
		return text + "; no strategy can change this"
	}
	return text
}

// delays are the least and the longest delay in milliseconds.
func (o *prospect) delays() []float64 { return []float64{ms(o.least), ms(o.longest)} }

// span writes a range of milliseconds.
func span(d []float64) string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	if d[0] == d[1] {
		return number(d[0]) + " ms"
	}
	return number(d[0]) + " to " + number(d[1]) + " ms"
}

// explanation checks the flags.
func (c *explainCmd) explanation() (*explanation, error) {
	if c.Retries < 0 || c.Retries > mostReplayed {
		return nil, usagef("explain: --retries %d is negative or above %d", c.Retries, mostReplayed)
	}
	x := &explanation{service: retry.Service(c.Service), retries: c.Retries}
	var err error
	if x.strategy, err = strategyOf(c.Strategy, c.MostAttempts); err != nil {
		return nil, err
	}
	if strings.HasPrefix(c.OwnStrategy, "@") {
		return nil, usagef("explain: --own-strategy cannot be a policy file")
	}
	if c.OwnStrategy != "" {
		if x.own, err = strategyOf(c.OwnStrategy, 0); err != nil {
			return nil, err
		}
	}
	if c.Service == "kv" {
		s, err := c.kvSubject()
		if err != nil {
			return nil, err
		}
		x.op, x.subject = s.spec.Name, s
		return x, nil
	}
	s, err := c.httpSubject()
	if err != nil {
		return nil, err
	}
	x.op, x.subject = c.Service, s // the row services' operations have the services' names
	if s.method != "" {
		x.op = s.method
	}
	return x, nil
}

func (c *explainCmd) reason() (retry.Reason, error) {
	if c.Reason == "" {
		return retry.Unknown, nil
	}
	why, err := retry.Parse(c.Reason)
	if err != nil {
		return 0, usagef("explain: --reason %q: see couchcore reasons", c.Reason)
	}
	return why, nil
}
