//go:build !race

package chaos

import "time"

// beginTime is how long the workers of a round take to begin, while there are faults.
const (
	beginTime = time.Second
	beginCalm = false
)
