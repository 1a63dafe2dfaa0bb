package bench

import "fmt"

// Limits of what the targets' table leaves to documents: bytes that a call holds.
const (
	futureBytes   = 2048 // a future that has completed, with a result of 16 B
	inFlightBytes = 2048 // a call on the wire
	waitingBytes  = 2048 // a call that waits for a connection
)

// Names of probes as their results are kept.
const (
	probeNameAllocs  = "allocs"
	probeNameIdle    = "idle"
	probeNameFewer   = "idle with fewer connections"
	probeNameFlight  = "in flight"
	probeNameFlightP = "in flight, gocbcore"
	probeNameIdleP   = "idle, gocbcore"
	probeNameWaiting = "waiting"
	probeNameFutures = "futures"
	probeNameLoad    = "overload"
	probeNameMicro   = "observability"
)

// allChecks is the table of targets. The rows are in the order of the targets' document.
func allChecks() []check {
	get := func(workers int) string { return cellPlain(opGet, 256, workers, 1) }
	upsert := func(workers int) string { return cellPlain(opUpsert, 256, workers, 1) }
	return []check{
		{"get-throughput-128", "throughput over gocbcore, 128 workers, Get", "x", atLeast(5), atLeast(7), ratio(get(128), kindOurs, kindPeer, mThroughput)},
		{"upsert-throughput-128", "throughput over gocbcore, 128 workers, Upsert", "x", atLeast(6), atLeast(8), ratio(upsert(128), kindOurs, kindPeer, mThroughput)},
		{"get-throughput-1024", "throughput over gocbcore, 1024 workers", "x", atLeast(8), atLeast(11), ratio(get(1024), kindOurs, kindPeer, mThroughput)},
		{"get-throughput-16", "throughput over gocbcore, 16 workers", "x", atLeast(1.4), atLeast(1.9), ratio(get(16), kindOurs, kindPeer, mThroughput)},
		{"get-p50-1", "1 worker on one core: p50 over gocbcore", "x", atMost(0.9), atMost(0.7), ratio(cellOne, kindOurs, kindPeer, mP50)},
		{"get-cpu-128", "client CPU per operation over gocbcore, 128 workers", "x", atMost(0.20), atMost(0.15), ratio(get(128), kindOurs, kindPeer, mCPU)},
		{"get-p99-128", "p99 over gocbcore, 128 workers", "x", atMost(0.15), atMost(0.08), ratio(get(128), kindOurs, kindPeer, mP99)},
		{"share-of-bound", "share of the hand-written client with the feature tax", "x", atLeast(0.80), atLeast(0.95), worst(atLeast(0.8), shares())},
		{"share-of-lock-step", "share of the lock-step limit, 128 workers", "x", atLeast(0.45), atLeast(0.60), ratio(get(128), kindOurs, kindStep, mThroughput)},
		{"bulk-get", "bulk get, keys over gocbcore's single gets, 128 workers", "x", atLeast(20), atLeast(30), ratio(get(128), kindBulk, kindPeer, mThroughput)},
		{"allocs-get", "allocations per Get", "", atMost(2), atMost(1), found(probeNameAllocs, "get")},
		{"allocs-get-into", "allocations per Get into a caller's buffer", "", atMost(1), atMost(0), found(probeNameAllocs, "get_into")},
		{"allocs-upsert", "allocations per Upsert", "", atMost(1), atMost(0), found(probeNameAllocs, "upsert")},
		{"idle-memory", "memory of an idle connection", "B", atMost(256 << 10), atMost(64 << 10), found(probeNameIdle, "bytes")},
		{"idle-goroutines", "goroutines per connection", "", atMost(2), atMost(1), goroutines},
		{"round-trip", "p50 over the round trip of 0.6 ms, 2 to 16 workers", "x", atMost(1.1), atMost(1.0), worst(atMost(1.1), roundTrips())},
		{"moved-cpu", "CPU of a NOT_MY_VBUCKET with a known map", "us", atMost(5), atMost(2), moved(mCPU)},
		{"moved-allocs", "allocations of a NOT_MY_VBUCKET with a known map", "", atMost(2), atMost(2), moved(mAllocs)},
		{"first-retry", "a Get that fails once with TMPFAIL, p50", "us", atMost(1500), atMost(1500), only(cellTmpFail, kindOurs, mP50)},
		{"observed-off", "tracing and metrics off", "ns", atMost(20), atMost(20), found(probeNameMicro, "off_ns")},
		{"observed-off-allocs", "tracing and metrics off, allocations", "", atMost(0), atMost(0), found(probeNameMicro, "off_allocs")},
		{"metrics-on", "metrics on", "ns", atMost(600), atMost(600), found(probeNameMicro, "metrics_ns")},
		{"metrics-on-allocs", "metrics on, allocations", "", atMost(0), atMost(0), found(probeNameMicro, "metrics_allocs")},
		{"overload-throughput", "twice the capacity offered: throughput over the peak", "x", atLeast(0.95), atLeast(0.95), found(probeNameLoad, "share")},
		{"overload-p99", "twice the capacity offered: p99 of accepted calls over its bound", "x", atMost(1), atMost(1), found(probeNameLoad, "p99_share")},
		{"overload-queue", "twice the capacity offered: most calls waiting", "", atMost(1.25 * inFlightLimit), atMost(inFlightLimit), found(probeNameLoad, "waiting_peak")},
		{"overload-memory", "twice the capacity offered: the largest heap over its bound", "x", atMost(1), atMost(1), found(probeNameLoad, "heap_share")},
		{"overload-refusals", "twice the capacity offered: failures that are no ENDPOINT_NOT_WRITABLE", "", atMost(0), atMost(0), found(probeNameLoad, "wrong")},
		{"linear-nodes", "CPU per operation, 20 nodes and 1024 workers over 1 node and 128", "x", atMost(1.3), atMost(1.3), linear},
		{"futures", "memory of a completed future, a million kept", "B", atMost(futureBytes), atMost(futureBytes), found(probeNameFutures, "bytes")},
		{"in-flight", "memory of a call on the wire", "B", atMost(inFlightBytes), atMost(inFlightBytes), found(probeNameFlight, "bytes")},
		{"waiting", "memory of a call that waits for a connection", "B", atMost(waitingBytes), atMost(waitingBytes), found(probeNameWaiting, "bytes")},
	}
}

// shares are those of the bound with the feature tax, wherever they are judged.
func shares() map[string]func(*results) figure {
	out := map[string]func(*results) figure{}
	for _, op := range []operation{opGet, opUpsert} {
		for _, w := range sharedWorkers {
			name := cellPlain(op, 256, w, 1)
			out[name] = ratio(name, kindOurs, kindBoundTaxed, mThroughput)
		}
	}
	return out
}

func roundTrips() map[string]func(*results) figure {
	out := map[string]func(*results) figure{}
	for _, w := range heldWorkers {
		out[cellHeld(w)] = ratio(cellHeld(w), kindOurs, laneRTT, mP50)
	}
	return out
}

// moved is what one such answer costs beyond the two requests that it takes.
func moved(m metric) func(*results) figure {
	return func(r *results) figure {
		return r.timed(cellMoved, func(c *cellResult) []float64 {
			return minus(c.series(kindOurs, m), times(c.series(lanePlain, m), 2))
		})
	}
}

func only(cell, lane string, m metric) func(*results) figure {
	return func(r *results) figure {
		return r.timed(cell, func(c *cellResult) []float64 { return c.series(lane, m) })
	}
}

func linear(r *results) figure {
	return r.timed(cellNodes, func(c *cellResult) []float64 { return paired(c.series(laneMany, mCPU), c.series(laneFew, mCPU)) })
}

// goroutines are those that a connection adds: the client's own are in both counts.
func goroutines(r *results) figure {
	many, few := r.probe(probeNameIdle), r.probe(probeNameFewer)
	for _, p := range []*probeResult{many, few} {
		if p == nil || p.err != nil || len(p.rounds) == 0 {
			return p.figure("goroutines")
		}
	}
	m, f := many.rounds[0], few.rounds[0]
	more := m["connections"] - f["connections"]
	if more <= 0 {
		return figure{}
	}
	return figure{
		rounds: []float64{(m["goroutines"] - f["goroutines"]) / more},
		note:   fmt.Sprintf("%.0f with %.0f connections, %.0f with %.0f", f["goroutines"], f["connections"], m["goroutines"], m["connections"]),
	}
}
