//go:build !linux

package conn

import (
	"errors"
	"net"
)

// linger is not done on this system.
type linger struct{ quiet bool }

func newLinger(net.Conn) *linger { return nil }

// Read is not called: there is no linger.
func (*linger) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// ReadQuietly is not called either.
func (*linger) ReadQuietly([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (*linger) around(int64) (looked, ok bool) { return false, false }

func (*linger) stop() {}

func (*linger) wake() {}
