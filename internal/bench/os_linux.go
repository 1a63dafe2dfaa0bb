package bench

import (
	"bufio"
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
		_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(tid), uintptr(len(mask)), uintptr(unsafe.Pointer(&mask)))
		if errno != 0 && errno != syscall.ESRCH {
			return fmt.Errorf("pinning to one core: %w", errno)
		}
	}
	return nil
}

// sleepExactly sleeps in the kernel: the runtime's timers round what is below a millisecond.
func sleepExactly(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // a short sleep is noticed by whoever looks at the clock
}

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
