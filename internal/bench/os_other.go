//go:build !linux

package bench

import (
	"errors"
	"net"
	"runtime"
	"time"
)

// unmeasured is what this system does not tell, so that nothing timed is judged on it.
const unmeasured = "this program asks only Linux for CPU time, for what others use of the machine, for precise " +
	"timers and for one core " +
	"alone: CPU per operation is 0 here, cells with one caller on one core fail, and every timed row is inconclusive"

func processCPU() time.Duration { return 0 }

func machineBusy() (time.Duration, bool) { return 0, false }

func pinToOneCore() error { return errors.New("pinning to one core needs Linux") }

// alarm sleeps as precisely as the runtime does.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) sleep(d time.Duration) error {
	time.Sleep(d)
	return nil
}

func (*alarm) close() {}

// attempt writes as the socket does: it blocks while the socket is full.
type attempt struct{ c *net.TCPConn }

func newAttempt(c *net.TCPConn) (*attempt, error) { return &attempt{c}, nil }

func (a *attempt) write(b []byte) (int, error) { return a.c.Write(b) }

func cpuModel() string { return runtime.GOARCH }

func memoryBytes() int64 { return 0 }

func kernel() string { return runtime.GOOS }
