package sim

import (
	"context"
	"slices"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// callKey is what a call's context has its entry under.
type callKey struct{}

// answer is what a call's own strategy has said.
type answer struct {
	at  time.Duration
	why retry.Reason
	of  retry.Action
}

// everyones is the strategy of the calls without one of their own. It is the client's.
type everyones struct {
	retry.FastFailOnTerminalError
	w *world
}

// RetryAfter implements retry.Strategy.
func (s everyones) RetryAfter(ctx context.Context, rq *retry.Request, why retry.Reason) retry.Action {
	e, _ := rq.Context.Value(callKey{}).(*entry)
	if e != nil {
		if e.own {
			s.w.report.violate("P7", "%s: the strategy of the others was asked", e)
		}
		s.w.tells(e, why)
	}
	if s.w.tight { // as in mannered: more calls may have failed at one instant than may wait
		sleep(ctx, s.w.inLane(e, s.w.d.between(time.Nanosecond, 500*time.Microsecond, text("judging"),
			uint64(rq.Started.UnixNano()), uint64(rq.Retries()))))
	}
	return rq.Ask(ctx, s.FastFailOnTerminalError, why)
}

// strategy gives a call a strategy: the client's own, or a user's of any manners.
func (w *world) strategy(r *source, e *entry) retry.Strategy {
	pick, seed := r.below(12), r.next()
	e.polite, e.own = pick < 8, pick >= 5
	switch {
	case pick < 5:
		return nil
	case pick < 8:
		return retry.BestEffort{}
	}
	manners := w.mannered(pick, seed, e)
	return retry.Func(func(ctx context.Context, rq *retry.Request, why retry.Reason) retry.Action {
		if rq.Context.Value(callKey{}) != e {
			w.report.violate("P7", "%s: its strategy was asked about another call", e)
		}
		a := manners(ctx, rq, why)
		w.mu.Lock()
		e.answers = append(e.answers, answer{w.since(), why, a})
		w.mu.Unlock()
		return a
	})
}

// mannered is a user's strategy.
func (w *world) mannered(pick int, seed uint64, e *entry) retry.Func {
	d := random(seed)
	return func(ctx context.Context, rq *retry.Request, _ retry.Reason) retry.Action {
		n := uint64(rq.Retries())
		// Many calls may have failed at one instant, and each asks on a goroutine of its own.
		sleep(ctx, w.inLane(e, d.between(time.Nanosecond, 500*time.Microsecond, n, 4)))
		switch pick {
		case 8: // reckless: at once, whatever it is
			return retry.After(0)
		case 9: // blocks until the call is over
			<-ctx.Done()
			return retry.After(0)
		case 10:
			return retry.After(time.Duration(d.below(0, n))) // divides by zero, and panics
		}
		if d.below(6, n) == 0 {
			return retry.Stop()
		}
		if d.below(3, n, 1) == 0 { // slow
			sleep(ctx, w.inLane(e, d.between(time.Microsecond, 30*time.Millisecond, n, 2)))
		}
		return retry.After(w.inLane(e, d.between(0, 80*time.Millisecond, n, 3)))
	}
}

// checkAnswers judges from the requests that left whether the client did what a call's own strategy has said (P6): none
// after a stop, none before a delay is over. What waits for a way goes on sooner when there is one.
func (w *world) checkAnswers() {
	leaves, first := map[identity][]*sent{}, map[*wire]*sent{}
	for _, s := range w.facts.traffic {
		leaves[s.same] = append(leaves[s.same], s)
		if first[s.over] == nil {
			first[s.over] = s
		}
	}
	for _, e := range w.ledger {
		id, alone := e.identity()
		if !alone {
			continue
		}
		for _, a := range e.answers {
			delay, again := a.of.Delay()
			until := a.at + delay
			if !again {
				until = e.limit + a.at
			}
			i := slices.IndexFunc(leaves[id], func(s *sent) bool {
				at := s.at.Sub(w.began)
				return at > a.at && at < until
			})
			if i < 0 {
				continue
			}
			woken := leaves[id][i]
			if answeredReason(a.why) {
				w.report.violateWith("P6", func() []string { return w.history(e.key) },
					"%s: about %v its strategy said at %v: again %t, after %v; a request left at %v", e, a.why, a.at,
					again, delay, woken.at.Sub(w.began))
				return
			}
			if by := wokenBy(a.why, woken.at.Sub(first[woken.over].at)); a.why.Unseen() && by != "" {
				w.report.Reached[by]++
			}
		}
	}
}

// What ends a wait for a way before its delay is over.
const (
	wokenByHealth = "a call that waited went on over a new connection, or behind a breaker that has closed"
	wokenByMap    = "a call that waited went on with a new map"
)

// wokenBy says which of them it was, from the age of the connection that the call then took: a new one gets all calls
// that have waited for it at once. It is "" for a call that has met a full connection: whatever wakes calls may have
// found a place there.
func wokenBy(why retry.Reason, age time.Duration) string {
	switch {
	case why == retry.CircuitBreakerOpen || age < time.Millisecond:
		return wokenByHealth
	case why == retry.EndpointNotWritable:
		return ""
	}
	return wokenByMap
}

// answeredReason reports whether the reason is what a node has answered, or what the program makes of an answer: only
// the delay ends the wait then.
func answeredReason(why retry.Reason) bool {
	return slices.Contains([]retry.Reason{
		retry.KVTemporaryFailure, retry.KVErrorMapRetryIndicated, retry.KVLocked, retry.KVSyncWriteInProgress,
		retry.KVSyncWriteReCommitInProgress, retry.EvaluationIndicated,
		retry.QueryTransactionBufferFull,
	}, why)
}
