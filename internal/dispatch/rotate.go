package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
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
	if !p.starts(func() { p.run(p.ctx, cn) }) {
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

// starts runs f on a goroutine that the router's Close waits for, unless Close has begun.
func (p *pipeline) starts(f func()) bool {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if !p.r.closed {
		p.r.tasks.Go(p.node.addr, f)
	}
	return !p.r.closed
}

// connection finds a connection by its id.
func (r *Router) connection(id string) (*pipeline, *conn.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pipelines() {
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
