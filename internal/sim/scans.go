package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/kv"
)

// Scans: in a third of the runs the default collection is scanned, one scan after the other, while nodes leave and
// connections break. A scan gives no document twice (P5). When all calls have ended, another scan gives what reads of
// the documents gave just before.

// scanning is a scan's line in the ledger.
type scanning struct {
	number       int
	limit        time.Duration
	began, ended time.Duration
	tokens       map[string]string // of what it has found, by key; without values they are ""
	twice        []string
	err          error
}

// scanEnd is how long the end of a scan may take: it tells the nodes that it needs no more.
const scanEnd = time.Second + cancelSlack

// What scans come to.
const (
	wholeScan  = "a scan of everything"
	scanJudged = "a scan has found what reads have"
)

// scan scans until ctx ends.
func (w *world) scan(ctx context.Context) {
	r := newSource(w.d, text("scans"))
	for n := 0; ; n++ {
		sleep(ctx, r.between(10*time.Millisecond, 300*time.Millisecond))
		if ctx.Err() != nil {
			return
		}
		limit := r.between(50*time.Millisecond, 2*time.Second)
		seed := r.next() | 1
		s := w.scanOnce(ctx, n, limit, kv.Scan{
			Common: kv.Common{Timeout: time.Second}, Seed: seed, KeysOnly: r.below(2) == 0,
		})
		w.mu.Lock()
		w.scanned = append(w.scanned, s)
		if s.err == nil {
			w.report.Reached[wholeScan]++
		}
		w.mu.Unlock()
	}
}

// scanOnce scans everything. One vbucket is scanned at a time, in an order that the seed decides.
func (w *world) scanOnce(ctx context.Context, n int, limit time.Duration, op kv.Scan) scanning {
	s := scanning{number: n, limit: limit, tokens: map[string]string{}}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	op.Samples, op.Concurrency = 1<<20, 1
	s.began = w.since()
	run, err := op.Run(ctx, w.b)
	if err == nil {
		for run.Next(ctx) {
			it := run.Item()
			key := string(it.Key)
			if _, again := s.tokens[key]; again {
				s.twice = append(s.twice, key)
			}
			s.tokens[key] = tokenOf(it.Value)
		}
		run.Close()
		err = run.Err()
	}
	s.ended, s.err = w.since(), err
	return s
}

// finalScan scans when no call is left.
func (w *world) finalScan() {
	r := newSource(w.d, text("final scan"))
	sleep(context.Background(), r.between(time.Microsecond, time.Millisecond))
	s := w.scanOnce(context.Background(), -1, finalScanLimit, kv.Scan{
		Common: kv.Common{Timeout: 2500 * time.Millisecond}, Seed: r.next() | 1,
	})
	w.scannedLast = &s
}

// finalScanLimit is enough for a scan of the largest run.
const finalScanLimit = 2 * time.Minute

func (s *scanning) String() string {
	return fmt.Sprintf("scan %d within %v -> %d documents (%v)", s.number, s.limit, len(s.tokens), s.err)
}

// checkScans judges them: each ends in its time (P1), and gives no document twice.
func (w *world) checkScans() {
	for i := range w.scanned {
		w.checkScan(&w.scanned[i])
	}
	s := w.scannedLast
	if s == nil {
		return
	}
	w.checkScan(s)
	if s.err != nil {
		w.report.violate("P9", "%s: it failed %v after the last fault was over", s, s.began-w.faulted)
		return
	}
	known := map[string]bool{}
	for _, e := range w.ledger {
		known[e.key] = known[e.key] || !e.named
		if !e.last || !e.succeeded() {
			continue
		}
		token, found := s.tokens[e.key]
		if found != (e.outcome == done) || token != e.got {
			w.report.violateWith("P5", func() []string { return w.history(e.key) },
				"%s: it has found %s: %t, %s; a read before: %s", s, e.key, found, token, e)
			return
		}
		w.report.Reached[scanJudged]++
	}
	for key := range s.tokens {
		if !known[key] {
			w.report.violate("P5", "%s: no call has written %s", s, key)
		}
	}
}

func (w *world) checkScan(s *scanning) {
	if took := s.ended - s.began; took > s.limit+scanEnd {
		w.report.violate("P1", "%s: it took %v", s, took)
	}
	if len(s.twice) > 0 {
		w.report.violate("P5", "%s: it has given %d documents twice, among them %s", s, len(s.twice), s.twice[0])
	}
}
