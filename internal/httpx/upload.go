package httpx

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/couchcore/couchcore/internal/observe"
)

// uploadPiece is how much of a streamed body is read at a time.
const uploadPiece = 32 << 10

// upload is a streamed body of the caller's. Its Read ends with the request's context also when the caller's reader
// gives nothing: net/http waits for Read before it returns. The caller's reader runs on a goroutine of its own, which
// ends with the body, with the context, or, if the reader blocks then, when the reader comes back.
type upload struct {
	ctx    context.Context
	from   io.ReadCloser
	once   sync.Once
	pieces chan piece  // has room for the one that is under way
	free   chan []byte // the buffer, while nothing of it is used
	buf    []byte
	tail   []byte
	err    error
}

// piece is what one Read of the caller's reader gave.
type piece struct {
	buf []byte
	n   int
	err error
}

func newUpload(ctx context.Context, from io.ReadCloser) *upload {
	return &upload{ctx: ctx, from: from, pieces: make(chan piece, 1), free: make(chan []byte, 1)}
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	u.once.Do(func() {
		u.free <- make([]byte, uploadPiece)
		go u.pump()
	})
	if len(u.tail) == 0 && u.err == nil {
		if u.buf != nil {
			u.free <- u.buf
			u.buf = nil
		}
		select {
		case next := <-u.pieces:
			u.buf, u.tail, u.err = next.buf, next.buf[:next.n], next.err
		case <-u.ctx.Done():
			return 0, context.Cause(u.ctx)
		}
	}
	n := copy(p, u.tail)
	u.tail = u.tail[n:]
	if len(u.tail) > 0 {
		return n, nil
	}
	return n, u.err
}

// pump reads a piece whenever the one before is used up.
func (u *upload) pump() {
	for {
		select {
		case buf := <-u.free:
			p := u.read(buf)
			u.pieces <- p
			if p.err != nil {
				return
			}
		case <-u.ctx.Done():
			return
		}
	}
}

// read calls the caller's reader. A panic of it is an error of this request.
func (u *upload) read(buf []byte) (p piece) {
	defer func() {
		if v := recover(); v != nil {
			p = piece{buf, 0, fmt.Errorf("panic in the request's body: %v", v)}
		}
	}()
	n, err := u.from.Read(buf)
	if n < 0 || n > len(buf) {
		return piece{buf, 0, fmt.Errorf("the request's body says that it has read %d bytes into %d", n, len(buf))}
	}
	return piece{buf, n, observe.Usable("the request's body", err)}
}

// Close implements io.Closer: it has the caller's body closed.
func (u *upload) Close() error {
	closeBody(u.ctx, u.from)
	return nil
}

// closeBody closes a body of the caller's and waits for that until ctx ends: net/http calls it where a request ends.
// The body is over in any case, so a panic is contained. The goroutine ends when the caller's Close comes back.
func closeBody(ctx context.Context, rc io.Closer) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		_ = rc.Close()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// makeAgain has the caller make the body once more, at most until ctx ends. One that comes later is closed.
func makeAgain(ctx context.Context, again func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	type made struct {
		rc  io.ReadCloser
		err error
	}
	done := make(chan made)
	go func() { // ends when the caller's function comes back
		var m made
		defer func() {
			if v := recover(); v != nil {
				m = made{nil, fmt.Errorf("panic while the request's body was made again: %v", v)}
			}
			select {
			case done <- m:
			case <-ctx.Done():
				if m.rc != nil {
					closeBody(ctx, m.rc)
				}
			}
		}()
		m.rc, m.err = again()
		m.err = observe.Usable("the request's body", m.err)
		if m.rc == nil && m.err == nil {
			m.err = errNoBody
		}
	}()
	select {
	case m := <-done:
		return m.rc, m.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
