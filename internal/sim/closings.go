package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// A connection in use stays, whatever comes over it that no call waits for or that a call cannot read: an answer with
// an unknown opaque, a second answer, a late one, a value that is not what it says. So each connection that the client
// closes by itself needs a cause (P12): what came could not be trusted or gave the connection up, or nothing came for
// long; the network or the node had ended it; another one to its node was dialled in its place; its node has left; or
// the client is closed.

// closing is the end of a connection that had no such cause as far as its wire knows.
type closing struct {
	over  *wire
	at    time.Time
	heard time.Time // when the last answer was handed over
}

// needless is what comes over a connection and is no cause to close it.
type needless struct {
	what string
	at   time.Time
}

// outlived is before what connections must outlive in a large set of seeds.
const outlived = "a connection stays: "

const (
	unknownOpaque = outlived + "an answer with an unknown opaque"
	secondAnswer  = outlived + "an answer that no request waits for"
	unreadable    = outlived + "a value that says that it is compressed and is not"
)

// silence is how long nothing must have been handed over before the client may take a connection for dead.
const silence = time.Second

// longestLeave is for how long the client may close connections to a node because it has left.
const longestLeave = 15 * time.Second

// fails notes that the network or the node has ended the connection.
func (w *wire) fails() {
	w.tap.mu.Lock()
	w.fell = true
	w.tap.mu.Unlock()
}

// distrusts notes that what was handed over is a cause to close the connection.
func (w *wire) distrusts() {
	w.tap.mu.Lock()
	w.spoilt = true
	w.tap.mu.Unlock()
}

// packetLike reports whether a packet can begin with the header: the client closes a connection as soon as it has been
// handed the header of another one.
func packetLike(h []byte) bool {
	parts := int(binary.BigEndian.Uint16(h[2:])) + int(h[4])
	if m := memd.Magic(h[0]); m == memd.MagicResExt || m == memd.MagicReqExt {
		parts = int(h[2]) + int(h[3]) + int(h[4])
	}
	return (h[0]&0x80 != 0 || memd.Magic(h[0]) == memd.MagicResExt) && size(h) <= header+32<<20 &&
		header+parts <= size(h)
}

// hears looks at a packet that was handed over, and that answers a request for a document if s is not nil.
func (w *wire) hears(b []byte, s *sent) {
	var p memd.Packet
	_, err := p.Parse(b, 0)
	whole := err == nil && framesEnd(p.Frames)
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	if whole && !p.Magic.IsResponse() {
		return // it says nothing of the requests
	}
	w.heard = time.Now()
	distrusted := !whole || s != nil && s.same.op != p.Opcode
	if w.spoilt = w.spoilt || distrusted || givesUpOn(p.Status); s != nil {
		s.distrusted = distrusted
	}
	what := ""
	switch {
	case !slices.Contains(documentOps(), p.Opcode):
	case s == nil && w.waiting[^p.Opaque] != nil:
		what = unknownOpaque
	case s == nil:
		what = secondAnswer
	case p.Datatype&memd.DatatypeSnappy != 0:
		if _, err := call.Inflate(p.Value, p.Datatype, 0); err != nil {
			what = unreadable
		}
	}
	if what != "" {
		w.needless = append(w.needless, needless{what, w.heard})
	}
}

// framesEnd reports whether framing extras can be read to their end.
func framesEnd(frames []byte) bool {
	var err error
	for len(frames) > 0 && err == nil {
		_, _, frames, err = memd.NextFrame(frames)
	}
	return err == nil
}

// givesUpOn reports whether a status says that a connection is of no use.
func givesUpOn(st memd.Status) bool {
	return st == statusBreaks || st == memd.StatusNoBucket || st == memd.StatusAuthStale
}

// closes notes that the client closes the connection. The lock of the taps is held.
func (w *wire) closes() {
	w.ended = time.Now()
	if !w.busy {
		return
	}
	w.tap.used = append(w.tap.used, w)
	if w.fell || w.spoilt || len(w.tap.dials[w.addr]) > w.number {
		return
	}
	w.tap.closings = append(w.tap.closings, closing{over: w, at: w.ended, heard: w.heard})
}

// checkClosings judges them. Where the bucket is deleted and created again, connections of the old one are closed as
// soon as the client knows.
func (w *world) checkClosings() {
	for _, c := range w.tap.closings {
		at := c.at.Sub(w.began)
		if at >= w.closedAt || c.at.Sub(c.heard) > silence || w.renew || w.hasLeft(c.over.addr, c.at) {
			continue
		}
		w.report.violateAt(at, "P12", "%v after the beginning the client closed a connection to %s without a cause, "+
			"%v after the last answer; %s", at, c.over.addr, c.at.Sub(c.heard), c.over.needlessBefore(c.at))
	}
	for _, over := range w.tap.used {
		for _, n := range over.needless {
			if over.ended.Sub(n.at) > longestLog {
				w.report.Reached[n.what]++
			}
		}
	}
}

// needlessBefore says what has come over the connection before an instant and was no cause to close it.
func (w *wire) needlessBefore(at time.Time) string {
	for _, n := range slices.Backward(w.needless) {
		if !n.at.After(at) {
			return fmt.Sprintf("%s, and %v later it does not", n.what, at.Sub(n.at))
		}
	}
	return "nothing else had come over it"
}

// hasLeft reports whether a node has left not long before an instant: the maps without it and with it again may come
// together, and late.
func (w *world) hasLeft(addr string, at time.Time) bool {
	return slices.ContainsFunc(w.out, func(b breakage) bool {
		return b.host == addr && b.at.Before(at) && at.Sub(b.at) < longestLeave
	})
}
