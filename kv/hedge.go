package kv

import "time"

// Hedge asks for a read from several copies: first the active one, then, each time Delay has passed without an answer,
// one more replica. The first success wins and the other reads are cancelled. What a replica says may be older than
// what the active copy would have said; the result tells by FromReplica. Each read is sent once: what would be retried
// is what the other copies are for.
type Hedge struct {
	MaxAttempts int           // reads at most, that of the active copy included; below 2 there is only that one
	Delay       time.Duration // from one read to the next; 0 sends all at once
	// NonFatal says after which failures the other copies are still of use. Nil means every failure that has a retry
	// reason. Three are never the end, whatever it says: that a replica has no such document, since it may lag; that a
	// copy's node cannot be reached; and that its connection is lost before anything comes back.
	NonFatal func(error) bool
}
