package core

import (
	"strings"

	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/retry"
)

// readMeters gives the present value of every meter: what a meter provider collects.
func (c *Cluster) readMeters(add func(m observe.Meter, v int64, facts ...observe.Fact)) {
	stats := c.orch.Stats()
	for k, n := range stats.Operations {
		readRetries(string(k.Service), strings.ReplaceAll(k.Operation, "-", "_"), &n, add)
	}
	add(observe.MeterParked, int64(stats.Parked))
	add(observe.MeterPool, int64(c.http.Connections()))
	states := map[string]int64{}
	for _, b := range c.all() {
		bucket := observe.Fact{Field: observe.FieldBucket, Text: b.name}
		inFlight, queued := map[string]int64{}, map[string]int64{}
		for _, s := range b.router.Status() {
			states[s.State]++
			inFlight[s.Addr] += int64(s.InFlight)
			queued[s.Addr] += int64(s.Queued)
		}
		for addr, n := range inFlight {
			peer := observe.Fact{Field: observe.FieldPeerAddress, Text: addr}
			add(observe.MeterInFlight, n, bucket, peer)
			add(observe.MeterQueued, queued[addr], bucket, peer)
		}
		reconnects, maps := b.router.Changes()
		add(observe.MeterReconnects, reconnects, bucket)
		add(observe.MeterMaps, maps, bucket)
		add(observe.MeterOrphans, b.Orphans(), bucket)
	}
	for state, n := range states {
		add(observe.MeterConnections, n, observe.Fact{Field: observe.FieldState, Text: state})
	}
}

// readRetries gives the retry statistics of one kind of operation. What has never happened is left out.
func readRetries(service, operation string, n *retry.OperationStats, add func(observe.Meter, int64, ...observe.Fact)) {
	of := []observe.Fact{
		{Field: observe.FieldService, Text: service}, {Field: observe.FieldOperation, Text: operation},
	}
	for m, v := range map[observe.Meter]int64{
		observe.MeterFailed: int64(n.Failed), observe.MeterHedges: int64(n.Hedges),
		observe.MeterExhausted: int64(n.GaveUp), observe.MeterThrottled: int64(n.Throttled),
		observe.MeterDelay: n.Delay.Microseconds(),
	} {
		if v != 0 {
			add(m, v, of...)
		}
	}
	for why, r := range n.Reasons {
		reason := observe.Fact{Field: observe.FieldRetryReason, Text: retry.Reason(why).String()}
		if r.Retries != 0 {
			add(observe.MeterRetries, int64(r.Retries), of[0], of[1], reason)
		}
		if r.Transparent != 0 {
			add(observe.MeterTransparent, int64(r.Transparent), of[0], of[1], reason)
		}
	}
	for k, count := range n.Histogram {
		if count != 0 {
			add(observe.MeterHistogram, int64(count), of[0], of[1],
				observe.Fact{Field: observe.FieldAtLeast, Number: int64(retry.HistogramBounds[k])})
		}
	}
}
