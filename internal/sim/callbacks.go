package sim

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/retry"
)

// Callbacks of the program that panic or block. Strategies do so in every run, see strategies.go; those here do for a
// while, now and then.

// callback is one that the client calls.
type callback uint8

const (
	dialing callback = iota
	credentials
	logging
	hooking
	observing
	classifying
	filtering
	delivering
	callbackCount
)

func (c callback) String() string {
	return [callbackCount]string{
		"Dial", "Credentials", "the log's handler", "the hook", "the observer", "Classify", "NodeFilter",
		"the function of kv.Go",
	}[c]
}

// manners are how a callback behaves.
type manners int32

const (
	polite manners = iota
	panics
	blocks
)

func (m manners) String() string { return [...]string{"behaves", "panics", "blocks"}[m] }

// moods are the manners of the callbacks at the moment, and how often they have shown them.
type moods struct {
	now [callbackCount]atomic.Int32
	met [callbackCount]atomic.Int32
}

// behave lets a callback do what it does at the moment; with half of its calls it does nothing.
func (w *world) behave(ctx context.Context, c callback, longest time.Duration) {
	m := manners(w.moods.now[c].Load())
	at := uint64(time.Now().UnixNano())
	if m == polite || w.closing.Load() || w.d.below(2, text("mood"), uint64(c), at) == 0 {
		return
	}
	w.moods.met[c].Add(1)
	if m == panics {
		_ = crash(nil)
	}
	sleep(ctx, w.d.between(time.Nanosecond, longest, text("block"), uint64(c), at))
}

// crash panics when it is given nothing.
func crash(of *string) string { return *of }

// misbehaving is a callback that does not behave.
func misbehaving(c callback, m manners) fault {
	return fault{name: "callbacks: " + c.String() + " " + m.String(), begin: func(w *world, _ *source,
		addr string,
	) func() int {
		before := w.moods.met[c].Load()
		w.moods.now[c].Store(int32(m))
		if c == dialing || c == credentials || c == filtering {
			w.breaks(addr)
			w.reset(w.linksTo(addr))
		}
		return func() int {
			w.moods.now[c].Store(int32(polite))
			return int(w.moods.met[c].Load() - before)
		}
	}}
}

// orElse is f, or as often the other fault, which has no row of its own: with one more row every seed would draw other
// faults.
func orElse(f, other fault) fault {
	begin := f.begin
	f.begin = func(w *world, r *source, addr string) func() int {
		if w.leavesOut(other.name) || w.d.below(2, text(other.name), uint64(time.Now().UnixNano())) == 0 {
			return begin(w, r, addr)
		}
		end := other.begin(w, r, addr)
		return func() int {
			w.fired(other.name, end())
			return 0
		}
	}
	return f
}

// callbackFaults are those that their documentation allows: of the others it says that they must not block.
func callbackFaults() (fs []fault) {
	for c := range delivering {
		fs = append(fs, misbehaving(c, panics))
	}
	for _, c := range []callback{dialing, credentials, logging, classifying} {
		fs = append(fs, misbehaving(c, blocks))
	}
	fs[hooking] = orElse(fs[hooking], misbehaving(delivering, panics))
	blocking := int(delivering) + 2 // the log's handler
	fs[blocking] = orElse(fs[blocking], misbehaving(delivering, blocks))
	return fs
}

// calm ends what the callbacks do.
func (m *moods) calm() {
	for c := range callbackCount {
		m.now[c].Store(int32(polite))
	}
}

// Longest times for which callbacks block.
const (
	longestDial  = 5 * time.Second
	longestLog   = 5 * time.Millisecond
	longestJudge = 300 * time.Millisecond
	longestEnd   = time.Second
)

// callbacks sets those of the configuration.
func (w *world) callbacks(cfg *core.Config) {
	cfg.Net.NodeFilter = func(string) error {
		w.behave(context.Background(), filtering, 0)
		return nil
	}
	cfg.Observe.Retry = observer{w}
	cfg.Retry.Classify = w.classify
	dial := w.dial
	cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		began := time.Now()
		w.behave(ctx, dialing, longestDial)
		nc, err := dial(ctx, network, addr)
		if c, ok := nc.(*wire); ok {
			c.began = began
		}
		return nc, err
	}
	cfg.Auth.Credentials = w.credentials
}

// observer counts the reasons for which operations fail.
type observer struct{ w *world }

// Attempt implements retry.Observer.
func (o observer) Attempt(a retry.AttemptInfo) {
	if a.Reason != retry.Unknown {
		o.w.mu.Lock()
		o.w.report.ReasonsFired[a.Reason.String()]++
		o.w.mu.Unlock()
	}
	o.w.behave(context.Background(), observing, 0)
}

// Retry implements retry.Observer.
func (o observer) Retry(*retry.Request, retry.Reason, time.Duration) {
	o.w.behave(context.Background(), observing, 0)
}

// GaveUp implements retry.Observer.
func (o observer) GaveUp(*retry.Request, retry.Reason, error) {
	o.w.behave(context.Background(), observing, 0)
}
