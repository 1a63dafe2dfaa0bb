package retry

import (
	"context"
	"fmt"
	"time"
)

// Observer is told of everything that happens to an operation once it has failed. Its methods are called without a
// lock, on whatever goroutine the event happened on, so they must not block, and several may run at once. The
// Requests are copies of the Observer's own.
type Observer interface {
	// Attempt reports an attempt of an operation that has failed once, when the attempt ends. First-time successes are
	// not reported; the last attempt of a retried operation is when State.Succeeded or State.Settle is called.
	Attempt(AttemptInfo)
	// Retry reports the decision to retry after the delay, before anything follows from it. GaveUp follows it when the
	// operation cannot wait: too many do, or the client is closed.
	Retry(*Request, Reason, time.Duration)
	// GaveUp reports an operation that is not retried for the reason, or ended while it was, with its error.
	GaveUp(*Request, Reason, error)
}

// AttemptInfo is one attempt of an operation, which has ended.
type AttemptInfo struct {
	Context   context.Context // the caller's
	Service   Service
	Operation string
	Endpoint  string
	ID        string
	Number    int    // 1 is the first
	Reason    Reason // Unknown when the attempt succeeded or its failure has none
	Stage     Stage  // that a failed attempt had reached
	Err       error  // nil when it succeeded
	At        time.Time
}

// OperationKey is what retry statistics are kept by.
type OperationKey struct {
	Service   Service
	Operation string
}

// MarshalText gives the two parts with a slash between them, so that statistics can be written as JSON.
func (k OperationKey) MarshalText() ([]byte, error) {
	return []byte(string(k.Service) + "/" + k.Operation), nil
}

// OperationStats counts what happened to the operations of one kind once they had failed.
type OperationStats struct {
	Retries     uint64        // sent again, transparent ones apart
	Failed      uint64        // those of Retries, and hedges, whose attempt failed in turn
	Transparent uint64        // sent again without a server's logic having seen the request
	Hedges      uint64        // sent besides an attempt that was still out
	Throttled   uint64        // operations that a budget or a throttle ended
	GaveUp      uint64        // operations that failed for a reason
	InDoubt     uint64        // operations that a server may have executed
	Delay       time.Duration // all delays together
	Histogram   [len(HistogramBounds)]uint64
	Reasons     ResendsByReason // Retries and Transparent, by the reason of the failure before
}

// Resends are retries for one reason.
type Resends struct{ Retries, Transparent uint64 }

// ResendsByReason has an element for each reason.
type ResendsByReason [reasonCount]Resends

// MarshalJSON gives an object of the reasons that have come up, by their names.
func (all ResendsByReason) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for why, r := range all {
		if r == (Resends{}) {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, `"%s":{"Retries":%d,"Transparent":%d}`, Reason(why), r.Retries, r.Transparent)
	}
	return append(text, '}'), nil
}

// HistogramBounds are the lower bounds of OperationStats.Histogram: the n-th retry of an operation, hedges and
// transparent ones included, adds one to the last bucket whose bound is at most n.
var HistogramBounds = [...]int{1, 2, 3, 4, 5, 10, 100, 1000}

// Stats is a copy of the orchestrator's counters.
type Stats struct {
	Parked     int   // operations that wait for a delay
	Bytes      int64 // that those hold
	Operations map[OperationKey]OperationStats
}

// maxKeys bounds the number of kinds that are counted apart, since the names of HTTP operations may be a user's.
const maxKeys = 1024

// otherKey counts the operations of kinds beyond that.
var otherKey = OperationKey{Operation: "other"}

// counters finds the counters of h's kind; under the mutex.
func (o *Orchestrator) counters(h *history) *OperationStats {
	if h.counts == nil {
		h.counts = o.countersOf(OperationKey{h.req.Service, h.req.Operation})
	}
	return h.counts
}

func (o *Orchestrator) countersOf(key OperationKey) *OperationStats {
	if o.recent != nil && o.recentKey == key {
		return o.recent
	}
	c := o.stats[key]
	if c == nil {
		if len(o.stats) >= maxKeys {
			key = otherKey
			if c = o.stats[key]; c != nil {
				return c
			}
		}
		c = new(OperationStats)
		o.stats[key] = c
	}
	o.recentKey, o.recent = key, c
	return c
}

// count adds the operation's n-th retry to the histogram.
func (c *OperationStats) count(n int) { *c.bucket(n)++ }

// uncount takes the operation's n-th retry, which no server was sent, out of the counts.
func (c *OperationStats) uncount(n int, why Reason) {
	*c.bucket(n)--
	c.Retries--
	c.resends(why).Retries--
}

// resends are those for the reason. A user's own code may name one that does not exist: it counts as Unknown.
func (c *OperationStats) resends(why Reason) *Resends {
	if why >= reasonCount {
		why = Unknown
	}
	return &c.Reasons[why]
}

// bucket is the histogram's for an operation's n-th retry.
func (c *OperationStats) bucket(n int) *uint64 {
	i := 0
	for i+1 < len(HistogramBounds) && n >= HistogramBounds[i+1] {
		i++
	}
	return &c.Histogram[i]
}

// Stats copies the counters. It is meant for diagnostics, not for every operation.
func (o *Orchestrator) Stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := Stats{Parked: o.parked, Bytes: o.bytes, Operations: make(map[OperationKey]OperationStats, len(o.stats))}
	for k, c := range o.stats {
		s.Operations[k] = *c
	}
	return s
}

// Hedged counts a hedged operation that has ended: sent requests, the first included, of whose others so many have
// failed.
func (o *Orchestrator) Hedged(service Service, operation string, sent, failed int) {
	if sent < 2 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.countersOf(OperationKey{service, operation})
	c.Hedges += uint64(sent - 1)
	c.Failed += uint64(failed)
	for n := 1; n < sent; n++ {
		c.count(n)
	}
}
