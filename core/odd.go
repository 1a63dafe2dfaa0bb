package core

import (
	"context"
	"errors"
	"math"
	"net"
	"reflect"
	"syscall"
	"time"

	"github.com/couchcore/couchcore/internal/observe"
)

// What fails when code of the user's is not well behaved; errors of calls wrap them.
type (
	// PanicError is code of the user's that panicked: In says what it was, Value is the panic's, and Stack is where.
	PanicError = observe.PanicError
	// GoneError is code of the user's that has ended its goroutine, as runtime.Goexit does: In says what it was.
	GoneError = observe.GoneError
)

// answerOf calls code of the user's that may panic, end its goroutine, or not come back: then the answer is an error.
// It blocks until ctx has ended, at most. The goroutine ends when f comes back.
func answerOf[T any](ctx context.Context, in string, f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		a := answer{err: &GoneError{In: in}}
		defer func() { done <- a }()
		defer observe.Contain(in, &a.err)
		value, err := f(ctx)
		a = answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// fairSource is the user's source of random numbers, whose panics and numbers out of [0,1) are 0 or just below 1.
func fairSource(random func() float64) func() float64 {
	below := math.Nextafter(1, 0)
	return func() (f float64) {
		var err error
		defer observe.Contain("JitterSource", &err)
		switch f = random(); {
		case f >= 0 && f < 1:
			return f
		case f >= 1:
			return below
		}
		return 0 // also what is no number
	}
}

// ownConn is a connection that the user's Dial has given. It is wrapped unless it is one of package net's, so that a
// method that panics fails and does nothing else. Nil stands for nil of any type.
func ownConn(nc net.Conn) net.Conn {
	switch v := reflect.ValueOf(nc); {
	case !v.IsValid(), v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	}
	if _, ok := nc.(*net.TCPConn); ok {
		return nc
	}
	if t, ok := nc.(tryWriter); ok {
		return &containedTryConn{containedConn{nc}, t}
	}
	return &containedConn{nc}
}

// tryWriter is an attempt to write that never blocks; see package conn.
type tryWriter interface {
	TryWrite(b []byte) (n int, err error)
}

type containedConn struct{ nc net.Conn }

type containedTryConn struct {
	containedConn
	try tryWriter
}

// TryWrite makes one attempt that never blocks.
func (c *containedTryConn) TryWrite(b []byte) (n int, err error) {
	defer observe.Contain("the connection's TryWrite", &err)
	return c.try.TryWrite(b)
}

// Read implements net.Conn.
func (c *containedConn) Read(b []byte) (n int, err error) {
	defer observe.Contain("the connection's Read", &err)
	return c.nc.Read(b)
}

// Write implements net.Conn.
func (c *containedConn) Write(b []byte) (n int, err error) {
	defer observe.Contain("the connection's Write", &err)
	return c.nc.Write(b)
}

// Close implements net.Conn.
func (c *containedConn) Close() (err error) {
	defer observe.Contain("the connection's Close", &err)
	return c.nc.Close()
}

// LocalAddr implements net.Conn.
func (c *containedConn) LocalAddr() (a net.Addr) {
	var err error
	defer observe.Contain("the connection's LocalAddr", &err)
	return c.nc.LocalAddr()
}

// RemoteAddr implements net.Conn.
func (c *containedConn) RemoteAddr() (a net.Addr) {
	var err error
	defer observe.Contain("the connection's RemoteAddr", &err)
	return c.nc.RemoteAddr()
}

// SetDeadline implements net.Conn.
func (c *containedConn) SetDeadline(t time.Time) (err error) {
	defer observe.Contain("the connection's SetDeadline", &err)
	return c.nc.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *containedConn) SetReadDeadline(t time.Time) (err error) {
	defer observe.Contain("the connection's SetReadDeadline", &err)
	return c.nc.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *containedConn) SetWriteDeadline(t time.Time) (err error) {
	defer observe.Contain("the connection's SetWriteDeadline", &err)
	return c.nc.SetWriteDeadline(t)
}

// SyscallConn implements syscall.Conn: errors.ErrUnsupported where the connection has no descriptor.
func (c *containedConn) SyscallConn() (raw syscall.RawConn, err error) {
	defer observe.Contain("the connection's SyscallConn", &err)
	if sc, ok := c.nc.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
