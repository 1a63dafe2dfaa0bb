package core

import (
	"maps"
	"sync"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// tallies gather what happens to many calls at once, so that the log has one line of it at most every tallyPause, with
// the count since the last. Safe for concurrent use.
type tallies struct {
	mu sync.Mutex
	of map[tallied]*tally
}

// tallied is what is counted together.
type tallied struct {
	service   retry.Service
	operation string
	why       retry.Reason
}

type tally struct {
	told time.Time // when the last line was due
	n    int64     // since
}

const (
	tallyPause  = 10 * time.Second
	mostTallies = 256 // names of a program's own loops are its own, and may be any number
)

// count counts one more, and gives the number for a line that is due now; 0 when none is.
func (ts *tallies) count(k tallied, now time.Time) int64 {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.of[k]
	if t == nil {
		if len(ts.of) >= mostTallies {
			maps.DeleteFunc(ts.of, func(_ tallied, t *tally) bool { return now.Sub(t.told) >= tallyPause })
		}
		if len(ts.of) >= mostTallies {
			return 0
		}
		if ts.of == nil {
			ts.of = map[tallied]*tally{}
		}
		t = &tally{}
		ts.of[k] = t
	}
	t.n++
	if now.Sub(t.told) < tallyPause {
		return 0
	}
	n := t.n
	t.told, t.n = now, 0
	return n
}
