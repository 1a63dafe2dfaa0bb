package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/couchcore/couchcore/internal/observe"
)

// Commands of the cluster and statuses of the client (RFC 84, "Wire Protocol").
const (
	commandGet    = 0x00
	statusSuccess = 0x00
	statusUnknown = 0x01
)

// CommandLimit is how many bytes a command may have. The only one that there is has one.
const CommandLimit = 1024

const (
	firstPause = 100 * time.Millisecond // before the first attempt to connect that has one
	// A connection that has lasted so long is a good one: the pauses begin anew. There is a round of attempts without
	// pauses at most as often, so that no cluster map drives them.
	settled     = 10 * time.Second
	answerPause = 10 * time.Millisecond // after each answer, so that no server drives the client to make reports
	writeTime   = 10 * time.Second      // of an answer
)

// Endpoint is where reports may be given: a path of a node's management service.
type Endpoint struct{ Addr, Path string }

// Options say where and how reports are given. All must be set.
type Options struct {
	// Endpoints gives those that there are now, in the order of the cluster map.
	Endpoints func() []Endpoint
	Changed   <-chan struct{} // has a value when there may be others
	Renewed   <-chan struct{} // has a value when there are new credentials
	// Dial opens a websocket. It takes no message of more than CommandLimit bytes.
	Dial           func(ctx context.Context, e Endpoint) (*websocket.Conn, error)
	ConnectTimeout time.Duration // of Dial
	Backoff        time.Duration // the longest pause between two attempts to connect
	PingInterval   time.Duration
	PingTimeout    time.Duration
	JitterSource   func() float64
	Log            observe.Log
}

// reporter chooses endpoints one after the other. It belongs to the goroutine of Run.
type reporter struct {
	m     *Meter
	o     *Options
	known []Endpoint
	left  []Endpoint // of known: not tried in this round
	free  int        // attempts without a pause before them
	fresh time.Time  // when there were such attempts last
	pause time.Duration
}

// Run gives reports to one endpoint at a time until ctx ends. It waits for its goroutines. The counters count from the
// first connection on, for as long as there are endpoints.
func (m *Meter) Run(ctx context.Context, o *Options) {
	r := &reporter{m: m, o: o}
	r.pause = min(firstPause, o.Backoff)
	for ctx.Err() == nil {
		r.look()
		if len(r.known) == 0 {
			m.stop()
			select {
			case <-o.Changed:
			case <-ctx.Done():
			}
			continue
		}
		if r.free > 0 {
			r.free--
		} else if !r.wait(ctx) {
			continue
		}
		if len(r.left) == 0 {
			r.left = r.shuffled()
		}
		next := r.left[0]
		r.left = r.left[1:]
		began := time.Now()
		if r.attempt(ctx, next) {
			r.free = 0 // a connection that was lost is made again after a pause
		}
		if time.Since(began) >= settled {
			r.pause = min(firstPause, o.Backoff)
		}
	}
	m.stop()
}

// stop ends counting, and forgets what was counted.
func (m *Meter) stop() {
	if m.on.Swap(false) {
		m.report().sent()
	}
}

// look takes the endpoints of the newest map, and reports whether they are others.
func (r *reporter) look() (changed bool) {
	now := r.o.Endpoints()
	if slices.Equal(now, r.known) {
		return false
	}
	r.known = now
	r.left, r.free = r.shuffled(), 0
	if time.Since(r.fresh) >= settled {
		r.free, r.fresh = len(now), time.Now()
	}
	return true
}

func (r *reporter) shuffled() []Endpoint {
	all := slices.Clone(r.known)
	for i := len(all) - 1; i > 0; i-- {
		j := int(r.o.JitterSource() * float64(i+1))
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// wait is the pause before an attempt, and makes the next one longer. New credentials end it, and have the pauses begin
// anew. It is false when the endpoints have changed meanwhile, or ctx has ended.
func (r *reporter) wait(ctx context.Context) bool {
	t := time.NewTimer(r.pause)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			r.pause = min(2*r.pause, r.o.Backoff)
			return true
		case <-r.o.Renewed:
			r.pause = min(firstPause, r.o.Backoff)
			return true
		case <-r.o.Changed:
			if r.look() {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// attempt connects to an endpoint and answers it until the connection ends. It is false when no connection was made.
func (r *reporter) attempt(ctx context.Context, e Endpoint) (connected bool) {
	dialing, cancel := context.WithTimeout(ctx, r.o.ConnectTimeout)
	ws, err := r.o.Dial(dialing, e)
	cancel()
	about := slog.String(observe.KeyEndpoint, e.Addr)
	if connected = err == nil; connected {
		r.m.on.Store(true)
		r.o.Log.Info(ctx, observe.MsgTelemetryConnected, about)
		err = r.m.serve(ctx, ws, e, r.o)
	}
	if ctx.Err() == nil {
		r.o.Log.Info(ctx, observe.MsgTelemetryLost, about, slog.Any(observe.KeyCause, err))
	}
	return connected
}

// serve answers commands and sends pings until either fails, the map does not name the endpoint any more, or ctx ends.
// It gives the first of these.
func (m *Meter) serve(ctx context.Context, ws *websocket.Conn, e Endpoint, o *Options) error {
	ctx, end := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { end(ping(ctx, ws, o)) })
	wg.Go(func() { end(leaves(ctx, e, o)) })
	end(m.answer(ctx, ws))
	_ = ws.CloseNow()
	wg.Wait()
	return context.Cause(ctx)
}

var errLeft = errors.New("the cluster has other endpoints")

// leaves waits until e is not among the endpoints any more.
func leaves(ctx context.Context, e Endpoint, o *Options) error {
	for slices.Contains(o.Endpoints(), e) {
		select {
		case <-o.Changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errLeft
}

// ping looks whether the other end is there. The library answers the server's pings itself.
func ping(ctx context.Context, ws *websocket.Conn, o *Options) error {
	t := time.NewTicker(o.PingInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
		limited, cancel := context.WithTimeout(ctx, o.PingTimeout)
		err := ws.Ping(limited)
		cancel()
		if err != nil {
			return err
		}
	}
}

// answer answers commands one by one. What a report has is taken off the counters when it was sent.
func (m *Meter) answer(ctx context.Context, ws *websocket.Conn) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
		_, command, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		text, r := m.reply(command)
		limited, cancel := context.WithTimeout(ctx, writeTime)
		err = ws.Write(limited, websocket.MessageBinary, text)
		cancel()
		if err != nil {
			return err
		}
		r.sent()
		t.Reset(answerPause)
	}
}

// reply is the answer to a command, and what it reports.
func (m *Meter) reply(command []byte) ([]byte, *report) {
	if len(command) == 0 || command[0] != commandGet {
		return []byte{statusUnknown}, &report{}
	}
	r := m.report()
	return append([]byte{statusSuccess}, r.text...), r
}
