package dispatch

import "time"

// Tuning is the part of a router's options that few change. Its zero value has the defaults.
type Tuning struct {
	InflateLimit  int           // bytes that a compressed value may become; 0 means call.MaxInflated
	ErrorMapLimit int           // bytes of a node's error map; 0 means errormap.DefaultLimit
	RedialMax     time.Duration // the longest pause between two attempts to connect; 0 means 4 s
	NoOrphans     bool          // answers that come too late are counted and not reported
	OrphanSample  int           // of them that a report describes; 0 means observe.OrphanSample
	NoConfig      bool          // the nodes' connections do not bring cluster maps; Source does
	// Stale is told of a connection that a node asks to log in again. It must not block.
	Stale  func(connection string)
	Source Source // of maps beside the connections; nil without one
}

// InflateLimit implements call.Limiter.
func (r *Router) InflateLimit() int { return r.o.InflateLimit }

// pauseAfter is how long to wait after an attempt to connect before which the pause was last: twice as long, within
// bounds.
func (t *Tuning) pauseAfter(last time.Duration) time.Duration {
	most := t.RedialMax
	if most <= 0 {
		most = redialMax
	}
	return min(max(2*last, redialMin), most)
}
