package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
)

const (
	minRead   = 16 << 10
	idleRead  = 4 << 10 // of a connection at rest
	firstLong = 1 << 20 // of a longer value, what is received before there is memory for more
	// the read buffer grows up to this while reads fill it, and shrinks again in silence
	maxRead = 256 << 10
)

// reader gives the packets that the server sends, and counts what has become of those of the last read. It belongs to
// Serve's goroutine; other goroutines call shrink alone.
type reader struct {
	nc    net.Conn
	fixed bool          // the buffer is that of Options.ReadBuffer, and stays
	reads *atomic.Int64 // that have brought something: each is a sign of life
	limit int           // of a packet's body
	buf   []byte
	pos   int          // where the next packet begins
	n     int          // where what was read ends
	size  atomic.Int32 // one of the values below
	pkt   memd.Packet  // the answer being handled

	pushed   *memd.Packet // a notification that came in the handshake, until Serve has told of it
	freed    []uint32     // opaques of answers whose slots are still to be given back
	orphaned orphans      // of those, how many were answers to calls that had ended
	answers  int          // how many answers of this read were to calls that had not ended
	parked   int          // of those, how many calls now wait for a retry
	now      int64        // when they were handled, since the calls' base; 0: no clock was read yet
}

// The values of reader.size. shrink wakes the reader by setting a read deadline that has passed. The reader removes
// that deadline again (shrunk), but not before shrink has set it: the last two values say how far shrink has come.
const (
	sizeBusy     = iota // the buffer is as large as reads want it
	sizeIdle            // the buffer is that of a connection at rest
	shrinkBegins        // shrink is about to set the deadline
	shrinkTold          // shrink has set the deadline
)

// shrink has the reader replace its buffer by a small one: only the reader may do so, and it blocks in a read. It may
// be called from any goroutine.
func (r *reader) shrink() {
	if !r.fixed && r.size.CompareAndSwap(sizeBusy, shrinkBegins) {
		_ = r.nc.SetReadDeadline(time.Unix(1, 0))
		r.size.Store(shrinkTold)
	}
}

// shrunk reports whether a read has failed with err because of shrink. If so, reads block again, and r.size becomes
// size.
func (r *reader) shrunk(err error, size int32) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	for r.size.Load() == shrinkBegins {
		runtime.Gosched() // the other goroutine is setting the deadline, which does not block
	}
	if r.size.Load() != shrinkTold || r.nc.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	r.size.Store(size)
	return true
}

// fill moves what is left to the front of the buffer, makes the buffer larger when the last read had filled it, and
// reads once. A read that shrink has ended is repeated: with an empty buffer the small one takes its place before.
func (r *reader) fill() error {
	full := r.n == len(r.buf)
	r.n, r.pos = copy(r.buf, r.buf[r.pos:r.n]), 0
	if full && len(r.buf) < maxRead {
		r.resize(min(4*len(r.buf), maxRead))
		r.size.CompareAndSwap(sizeIdle, sizeBusy)
	}
	for {
		n, err := r.read(r.buf[r.n:])
		r.n += n
		switch {
		case err == nil:
			return nil
		case r.n > 0 && r.shrunk(err, sizeBusy):
		case r.n == 0 && r.shrunk(err, sizeIdle):
			r.resize(idleRead)
		default:
			return err
		}
	}
}

// read is one read; without an error it has brought something.
func (r *reader) read(b []byte) (int, error) {
	n, err := r.nc.Read(b)
	if n > 0 {
		r.reads.Add(1)
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, err
}

func (r *reader) resize(n int) {
	b := make([]byte, n)
	copy(b, r.buf[:r.n])
	r.buf, r.pkt = b, memd.Packet{} // the last answer was in the old one, and would keep it
}

// next gives the next packet that is whole in the buffer; nil without one. For a packet that is longer than the
// buffer can be it gives errLong.
func (r *reader) next() (*memd.Packet, error) {
	p, b := &r.pkt, r.buf[r.pos:r.n]
	if len(b) < memd.HeaderLen {
		return nil, nil
	}
	n, err := p.ParseSuccess(b, r.limit), error(nil)
	if n == 0 {
		n, err = p.Parse(b, r.limit)
	}
	switch {
	case err == nil:
		r.pos += n
		return p, nil
	case err != memd.ErrShort: //nolint:errorlint // the value itself
		return nil, err
	case n > maxRead:
		return nil, errLong
	}
	return nil, nil
}

var errLong = errors.New("the packet is longer than the buffer")

// long receives a packet that is longer than the buffer. The value goes straight into memory of its own size. A header
// alone does not prove that the value comes: from firstLong on, the memory is at most twice what has been received.
func (r *reader) long() (*memd.Packet, error) {
	h, err := memd.ParseHeader(r.buf[r.pos:r.n], r.limit)
	if err != nil {
		return nil, err
	}
	r.pos += memd.HeaderLen
	head := make([]byte, h.BodyLen-h.ValueLen()) // 64 KiB and some bytes at most
	if err := r.receive(head); err != nil {
		return nil, err
	}
	var value []byte
	for had := 0; had < h.ValueLen(); had = len(value) {
		value = append(make([]byte, 0, min(h.ValueLen(), max(firstLong, 2*had))), value...)
		value = value[:cap(value)]
		if err := r.receive(value[had:]); err != nil {
			return nil, err
		}
	}
	h.BodyLen = len(head)
	r.pkt.SetBody(&h, head)
	r.pkt.Value = value
	return &r.pkt, nil
}

// receive fills b with the next bytes of the stream: those that the buffer holds first, then those that it reads.
func (r *reader) receive(b []byte) error {
	n := copy(b, r.buf[r.pos:r.n])
	r.pos += n
	for n < len(b) {
		m, err := r.read(b[n:])
		n += m
		if err != nil && !r.shrunk(err, sizeBusy) {
			return err
		}
	}
	return nil
}

// wokeNone reports whether the last read's answers have woken no caller that may append: their calls are parked.
func (r *reader) wokeNone() bool { return r.parked > 0 && r.parked == r.answers }
