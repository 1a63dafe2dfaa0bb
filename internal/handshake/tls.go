package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/couchcore/couchcore/internal/observe"
)

// TLSError is a failure of a TLS handshake that the socket is not to blame for: whatever crypto/tls or a callback of
// its configuration refuses.
type TLSError struct{ Err error }

func (e *TLSError) Error() string { return e.Err.Error() }

// Unwrap gives the failure itself.
func (e *TLSError) Unwrap() error { return e.Err }

// TLS encrypts a connection to addr, with the host's name and nothing older than TLS 1.2 unless t says otherwise.
// It blocks until that is done, or ctx has ended. It closes raw if it fails; the error is a *TLSError unless the socket
// or ctx ended the handshake.
func TLS(ctx context.Context, raw net.Conn, t *tls.Config, addr string) (*tls.Conn, error) {
	w := &watchedSocket{Conn: raw}
	tc := tls.Client(w, tlsConfig(t, addr))
	err := handshake(ctx, tc)
	w.over = true
	if err == nil {
		return tc, nil
	}
	_ = raw.Close()
	if ctx.Err() == nil && !w.brokenBy(err) {
		err = &TLSError{err}
	}
	return nil, err
}

// handshake contains callbacks of the configuration that panic or end their goroutine: that is a failure like any
// other.
func handshake(ctx context.Context, tc *tls.Conn) error {
	return observe.Apart("a callback of the TLS configuration", func() error { return tc.HandshakeContext(ctx) })
}

// watchedSocket knows how a socket failed during a handshake, which tells that from a failure of TLS. One goroutine
// uses it until over is set; read and write do not change after that.
//
// After the handshake it makes sure that crypto/tls counts each record that the socket has taken whole: what crypto/tls
// does not count is sent again.
type watchedSocket struct {
	net.Conn
	over        bool
	read, write error

	failed error // of a write that had taken all bytes; the goroutine that writes uses it
}

// Read implements net.Conn.
func (w *watchedSocket) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil && !w.over {
		w.read = err
	}
	return n, err
}

// Write implements net.Conn. A write that fails although the socket has taken all bytes succeeds, and closes the
// socket; the writes after it fail.
func (w *watchedSocket) Write(b []byte) (int, error) {
	if w.failed != nil {
		return 0, w.failed
	}
	n, err := w.Conn.Write(b)
	switch {
	case err == nil:
	case !w.over:
		w.write = err
	case n == len(b):
		w.failed, err = err, nil
		_ = w.Conn.Close()
	}
	return n, err
}

// NetConn is the socket itself.
func (w *watchedSocket) NetConn() net.Conn { return w.Conn }

// brokenBy reports whether the failure of a handshake is one of the socket's.
func (w *watchedSocket) brokenBy(err error) bool {
	switch {
	case w.read != nil && errors.Is(err, w.read), w.write != nil && errors.Is(err, w.write):
		return true
	}
	return errors.Is(w.read, io.EOF) && errors.Is(err, io.ErrUnexpectedEOF) // crypto/tls gives that for the first
}

// tlsConfig is the user's, with the host's name and nothing older than TLS 1.2.
func tlsConfig(t *tls.Config, addr string) *tls.Config {
	t = t.Clone()
	if t.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		t.ServerName = host
	}
	if t.MinVersion < tls.VersionTLS12 {
		t.MinVersion = tls.VersionTLS12
	}
	return t
}

// IsTLSFailure reports an explicit failure of TLS: of a handshake, or an alert or an answer that is not TLS after it. A
// lost socket is not a TLS failure.
func IsTLSFailure(err error) bool {
	var (
		handshake *TLSError
		alert     tls.AlertError
		cert      *tls.CertificateVerificationError
		header    tls.RecordHeaderError
		op        *net.OpError // what an alert comes in over a stream; crypto/tls alone uses those names
	)
	return errors.As(err, &handshake) || errors.As(err, &alert) || errors.As(err, &cert) || errors.As(err, &header) ||
		errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}
