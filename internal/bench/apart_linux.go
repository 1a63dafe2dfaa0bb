package bench

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// coreSet is the kernel's cpu_set_t.
type coreSet [1024 / bits.UintSize]uintptr

// coresApart is how many nanoseconds a line of memory takes from this process's first core to its second and back, in about a
// millisecond. Where a virtual machine's host has put its cores shows here and nowhere else. 0 means that it is not known.
func coresApart() float64 {
	var set coreSet
	if !set.call(syscall.SYS_SCHED_GETAFFINITY) || runtime.GOMAXPROCS(0) < 2 {
		return 0
	}
	var cores []int
	for i := range len(set) * bits.UintSize {
		if set[i/bits.UintSize]>>(i%bits.UintSize)&1 != 0 {
			cores = append(cores, i)
		}
	}
	if len(cores) < 2 {
		return 0
	}
	var line struct {
		_    [128]byte
		turn atomic.Int32 // odd: it is the second core's; below 0: it is over
		_    [128]byte
	}
	there, took := make(chan bool), make(chan float64)
	go func() {
		there <- keepTo(cores[1])
		for {
			if n := line.turn.Load(); n < 0 {
				return
			} else if n%2 != 0 {
				line.turn.Store(n + 1)
			}
		}
	}()
	go func() {
		defer line.turn.Store(-1)
		if other := <-there; !keepTo(cores[0]) || !other {
			took <- 0
			return
		}
		const batches, turns = 5, 500 // others may come in between, so the best batch counts
		least := time.Hour
		for n := int32(0); n < 2*batches*turns; {
			began := time.Now()
			for end := n + 2*turns; n < end; n += 2 {
				for line.turn.Store(n + 1); line.turn.Load() != n+2; {
				}
			}
			least = min(least, time.Since(began))
		}
		took <- float64(least) / turns
	}()
	return <-took
}

// keepTo keeps the goroutine, and a thread that ends with it, on a core.
func keepTo(core int) bool {
	runtime.LockOSThread()
	var set coreSet
	set[core/bits.UintSize] = 1 << (core % bits.UintSize)
	return set.call(syscall.SYS_SCHED_SETAFFINITY)
}

// call has the kernel read or write the calling thread's cores.
func (s *coreSet) call(number uintptr) bool {
	_, _, errno := syscall.RawSyscall(number, 0, unsafe.Sizeof(*s), uintptr(unsafe.Pointer(s)))
	return errno == 0
}
