//go:build !linux

package conn

func (*linger) has() bool { return false }

func (*linger) holds() bool { return false }
