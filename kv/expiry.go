package kv

import (
	"math"
	"time"

	"github.com/couchcore/couchcore/cberr"
)

// relativeMax is the longest expiry that the server reads as seconds from now; larger numbers are Unix times.
const relativeMax = 30 * 24 * time.Hour

// Expiry says when a document expires: after a duration, or at a point in time, or (the zero value) never. Setting
// both is an error. Both are rounded up to seconds; durations of 30 days and more are sent as points in time.
type Expiry struct {
	After time.Duration
	At    time.Time
}

// ExpireAfter is an expiry d from now.
func ExpireAfter(d time.Duration) Expiry { return Expiry{After: d} }

// ExpireAt is an expiry at t.
func ExpireAt(t time.Time) Expiry { return Expiry{At: t} }

// wire is the number the protocol wants: 0 never, up to 30 days in seconds, otherwise a Unix time.
func (e Expiry) wire() (uint32, error) {
	switch {
	case e.After == 0 && e.At.IsZero():
		return 0, nil
	case e.After != 0 && !e.At.IsZero():
		return 0, badArgument("expiry", "names both a duration and a time")
	case e.After < 0:
		return 0, badArgument("expiry", "is negative")
	case e.After > 0 && e.After < relativeMax:
		return uint32((e.After + time.Second - 1) / time.Second), nil
	}
	at := e.At
	if e.After > 0 {
		at = time.Now().Add(e.After)
	}
	u := at.Unix()
	if at.Nanosecond() > 0 {
		u++
	}
	if u <= int64(relativeMax/time.Second) {
		return 0, badArgument("expiry", "is a time before 1970-01-31, which the server would read as a duration")
	}
	if u > math.MaxUint32-1 {
		return 0, &ArgumentError{Field: "expiry as a Unix time", Value: u, Limit: math.MaxUint32 - 1, Kind: cberr.InvalidArgument}
	}
	return uint32(u), nil
}
