//go:build !race

package chaos

import "time"

// beginTime is how long the workers of a round take to begin, at most, while there are faults of the cluster and soon
// of its nodes.
const (
	beginTime = time.Second
	beginCalm = false
)
