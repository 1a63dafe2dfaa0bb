//go:build !linux

package conn

// event is not done on this system.
type event struct{}

func (*event) look() bool { return false }

func (*event) close() {}
