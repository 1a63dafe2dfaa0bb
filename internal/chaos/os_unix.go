//go:build linux || darwin

package chaos

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Supported says whether this system has what chaos needs: it is nil here.
func Supported() error { return nil }

// ownGroup gives a process a group of its own. When its parent dies, that group is orphaned, and the kernel continues
// and ends what was stopped in it: no process stays behind, even one that cannot see its standard input end.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// pause stops a process until it is resumed, and dump ends it with the stacks of its goroutines.
func (p *process) pause()  { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
func (p *process) dump()   { _ = p.cmd.Process.Signal(syscall.SIGQUIT) }

// limitDescriptors lets this process have n descriptors.
func limitDescriptors(n uint64) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	l.Cur = min(n, l.Max)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}

// outOfDescriptors reports whether err says that there is no descriptor left.
func outOfDescriptors(err error) bool { return errors.Is(err, syscall.EMFILE) }

// descriptors are how many this process has open.
func descriptors() int {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(names)
}
