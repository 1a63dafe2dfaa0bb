package sim

import (
	"context"
	"errors"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/retry"
)

// The program's callback for answers that have no reason of the client's names one now and then: those that are for
// programs. The request is then sent again for that reason, see checkResends.

// oneOfMany is how many answers there are for one that has each of the reasons named.
const oneOfMany = 16

// named is what the callback has said of an answer, and when.
type named struct {
	at  time.Time // zero: nothing
	why retry.Reason
}

// place is where an answer came in.
type place struct {
	local  string // the client's end of the connection
	opaque uint32
}

// classify is the callback.
func (w *world) classify(a core.Answer) retry.Reason {
	var s *sent
	var ke *call.Error
	if errors.As(a.Err, &ke) { // before anything else: another request may have the place a moment later
		w.tap.mu.Lock()
		s = w.tap.answers[place{ke.LocalAddr, ke.Opaque}]
		w.tap.mu.Unlock()
	}
	w.behave(context.Background(), classifying, longestJudge)
	if s == nil {
		return retry.Unknown
	}
	at, key, token := uint64(time.Now().UnixNano()), text(s.same.key), text(s.same.token)
	why := retry.EvaluationIndicated
	switch w.d.below(oneOfMany, text("named"), uint64(s.same.op), key, token, at) {
	case 0:
	case 1:
		why = retry.QueryTransactionBufferFull
	default:
		return retry.Unknown
	}
	// Several answers may be judged at one instant, and what is sent again for them has instants of its own.
	sleep(context.Background(), w.d.between(time.Nanosecond, 500*time.Microsecond, text("naming"), uint64(s.same.op),
		key, token, at))
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	s.named = named{time.Now(), why}
	return why
}
