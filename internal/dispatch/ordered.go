package dispatch

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/memd"
)

// A server refuses some requests on a connection with unordered execution: those of DCP, to which GET_FAILOVER_LOG
// belongs (kv_engine, mcbp_validators.cc). A node that such a request is for gets one more connection, without that
// feature, when the first of them comes. The connection takes no other requests, and is closed when none has come for
// orderedIdle.

const orderedIdle = 10 * time.Second

var errOrderedIdle = errors.New("no request has needed the connection without unordered execution for some time")

// demand is the part of a pipeline that has a connection only while requests need it.
type demand struct {
	last    atomic.Int64 // when a request has needed it last, since the router's base; set under the pipeline's lock
	running bool         // its goroutine runs; under the pipeline's lock
}

// orderedFor gives the pipeline of the connection without unordered execution, if the call needs it or names that
// connection; otherwise nil.
func (n *node) orderedFor(c *call.Call) *pipeline {
	p := n.ordered.Load()
	if id := c.Req.Connection(); id != "" {
		if p != nil {
			if cn := p.conn.Load(); cn != nil && cn.Info().ID == id {
				return p
			}
		}
		return nil
	}
	if !c.Spec().Has(call.Ordered) {
		return nil
	}
	if cn := n.conns[0].conn.Load(); cn != nil && !cn.Info().Features.Has(memd.FeatureUnorderedExecution) {
		return nil
	}
	if p == nil {
		return n.newOrdered()
	}
	return p
}

// newOrdered makes the pipeline of the connection without unordered execution; nil when the node has left. It ends with
// the node's first one, and does nothing before the first request.
func (n *node) newOrdered() *pipeline {
	first := n.conns[0]
	first.mu.Lock()
	defer first.mu.Unlock()
	if first.closed {
		return nil
	}
	p := n.ordered.Load()
	if p == nil {
		p = n.newPipeline(first.ctx, "ordered")
		p.demand = &demand{}
		n.ordered.Store(p)
	}
	return p
}

// want notes that a request needs the pipeline, and starts its goroutine unless that runs.
func (p *pipeline) want() {
	p.mu.Lock()
	p.demand.last.Store(p.r.now()) // a goroutine that is about to end sees that, or has ended
	runs := p.demand.running
	if !runs {
		p.demand.running, p.failed = true, false
	}
	p.mu.Unlock()
	if !runs {
		p.starts(func() { p.run(p.ctx, nil) })
	}
}

// unwanted reports whether no request has needed the pipeline for some time.
func (p *pipeline) unwanted() bool {
	return p.demand != nil && p.r.now()-p.demand.last.Load() >= int64(orderedIdle)
}

// retires ends the pipeline's goroutine when no request needs the connection any more. The next one starts it again.
func (p *pipeline) retires() bool {
	if !p.unwanted() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting.calls) > 0 || !p.unwanted() {
		return false
	}
	p.demand.running = false
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
