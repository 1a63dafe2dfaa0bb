package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Instants: the scheduler runs goroutines that become ready at the same instant in any order, so a seed alone repeats
// nothing. Therefore every event that the simulation causes has a nanosecond of its own: whatever waits, waits for a
// time with random nanoseconds; two packets that arrive together are handed over one nanosecond apart; and what is done
// to several connections is done to one after the other. The client needs no sequence of random numbers either: each
// throw depends on the seed and the instant alone, not on who threw before.
//
// What is left is that one event has several goroutines of the client do something at its instant: an answer with a
// newer map, say, has one ask for the map and another one look up a collection. Which of them is first is not
// promised, and it must not be seen: requests that leave over one connection at one instant arrive in the order of what
// they ask for, see before; each packet is delivered alone, whatever others were written with it, see link; and the
// trace does not name them by their opaques, see requestNames.

// random gives seeded numbers without a state: the same arguments always give the same number.
type random uint64

// roll gives 64 bits for the arguments.
func (d random) roll(args ...uint64) uint64 {
	h := mix(uint64(d))
	for _, a := range args {
		h = mix(h ^ a)
	}
	return h
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// below gives a number in [0,n).
func (d random) below(n int, args ...uint64) int { return int(d.roll(args...) % uint64(n)) }

// between gives a duration in [lo,hi), to the nanosecond.
func (d random) between(lo, hi time.Duration, args ...uint64) time.Duration {
	return lo + time.Duration(d.roll(args...)%uint64(hi-lo))
}

// now is a throw in [0,1) for the present instant.
func (d random) now() float64 {
	return float64(d.roll(uint64(time.Now().UnixNano()))>>11) / (1 << 53)
}

// text makes an argument of a string.
func text(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// source is a sequence of throws for one goroutine.
type source struct {
	d random
	n uint64
}

func newSource(d random, args ...uint64) *source { return &source{d: random(d.roll(args...))} }

func (s *source) next() uint64 {
	s.n++
	return s.d.roll(s.n)
}

func (s *source) below(n int) int { return int(s.next() % uint64(n)) }

func (s *source) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(s.next()%uint64(hi-lo))
}

// sleep waits, or less when the context ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// wire is the client's end of a connection. Its reads give one packet at most, a nanosecond after the packet before.
type wire struct {
	net.Conn
	d    random
	tap  *taps
	once sync.Once

	buf  []byte // read and not handed out
	mem  []byte
	left int    // of the packet that is being handed out
	head []byte // of the next one, as far as it has come
	lost bool   // no packets can be made out any more
	gap  bool   // a packet has just ended
	last uint32 // opaque of the packet that is being handed out

	refused func(s *sent, packet []byte) // is told of answers with NOT_MY_VBUCKET
	whole   []byte                       // the packet that is being handed out, as far as it has been

	out     []byte // sent, but no whole packet
	garbled bool
	waiting map[uint32]*sent // without an answer, by opaque; under the lock of the taps
}

// taps count the client's sockets.
type taps struct {
	mu    sync.Mutex
	open  int
	dials map[string][]time.Time
	// Requests for documents, in the order in which they left.
	traffic []*sent

	// doubled makes connections send certain requests twice; a broken network, to see that its doing is noticed.
	doubled func(b []byte) bool
}

const header = 24

func (w *wire) Read(b []byte) (int, error) {
	if w.gap {
		w.gap = false
		time.Sleep(time.Nanosecond)
		if _, err := w.Conn.Read(nil); err != nil {
			return 0, err
		}
	}
	if len(w.buf) == 0 {
		if w.mem == nil {
			w.mem = make([]byte, 32<<10)
		}
		n, err := w.Conn.Read(w.mem)
		if n == 0 {
			// The goroutine that has found out first, by writing or by closing the connection, goes on at this instant.
			sleep(context.Background(), w.d.between(time.Nanosecond, time.Microsecond, text("lost"),
				text(w.LocalAddr().String())))
			return 0, err
		}
		w.buf = w.mem[:n]
	}
	n := min(len(b), w.piece())
	copy(b, w.buf[:n])
	w.buf = w.buf[n:]
	if !w.lost {
		w.whole = append(w.whole, b[:n]...)
	}
	if w.left -= n; w.left == 0 && !w.lost && len(w.head) == 0 {
		w.gap = true
		s := w.incoming(w.last)
		if s != nil && len(w.whole) > header &&
			memd.Status(binary.BigEndian.Uint16(w.whole[6:])) == memd.StatusNotMyVBucket {
			w.refused(s, w.whole)
		}
		w.whole = w.whole[:0]
	}
	return n, nil
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
	need := header - len(w.head)
	if len(w.buf) < need { // a part of a header alone: it goes on as it is
		w.head = append(w.head, w.buf...)
		w.left = len(w.buf)
		return w.left
	}
	had := len(w.head)
	h := append(append(make([]byte, 0, header), w.head...), w.buf[:need]...)
	body := binary.BigEndian.Uint32(h[8:])
	w.head = w.head[:0]
	if h[0]&0x80 == 0 && h[0] != 0x18 || body > 32<<20 {
		w.lost, w.left = true, 0
		return len(w.buf)
	}
	w.last = binary.BigEndian.Uint32(h[12:])
	w.left = header - had + int(body)
	return min(w.left, len(w.buf))
}

// before orders requests that goroutines of the client have sent over one connection at one instant, by what they ask
// for. It leaves alone what belongs to a handshake, where one request follows from another, and what is no whole
// packet.
func before(b, a []byte) bool {
	return free(b) && free(a) && cmp.Or(cmp.Compare(b[1], a[1]), bytes.Compare(b[header:], a[header:])) < 0
}

// free reports whether b is one whole request that depends on no other.
func free(b []byte) bool {
	if len(b) < header || len(b) != size(b) {
		return false
	}
	op := memd.Opcode(b[1])
	return slices.Contains(documentOps(), op) || op == memd.OpGetClusterConfig || op == memd.OpCollectionsGetID ||
		op == memd.OpNoop ||
		op == memd.OpRangeScanCreate || op == memd.OpRangeScanContinue || op == memd.OpRangeScanCancel
}

// size is how long the packet is that b begins with.
func size(b []byte) int {
	if len(b) < header {
		return header
	}
	return header + int(binary.BigEndian.Uint32(b[8:]))
}

func (w *wire) Write(b []byte) (int, error) {
	if w.tap.doubled != nil && w.tap.doubled(b) {
		if n, err := w.Conn.Write(b); err != nil {
			return n, err
		}
	}
	n, err := w.Conn.Write(b)
	w.outgoing(b[:n])
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
	w.outgoing(b[:n])
	return n, err
}

func (w *wire) Close() error {
	w.once.Do(func() {
		w.tap.mu.Lock()
		w.tap.open--
		w.tap.mu.Unlock()
	})
	return w.Conn.Close()
}
