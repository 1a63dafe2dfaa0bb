package kv

import (
	"context"
	"fmt"
	"sync"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
)

// Histories remembers the current history of vbuckets, as their nodes gave it. Writes from elsewhere, with metadata,
// are meant for one history: DoInHistory checks that it is still the current one. The zero value is ready for use; it
// is safe for concurrent use and must not be copied. It belongs to one bucket.
type Histories struct {
	mu     sync.Mutex
	known  map[uint16]uint64
	asking map[uint16]*asked
}

// asked is a question that is under way, and its outcome once done is closed.
type asked struct {
	done chan struct{}
	uuid uint64
	err  error
}

// Of gives the current history of a vbucket. It asks the vbucket's node the first time; calls that want the same
// meanwhile wait for the same answer, each as long as its own context lasts. A failure is not remembered.
func (h *Histories) Of(ctx context.Context, d Dispatcher, vb uint16) (uint64, error) {
	h.mu.Lock()
	if uuid, ok := h.known[vb]; ok {
		h.mu.Unlock()
		return uuid, nil
	}
	a := h.asking[vb]
	if first := a == nil; first {
		a = &asked{done: make(chan struct{})}
		if h.asking == nil {
			h.asking = map[uint16]*asked{}
		}
		h.asking[vb] = a
		h.mu.Unlock()
		// It is not the first caller's alone: it lasts as long as such a call may.
		Go(context.WithoutCancel(ctx), d, GetFailoverLog{VBucket: vb}, func(log FailoverLog, err error) {
			h.answered(vb, a, log, err)
		})
	} else {
		h.mu.Unlock()
	}
	select {
	case <-a.done:
		return a.uuid, a.err
	case <-ctx.Done():
		return 0, &Error{Op: "failover-log", Err: endKind(ctx), Cause: context.Cause(ctx)}
	}
}

func (h *Histories) answered(vb uint16, a *asked, log FailoverLog, err error) {
	if a.err = err; err == nil && len(log.Entries) == 0 {
		a.err = &Error{Op: "failover-log", Endpoint: log.Endpoint(), Err: cberr.DecodingFailure}
	}
	h.mu.Lock()
	delete(h.asking, vb)
	if a.err == nil {
		a.uuid = log.Entries[0].UUID
		if h.known == nil {
			h.known = map[uint16]uint64{}
		}
		h.known[vb] = a.uuid
	}
	h.mu.Unlock()
	close(a.done)
}

// Forget drops what is known of a vbucket: its next use asks again.
func (h *Histories) Forget(vb uint16) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, vb)
}

// HistoryError means that a vbucket has another history than an operation was meant for. Nothing was sent.
type HistoryError struct {
	VBucket    uint16
	Want, Have uint64
}

func (e *HistoryError) Error() string {
	return fmt.Sprintf("vbucket %d has history %d, not %d", e.VBucket, e.Have, e.Want)
}

// DoInHistory runs op if the vbucket of its key has the history uuid; otherwise the cause of the error is a
// *HistoryError. What is known may be out of date by a failover that was not heard of: Forget makes it new.
func DoInHistory[R any, O Op[R]](ctx context.Context, d Dispatcher, h *Histories, uuid uint64, op O) (R, error) {
	var zero R
	var req call.Request
	if _, err := encode[R](&req, &op); err != nil || len(req.Key) == 0 {
		return Do[R](ctx, d, op) // which fails by itself
	}
	d, leave := compound(d)
	defer leave()
	l, err := routable(ctx, d, verbOf(&req), &Common{Retry: req.Retry(), Timeout: req.Timeout}, "")
	if err != nil {
		return zero, err
	}
	vb := l.VBucket(req.Key)
	have, err := h.Of(ctx, d, vb)
	if err != nil {
		return zero, err
	}
	if have != uuid {
		h.Forget(vb) // so that a failover back is seen
		return zero, &Error{
			Op: verbOf(&req), Scope: req.Scope(), Collection: req.Collection(), Err: cberr.Couchbase,
			Cause: &HistoryError{vb, uuid, have},
		}
	}
	return Do[R](ctx, d, op)
}
