package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// A server refuses some requests on a connection with unordered execution: those of DCP, to which GET_FAILOVER_LOG
// belongs (kv_engine, mcbp_validators.cc). A node that such a request is for gets one more connection, without that
// feature, when the first of them comes. The connection takes no other requests, and is closed when none has come for
// orderedIdle.

const orderedIdle = 10 * time.Second

var errOrderedIdle = errors.New("no request has needed the connection without unordered execution for some time")

// orderedFor gives the pipeline of the node's connection without unordered execution, if the call needs it or names
// that connection; otherwise nil.
func (p *pipeline) orderedFor(c *kv.Call) *pipeline {
	q := p.ordered.Load()
	if id := c.Req.Connection; id != "" {
		if q != nil {
			if cn := q.conn.Load(); cn != nil && cn.Info().ID == id {
				return q
			}
		}
		return nil
	}
	if !c.Spec().Has(kv.Ordered) {
		return nil
	}
	if cn := p.conn.Load(); cn != nil && !cn.Info().Features.Has(memd.FeatureUnorderedExecution) {
		return nil
	}
	if q == nil {
		return p.newOrdered()
	}
	return q
}

// newOrdered makes the pipeline of the connection without unordered execution; nil when the node has left. It ends with
// p, and does nothing before the first request.
func (p *pipeline) newOrdered() *pipeline {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	q := p.ordered.Load()
	if q == nil {
		q = &pipeline{
			r: p.r, addr: p.addr, breaker: p.breaker, head: p, inOrder: true,
			track: p.r.o.Health.Track(p.r.o.Bucket, p.addr),
		}
		q.ctx, q.stop = context.WithCancelCause(p.ctx)
		p.ordered.Store(q)
	}
	return q
}

// want notes that a request needs the pipeline, and starts its goroutine unless that runs.
func (p *pipeline) want() {
	p.wanted.Store(p.r.now())
	if !p.running.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	p.failed = false
	p.mu.Unlock()
	p.r.starts(func() { p.run(p.ctx, nil) })
}

// unwanted reports whether no request has needed the pipeline for some time.
func (p *pipeline) unwanted() bool {
	return p.inOrder && p.r.now()-p.wanted.Load() >= int64(orderedIdle)
}

// retires ends the pipeline's goroutine when no request needs the connection any more. The next one starts it again.
func (p *pipeline) retires() bool {
	if !p.unwanted() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) > 0 || !p.unwanted() {
		return false
	}
	p.running.Store(false)
	return true
}

// closeUnwanted closes a connection that no request needs any more.
func closeUnwanted(cn *conn.Conn) {
	if cn.Idle() {
		cn.Close(errOrderedIdle)
	}
}

// ordered takes unordered execution from what a connection asks for.
func ordered(features []memd.Feature) []memd.Feature {
	return slices.DeleteFunc(slices.Clone(features),
		func(f memd.Feature) bool { return f == memd.FeatureUnorderedExecution })
}
