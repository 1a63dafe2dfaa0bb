package mock

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
)

const (
	maxPacket   = 30 << 20 // body; a server closes the connection above this
	maxOutgoing = 4 << 20  // the read loop waits while more than this is unsent
)

// conn is one KV connection. serve reads and answers requests one after the other; answers that are held back, and
// pushes, come from goroutines of their own. The one that finds no other flushing writes out what has gathered.
type conn struct {
	c      *Cluster
	n      *Node
	nc     *FaultConn
	id     uint64
	secure bool
	tls    *tls.Conn     // until its certificate was looked at; nil without TLS
	gone   chan struct{} // closed by close
	once   sync.Once

	features atomic.Uint64          // set by the read loop
	bucket   atomic.Pointer[bucket] // set by the read loop
	user     atomic.Pointer[user]   // set by the read loop
	agent    atomic.Pointer[string] // of the last HELLO; set by the read loop

	// Read loop only.
	sasl     saslState
	waitedAt time.Time     // when a request last began to wait beside others
	waiting  time.Duration // the turn of that one

	scans  map[scanID]*scan // guarded by the cluster's mutex
	pushed version          // newest config that this connection has seen; guarded by the cluster's mutex

	mu       sync.Mutex
	room     *sync.Cond // signalled when out was taken
	out      []byte
	spare    []byte
	flushing bool
	ending   bool // nothing is added to out any more; who empties it closes the connection
}

func newConn(n *Node, nc net.Conn, secure bool) *conn {
	secret, _ := nc.(*tls.Conn)
	if wrap := n.c.set.inTheClear; secret != nil && wrap != nil {
		nc = wrap(nc)
	}
	k := &conn{
		c: n.c, n: n, nc: NewFaultConn(nc), tls: secret, id: n.c.connID.Add(1), secure: secure,
		gone: make(chan struct{}),
	}
	k.nc.faults = &n.wire
	k.room = sync.NewCond(&k.mu)
	return k
}

// granted are the features that HELLO has granted.
func (k *conn) granted() memd.Features { return memd.Features(k.features.Load()) }

// close ends the connection at once, whatever is unsent.
func (k *conn) close() {
	k.once.Do(func() {
		k.c.mu.Lock()
		delete(k.n.conns, k)
		for id := range k.scans {
			k.dropScan(id)
		}
		k.c.mu.Unlock()
		close(k.gone)
		_ = k.nc.Close() // the peer's view of the end is all that matters
		k.mu.Lock()
		k.ending, k.out = true, nil
		k.room.Broadcast()
		k.mu.Unlock()
	})
}

// serve reads requests until the connection ends.
func (k *conn) serve() {
	defer k.leave()
	br := bufio.NewReaderSize(k.nc, 32<<10)
	head := make([]byte, memd.HeaderLen)
	for {
		if br.Buffered() < memd.HeaderLen {
			k.flush()
		}
		if _, err := io.ReadFull(br, head); err != nil {
			k.flush()
			return
		}
		k.certify()
		h, err := memd.ParseHeader(head, maxPacket)
		if err != nil {
			k.end()
			return
		}
		if br.Buffered() < h.BodyLen {
			k.flush()
		}
		body := make([]byte, h.BodyLen)
		if _, err := io.ReadFull(br, body); err != nil {
			return
		}
		p := new(memd.Packet)
		p.SetBody(&h, body)
		if !k.take(p) {
			return
		}
		k.waitForRoom()
	}
}

// certify logs the client in by its certificate, if it has sent one.
func (k *conn) certify() {
	if k.tls == nil {
		return
	}
	state := k.tls.ConnectionState()
	k.tls = nil
	k.c.mu.Lock()
	u := k.c.certified(&state)
	k.c.mu.Unlock()
	if u != nil {
		k.user.Store(u)
	}
}

// leave is the end of the read loop. When the last answer is still on its way out, who writes it closes.
func (k *conn) leave() {
	k.mu.Lock()
	ending := k.ending
	k.mu.Unlock()
	if ending {
		k.flush()
		return
	}
	k.close()
}

// take handles one packet of the client and reports whether to go on.
func (k *conn) take(p *memd.Packet) bool {
	switch p.Magic {
	case memd.MagicReq, memd.MagicReqExt:
		k.c.note(k, p)
		if k.n.suspended.Load() {
			return true
		}
		return k.handle(p)
	case memd.MagicServerRes:
		return true // answers to pushes are not waited for
	}
	k.end()
	return false
}

// send queues bytes for the client. flush writes them.
func (k *conn) send(b []byte) {
	k.mu.Lock()
	if !k.ending {
		k.out = append(k.out, b...)
	}
	k.mu.Unlock()
}

// end lets what is queued go out and then closes the connection. It takes nothing more.
func (k *conn) end() {
	k.mu.Lock()
	k.ending = true
	k.mu.Unlock()
	k.flush()
}

// flush writes what is queued, unless someone else is at it: then that one writes it too.
func (k *conn) flush() {
	k.mu.Lock()
	if k.flushing {
		k.mu.Unlock()
		return
	}
	k.flushing = true
	var failed bool
	for len(k.out) > 0 {
		b := k.out
		k.out, k.spare = k.spare[:0], nil
		k.room.Broadcast()
		k.mu.Unlock()
		_, err := k.nc.Write(b)
		k.mu.Lock()
		if cap(b) <= 1<<20 {
			k.spare = b[:0]
		}
		if err != nil {
			failed = true
			break
		}
	}
	k.flushing = false
	over := failed || k.ending
	k.mu.Unlock()
	if over {
		k.close()
	}
}

// waitForRoom makes the read loop wait for a client that does not read its answers.
func (k *conn) waitForRoom() {
	k.mu.Lock()
	for len(k.out) > maxOutgoing && k.flushing {
		k.room.Wait()
	}
	full := len(k.out) > maxOutgoing
	k.mu.Unlock()
	if full {
		k.flush()
	}
}

// pause waits for d. It reports false when the connection or the cluster ended first.
func (k *conn) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-k.gone:
	case <-k.c.done:
	}
	return false
}

// await waits for ch. It reports false when the connection or the cluster ended first.
func (k *conn) await(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-k.gone:
	case <-k.c.done:
	}
	return false
}
