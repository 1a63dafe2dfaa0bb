package mock

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// commandAt is one request in a node's log.
type commandAt struct {
	Opcode int   `json:"opcode"`
	At     int64 `json:"ms_timestamp"`
}

const maxCommandLog = 100_000 // entries; those behind are not kept

// logCommand notes a request if its node keeps a log.
func (c *Cluster) logCommand(node int, op memd.Opcode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if log, ok := c.controls.logs[node]; ok && len(log) < maxCommandLog {
		c.controls.logs[node] = append(log, commandAt{int(op), time.Now().UnixMilli()})
	}
}

func controlStartLog(c *Cluster, a args) (any, error) {
	i, err := c.nodeOf(a)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controls.logs[i] = []commandAt{}
	c.logging.Store(true)
	return nil, nil
}

// takeLog ends a node's log and returns it.
func (c *Cluster) takeLog(node int) []commandAt {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := c.controls.logs[node]
	delete(c.controls.logs, node)
	c.logging.Store(len(c.controls.logs) > 0)
	return log
}

func controlStopLog(c *Cluster, a args) (any, error) {
	i, err := c.nodeOf(a)
	if err == nil {
		c.takeLog(i)
	}
	return nil, err
}

func controlGetLog(c *Cluster, a args) (any, error) {
	i, err := c.nodeOf(a)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]commandAt{}, c.controls.logs[i]...), nil
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

// addRetryCodes puts the codes into the error map.
func (c *Cluster) addRetryCodes() error {
	for _, r := range retryCodes {
		b, _ := json.Marshal(r.retry) // numbers and a text
		if err := c.AddErrorCode(r.code, "DUMMY_RETRY_"+r.retry.Strategy, []string{"auto-retry", "temp"}, b); err != nil {
			return err
		}
	}
	return nil
}

// errorEntry is a code's entry in the error map.
func (c *Cluster) errorEntry(s memd.Status) (errorEntryJSON, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var m errorMapJSON
	if json.Unmarshal(c.errorMap.v2, &m) != nil {
		return errorEntryJSON{}, false
	}
	e, ok := m.Errors[fmt.Sprintf("%x", uint16(s))]
	return e, ok
}

func (c *Cluster) errorCode(s memd.Status) bool {
	_, ok := c.errorEntry(s)
	return ok
}

const defaultFuzz = 10 // milliseconds

// controlCheckRetry compares the log of a node with how the error map wants a code to be retried.
func controlCheckRetry(c *Cluster, a args) (any, error) {
	i, err := c.nodeOf(a)
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
	e, _ := c.errorEntry(memd.Status(code))
	var r retryJSON
	if json.Unmarshal(e.Retry, &r) != nil {
		return nil, fmt.Errorf("no way to retry for code 0x%x", code)
	}
	var times []float64
	for _, l := range c.takeLog(i) {
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
