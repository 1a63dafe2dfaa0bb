//go:build !linux && !darwin

package chaos

import (
	"errors"
	"os/exec"
)

var errUnsupported = errors.New("chaos over real sockets needs Linux or macOS: processes are stopped and continued")

// Supported says whether this system has what chaos needs.
func Supported() error { return errUnsupported }

func ownGroup(*exec.Cmd) {}

func (p *process) pause()  {}
func (p *process) resume() {}
func (p *process) dump()   { _ = p.cmd.Process.Kill() }

func limitDescriptors(uint64) error { return errUnsupported }

func outOfDescriptors(error) bool { return false }

func descriptors() int { return 0 }
