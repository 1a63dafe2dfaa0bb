package health

import (
	"context"
	"log/slog"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/observe"
)

// subject is what a line of the log is about: one kind of condition of one node, for a bucket.
type subject struct {
	kind         *cberr.Kind
	bucket, addr string
}

// set has the log tell that the subject has a condition, unless it does already. The lock is held, so that lines are in
// the order of what has happened.
func (h *Record) set(s subject, cause error) {
	if h.told[s] {
		return
	}
	if h.told == nil {
		h.told = map[subject]bool{}
	}
	h.told[s] = true
	h.Log.Warn(context.Background(), observe.MsgTerminalSet, append(s.attrs(), slog.Any(observe.KeyCause, cause))...)
}

// over has the log tell that the conditions are over that which takes. The lock is held.
func (h *Record) over(which func(subject) bool) {
	for s := range h.told {
		if which(s) {
			delete(h.told, s)
			h.Log.Info(context.Background(), observe.MsgTerminalCleared, s.attrs()...)
		}
	}
}

func (s subject) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String(observe.KeyReason, reasonOf(s.kind).String()), slog.String(observe.KeyEndpoint, s.addr),
		slog.String(observe.KeyBucket, s.bucket),
	}
}
