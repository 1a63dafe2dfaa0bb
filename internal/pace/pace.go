package pace

import "time"

// Connects is how many connections are made to one node in any second, but for attempts that have pauses of their own.
const Connects = 4

// Starts is when the latest connections were begun. Its owner's lock guards it.
type Starts struct {
	began [Connects]time.Time
	next  int // of began, the oldest
}

// Begin notes a connection that is begun now.
func (s *Starts) Begin() {
	s.began[s.next] = time.Now()
	s.next = (s.next + 1) % len(s.began)
}

// Wait is how long the next connection waits.
func (s *Starts) Wait() time.Duration { return time.Second - time.Since(s.began[s.next]) }
