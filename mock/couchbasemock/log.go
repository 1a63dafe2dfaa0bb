package couchbasemock

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// commandAt is one request in a node's log.
type commandAt struct {
	Opcode int   `json:"opcode"`
	At     int64 `json:"ms_timestamp"`
}

const maxCommandLog = 100_000 // entries; those behind are not kept

// note notes a request if its node keeps a log.
func (x *Control) note(f mock.Frame) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if log, ok := x.logs[f.Node]; ok && len(log) < maxCommandLog {
		x.logs[f.Node] = append(log, commandAt{int(f.Opcode), f.At.UnixMilli()})
	}
}

func startLog(x *Control, a args) (any, error) {
	i, err := x.nodeOf(a)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.logs[i] = []commandAt{}
	if x.unwatch == nil {
		x.unwatch = x.c.Watch(x.note)
	}
	return nil, nil
}

// takeLog ends a node's log and returns it.
func (x *Control) takeLog(node int) []commandAt {
	x.mu.Lock()
	defer x.mu.Unlock()
	log := x.logs[node]
	delete(x.logs, node)
	if len(x.logs) == 0 && x.unwatch != nil {
		x.unwatch()
		x.unwatch = nil
	}
	return log
}

func stopLog(x *Control, a args) (any, error) {
	i, err := x.nodeOf(a)
	if err == nil {
		x.takeLog(i)
	}
	return nil, err
}

func getLog(x *Control, a args) (any, error) {
	i, err := x.nodeOf(a)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]commandAt{}, x.logs[i]...), nil
}

// retryJSON is how the error map wants a code to be retried. Times are milliseconds.
type retryJSON struct {
	Strategy string  `json:"strategy"`
	Interval float64 `json:"interval"`
	After    float64 `json:"after"`
	Max      float64 `json:"max-duration"`
	Ceil     float64 `json:"ceil"`
}

// retryCodes are CouchbaseMock's codes with the ways in which they want to be retried.
var retryCodes = []struct {
	code  memd.Status
	retry retryJSON
}{
	{0x7ff0, retryJSON{Strategy: "constant", Interval: 10, After: 50, Max: 500}},
	{0x7ff1, retryJSON{Strategy: "linear", Interval: 2, After: 50, Max: 500, Ceil: 50}},
	{0x7ff2, retryJSON{Strategy: "exponential", Interval: 2, After: 50, Max: 500, Ceil: 200}},
}

// errorEntry is how the error map wants a code to be retried, as JSON; ok is false for a code that is not in it.
func (x *Control) errorEntry(s memd.Status) (retry json.RawMessage, ok bool) {
	var m struct {
		Errors map[string]struct {
			Retry json.RawMessage `json:"retry"`
		} `json:"errors"`
	}
	if json.Unmarshal(x.c.ErrorMap(), &m) != nil {
		return nil, false
	}
	e, ok := m.Errors[fmt.Sprintf("%x", uint16(s))]
	return e.Retry, ok
}

func (x *Control) errorCode(s memd.Status) bool {
	_, ok := x.errorEntry(s)
	return ok
}

const defaultFuzz = 10 // milliseconds

// checkRetry compares the log of a node with how the error map wants a code to be retried.
func checkRetry(x *Control, a args) (any, error) {
	i, err := x.nodeOf(a)
	if err != nil {
		return nil, err
	}
	op, err := a.number("opcode", nil)
	if err != nil {
		return nil, err
	}
	code, err := a.number("errcode", nil)
	if err != nil {
		return nil, err
	}
	fuzz, err := a.number("fuzz_ms", ptr(int64(0)))
	if err != nil {
		return nil, err
	}
	if fuzz == 0 {
		fuzz = defaultFuzz
	}
	retry, _ := x.errorEntry(memd.Status(code))
	var r retryJSON
	if json.Unmarshal(retry, &r) != nil {
		return nil, fmt.Errorf("no way to retry for code 0x%x", code)
	}
	var times []float64
	for _, l := range x.takeLog(i) {
		if l.Opcode == int(op) {
			times = append(times, float64(l.At))
		}
	}
	return nil, r.check(times, float64(fuzz))
}

// check compares the times of a request and its retries with the way.
func (r *retryJSON) check(times []float64, fuzz float64) error {
	if len(times) < 2 {
		return fmt.Errorf("the request was not retried")
	}
	if gap := times[1] - times[0]; gap < r.After-1 {
		return fmt.Errorf("first retry after %v ms, wanted %v", gap, r.After)
	}
	for i := 1; i+1 < len(times); i++ {
		want, ok := r.gap(i)
		if !ok {
			return fmt.Errorf("unknown strategy %q", r.Strategy)
		}
		if gap := times[i+1] - times[i]; math.Abs(gap-want) > fuzz {
			return fmt.Errorf("retry %d after %v ms, wanted %v", i+1, gap, want)
		}
	}
	if r.Strategy == "constant" {
		want := times[1] + r.Max - (r.Interval + r.After)
		if last := times[len(times)-1]; math.Abs(last-want) > fuzz {
			return fmt.Errorf("last retry at %v, wanted %v", last-times[0], want-times[0])
		}
	}
	return nil
}

// gap is how much later a retry comes than the one before it; i counts from 1 for the second retry.
func (r *retryJSON) gap(i int) (ms float64, ok bool) {
	switch r.Strategy {
	case "constant":
		ms = r.Interval
	case "linear":
		ms = r.Interval * float64(i)
	case "exponential":
		ms = math.Pow(r.Interval, float64(i))
	default:
		return 0, false
	}
	if r.Ceil > 0 {
		ms = min(ms, r.Ceil)
	}
	return ms, true
}
