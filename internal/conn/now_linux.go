//go:build !race && !msan && !asan

package conn

import (
	"syscall"
	"unsafe"
)

// readNow and writeNow are the system calls for a socket that does not block, without word to the runtime: they keep the
// processor for as long as the kernel copies. The sanitizers need that word.

func readNow(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return outcome(n, errno)
}

func writeNow(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return outcome(n, errno)
}

func outcome(n uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
