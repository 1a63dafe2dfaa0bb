package retry

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

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

// tallies are the counters of all kinds of operations. Nothing waits for another operation's: what is counted is
// counted when many operations fail at once, and a lock would be a line for all of them to stand in.
type tallies struct {
	mu    sync.RWMutex // is taken to write for a kind that has not been seen before
	kinds map[OperationKey]*tally
}

// tally is an OperationStats that is counted in.
type tally struct {
	retries, failed, transparent, hedges, throttled, gaveUp, inDoubt atomic.Uint64

	delay     atomic.Int64
	histogram [len(HistogramBounds)]atomic.Uint64
	reasons   [reasonCount]struct{ retries, transparent atomic.Uint64 }
}

// of finds the counters of a kind.
func (t *tallies) of(key OperationKey) *tally {
	t.mu.RLock()
	c := t.known(key)
	t.mu.RUnlock()
	if c != nil {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c = t.known(key); c == nil {
		if len(t.kinds) >= maxKeys {
			key = otherKey
		}
		c = new(tally)
		t.kinds[key] = c
	}
	return c
}

// known gives the counters that are there for a kind. Kinds for which there was no place any more share theirs.
func (t *tallies) known(key OperationKey) *tally {
	c := t.kinds[key]
	if c == nil && len(t.kinds) >= maxKeys {
		c = t.kinds[otherKey]
	}
	return c
}

// copies gives the counters of all kinds.
func (t *tallies) copies() map[OperationKey]OperationStats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make(map[OperationKey]OperationStats, len(t.kinds))
	for key, c := range t.kinds {
		all[key] = c.copied()
	}
	return all
}

func (c *tally) copied() OperationStats {
	s := OperationStats{
		Retries: c.retries.Load(), Failed: c.failed.Load(), Transparent: c.transparent.Load(), Hedges: c.hedges.Load(),
		Throttled: c.throttled.Load(), GaveUp: c.gaveUp.Load(), InDoubt: c.inDoubt.Load(),
		Delay: time.Duration(c.delay.Load()),
	}
	for i := range s.Histogram {
		s.Histogram[i] = c.histogram[i].Load()
	}
	for i := range s.Reasons {
		s.Reasons[i] = Resends{c.reasons[i].retries.Load(), c.reasons[i].transparent.Load()}
	}
	return s
}

// retried counts the operation's n-th retry, which is for the reason.
func (c *tally) retried(n int, why Reason, transparent bool) {
	if transparent {
		c.transparent.Add(1)
		c.reasons[counted(why)].transparent.Add(1)
	} else {
		c.retries.Add(1)
		c.reasons[counted(why)].retries.Add(1)
	}
	c.count(n)
}

// count adds the operation's n-th retry to the histogram.
func (c *tally) count(n int) { c.bucket(n).Add(1) }

// uncount takes the operation's n-th retry, which no server was sent, out of the counts.
func (c *tally) uncount(n int, why Reason) {
	const less = ^uint64(0)
	c.bucket(n).Add(less)
	c.retries.Add(less)
	c.reasons[counted(why)].retries.Add(less)
}

// counted is the reason that a retry is counted under. A user's own code may name one that does not exist: it counts as
// Unknown.
func counted(why Reason) Reason {
	if why >= reasonCount {
		return Unknown
	}
	return why
}

// bucket is the histogram's for an operation's n-th retry.
func (c *tally) bucket(n int) *atomic.Uint64 {
	i := 0
	for i+1 < len(HistogramBounds) && n >= HistogramBounds[i+1] {
		i++
	}
	return &c.histogram[i]
}

// Stats copies the counters. It is meant for diagnostics, not for every operation. What is counted meanwhile may be in
// some counters of the copy and not yet in others.
func (o *Orchestrator) Stats() Stats {
	s := Stats{Operations: o.stats.copies()}
	o.mu.Lock()
	defer o.mu.Unlock()
	s.Parked, s.Bytes = o.parked, o.bytes
	return s
}

// Hedged counts a hedged operation that has ended: sent requests, the first included, of whose others so many have
// failed.
func (o *Orchestrator) Hedged(service Service, operation string, sent, failed int) {
	if sent < 2 {
		return
	}
	c := o.stats.of(OperationKey{service, operation})
	c.hedges.Add(uint64(sent - 1))
	c.failed.Add(uint64(failed))
	for n := 1; n < sent; n++ {
		c.count(n)
	}
}
