package mock

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Fault is what an injection does to the requests that it matches. Make one with the functions below; the zero value
// changes nothing.
type Fault struct {
	name    string
	before  time.Duration // wait before the request is executed
	after   time.Duration // wait between execution and answer
	hold    bool          // wait for Release before the request is executed
	keep    bool          // wait for Release between execution and answer
	skip    bool          // do not execute
	lie     bool          // do not execute mutations, acknowledge them all the same
	silent  bool          // no answer
	closes  bool          // close the connection, after the answer if there is one
	resets  bool          // reset the connection
	twice   bool          // send the answer two times
	request func(req *memd.Packet)
	answer  func(req, rep *memd.Packet)
	nmvb    func(rq *request) reply
	bytes   func(reply []byte) []byte
}

// String is the fault's name, for messages.
func (f Fault) String() string {
	if f.name == "" {
		return "none"
	}
	return f.name
}

// Combine is several faults at once: waits add up, and functions run in the order of the faults. A request is executed
// unless one of them keeps it from that.
func Combine(faults ...Fault) Fault {
	var out Fault
	var names []string
	for _, f := range faults {
		if f.name != "" {
			names = append(names, f.name)
		}
		out.before, out.after = out.before+f.before, out.after+f.after
		out.hold, out.keep, out.skip = out.hold || f.hold, out.keep || f.keep, out.skip || f.skip
		out.lie, out.silent = out.lie || f.lie, out.silent || f.silent
		out.closes, out.twice = out.closes || f.closes, out.twice || f.twice
		out.resets = out.resets || f.resets
		if f.nmvb != nil {
			out.nmvb = f.nmvb
		}
		out.request = inTurn(out.request, f.request)
		out.answer, out.bytes = answersInTurn(out.answer, f.answer), bytesInTurn(out.bytes, f.bytes)
	}
	out.name = strings.Join(names, ", ")
	return out
}

func inTurn(a, b func(req *memd.Packet)) func(req *memd.Packet) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(req *memd.Packet) {
		a(req)
		b(req)
	}
}

func answersInTurn(a, b func(req, rep *memd.Packet)) func(req, rep *memd.Packet) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(req, rep *memd.Packet) {
		a(req, rep)
		b(req, rep)
	}
}

func bytesInTurn(a, b func(reply []byte) []byte) func(reply []byte) []byte {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(reply []byte) []byte { return b(a(reply)) }
}

// status makes the answer's fields that depend on success empty.
func setStatus(s memd.Status) func(req, rep *memd.Packet) {
	return func(_, rep *memd.Packet) {
		rep.Status, rep.Datatype, rep.CAS, rep.Extras, rep.Key, rep.Value = s, 0, 0, nil, nil, nil
	}
}

// Status answers s with an empty body, without executing the request.
func Status(s memd.Status) Fault {
	return Fault{name: "status " + s.String(), skip: true, answer: setStatus(s)}
}

// StatusAfter executes the request and then answers s with an empty body.
func StatusAfter(s memd.Status) Fault {
	return Fault{name: "status after " + s.String(), answer: setStatus(s)}
}

// ErrorBody answers s with the given value, marked as JSON, without executing the request.
func ErrorBody(s memd.Status, json []byte) Fault {
	set := setStatus(s)
	return Fault{name: "error body", skip: true, answer: func(req, rep *memd.Packet) {
		set(req, rep)
		rep.Datatype, rep.Value = memd.DatatypeJSON, json
	}}
}

// Reply executes nothing and lets f fill in the answer, which comes with magic, opcode, opaque and status success. f
// must not block, and must not change the request.
func Reply(f func(req, rep *memd.Packet)) Fault { return Fault{name: "reply", skip: true, answer: f} }

// RewriteRequest lets f change the request before it is executed: all but its opcode and its opaque. f owns the packet
// and must not block. The logs have the request as it was sent.
func RewriteRequest(f func(req *memd.Packet)) Fault {
	return Fault{name: "rewrite request", request: f}
}

// Rewrite executes the request and lets f change the answer before it is encoded. f must not block.
func Rewrite(f func(req, rep *memd.Packet)) Fault { return Fault{name: "rewrite", answer: f} }

// Delay executes and answers the request d later. Requests behind it on the connection wait too, unless the client has
// negotiated unordered execution and the operation may be reordered.
func Delay(d time.Duration) Fault { return Fault{name: "delay", before: d} }

// DelayReply executes the request at once and answers d later, with Delay's rule for what is behind it.
func DelayReply(d time.Duration) Fault { return Fault{name: "delay reply", after: d} }

// Hold keeps the request until Injection.Release, then executes and answers it, with Delay's rule for what is behind
// it. A request still held when the connection or the cluster closes is never executed.
func Hold() Fault { return Fault{name: "hold", hold: true} }

// HoldReply executes the request and keeps its answer until Injection.Release.
func HoldReply() Fault { return Fault{name: "hold reply", keep: true} }

// Drop neither executes nor answers the request.
func Drop() Fault { return Fault{name: "drop", skip: true, silent: true} }

// DropReply executes the request and never answers it.
func DropReply() Fault { return Fault{name: "drop reply", silent: true} }

// CloseBefore closes the connection instead of executing the request.
func CloseBefore() Fault { return Fault{name: "close before", skip: true, silent: true, closes: true} }

// ResetBefore resets the connection instead of executing the request: what is on its way in either direction is lost.
func ResetBefore() Fault { return Fault{name: "reset before", skip: true, silent: true, resets: true} }

// CloseAfter executes the request and closes the connection instead of answering.
func CloseAfter() Fault { return Fault{name: "close after", silent: true, closes: true} }

// CloseAnswered executes the request, answers it and closes the connection.
func CloseAnswered() Fault { return Fault{name: "close answered", closes: true} }

// Truncate executes the request, sends the first n bytes of its answer and closes the connection.
func Truncate(n int) Fault {
	return Fault{name: "truncate", closes: true, bytes: func(b []byte) []byte { return b[:max(0, min(n, len(b)))] }}
}

// Twice executes the request once and sends its answer two times.
func Twice() Fault { return Fault{name: "twice", twice: true} }

// Corrupt executes the request and lets f change the encoded answer. f owns the bytes and must not block.
func Corrupt(f func(reply []byte) []byte) Fault { return Fault{name: "corrupt", bytes: f} }

// CorruptMagic executes the request and gives its answer a first byte that no packet has.
func CorruptMagic() Fault {
	f := Corrupt(func(b []byte) []byte {
		b[0] = 0x42
		return b
	})
	f.name = "corrupt magic"
	return f
}

// CorruptLength executes the request and gives its answer a body length of almost 4 GiB.
func CorruptLength() Fault {
	f := Corrupt(func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[8:], 0xfffffff0)
		return b
	})
	f.name = "corrupt length"
	return f
}

// CorruptParts executes the request and gives its answer extras that are longer than its body.
func CorruptParts() Fault {
	f := Corrupt(func(b []byte) []byte {
		b[4] = 0xff
		binary.BigEndian.PutUint32(b[8:], 3)
		return b[:memd.HeaderLen+min(3, len(b)-memd.HeaderLen)]
	})
	f.name = "corrupt parts"
	f.closes = true
	return f
}

// CorruptOpaque executes the request and answers with an opaque that no request had.
func CorruptOpaque() Fault {
	f := Corrupt(func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[12:], ^binary.BigEndian.Uint32(b[12:]))
		return b
	})
	f.name = "corrupt opaque"
	return f
}

// LoseWrite acknowledges mutations with success and does not apply them. It exists to prove that a checker of lost
// writes can fail. Other operations are not touched.
func LoseWrite() Fault { return Fault{name: "lose write", lie: true} }

// NotMyVBucket answers that the vbucket is elsewhere, without executing the request. With withBody the answer carries
// config, or the bucket's current configuration when config is nil.
func NotMyVBucket(withBody bool, config []byte) Fault {
	return Fault{name: "not my vbucket", skip: true, nmvb: func(rq *request) reply {
		rep := reply{status: memd.StatusNotMyVBucket, datatype: memd.DatatypeJSON}
		switch {
		case !withBody:
			rep.datatype = 0
		case config != nil:
			rep.value = config
		default:
			rep.value = rq.currentConfig()
		}
		return rep
	}}
}
