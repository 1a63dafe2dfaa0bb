package kv

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// errBusy says that a node runs too many scans.
var errBusy = errors.New("the node has too many scans")

// vbScan is the scan of one vbucket, which may take several scans of the server's.
type vbScan struct {
	r     *Scanning
	vb    uint16
	last  []byte          // the last key; nil before the first
	seen  map[string]bool // keys of a sampling scan, which begins anew when it is interrupted
	stall time.Time       // since when there was no progress: no item that had not come before
	wait  time.Duration   // before the next request, as long as there is no progress
	moved bool            // the last answer has brought some
	lags  bool            // the node may not have stored what the scan is to be consistent with
}

// errNoProgress says that a node goes on with a scan and gives nothing new.
var errNoProgress = errors.New("the node makes no progress: it says that there are more items, and gives no new " +
	"ones")

// vbucket scans one vbucket, from the last key on when the vbucket moves or the connection is lost.
func (r *Scanning) vbucket(vb uint16) error {
	s := vbScan{r: r, vb: vb, stall: time.Now()}
	if r.op.Samples > 0 {
		s.seen = map[string]bool{}
	}
	for {
		err := s.once()
		if err == nil || !s.resumable(err) {
			return err
		}
		if !s.pause() {
			if r.ctx.Err() != nil {
				return nil // the context's end says why
			}
			return err
		}
	}
}

// pause waits before a request that follows one without progress. It is false when that has lasted too long, or the
// scan has ended.
func (s *vbScan) pause() bool {
	if time.Since(s.stall) > s.r.op.Timeout {
		return false
	}
	s.wait = min(max(2*s.wait, pollFirst), pollMax)
	return pauseFor(s.r.ctx, s.wait)
}

// once creates a scan and reads it to its end.
func (s *vbScan) once() error {
	op := s.r.op.create(s.vb)
	if s.last != nil && op.Range != nil {
		from := *op.Range
		from.Start, from.ExcludeStart = s.last, true
		op.Range = &from
	}
	scan, err := Do(s.r.ctx, s.r.d, op)
	s.lags = err != nil && !op.Snapshot.IsZero()
	var e *Error
	switch {
	case err == nil:
	case s.r.ctx.Err() != nil:
		return nil
	case errors.As(err, &e) && e.Answered && e.Status == memd.StatusKeyNotFound:
		return nil // the vbucket has no such keys
	case e != nil && e.Answered && e.Status == memd.StatusBusy:
		return errBusy
	case s.seen != nil && e != nil && e.Answered && !s.resumable(err):
		return nil // another vbucket may have enough
	default:
		return err
	}
	done := false
	defer func() {
		if !done {
			s.cancel(scan)
		}
	}()
	next := RangeScanContinue{
		Common: s.r.op.Common, Scan: scan, MaxItems: s.r.op.BatchItems, MaxBytes: s.r.op.BatchBytes,
	}
	for {
		got, err := Do(s.r.ctx, s.r.d, next)
		if err != nil {
			done = errors.As(err, &e) && e.Answered && over(e.Status)
			if s.r.ctx.Err() != nil {
				return nil
			}
			return err
		}
		s.moved = false
		if done = got.Complete; !s.emit(got.Items) || done {
			return nil
		}
		if !s.moved && !s.pause() {
			if s.r.ctx.Err() != nil {
				return nil
			}
			return s.r.op.fails(cberr.UnambiguousTimeout, errNoProgress)
		}
	}
}

// over says that a node which refuses to go on with a scan has forgotten it. An answer that was no refusal, and makes
// no sense, ends it here alone.
func over(st memd.Status) bool {
	return st != memd.StatusBusy && st != memd.StatusSuccess && st != memd.StatusRangeScanMore
}

// resumable says that a scan has ended for a reason that a new one does not have.
func (s *vbScan) resumable(err error) bool {
	var e *Error
	if !errors.As(err, &e) || s.r.ctx.Err() != nil {
		return false
	}
	if e.Answered {
		switch e.Status {
		case memd.StatusNotMyVBucket, memd.StatusKeyNotFound, memd.StatusBusy: // the last two of a scan under way
			return true
		case memd.StatusTmpFail:
			return s.lags && !errors.Is(err, cberr.Timeout)
		}
		return false
	}
	return errors.Is(err, cberr.RequestCanceled) && !errors.Is(err, retry.ErrClosed)
}

// emit hands items to the reader; false when the reader has left.
func (s *vbScan) emit(items []ScanItem) bool {
	if len(items) == 0 {
		return true
	}
	last := items[len(items)-1].Key
	progress := bytes.Compare(last, s.last) > 0
	s.last = last
	if s.seen != nil {
		fresh := items[:0]
		for _, it := range items {
			if !s.seen[string(it.Key)] {
				s.seen[string(it.Key)] = true
				fresh = append(fresh, it)
			}
		}
		if items, progress = fresh, len(fresh) > 0; !progress {
			return true
		}
	}
	if progress {
		s.moved, s.stall, s.wait = true, time.Now(), 0
	}
	select {
	case s.r.out <- items:
		return true
	case <-s.r.ctx.Done():
		return false
	}
}

// cancel ends a scan on the server. That it fails is no matter: the server forgets an idle scan.
func (s *vbScan) cancel(scan RangeScan) {
	op := RangeScanCancel{Common: s.r.op.Common, Scan: scan}
	op.Timeout = scanCancelTimeout
	_, _ = Do(context.WithoutCancel(s.r.ctx), s.r.d, op)
}
