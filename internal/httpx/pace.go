package httpx

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/internal/pace"
)

const (
	mostDebts   = 16               // that a host is charged with
	paysBack    = 4                // debts, by one good answer
	forgetAfter = 10 * time.Second // without a loss
	lateClose   = time.Second      // after a refusal
	mostHosts   = 1024             // that are remembered, beside those that a dial waits for
)

// attemptKey is where the dialer finds the attempt in its context, whose end net/http hides.
type attemptKey struct{}

// attempt is what the dialer knows of the attempt that it connects for.
type attempt struct {
	ctx  context.Context
	turn atomic.Pointer[string] // says that it waits for its turn to connect, and why; nil when it does not
}

// attemptIn gives the attempt in a dialer's context; nil for a stream of maps, which has pauses of its own.
func attemptIn(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// hosts keeps the pace of connecting to each address that has lost connections.
type hosts struct {
	mu sync.Mutex
	m  map[string]*host
}

// host is one address. It is charged with a debt for each connection that ended without an answer.
type host struct {
	starts  pace.Starts
	debts   int
	lost    time.Time
	waits   int           // dials that wait
	turn    chan struct{} // held by the dial that is next; those that want it get it in the order in which they came
	cleared chan struct{} // closed when no debts are left
}

// of gives the host at addr, with the lock held.
func (s *hosts) of(addr string) *host {
	h := s.m[addr]
	if h != nil {
		return h
	}
	if s.m == nil {
		s.m = map[string]*host{}
	}
	if len(s.m) >= mostHosts {
		s.forget()
	}
	h = &host{turn: make(chan struct{}, 1), cleared: make(chan struct{})}
	s.m[addr] = h
	return h
}

// forget makes room for another host, with the lock held: the hosts without debts go, or else the one that has lost no
// connection for the longest time. A host that a dial waits for stays: others would be dialed for without a wait.
func (s *hosts) forget() {
	for more := true; more && len(s.m) >= mostHosts; {
		oldest := ""
		for addr, h := range s.m {
			switch {
			case h.waits > 0:
			case h.debts == 0 || time.Since(h.lost) >= forgetAfter:
				delete(s.m, addr)
			case oldest == "" || h.lost.Before(s.m[oldest].lost):
				oldest = addr
			}
		}
		if more = oldest != ""; more && len(s.m) >= mostHosts {
			delete(s.m, oldest)
		}
	}
}

// clear forgets the debts, with the lock held.
func (h *host) clear() {
	h.debts = 0
	close(h.cleared)
	h.cleared = make(chan struct{})
}

// lose notes that a connection to addr has ended without an answer.
func (s *hosts) lose(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.of(addr)
	h.debts, h.lost = min(h.debts+1, mostDebts), time.Now()
}

// well notes a good answer of addr.
func (s *hosts) well(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.m[addr]
	if h == nil || h.debts == 0 {
		return
	}
	if h.debts -= paysBack; h.debts <= 0 {
		h.clear()
	}
}

// enter asks for a dial to addr. With h nil the dial may begin at once, and is counted. Otherwise it is one of those
// that wait, and debts is how many connections were lost.
func (s *hosts) enter(addr string) (h *host, debts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = s.of(addr)
	if h.debts > 0 && time.Since(h.lost) >= forgetAfter && h.waits == 0 {
		h.clear()
	}
	if h.debts > 0 && (h.waits > 0 || h.starts.Wait() > 0) {
		h.waits++
		return h, h.debts
	}
	h.starts.Begin()
	return nil, 0
}

// begin reports whether a dial that waits begins now: none has to, or it has the turn and its time has come. Otherwise
// it goes on waiting until cleared is closed, or with the turn for that time.
func (s *hosts) begin(h *host, hasTurn bool) (cleared <-chan struct{}, wait time.Duration, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = h.starts.Wait()
	if h.debts == 0 || hasTurn && wait <= 0 {
		h.starts.Begin()
		return nil, 0, true
	}
	return h.cleared, wait, false
}

// leave notes that a dial waits no more.
func (s *hosts) leave(h *host, hasTurn bool) {
	if hasTurn {
		<-h.turn // it is there: that does not block
	}
	s.mu.Lock()
	h.waits--
	s.mu.Unlock()
}

// await waits until a connection to addr may be begun for the attempt. Dials begin in the order in which they came.
func (s *hosts) await(ctx, client context.Context, a *attempt, addr string) error {
	h, debts := s.enter(addr)
	if h == nil {
		return nil
	}
	why := fmt.Sprintf("waited for its turn to connect to %s: the latest %d connections to it ended without an answer",
		addr, debts)
	a.turn.Store(&why)
	hasTurn, turn := false, h.turn
	defer func() { s.leave(h, hasTurn) }()
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		cleared, wait, begins := s.begin(h, hasTurn)
		if begins {
			a.turn.Store(nil)
			return nil
		}
		if hasTurn {
			t.Reset(wait)
		}
		select {
		case turn <- struct{}{}:
			hasTurn, turn = true, nil
		case <-t.C:
		case <-cleared:
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-client.Done():
			return context.Cause(client)
		}
	}
}
