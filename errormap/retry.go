package errormap

import (
	"math"
	"time"
)

// RetrySpec is how older clients were told to pace their retries. It is kept for diagnostics only: the retry RFC
// forbids using it. Times in the document are milliseconds.
type RetrySpec struct {
	Strategy    string  `json:"strategy"` // "constant", "linear" or "exponential"
	Interval    float64 `json:"interval"`
	After       float64 `json:"after"`
	Ceil        float64 `json:"ceil"`
	MaxDuration float64 `json:"max-duration"`
}

// Delay is the wait before retry n, counted from 0, as the map describes it; false when the strategy is unknown. The
// ceiling does not bound the wait before the first retry, which is After.
func (r *RetrySpec) Delay(n int) (time.Duration, bool) {
	var d float64
	switch r.Strategy {
	case "constant":
		d = r.Interval
	case "linear":
		d = r.Interval * float64(n)
	case "exponential":
		d = math.Pow(r.Interval, float64(n))
	default:
		return 0, false
	}
	if n <= 0 {
		return ms(r.After), true
	}
	if r.Ceil > 0 {
		d = min(d, r.Ceil)
	}
	return ms(d), true
}

// Ends reports whether a retry that long after the first attempt is over the map's limit.
func (r *RetrySpec) Ends(elapsed time.Duration) bool {
	return r.MaxDuration > 0 && elapsed > ms(r.MaxDuration)
}

func ms(f float64) time.Duration {
	if !(f > 0) {
		return 0
	}
	return time.Duration(min(f, 1e12) * float64(time.Millisecond))
}
