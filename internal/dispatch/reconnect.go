package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/pace"
)

// A pipeline pauses before it connects again. This is the one rule for how long:
//
//   - After a connection that was of use it does not pause. But at most pace.Connects attempts begin in any second: a
//     node that answers and hangs up would otherwise make the client connect without end.
//   - After everything else it pauses twice as long as the last time, from redialMin to Options.RedialMax, with equal
//     jitter.
//
// New credentials end a pause. So does, for a node that has another bucket than our map is of, the loss of the last
// connection that speaks for ours. Nodes can bring that about, so that the attempt then waits for its turn as after a
// connection that was of use.
const (
	redialMin = 30 * time.Millisecond
	redialMax = 4 * time.Second // the default of Options.RedialMax

	// lasting is the age at which a connection that has answered nothing counts as one that works: the node does not
	// hang up as soon as it has accepted, and the pauses begin anew.
	lasting = 4 * time.Second
)

// The profiler labels of an attempt to connect.
const (
	LabelNode       = "couchcore.node"       // the address
	LabelBucket     = "couchcore.bucket"     // the bucket's name, empty for the cluster as a whole
	LabelConnection = "couchcore.connection" // which of the node's: a number from 0, or "ordered"
)

// backoff keeps the state of that rule for one pipeline. Its methods may be called from any goroutine.
type backoff struct {
	most   time.Duration
	jitter func() float64

	mu     sync.Mutex
	last   time.Duration // the last pause before its jitter; 0 when the last connection was of use
	starts pace.Starts
}

func (b *backoff) init(o *Options) {
	if b.most, b.jitter = o.RedialMax, o.JitterSource; b.most <= 0 {
		b.most = redialMax
	}
}

// begins notes that an attempt begins now.
func (b *backoff) begins() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.starts.Begin()
}

// worked notes a connection that works: the next pause is as short as the first.
func (b *backoff) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = 0
}

// turn gives the pause after a connection that was of use.
func (b *backoff) turn() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.starts.Wait()
}

// failed gives the pause after everything else.
func (b *backoff) failed() time.Duration {
	jitter := b.jitter() // which may be a function of the user's, and so is not called under the lock
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = min(max(2*b.last, redialMin), b.most)
	return b.last/2 + time.Duration(jitter*float64(b.last/2))
}

// pause waits for d, until sooner, which may be nil, is closed, or until ctx ends.
func pause(ctx context.Context, d time.Duration, sooner <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-sooner:
	case <-ctx.Done():
	}
}

// run is serve, on another goroutine when a function of the program's has ended this one.
func (p *pipeline) run(ctx context.Context, cn *conn.Conn) {
	over := false
	defer func() {
		if !over {
			p.r.tasks.Go(p.node.addr, func() {
				if cn := p.conn.Load(); cn == nil || p.lost(cn, cn.Cause()) {
					p.run(ctx, nil)
				}
			})
		}
	}()
	p.serve(ctx, cn)
	over = true
}

// serve connects, serves the connection until it ends, and begins again. It returns when the pipeline is closed, when
// an attempt has failed while other pipelines wait for their turn to connect (stepsBack), or when another goroutine
// serves the pipeline's new connection (adopt). With cn, which is published already, it begins by serving that.
func (p *pipeline) serve(ctx context.Context, cn *conn.Conn) {
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
				p.connectFailed(ctx, err, logins)
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
		ofUse := cn.Stats.Answers.Load() > 0 && !useless(err)
		if ofUse || time.Since(began) > lasting {
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

// connect makes a connection. Meanwhile the goroutine has profiler labels that say which, and so has the context that
// the program's Dial gets.
func (p *pipeline) connect(ctx context.Context) (cn *conn.Conn, err error) {
	labels := pprof.Labels(LabelNode, p.node.addr, LabelBucket, p.r.o.Bucket, LabelConnection, p.name)
	pprof.Do(ctx, labels, func(ctx context.Context) { cn, err = p.attempt(ctx) })
	return cn, err
}

// attempt is one attempt to connect.
func (p *pipeline) attempt(ctx context.Context) (*conn.Conn, error) {
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
		_ = cn.Serve() // a closed connection without calls: Serve returns at once
		return nil, err
	}
	return cn, nil
}

// passed notes that an attempt to connect has taken a step. When the last attempt has failed at that step, its failure
// is not true any more, and errFurther takes its place.
func (p *pipeline) passed(s handshake.Step) {
	p.progress.Store(p.r.now())
	if p.demand == nil { // whether the node can be reached, its other connections say
		p.track.Passed(s)
	}
	p.r.o.Log.Debug(p.r.ctx, observe.MsgBootstrapStep, slog.String(observe.KeyEndpoint, p.node.addr),
		slog.String(observe.KeyStep, string(s)))
	p.mu.Lock()
	defer p.mu.Unlock()
	var ce *handshake.Error
	if errors.As(p.lastErr, &ce) && ce.Kind != nil && ce.Kind == s.Kind() {
		p.lastErr = errFurther
	}
}

// forgive has what the node has refused to former credentials named no more. The lock is held.
func (p *pipeline) forgive() {
	if handshake.Refuses(p.lastErr) {
		p.lastErr = errAnew
	}
}

var errAnew = errors.New("there are other credentials: a new attempt to connect is about to begin, or under way")

var errFurther = errors.New("a new attempt to connect is under way, and has come further than the last one")

// connectFailed notes a failed attempt. logins is closed if there are other credentials than when it began.
func (p *pipeline) connectFailed(ctx context.Context, err error, logins <-chan struct{}) {
	p.mu.Lock()
	p.failed, p.lastErr = true, err
	select {
	case <-logins:
		p.forgive()
	default:
	}
	p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	p.r.o.Log.Info(ctx, observe.MsgConnectFailed, about(p.node.addr, err)...)
	if p.demand != nil { // whether the node can be reached, its other connections say
		p.waiting.review()
		return
	}
	p.track.Failed(err)
	p.waiting.review()
	p.r.first.review()
	p.r.nodes.reseed()
	p.r.notify()
}
