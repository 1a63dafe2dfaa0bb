package conn

import (
	"encoding/binary"
	"os"
	"syscall"
)

// event has the runtime look after the program's connections. It does so when a processor has nothing to run, and before it gives
// the processor up. So a goroutine that waits for an event that it causes itself comes back when there is such a processor, which is
// at once on its own if nothing else is ready there, and everybody for whom something has come is ready then, too. Its zero value has
// no open file.
type event struct {
	tried  bool     // whether there can be one
	file   *os.File // nil while there is none
	raise  syscall.RawConn
	raised bool
	wait   func(fd uintptr) bool
}

// open makes it, if there is none yet, and says whether there is. It tries once.
func (e *event) open() bool {
	if e.tried {
		return e.file != nil
	}
	e.tried = true
	fd, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return false
	}
	f := os.NewFile(fd, "eventfd")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return false
	}
	one, had := binary.NativeEndian.AppendUint64(nil, 1), make([]byte, 8)
	e.file, e.raise = f, raw
	e.wait = func(fd uintptr) bool {
		if e.raised {
			_, _ = syscall.Read(int(fd), had) // the next one is to be a change
			return true
		}
		e.raised = true
		_, err := syscall.Write(int(fd), one)
		return err != nil
	}
	return true
}

// look causes the event and waits for it. False means that this cannot be done any more.
func (e *event) look() bool {
	if !e.open() {
		return false
	}
	e.raised = false
	if e.raise.Read(e.wait) != nil {
		e.close()
	}
	return e.file != nil
}

// close lets go of it, and there is none any more, if there was one.
func (e *event) close() {
	if e.file != nil {
		_ = e.file.Close()
		e.file = nil
	}
}
