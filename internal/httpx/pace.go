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
	mostHosts   = 1024
)

// attemptKey is where the dialer finds the attempt in its context, whose end net/http hides.
type attemptKey struct{}

// attempt is what the dialer knows of the attempt that it connects for.
type attempt struct {
	ctx  context.Context
	turn atomic.Pointer[string] // what it waits for
}

// attemptIn is nil for what is no attempt: a stream that has pauses of its own.
func attemptIn(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// hosts are the paces of all host:port that have lost connections.
type hosts struct {
	mu sync.Mutex
	m  map[string]*host
}

// host is one whose latest connections ended without an answer, or may.
type host struct {
	starts  pace.Starts
	debts   int
	lost    time.Time
	turn    chan struct{} // held by the dial that is next
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

// forget makes room for another host, with the lock held: the hosts without debts go, or else any one. A dial that
// waits keeps its host.
func (s *hosts) forget() {
	for addr, h := range s.m {
		if h.debts == 0 || time.Since(h.lost) >= forgetAfter {
			delete(s.m, addr)
		}
	}
	for addr := range s.m {
		if len(s.m) < mostHosts {
			return
		}
		delete(s.m, addr)
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

// may reports whether a connection to addr may begin now, and notes that it does; otherwise how long it waits at least.
func (s *hosts) may(addr string) (h *host, cleared <-chan struct{}, wait time.Duration, debts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = s.of(addr)
	if h.debts > 0 && time.Since(h.lost) >= forgetAfter && len(h.turn) == 0 {
		h.clear()
	}
	if h.debts > 0 {
		if wait = h.starts.Wait(); wait > 0 {
			return h, h.cleared, wait, h.debts
		}
	}
	h.starts.Begin()
	return h, h.cleared, 0, h.debts
}

// await waits until a connection to addr may be begun for the attempt.
func (s *hosts) await(ctx, client context.Context, a *attempt, addr string) error {
	h, cleared, wait, debts := s.may(addr)
	if wait <= 0 {
		return nil
	}
	why := fmt.Sprintf("waited for its turn to connect to %s: the latest %d connections to it ended without an answer",
		addr, debts)
	a.turn.Store(&why)
	held := false
	defer func() {
		if held {
			<-h.turn
		}
	}()
	turn := h.turn
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		select {
		case turn <- struct{}{}:
			held, turn = true, nil
		case <-t.C:
		case <-cleared:
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-client.Done():
			return context.Cause(client)
		}
		if _, cleared, wait, _ = s.may(addr); wait <= 0 {
			a.turn.Store(nil)
			return nil
		}
		t.Reset(wait)
	}
}
