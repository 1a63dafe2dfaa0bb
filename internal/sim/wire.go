package sim

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// wire is the client's end of a connection. Its reads give one packet at most, over TLS one record, a nanosecond after
// the one before.
type wire struct {
	net.Conn
	d    random
	tap  *taps
	once sync.Once
	addr string // of the node
	// so many times that was dialled, this time included
	number int
	began  time.Time // when the client began to
	// It is for what nodes refuse under unordered execution: calls do not wait for it, and what it meets says nothing
	// of the way to its node.
	aside bool

	secret   *sniffer    // of a connection over TLS; nil without
	service  bool        // it leads to a service over HTTP
	noPrefix atomic.Bool // keys have no prefix
	mapped   atomic.Bool // the node has an error map for it
	noneElse bool        // the node knows no mechanism but PLAIN
	flip     atomic.Bool // a bit of the next record that is sent flips on its way
	flips    func()      // is told of that

	buf  []byte // read and not handed out
	mem  []byte
	left int    // of the packet or record that is being handed out
	head []byte // of the next one, as far as it has come
	lost bool   // no packets can be made out any more
	gap  bool   // a packet has just ended
	even bool   // what comes, comes at even nanoseconds

	leaves   func(s *sent)                // is told of requests
	answered func(s *sent, packet []byte) // is told of answers
	whole    []byte                       // the packet or record that is being handed out, as far as it has been
	clear    []byte                       // of records: what has been handed out of an answer that is not whole

	out     []byte // sent, but no whole packet
	garbled bool
	waiting map[uint32]*sent // without an answer, by opaque; under the lock of the taps

	// These are under that lock, too.
	busy         bool // a request for a document has left over it
	auths        int  // logins that were begun over it
	fell         bool // the network or the node has ended it
	spoilt       bool // something was handed over that cannot be trusted, or that gives the connection up
	heard, ended time.Time
	needless     []needless
}

// taps count the client's sockets.
type taps struct {
	mu    sync.Mutex
	open  int
	live  map[*wire]bool // those that are open
	dials map[string][]time.Time
	// dials that have come to the network, by address: each takes a time before that
	arrived map[string]int
	// Requests for documents, in the order in which they left.
	traffic []*sent
	secrets keyring
	secret  []*wire         // those over TLS
	answers map[place]*sent // the requests that they were to
	logins  []login         // what nodes have answered to them, in order
	// Connections that have had requests for documents and are closed, and those that the client has closed by itself.
	used     []*wire
	closings []closing
	// Requests to services that brought credentials.
	authorized []authorization

	// doubled makes connections send certain requests twice; a broken network, to see that its doing is noticed.
	doubled func(b []byte) bool
}

func newTaps() *taps {
	return &taps{
		live: map[*wire]bool{}, dials: map[string][]time.Time{}, arrived: map[string]int{},
		secrets: keyring{secrets: map[string][]byte{}}, answers: map[place]*sent{},
	}
}

const header = 24

// bursting is how many connections to an address are in the middle of a burst: several calls wait for an answer.
func (t *taps) bursting(addr string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := range t.live {
		if w.addr == addr && len(w.waiting) > 1 {
			n++
		}
	}
	return n
}

// connected reports whether there is a connection to each of the addresses.
func (t *taps) connected(addrs []string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := map[string]bool{}
	for w := range t.live {
		open[w.addr] = true
	}
	return !slices.ContainsFunc(addrs, func(a string) bool { return !open[a] })
}

func (w *wire) Read(b []byte) (int, error) {
	if w.gap {
		w.gap = false
		w.pause(time.Nanosecond)
		if _, err := w.Conn.Read(nil); err != nil {
			w.fails()
			return 0, err
		}
	}
	if len(w.buf) == 0 {
		if w.mem == nil {
			w.mem = make([]byte, 32<<10)
		}
		n, err := w.Conn.Read(w.mem)
		if n == 0 {
			w.fails()
			// The goroutine that has found out first, by writing or by closing the connection, goes on at this instant.
			w.pause(w.d.between(time.Nanosecond, time.Microsecond, text("lost"), text(w.LocalAddr().String())))
			return 0, err
		}
		w.pause(0)
		w.buf = w.mem[:n]
	}
	n := min(len(b), w.piece())
	copy(b, w.buf[:n])
	w.buf = w.buf[n:]
	if w.service && w.secret != nil {
		w.secret.read(&w.secret.down, b[:n])
	}
	if !w.lost {
		w.whole = append(w.whole, b[:n]...)
	}
	if w.left -= n; w.left == 0 && !w.lost && len(w.head) == 0 {
		w.gap = true
		w.handed(w.whole)
		w.whole = w.whole[:0]
	}
	return n, nil
}

// pause waits for d, with small limits until a nanosecond that is even.
func (w *wire) pause(d time.Duration) {
	if w.even {
		d = until(d, 2, 0)
	}
	time.Sleep(d)
}

// handed takes a packet or a record that the client has been handed as a whole.
func (w *wire) handed(b []byte) {
	if w.secret == nil {
		w.packet(b)
		return
	}
	w.clear = append(w.clear, w.secret.read(&w.secret.down, b)...)
	for len(w.clear) >= header {
		if !packetLike(w.clear) {
			w.distrusts()
		}
		if len(w.clear) < size(w.clear) {
			return
		}
		n := size(w.clear)
		w.packet(w.clear[:n])
		w.clear = w.clear[n:]
	}
}

// packet takes a packet that the client has been handed.
func (w *wire) packet(b []byte) {
	if memd.Opcode(b[1]) == memd.OpHello {
		w.features(b)
	}
	status := memd.Status(binary.BigEndian.Uint16(b[6:]))
	w.logsIn(memd.Opcode(b[1]), status, b)
	s := w.incoming(binary.BigEndian.Uint32(b[12:]), status)
	w.hears(b, s)
	if s != nil {
		w.answered(s, b)
	}
}

// features notes whether keys have a prefix, which they have not where HELLO does not grant collections, and whether
// the node has an error map.
func (w *wire) features(b []byte) {
	var p memd.Packet
	if _, err := p.Parse(b, 0); err != nil {
		return
	}
	granted := map[memd.Feature]bool{}
	for v := p.Value; len(v) >= 2; v = v[2:] {
		granted[memd.Feature(binary.BigEndian.Uint16(v))] = true
	}
	w.noPrefix.Store(!granted[memd.FeatureCollections])
	w.mapped.Store(granted[memd.FeatureXError])
}

// frame gives the length of the packet or record that h, a whole header, begins; ok is false for anything else.
func (w *wire) frame(h []byte) (n int, ok bool) {
	if w.secret != nil {
		n = recordSize(h)
		return n, n > 0
	}
	return size(h), packetLike(h)
}

// header is the length of such a header.
func (w *wire) header() int {
	if w.secret != nil {
		return recordHeader
	}
	return header
}

// piece is how much of the buffer belongs to one packet.
func (w *wire) piece() int {
	if w.lost {
		return len(w.buf)
	}
	if w.left > 0 {
		return min(w.left, len(w.buf))
	}
	w.left = 0
	need := w.header() - len(w.head)
	if len(w.buf) < need { // a part of a header alone: it goes on as it is
		w.head = append(w.head, w.buf...)
		w.left = len(w.buf)
		return w.left
	}
	had := len(w.head)
	h := append(append(make([]byte, 0, header), w.head...), w.buf[:need]...)
	w.head = w.head[:0]
	whole, ok := w.frame(h)
	if !ok {
		w.distrusts()
		w.lost, w.left = true, 0
		return len(w.buf)
	}
	w.left = whole - had
	return min(w.left, len(w.buf))
}

func (w *wire) Write(b []byte) (int, error) {
	if w.tap.doubled != nil && w.tap.doubled(b) {
		if n, err := w.Conn.Write(b); err != nil {
			return n, err
		}
	}
	onWay, flipped := b, false
	if w.secret != nil && len(b) > recordHeader && b[0] == recordApplication && w.flip.CompareAndSwap(true, false) {
		onWay = bytes.Clone(b)
		onWay[len(b)-1] ^= 1
		flipped = true
		w.fails() // the node answers with an alert
	}
	n, err := w.Conn.Write(onWay)
	if err != nil {
		w.fails()
	}
	if flipped && n == len(b) {
		w.flips()
	}
	clear := b[:n]
	if w.secret != nil {
		clear = w.secret.read(&w.secret.up, clear)
	}
	if w.service {
		w.requests(clear)
	} else {
		w.outgoing(clear)
	}
	return n, err
}

// TryWrite is what the client prefers where a socket has it.
func (w *wire) TryWrite(b []byte) (int, error) {
	try, ok := w.Conn.(interface{ TryWrite([]byte) (int, error) })
	if !ok {
		return 0, nil
	}
	if w.tap.doubled != nil && w.tap.doubled(b) {
		if n, err := try.TryWrite(b); err != nil || n < len(b) {
			return n, err
		}
	}
	n, err := try.TryWrite(b)
	if err != nil {
		w.fails()
	}
	w.outgoing(b[:n])
	return n, err
}

func (w *wire) Close() error {
	w.once.Do(func() {
		w.tap.mu.Lock()
		w.tap.open--
		delete(w.tap.live, w)
		w.closes()
		w.tap.mu.Unlock()
	})
	return w.Conn.Close()
}
