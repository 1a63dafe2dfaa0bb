package handshake

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// What listens where the key-value service was expected, as the first bytes of its answer tell.
var (
	ErrSpeaksTLS  = errors.New("the port speaks TLS, and the connection is not encrypted")
	ErrSpeaksHTTP = errors.New("the port speaks HTTP, not the key-value protocol")
	ErrSpeaksElse = errors.New("the port speaks a protocol that the client does not know")
)

// Foreign says whose the first bytes of an answer are; nil for those that may be the key-value service's.
func Foreign(in []byte) error {
	switch {
	case len(in) == 0 || memd.Magic(in[0]).Valid():
		return nil
	case in[0] == 0x15: // an alert
		return ErrSpeaksTLS
	case bytes.HasPrefix(in, []byte("HTTP/")), len(in) < 5 && string(in) == "HTTP/"[:len(in)]:
		return ErrSpeaksHTTP
	}
	return ErrSpeaksElse
}

// stated is an error in words. It unwraps to the errors that it stands for.
type stated struct {
	text string
	errs []error
}

func (e *stated) Error() string { return e.text }

// Unwrap gives what the text stands for.
func (e *stated) Unwrap() []error { return e.errs }

// InWords says what an error of a step means, without the address, which stands before it. within is how long the
// attempt had; cause is why its context has ended, nil if it has not.
func InWords(step Step, err, cause error, within time.Duration) error {
	var (
		op     *net.OpError
		dns    *net.DNSError
		number syscall.Errno
		record tls.RecordHeaderError
	)
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return &stated{fmt.Sprintf("no answer within %v", within), []error{cause, err}}
	case cause != nil && cause != err: //nolint:errorlint // the value itself
		return &stated{cause.Error() + ": " + err.Error(), []error{cause, err}}
	case errors.As(err, &dns) && dns.IsNotFound:
		return &stated{fmt.Sprintf("the host name %q does not exist", dns.Name), []error{err}}
	case errors.As(err, &dns):
		return &stated{fmt.Sprintf("the host name %q cannot be looked up: %s", dns.Name, dns.Err), []error{err}}
	case step == StepDial && errors.As(err, &op) && errors.As(err, &number):
		return &stated{number.Error(), []error{err}}
	case errors.As(err, &record) && bytes.HasPrefix(record.RecordHeader[:], []byte("HTTP/")):
		return fmt.Errorf("the port speaks HTTP without TLS: %w", err)
	case errors.As(err, &record):
		return fmt.Errorf("the port does not speak TLS: %w", err)
	case isEnd(err) && step == StepTLS:
		return &stated{"the other end has closed the connection, the port may not speak TLS", []error{err}}
	case isEnd(err):
		return &stated{"the other end has closed the connection without an answer", []error{err}}
	}
	return err
}

// isEnd reports a connection that the other side has closed or reset.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}
