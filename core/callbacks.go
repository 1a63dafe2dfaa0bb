package core

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"

	"github.com/couchcore/couchcore/internal/observe"
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

var errNoSocket = errors.New("the dialer gave neither a connection nor an error")

// containedDial is a dialer of the user's that neither panics nor ends its caller's goroutine, nor gives nothing at all
// or a connection beside an error. Its connections do not panic either.
func containedDial(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (nc net.Conn, err error) {
		err = observe.Apart("Dial", func() (err error) {
			nc, err = dial(ctx, network, addr)
			return err
		})
		switch nc = ownConn(nc); {
		case nc == nil && err == nil:
			err = errNoSocket
		case nc != nil && err != nil:
			_ = nc.Close()
			nc = nil
		}
		return nc, err
	}
}

// containedTLS keeps the callbacks of a configuration from panicking and from ending goroutines. Those that run in a
// handshake alone are left: a handshake contains them itself. These also run when a server that renegotiates, or gives
// a new session, is read from.
func containedTLS(t *tls.Config) {
	if f := t.VerifyPeerCertificate; f != nil {
		t.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			return observe.Apart("VerifyPeerCertificate", func() error { return f(raw, chains) })
		}
	}
	if f := t.VerifyConnection; f != nil {
		t.VerifyConnection = func(s tls.ConnectionState) error {
			return observe.Apart("VerifyConnection", func() error { return f(s) })
		}
	}
	if f := t.GetClientCertificate; f != nil {
		t.GetClientCertificate = func(info *tls.CertificateRequestInfo) (c *tls.Certificate, err error) {
			err = observe.Apart("GetClientCertificate", func() (err error) {
				c, err = f(info)
				return err
			})
			return c, err
		}
	}
	if t.ClientSessionCache != nil {
		t.ClientSessionCache = containedCache{t.ClientSessionCache}
	}
	if t.KeyLogWriter != nil {
		t.KeyLogWriter = containedWriter{t.KeyLogWriter}
	}
}

// containedCache forgets what it was asked to keep, or has nothing, when it panics.
type containedCache struct{ tls.ClientSessionCache }

// Get implements tls.ClientSessionCache.
func (c containedCache) Get(key string) (s *tls.ClientSessionState, ok bool) {
	err := observe.Apart("ClientSessionCache", func() error {
		s, ok = c.ClientSessionCache.Get(key)
		return nil
	})
	return s, ok && err == nil
}

// Put implements tls.ClientSessionCache.
func (c containedCache) Put(key string, s *tls.ClientSessionState) {
	_ = observe.Apart("ClientSessionCache", func() error { // a session that is not kept is no failure
		c.ClientSessionCache.Put(key, s)
		return nil
	})
}

type containedWriter struct{ io.Writer }

// Write implements io.Writer.
func (w containedWriter) Write(b []byte) (n int, err error) {
	err = observe.Apart("KeyLogWriter", func() (err error) {
		n, err = w.Writer.Write(b)
		return err
	})
	return n, err
}
