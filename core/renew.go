package core

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

const (
	renewRetry = time.Second // between two attempts to renew a connection's login
	// after which, each time, a connection whose login cannot be renewed is to be replaced instead
	renewPatience = time.Minute
	renewTimeout  = 2500 * time.Millisecond
)

// renewer keeps the logins of a bucket's connections fresh: it renews those whose credentials were replaced, expire
// soon, or are refused by the node already. Its goroutine is the bucket's, which ends it.
type renewer struct {
	b    *Bucket
	kick chan struct{}

	mu    sync.Mutex
	stale map[string]bool // connections that a node has asked to log in again

	renewed map[string]renewal // by connection; run's own
	// asked is when a node's logins were last renewed because the node had called them stale, once for each connection;
	// run's own.
	asked map[int][]time.Time
}

// renewal is what has become of a connection's login since it was made.
type renewal struct {
	login handshake.Login
	tried time.Time // the last attempt, zero after a good one
	since time.Time // the first of the attempts that failed
}

func (b *Bucket) newRenewer() *renewer {
	return &renewer{
		b: b, kick: make(chan struct{}, 1), stale: map[string]bool{}, renewed: map[string]renewal{},
		asked: map[int][]time.Time{},
	}
}

// wake makes the renewer look at all connections.
func (w *renewer) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// refused is told of a connection that a node asks to log in again. It is for dispatch.Options.
func (w *renewer) refused(connection string) {
	w.mu.Lock()
	w.stale[connection] = true
	w.mu.Unlock()
	w.wake()
}

// run renews what is due, one connection after the other.
func (w *renewer) run(ctx context.Context) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for ctx.Err() == nil {
		changed := w.b.router.Changed()
		logins := w.b.router.Logins()
		w.forget(logins)
		var next time.Time
		for _, l := range logins {
			at := w.due(&l)
			if !at.IsZero() && !at.After(time.Now()) {
				w.renew(ctx, &l)
				at = w.due(&l)
			}
			if !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if next.IsZero() {
			t.Stop()
		} else {
			t.Reset(max(time.Until(next), 0))
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-w.kick:
		case <-t.C:
		}
	}
}

// forget drops what is known of connections that are gone.
func (w *renewer) forget(logins []dispatch.Login) {
	live := make(map[string]bool, len(logins))
	for _, l := range logins {
		live[l.Connection] = true
	}
	for id := range w.renewed {
		if !live[id] {
			delete(w.renewed, id)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.stale {
		if !live[id] {
			delete(w.stale, id)
		}
	}
}

// due is when a connection's login is to be renewed, zero for never.
func (w *renewer) due(l *dispatch.Login) time.Time {
	r, ok := w.renewed[l.Connection]
	if !ok {
		r.login = l.Login
	}
	old := r.login.Generation != w.b.c.logins.newest()
	var at time.Time
	switch {
	case old:
		at = r.login.At
	case w.isStale(l.Connection):
		at = r.login.At
		// a node that calls new logins stale, too, waits
		if asked := w.asked[l.Node]; len(asked) >= w.b.c.cfg.KV.Connections {
			at = later(at, asked[len(asked)-w.b.c.cfg.KV.Connections].Add(renewRetry))
		}
	case !r.login.Expires.IsZero():
		at = r.login.At.Add(max(r.login.Expires.Sub(r.login.At)/4*3, renewRetry))
	default:
		return time.Time{}
	}
	if next := r.tried.Add(renewRetry); !r.tried.IsZero() && at.Before(next) {
		at = next
	}
	return at
}

func (w *renewer) isStale(connection string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stale[connection]
}

// renew logs a connection in again, by a token over itself if that is possible, otherwise by a new connection.
func (w *renewer) renew(ctx context.Context, l *dispatch.Login) {
	r, ok := w.renewed[l.Connection]
	if !ok {
		r.login = l.Login
	}
	if w.isStale(l.Connection) {
		all := slices.Concat(w.asked[l.Node], []time.Time{time.Now()})
		w.asked[l.Node] = all[max(len(all)-w.b.c.cfg.KV.Connections, 0):]
	}
	asked, cancel := context.WithTimeout(ctx, w.b.c.cfg.Net.ConnectTimeout)
	cr, err := w.b.c.logins.connection(asked, w.b.router.Address(l.Node), w.b.c.encrypted())
	cancel()
	final := false
	switch {
	case err != nil:
	case cr.Login.Token && r.login.Token && w.b.c.encrypted():
		err = call.LoginAgain(ctx, w.b.router, l.Node, l.Connection, handshake.Bearer,
			handshake.BearerPayload(cr.Token.Reveal()), renewTimeout, call.Strict)
		var ke *kv.Error
		final = errors.As(err, &ke) && ke.Answered && ke.Status == memd.StatusAuthError
	default:
		err = w.b.router.Replace(ctx, l.Connection)
	}
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if err == nil {
		w.mu.Lock()
		delete(w.stale, l.Connection)
		w.mu.Unlock()
		w.renewed[l.Connection] = renewal{login: cr.Login}
		return
	}
	w.b.c.log.Warn(ctx, observe.MsgLoginNotRenewed, slog.String(observe.KeyConnectionID, l.Connection),
		slog.Any(observe.KeyCause, err))
	if r.tried = now; r.since.IsZero() {
		r.since = now
	}
	// Only a refusal ends a connection that works: a node whose authentication provider is away answers that, too, and
	// takes the same credentials later.
	if final || now.Sub(r.since) >= renewPatience {
		r.since = now
		refused := w.b.router.Replace(ctx, l.Connection)
		if refused != nil && (final || isRefusal(refused)) {
			w.b.router.Disconnect(l.Connection, err) // the next connection says why, by its name
		}
	}
	w.renewed[l.Connection] = r
}

// isRefusal reports whether a connection was not made because its node refuses the credentials.
func isRefusal(err error) bool {
	var ce *handshake.Error
	return errors.As(err, &ce) && ce.Kind == cberr.AuthenticationFailure
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
