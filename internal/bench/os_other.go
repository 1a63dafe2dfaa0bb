//go:build !linux

package bench

import (
	"errors"
	"net"
	"runtime"
	"time"
)

// Elsewhere than on Linux neither CPU time nor what else the machine does is known, so nothing timed is judged there.

func processCPU() time.Duration { return 0 }

func machineBusy() (time.Duration, bool) { return 0, false }

func pinToOneCore() error { return errors.New("pinning to one core needs Linux") }

func sleepExactly(d time.Duration) { time.Sleep(d) }

// attempt writes as the socket does: it blocks while the socket is full.
type attempt struct{ c *net.TCPConn }

func newAttempt(c *net.TCPConn) (*attempt, error) { return &attempt{c}, nil }

func (a *attempt) write(b []byte) (int, error) { return a.c.Write(b) }

func cpuModel() string { return runtime.GOARCH }

func memoryBytes() int64 { return 0 }

func kernel() string { return runtime.GOOS }
