//go:build race

package chaos

import "time"

// beginTime is how long the workers of a round take to begin, at most, before there are faults: with the race
// detector a call costs several times as much, and thousands that begin in a second would have more than the
// processors can do.
const (
	beginTime = 6 * time.Second
	beginCalm = true
)
