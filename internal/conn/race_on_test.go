//go:build race

package conn

// RaceEnabled says that the race detector is on.
const RaceEnabled = true
