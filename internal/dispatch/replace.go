package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Login says as what a connection of the bucket is logged in.
type Login struct {
	Node       int    // index in the map
	Connection string // its id
	handshake.Login
}

// Logins are those of all connections to nodes of the map.
func (r *Router) Logins() []Login {
	pk := r.picker.Load()
	if pk == nil {
		return nil
	}
	var all []Login
	for i, n := range pk.nodes {
		if n == nil {
			continue
		}
		for p := range n.pipelines() {
			if cn := p.conn.Load(); cn != nil {
				all = append(all, Login{i, cn.Info().ID, cn.Info().Login})
			}
		}
	}
	return all
}

var errRotated = errors.New("replaced by a connection with newer credentials")

// Replace makes a new connection in place of the one of that id: the new one takes the calls from when it is there, and
// those in flight on the old one may finish. When the new one can't be made the old one stays, and the error says why.
// It blocks meanwhile. A connection that is gone needs no replacement.
func (r *Router) Replace(ctx context.Context, id string) error {
	p, old := r.connection(id)
	if p == nil {
		return nil
	}
	return p.replace(ctx, old, drainLimit, errRotated)
}

// replace is Replace for a connection of the pipeline, which is closed with cause once calls in flight have had limit.
func (p *pipeline) replace(ctx context.Context, old *conn.Conn, limit time.Duration, cause error) error {
	cn, err := p.connect(ctx)
	if err != nil {
		return err
	}
	if !p.adopt(cn, old) || !p.connected(cn) {
		cn.Close(errLeft)
		_ = cn.Serve() // it has no calls, and ends at once
		return nil
	}
	if !p.starts(func() { p.run(p.ctx, cn) }) { // the router closes, and has closed cn alone
		old.Close(retry.ErrClosed)
		cn.Close(retry.ErrClosed)
		_ = cn.Serve()
		return nil
	}
	old.Refuse()
	closeWhenIdle(ctx, old, limit, cause)
	return nil
}

// Disconnect ends the connection of that id; its node is connected to again.
func (r *Router) Disconnect(id string, cause error) {
	if _, cn := r.connection(id); cn != nil {
		cn.Close(cause)
	}
}

// connection finds a connection by its id.
func (r *Router) connection(id string) (*pipeline, *conn.Conn) {
	for _, p := range r.nodes.list() {
		if cn := p.conn.Load(); cn != nil && cn.Info().ID == id {
			return p, cn
		}
	}
	return nil, nil
}

// adopt lets cn take the place of the old connection, unless that is not the pipeline's own any more. When the old one
// ends, so does its goroutine: the one that serves cn reconnects if need be, even while the old one still drains.
func (p *pipeline) adopt(cn, old *conn.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.serves != old || p.conn.Load() != old {
		return false
	}
	p.serves = cn
	return true
}

const (
	// retireLimit is how long what is in flight on a connection has for its answers that an answer has put out of use.
	retireLimit = time.Second
	// renewApart is how long a node's connection is kept at least before an answer has it replaced.
	renewApart = time.Second
)

// uselessError is why a connection is closed after an answer. It is not the error of that answer, which is the answered
// call's alone: that call goes on writing to it, and what it says is not true of the connection's other calls.
type uselessError struct {
	status memd.Status
	name   string
}

func (e *uselessError) Error() string {
	return fmt.Sprintf("the connection is of no use after an answer with status 0x%02x %s", uint16(e.status), e.name)
}

// useless reports whether a connection has ended because of an answer.
func useless(err error) bool {
	var u *uselessError
	return errors.As(err, &u)
}

// retire takes a connection out of use on which nothing can succeed. It is closed when what is in flight on it has been
// answered, or soon; new calls wait for the next one. A moment passes before that is looked at: the reader is handling
// the answer that has said so, and frees the place of its call after that.
func (p *pipeline) retire(cn *conn.Conn, cause error) {
	if p.retiring.Swap(cn) == cn {
		return
	}
	cn.Refuse()
	if !p.starts(func() {
		pause(p.r.ctx, 10*time.Microsecond, nil)
		closeWhenIdle(p.r.ctx, cn, retireLimit, cause)
	}) {
		cn.Close(cause)
	}
}

// renew makes a new connection in place of one that works but is not to be relied on. Calls go on using the old one
// until the new one is there.
func (p *pipeline) renew(cn *conn.Conn, cause error) {
	now := p.r.now() + 1 // 0 is never
	last := p.renewed.Load()
	if p.conn.Load() != cn || last != 0 && now-last < int64(renewApart) || !p.renewed.CompareAndSwap(last, now) {
		return
	}
	p.starts(func() { _ = p.replace(p.r.ctx, cn, retireLimit, cause) }) // if that fails, the old one stays
}

// closeWhenIdle closes a connection that takes no more calls as soon as those in flight are answered, after limit at
// most.
func closeWhenIdle(ctx context.Context, cn *conn.Conn, limit time.Duration, cause error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !cn.Idle() && ctx.Err() == nil {
		pause(ctx, 5*time.Millisecond, nil)
	}
	cn.Close(cause)
}
