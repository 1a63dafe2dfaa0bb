package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/pace"
)

// A pipeline pauses before it connects again. This is the one rule for how long:
//
//   - After a connection that was of use, not at all: but no more than pace.Connects attempts begin in any second,
//     because a node that answers and hangs up drives them.
//   - After everything else twice as long as the last time, from redialMin to Tuning.RedialMax, with equal jitter.
//
// New credentials end a pause. A pause after a node was found to have another bucket than our map is of ends when no
// connection speaks for ours any more. Nodes drive that, so the attempt then waits for its turn as after a connection
// that was of use.
const (
	redialMin = 30 * time.Millisecond
	redialMax = 4 * time.Second // unless Tuning says otherwise
)

// backoff counts for that rule. Its methods may be called from anywhere.
type backoff struct {
	most   time.Duration
	jitter func() float64

	mu     sync.Mutex
	last   time.Duration // the last pause before its jitter; 0 when the last connection was of use
	starts pace.Starts
}

func (b *backoff) init(t *Tuning, jitter func() float64) {
	if b.most, b.jitter = t.RedialMax, jitter; b.most <= 0 {
		b.most = redialMax
	}
}

// begins notes that an attempt begins now.
func (b *backoff) begins() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.starts.Begin()
}

// worked has the pauses begin anew.
func (b *backoff) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = 0
}

// turn is how long to pause after a connection that was of use.
func (b *backoff) turn() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.starts.Wait()
}

// failed is how long to pause after everything else.
func (b *backoff) failed() time.Duration {
	jitter := b.jitter() // which may be a function of the user's
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = min(max(2*b.last, redialMin), b.most)
	return b.last/2 + time.Duration(jitter*float64(b.last/2))
}

// pause waits for d, or until sooner is closed, which may be nil.
func pause(ctx context.Context, d time.Duration, sooner <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-sooner:
	case <-ctx.Done():
	}
}

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
			p.backoff.begins()
			unconfirmed, logins := p.r.maps.unconfirmed.next(), p.r.logins.next()
			if cn, err = p.connect(ctx); err != nil {
				p.connectFailed(ctx, err)
				if errors.Is(err, errForeign) {
					pause(ctx, p.backoff.failed(), unconfirmed)
					pause(ctx, p.backoff.turn(), nil)
				} else {
					pause(ctx, p.backoff.failed(), logins)
				}
				if p.r.nodes.stepsBack(p) {
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
		p.r.nodes.connects(p, true)
		// a node that accepts and hangs up is no working one, nor one whose connections are of no use
		ofUse := cn.Stats.Answers.Load() > 0 && !useless(err)
		if ofUse || time.Since(began) > redialMax {
			p.backoff.worked()
		}
		if ofUse {
			pause(ctx, p.backoff.turn(), nil)
		} else {
			pause(ctx, p.backoff.failed(), nil)
		}
	}
	p.waiting.review()
	p.r.nodes.connects(p, false)
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
	if p.demand != nil { // the node has another connection, which says whether it can be reached
		p.waiting.review()
		return
	}
	p.track.Failed(err)
	p.waiting.review()
	p.r.first.review()
	p.r.nodes.reseed()
	p.r.notify()
}
