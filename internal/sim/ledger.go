package sim

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// outcome is how a call ended, as the properties see it.
type outcome uint8

const (
	open     outcome = iota // it has not ended
	done                    // success
	absent                  // a definite answer: there is no such document
	exists                  // there is one
	mismatch                // another version
	failed                  // it was not applied, and says so
	doubtful                // it may have been applied
)

func (o outcome) String() string {
	return [...]string{"never ended", "ok", "not found", "exists", "CAS mismatch", "failed", "in doubt"}[o]
}

// entry is a call's line in the ledger, which its worker keeps. Times are those of the run.
type entry struct {
	worker, number int
	verb           verb
	key, token     string
	named          bool             // in a collection that is not the default one
	shared         bool             // others use the key too: its history is judged
	alone          bool             // no other call asks for its key with its opcode
	of             *entry           // of such a call: the one that alone has written its document; nil without
	private        bool             // it is about a document of a visit
	value          string           // what it writes, where that is not the body of its token
	cid            uint32           // of its collection; 0: it has none, or names alone
	replica        int              // that is asked; 0: the verb has it
	more           paths            // of a mutation by paths
	history        kv.MutationToken // the newest one that a failover log has named
	expiry         int64            // that a touch sets, as a Unix time: no two of them set the same
	expect         string           // token that swap replaces
	limit          time.Duration    // the call's own timeout
	cancelAt       time.Duration    // when its context ends; 0 never
	polite         bool             // its strategy is one of the client's
	last           bool             // no call for its key comes after it
	calm           bool             // began when the faults had long stopped
	durable        bool             // each of its requests is to be, where its kind can
	batch          bool             // it is one of many, which end together
	own            bool             // it has a strategy of its own
	answers        []answer         // of that, if it is a user's
	told           answer           // the first terminal cause that the strategy of all was told
	parkings       []parking        // in their order
	located        bool             // the next two are known
	vbucket        uint16           // of its document
	node           string           // of its document when it began; "" for none
	moved          bool             // it was another one when it ended

	began, ended time.Duration
	ends         atomic.Int32
	over         atomic.Int64 // ended, for those who look before
	outcome      outcome
	got          string // what was read
	cas          uint64
	err          error
	retries      int
	reasons      retry.Reasons
}

// finish enters the call's end, and reports whether it is the first.
func (e *entry) finish(at time.Duration, info retry.Info, err error) bool {
	if e.ends.Add(1) > 1 {
		return false
	}
	e.over.Store(int64(at))
	e.ended, e.err, e.retries, e.reasons = at, err, info.Retries(), info.Reasons
	var ke *call.Error
	if errors.As(err, &ke) {
		e.retries, e.reasons = ke.Retry.Retries(), ke.Retry.Reasons
	}
	switch {
	case err == nil:
		e.outcome = done
	case ke == nil || ke.Ambiguous():
		e.outcome = doubtful
	case !ke.Answered:
		e.outcome = failed
	default: // a timeout may have any of these as its cause, after a retry that the program has named
		e.outcome = outcomeOf(cberr.KindOf(err))
	}
	return true
}

// outcomeOf is how a call ended that was answered with an error of a kind.
func outcomeOf(k *cberr.Kind) outcome {
	switch {
	case k == nil:
		return failed
	case k.Is(cberr.DocumentNotFound):
		return absent
	case k.Is(cberr.DocumentExists):
		return exists
	case k.Is(cberr.CASMismatch):
		return mismatch
	}
	return failed
}

// succeeded reports whether the call did what it could: there was nothing wrong with the way to its document.
func (e *entry) succeeded() bool { return e.outcome >= done && e.outcome <= mismatch }

// String is the entry's line in a history.
func (e *entry) String() string {
	s := fmt.Sprintf("worker %d: %s %s", e.worker, e.verb, e.key)
	if e.token != "" {
		s += " = " + e.token
	}
	if e.expect != "" {
		s += " instead of " + e.expect
	}
	s += fmt.Sprintf(" within %v -> %s", e.limit, e.outcome)
	if e.got != "" && e.outcome == done {
		s += " " + e.got
	}
	if e.err != nil && e.outcome != absent && e.outcome != exists {
		s += fmt.Sprintf(" (%v)", e.err)
	}
	return s
}
