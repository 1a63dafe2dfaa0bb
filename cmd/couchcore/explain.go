package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

type explainCmd struct {
	Service    string `required:"" help:"The service that answered: kv."`
	Op         string `required:"" help:"The operation, as in upsert."`
	Status     string `placeholder:"0xNN" help:"The status of the answer."`
	Code       string `placeholder:"N" help:"The error code of a row service's answer."`
	HTTP       string `name:"http" placeholder:"N" help:"The HTTP status of the answer."`
	Reason     string `placeholder:"NAME" help:"The reason itself, instead of an answer."`
	LostSocket bool   `help:"The connection was lost before the answer."`
	Body       string `placeholder:"FILE" help:"The body of the answer."`
	ErrorMap   string `placeholder:"FILE" help:"The error map of the node that answered (default: none)."`
	Strategy   string `placeholder:"STRATEGY" help:"fast-fail or best-effort (default: fast-fail)."`
	Idempotent bool   `help:"The operation is idempotent, although its kind is not (default: no)."`
	WithCAS    bool   `name:"with-cas" help:"The request named a CAS (default: no)."`
	Attempt    int    `help:"How many retries were made already (default: 0)."`
}

// explained is a decision as JSON.
type explained struct {
	Reason    *string    `json:"reason"`
	Decision  string     `json:"decision"` // "retry" or "fail"; "succeed" for an answer that is no failure
	DelayMS   []float64  `json:"delay_ms"` // the least and the most; null when there is no retry
	Error     *errorKind `json:"error"`
	Consulted bool       `json:"consulted_strategy"`
}

// errorKind is a failure's kind.
type errorKind = string

// Run implements the command.
func (c *explainCmd) Run(a *app) error {
	x, err := c.prepare(a)
	if err != nil {
		return err
	}
	low, high, err := x.span()
	if err != nil {
		return err
	}
	res := explained{Decision: "fail", Consulted: low.consulted}
	if low.reason != nil {
		res.Reason = new(low.reason.String())
	}
	switch {
	case low.retried:
		res.Decision, res.DelayMS = "retry", []float64{ms(low.delay), ms(high.delay)}
		if x.mayHaveMoved() {
			res.DelayMS[0] = 0
		}
	case low.err == nil:
		res.Decision = "succeed"
	default:
		res.Error = new(failureOf(low.err).Kind)
	}
	if a.json {
		return a.emit(res)
	}
	return a.showExplained(x, low, res)
}

// prepare checks the flags.
func (c *explainCmd) prepare(a *app) (*explanation, error) {
	if err := c.checkFlags(); err != nil {
		return nil, err
	}
	x := &explanation{spec: kv.SpecByName(c.Op), attempt: c.Attempt, idempotent: c.Idempotent, cas: c.WithCAS, lost: c.LostSocket, body: c.Body != ""}
	if x.spec == nil {
		return nil, usagef("explain: --op %q is no operation of this build: %s", c.Op, strings.Join(opNames(), " "))
	}
	var err error
	if x.strategy, err = strategyOf(c.Strategy); err != nil {
		return nil, err
	}
	if c.Body != "" {
		if _, err := os.Stat(c.Body); err != nil {
			return nil, usagef("explain: --body: %v", err)
		}
	}
	if c.ErrorMap != "" {
		raw, err := os.ReadFile(c.ErrorMap)
		if err != nil {
			return nil, usagef("explain: --error-map: %v", err)
		}
		if x.errors, err = errormap.Parse(raw, 0); err != nil {
			return nil, usagef("explain: --error-map %s: %v", c.ErrorMap, err)
		}
	}
	if c.Reason != "" {
		if x.why, err = retry.Parse(c.Reason); err != nil {
			return nil, usagef("explain: --reason %q: see couchcore reasons", c.Reason)
		}
		x.lost = x.why == retry.SocketClosedWhileInFlight
	}
	if c.Status != "" {
		x.answered = true
		x.status, err = parseStatus(c.Status)
	}
	return x, err
}

func (c *explainCmd) checkFlags() error {
	switch c.Service {
	case "kv":
	case "query", "search", "views", "analytics", "management":
		return usagef("explain: this build explains the service kv; %s is not part of it yet", c.Service)
	default:
		return usagef("explain: --service %q: there are kv, query, search, views, analytics and management; this build explains kv", c.Service)
	}
	if c.Code != "" || c.HTTP != "" {
		return usagef("explain: answers of kv have a --status, neither --code nor --http")
	}
	if n := count(c.Status != "", c.Reason != "", c.LostSocket); n != 1 {
		return usagef("explain: give one of --status, --reason and --lost-socket")
	}
	if c.Attempt < 0 {
		return usagef("explain: --attempt is negative")
	}
	return nil
}

func count(conditions ...bool) (n int) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// opNames are the operations that have a verb.
func opNames() []string {
	var names []string
	for op := range 256 {
		if s := kv.SpecOf(memd.Opcode(op)); s != nil {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

func ms(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }

// showExplained writes a decision for people.
func (a *app) showExplained(x *explanation, j judged, res explained) error {
	if x.answered {
		if err := a.print("status      %s %s  %s", statusText(x.status), x.statusName(), x.statusMeaning()); err != nil {
			return err
		}
	}
	reason := "none: not a retry matter"
	if j.reason != nil {
		reason = fmt.Sprintf("%v  (%s)", *j.reason, flagsOf(*j.reason))
	}
	if err := a.print("reason      %s", reason); err != nil {
		return err
	}
	return a.print("decision    %s", x.decision(j, res))
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
	switch res.Decision {
	case "succeed":
		return "succeed: the operation has its result"
	case "fail":
		text := "fail: " + *res.Error
		if failureOf(j.err).Ambiguous {
			text += ", may have been applied"
		}
		switch {
		case j.consulted:
			return text + fmt.Sprintf(" (%s decides)", strategyName(x.strategy))
		case j.reason != nil:
			return text + "; no strategy can change this"
		}
		return text
	}
	text := "retry after " + span(res.DelayMS)
	if !j.consulted {
		text += fmt.Sprintf(" (whatever the strategy, attempt %d", x.attempt)
	} else {
		text += fmt.Sprintf(" (%s, attempt %d", strategyName(x.strategy), x.attempt)
	}
	if x.attempt == 0 {
		later := *x
		later.attempt = 3
		if low, high, err := later.span(); err == nil {
			text += "; at attempt 3 it would be " + span([]float64{ms(low.delay), ms(high.delay)})
		}
	}
	return text + ")"
}

// span writes a range of milliseconds.
func span(d []float64) string {
	if d[0] == d[1] {
		return fmt.Sprintf("%g ms", d[0])
	}
	return fmt.Sprintf("%g to %g ms", d[0], d[1])
}

func strategyName(s retry.Strategy) string {
	if _, ok := s.(retry.BestEffort); ok {
		return "BestEffort"
	}
	return "FastFailOnTerminalError -> BestEffort"
}
