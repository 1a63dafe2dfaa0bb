package core

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/observe"
)

// Thresholds are the times from which on an operation is one of the report of slow operations; 0 means the default.
type Thresholds struct {
	KV, Scan                        time.Duration // 500 ms; of each request of a scan 1 s
	Query, Search, Views            time.Duration // 1 s
	Analytics, Management, Eventing time.Duration // 1 s
}

// of is that of a service.
func (t *Thresholds) of(svc Service) time.Duration {
	switch svc {
	case Query:
		return t.Query
	case Search:
		return t.Search
	case Views:
		return t.Views
	case Analytics:
		return t.Analytics
	case Eventing:
		return t.Eventing
	case Management, Backup, Index:
	}
	return t.Management
}

// reports are what is gathered for the log, and the goroutine that writes it; stop ends it after a last report. The
// zero value gathers nothing.
type reports struct {
	orphans, slow *observe.Slowest // nil: not gathered
	quit          chan struct{}
	wg            sync.WaitGroup
}

// start begins to gather what the configuration wants, for a log that there is.
func (r *reports) start(o *ObserveConfig, log observe.Log) {
	if o.Log == nil {
		return
	}
	r.quit = make(chan struct{})
	if !o.NoOrphanReport {
		r.orphans = &observe.Slowest{Sample: o.OrphanSample}
		r.wg.Go(func() { r.run(o.OrphanInterval, r.orphans, log.Warn, observe.MsgOrphans) })
	}
	if !o.NoThresholdReport {
		r.slow = &observe.Slowest{Sample: o.ThresholdSample}
		r.wg.Go(func() { r.run(o.ThresholdInterval, r.slow, log.Info, observe.MsgSlow) })
	}
}

// run writes a line at every interval in which there is something to report, and at the end.
func (r *reports) run(every time.Duration, of *observe.Slowest,
	write func(context.Context, string, ...slog.Attr), msg string,
) {
	t := time.NewTicker(every)
	defer t.Stop()
	for ended := false; !ended; {
		select {
		case <-t.C:
		case <-r.quit:
			ended = true
		}
		if report, ok := of.Take(); ok {
			write(context.Background(), msg, slog.Int64(observe.KeyCount, report.Total),
				slog.String(observe.KeyReport, string(report.JSON)))
		}
	}
}

// stop writes what is left, once nothing more is gathered.
func (r *reports) stop() {
	if r.quit != nil {
		close(r.quit)
		r.wg.Wait()
	}
}
