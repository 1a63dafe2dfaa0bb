package kv

import (
	"math"
	"time"
)

// relativeMax is the longest expiry that the server reads as seconds from now; larger numbers are Unix times.
const relativeMax = 30 * 24 * time.Hour

// Expiry says when a document expires: ExpireAfter a duration, ExpireAt a point in time, or (the zero value) never.
// It is rounded up to seconds; durations of 30 days and more are sent as points in time.
type Expiry struct {
	after time.Duration
	at    int64 // Unix time; 0 means none
}

// ExpireAfter is an expiry d from now; 0 means never.
func ExpireAfter(d time.Duration) Expiry { return Expiry{after: d} }

// ExpireAt is an expiry at t; the zero time means never.
func ExpireAt(t time.Time) Expiry {
	if t.IsZero() {
		return Expiry{}
	}
	at := unixCeil(t)
	if at == 0 {
		at = -1 // as impossible as the time itself
	}
	return Expiry{at: at}
}

func unixCeil(t time.Time) int64 {
	u := t.Unix()
	if t.Nanosecond() > 0 {
		u++
	}
	return u
}

// wire is the number the protocol wants: 0 never, up to 30 days in seconds, otherwise a Unix time.
func (e Expiry) wire() (uint32, error) {
	if e == (Expiry{}) {
		return 0, nil
	}
	return e.number()
}

func (e Expiry) number() (uint32, error) {
	switch {
	case e.after < 0:
		return 0, badArgument("expiry", "is negative")
	case e.after > 0 && e.after < relativeMax:
		return uint32((e.after + time.Second - 1) / time.Second), nil
	}
	u := e.at
	if e.after > 0 {
		u = unixCeil(time.Now().Add(e.after))
	}
	if u <= int64(relativeMax/time.Second) {
		return 0, badArgument("expiry", "is a time before 1970-01-31, which the server would read as a duration")
	}
	if u > math.MaxUint32-1 {
		return 0, outOfRange("expiry as a Unix time", u, math.MaxUint32-1)
	}
	return uint32(u), nil
}
