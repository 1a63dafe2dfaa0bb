package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
)

// Reconnecting waits between these bounds, growing by two, with equal jitter. The first attempt after a working
// connection is immediate.
const (
	redialMin = 30 * time.Millisecond
	redialMax = 4 * time.Second
)

// run connects and serves until the pipeline is closed, or another connection has taken the place of the one that it
// serves. It begins with cn, which is published already, unless that is nil.
func (p *pipeline) run(ctx context.Context, cn *conn.Conn) {
	for ; cn != nil || ctx.Err() == nil; cn = nil {
		if cn == nil {
			if p.retires() {
				return
			}
			if p.after > 0 {
				pause(ctx, p.after, nil)
				p.after = 0
				continue
			}
			var err error
			p.begins()
			doubted, sooner := p.r.doubted(), p.r.reconnects()
			if cn, err = p.connect(ctx); err != nil {
				p.connectFailed(ctx, err)
				p.wait = p.r.o.pauseAfter(p.wait)
				jittered := p.wait/2 + time.Duration(p.r.o.JitterSource()*float64(p.wait/2))
				if errors.Is(err, errForeign) {
					pause(ctx, jittered, doubted)
					p.awaitTurn(ctx)
				} else {
					pause(ctx, jittered, sooner)
				}
				if p.stepsBack() {
					return
				}
				continue
			}
			if !p.connected(cn) {
				cn.Close(context.Cause(ctx))
			}
		}
		began := time.Now()
		err := cn.Serve()
		if !p.lost(cn, err) {
			return
		}
		p.reconnecting()
		if cn.Stats.Answers.Load() > 0 && !useless(err) {
			p.wait = 0
			p.awaitTurn(ctx)
			continue
		}
		if time.Since(began) > redialMax {
			p.wait = 0
		}
		// a node that accepts and hangs up is no working one, nor one whose connections are of no use
		p.wait = p.r.o.pauseAfter(p.wait)
		pause(ctx, p.wait, nil)
	}
	p.waiting.review()
	p.ends()
}

// pause waits for d, or until early is closed, which may be nil.
func pause(ctx context.Context, d time.Duration, sooner <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-sooner:
	case <-ctx.Done():
	}
}

func (p *pipeline) connect(ctx context.Context) (*conn.Conn, error) {
	p.progress.Store(p.r.now())
	o := p.r.o.Connect()
	o.Handler, o.Feedback, o.Passed = p, p.feedback(), p.passed
	if p.demand != nil {
		o.Features = ordered(o.Features)
	}
	o.Bucket = p.r.o.Bucket
	o.Base = p.r.o.Base
	o.WantConfig = !p.r.o.NoConfig
	cn, err := conn.Connect(ctx, p.node.addr, &o)
	if err != nil {
		return nil, err
	}
	if err := p.belongs(cn); err != nil {
		cn.Close(err)
		_ = cn.Serve() // it has no calls, and ends at once
		return nil, err
	}
	return cn, nil
}

// passed notes how far an attempt to connect has come. What the last one has met there is not true any more.
func (p *pipeline) passed(s handshake.Step) {
	p.progress.Store(p.r.now())
	p.track.Passed(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	var ce *handshake.Error
	if errors.As(p.lastErr, &ce) && ce.Kind != nil && ce.Kind == s.Kind() {
		p.lastErr = errFurther
	}
}

var errFurther = errors.New("an attempt to connect is under way that has come further than the last one")

func (p *pipeline) connectFailed(ctx context.Context, err error) {
	p.mu.Lock()
	p.failed, p.lastErr = true, err
	p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.r.o.Log.Info(ctx, observe.MsgConnectFailed, about(p.node.addr, err)...)
	if p.demand != nil { // the node has its first connection now, which says all that others want to know
		p.waiting.review()
		return
	}
	p.track.Failed(err)
	p.waiting.review()
	p.r.first.review()
	p.r.reseed()
	p.r.notify()
}
