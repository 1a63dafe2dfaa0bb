package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// unmeasured is what this system does not tell; "" is nothing.
const unmeasured = ""

// processCPU is the CPU time that this process has used so far.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit in which the machine accounts its time.
const tick = 10 * time.Millisecond

// machineBusy is the time that all cores together have spent on anything but waiting; false when it is not known. Time
// that the hypervisor took away counts: it was not to be had.
func machineBusy() (time.Duration, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, false
	}
	var busy int64
	for i, s := range f[1:9] { // guest time is contained in user time
		if i == 3 || i == 4 { // idle, waiting for disks
			continue
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, false
		}
		busy += n
	}
	return time.Duration(busy) * tick, true
}

// pinToOneCore keeps every thread of this process, now and later, on one core.
func pinToOneCore() error {
	runtime.GOMAXPROCS(1)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	var mask [128]byte
	mask[0] = 1
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		_, _, errno := syscall.RawSyscall(
			syscall.SYS_SCHED_SETAFFINITY, uintptr(tid), uintptr(len(mask)), uintptr(unsafe.Pointer(&mask)))
		if errno != 0 && errno != syscall.ESRCH {
			return fmt.Errorf("pinning to one core: %w", errno)
		}
	}
	return nil
}

// alarm wakes one goroutine at a time with the precision of the kernel's timers, through the runtime's poller. The
// runtime's own timers round what is below a millisecond while the process is idle.
type alarm struct {
	fd int
	f  *os.File
}

func newAlarm() (*alarm, error) {
	const monotonic = 1
	fd, _, errno := syscall.RawSyscall(
		syscall.SYS_TIMERFD_CREATE, monotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("timer: %w", errno)
	}
	return &alarm{int(fd), os.NewFile(fd, "timer")}, nil
}

// sleep waits for d, which is more than 0.
func (a *alarm) sleep(d time.Duration) error {
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(d))}
	_, _, errno := syscall.RawSyscall6(
		syscall.SYS_TIMERFD_SETTIME, uintptr(a.fd), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("timer: %w", errno)
	}
	var expired [8]byte
	if _, err := a.f.Read(expired[:]); err != nil {
		return err
	}
	if binary.NativeEndian.Uint64(expired[:]) == 0 {
		return errors.New("timer: it has not expired")
	}
	return nil
}

// close wakes who sleeps, with an error.
func (a *alarm) close() { _ = a.f.Close() }

// attempt makes write attempts that never block on a TCP socket.
type attempt struct {
	raw syscall.RawConn
	buf []byte
	n   int
	err error
	fn  func(fd uintptr) bool
}

func newAttempt(c *net.TCPConn) (*attempt, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	a := &attempt{raw: raw}
	a.fn = func(fd uintptr) bool {
		a.n, a.err = syscall.Write(int(fd), a.buf)
		return true
	}
	return a, nil
}

// write says how much of b the socket took at once.
func (a *attempt) write(b []byte) (int, error) {
	a.buf = b
	err := a.raw.Write(a.fn)
	if err == nil {
		err = a.err
	}
	if err == syscall.EAGAIN || err == syscall.EINTR { //nolint:errorlint // a bare errno
		return 0, nil
	}
	return max(a.n, 0), err
}

// cpuModel and memoryBytes describe the machine as far as it tells.
func cpuModel() string { return procField("/proc/cpuinfo", "model name") }

func memoryBytes() int64 {
	kb, err := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(text))
}

func procField(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
