package services

import (
	"fmt"
	"net/http"
	"time"
)

// ending is why an answer stopped before its end.
type ending uint8

const (
	onward  ending = iota
	expired        // the request's own timeout is over: the answer ends with an error
	broken         // the connection is to break, or has
)

// outlet writes one answer.
type outlet struct {
	x      *Call
	a      *Answer
	status int
	rc     *http.ResponseController
	buf    []byte
	limit  int // bytes in buf before they are sent
	sent   int
	rows   int
	size   int
	at     time.Time
	until  time.Time // the request's own deadline; zero when it does not matter
}

// reply answers the request.
func (x *Call) reply(s *held, a *Answer) {
	x.keep()
	if a.Rewrite != nil {
		a = x.rewritten(a)
	}
	o := &outlet{x: x, a: a, rc: http.NewResponseController(x.w), limit: a.Chunk, at: time.Now()}
	if o.limit <= 0 {
		o.limit = 64 << 10
	}
	if a.Deadline {
		if d := x.rq.timeout(); d > 0 {
			o.until = o.at.Add(d)
		}
	}
	if o.run(s) == broken {
		x.abort()
	}
}

// abort breaks the connection, or the stream of HTTP/2: what the server writes after the handler, the end of the body
// included, meets a deadline that is over.
func (x *Call) abort() {
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Unix(1, 0)) // both kinds of connection have deadlines
}

func (o *outlet) run(s *held) ending {
	a := o.a
	if a.Never {
		<-o.x.r.Context().Done()
		return broken
	}
	if a.Hold && !o.x.hold(s) || a.Close {
		return broken
	}
	end := o.wait(a.Delay)
	if end == broken {
		return end
	}
	if end == expired {
		a.Rows, a.Stream, a.Body, a.Errors = nil, nil, nil, o.x.timedOut()
	}
	h := o.x.w.Header()
	h.Set("Content-Type", "application/json")
	for k, vs := range a.Header {
		h[http.CanonicalHeaderKey(k)] = vs
	}
	o.status = o.x.status(a)
	o.x.w.WriteHeader(o.status)
	if a.CutBytes < 0 || a.StallBytes < 0 {
		_ = o.rc.Flush() // what does not arrive is what this is for
		if a.CutBytes < 0 || !o.x.hold(s) {
			return broken
		}
	}
	body := a.Body
	if body == nil {
		body = o.x.failed(a, o.status)
	}
	if body != nil {
		if end = o.write(s, body); end == onward {
			end = o.flush(s)
		}
		return end
	}
	return o.object(s)
}

// object writes the envelope with the rows in it.
func (o *outlet) object(s *held) ending {
	e := o.x.envelope(o.a)
	sep := "{"
	put := func(ms []member) ending {
		for _, m := range ms {
			if end := o.write(s, []byte(sep+quote(m.name)+":"+m.text)); end != onward {
				return end
			}
			sep = ","
		}
		return onward
	}
	if end := put(e.head); end != onward {
		return end
	}
	if o.a.RowsLast {
		if end := put(e.tail(len(o.a.Rows), 0, 0)); end != onward {
			return end
		}
	}
	end := o.write(s, []byte(sep+quote(e.rows)+":["))
	sep = ","
	if end == onward {
		end = o.each(s)
	}
	if end == broken {
		return end
	}
	if end == expired {
		o.a.Errors = o.x.timedOut()
		o.until = time.Time{}
	}
	if end = o.write(s, []byte("]")); end == onward && !o.a.RowsLast {
		end = put(e.tail(o.rows, o.size, max(time.Since(o.at), time.Microsecond)))
	}
	if end == onward {
		if end = o.write(s, []byte("}\n")); end == onward {
			end = o.flush(s)
		}
	}
	return end
}

// each writes the rows.
func (o *outlet) each(s *held) ending {
	if o.a.Stream == nil {
		for _, row := range o.a.Rows {
			if end := o.row(s, []byte(row)); end != onward {
				return end
			}
		}
		return o.after(s)
	}
	for row := range o.a.Stream {
		if end := o.row(s, row); end != onward {
			return end
		}
	}
	return o.after(s)
}

// after is what happens between rows: a cut, a stall.
func (o *outlet) after(s *held) ending {
	switch a := o.a; {
	case a.CutRows > 0 && o.rows == a.CutRows:
		_ = o.flush(s)
		return broken
	case a.StallRows > 0 && o.rows == a.StallRows:
		if end := o.flush(s); end != onward {
			return end
		}
		a.StallRows = 0
		if !o.x.hold(s) {
			return broken
		}
	}
	return onward
}

func (o *outlet) row(s *held, row []byte) ending {
	if end := o.after(s); end != onward {
		return end
	}
	if d := o.a.RowDelay; d > 0 {
		if end := o.flush(s); end != onward {
			return end
		}
		if end := o.wait(d); end != onward {
			return end
		}
	}
	if o.rows > 0 {
		if end := o.write(s, []byte{','}); end != onward {
			return end
		}
	}
	o.rows++
	o.size += len(row)
	return o.write(s, row)
}

// write puts bytes into the buffer and sends what is full.
func (o *outlet) write(s *held, b []byte) ending {
	for len(o.buf)+len(b) >= o.limit {
		n := o.limit - len(o.buf)
		piece := b[:n]
		if len(o.buf) > 0 {
			piece = append(o.buf, piece...)
		}
		o.buf, b = o.buf[:0], b[n:]
		if end := o.send(s, piece); end != onward {
			return end
		}
	}
	o.buf = append(o.buf, b...)
	return onward
}

// flush sends everything that is in the buffer.
func (o *outlet) flush(s *held) ending {
	b := o.buf
	o.buf = o.buf[:0]
	if end := o.send(s, b); end != onward {
		return end
	}
	if o.a.RowDelay > 0 || o.a.CutRows > 0 || o.a.StallRows > 0 {
		_ = o.rc.Flush() // the next write reports a client that has left
	}
	return onward
}

// send hands one piece to the server, up to where the answer is to be cut or to stall.
func (o *outlet) send(s *held, b []byte) ending {
	a := o.a
	if n := a.StallBytes; n > 0 && o.sent+len(b) >= n {
		a.StallBytes = 0
		first := n - o.sent
		if end := o.send(s, b[:first]); end != onward {
			return end
		}
		_ = o.rc.Flush() // as in flush
		if !o.x.hold(s) {
			return broken
		}
		b = b[first:]
	}
	cut := a.CutBytes > 0 && o.sent+len(b) >= a.CutBytes
	if cut {
		b = b[:a.CutBytes-o.sent]
	}
	o.sent += len(b)
	if _, err := o.x.w.Write(b); err != nil {
		return broken
	}
	if cut {
		_ = o.rc.Flush() // as in flush
		return broken
	}
	if a.Chunk <= 0 || len(b) == 0 {
		return onward
	}
	if err := o.rc.Flush(); err != nil {
		return broken
	}
	if end := o.wait(a.Trickle); end == broken {
		return end
	}
	return onward
}

// wait lets time pass.
func (o *outlet) wait(d time.Duration) ending {
	if d <= 0 {
		return onward
	}
	end := onward
	if left := time.Until(o.until); !o.until.IsZero() && left <= d {
		d, end = max(left, 0), expired
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return end
	case <-o.x.r.Context().Done():
		return broken
	}
}

// hold waits for the script's release, and reports false when the client leaves before.
func (x *Call) hold(s *held) bool {
	select {
	case <-s.Released():
		return true
	case <-x.r.Context().Done():
		return false
	}
}

const (
	queryTimedOut     = 1080
	analyticsTimedOut = 21002
)

// timedOut is the service's own error for a request whose timeout is over.
func (x *Call) timedOut() []Error {
	d := x.rq.timeout()
	switch x.rq.Service {
	case Analytics:
		return []Error{{Code: analyticsTimedOut, Message: "Request timed out and will be cancelled", Retry: true}}
	case Search:
		return []Error{{Message: "context deadline exceeded"}}
	default:
		// as the engine says
		return []Error{{Code: queryTimedOut, Message: fmt.Sprintf("Timeout %s exceeded", d), Retry: true}}
	}
}

// timeout is the one that the request names for the service, or 0.
func (rq *Request) timeout() time.Duration {
	if rq.Service == Search {
		var ctl struct {
			Timeout int64 `json:"timeout"`
		}
		if err := jsonInto(rq.members["ctl"], &ctl); err != nil {
			return 0
		}
		return time.Duration(ctl.Timeout) * time.Millisecond
	}
	d, err := time.ParseDuration(rq.text("timeout"))
	if err != nil {
		return 0
	}
	return d
}
