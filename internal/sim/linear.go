package sim

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// step is what a call did to its document, for the model: from is what it asked for, to what it got.
type step struct {
	verb    verb
	token   string // that it writes
	expect  string
	outcome outcome
	got     string
}

// document is the model: a register that may be empty, which is "".
func document() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			now, _ := state.(string)
			s, _ := input.(step)
			return s.apply(now)
		},
		DescribeOperation: func(input, _ any) string {
			s, _ := input.(step)
			return s.String()
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%q", state) },
	}
}

// String is the step in a drawing.
func (s step) String() string {
	out := s.verb.String()
	for _, part := range []struct{ before, of string }{{" ", s.token}, {" instead of ", s.expect}} {
		if part.of != "" {
			out += part.before + part.of
		}
	}
	if out += ": " + s.outcome.String(); s.got != "" {
		out += " " + s.got
	}
	return out
}

// drawTime is how long a history is looked at once more for its drawing.
const drawTime = 2 * time.Second

// draw draws a history that is not linearizable, and says where; "" when it does not.
func (w *world) draw(key string, history []porcupine.Operation) string {
	if w.Drawings == "" {
		return ""
	}
	_, seen := porcupine.CheckOperationsVerbose(document(), history, drawTime)
	path := filepath.Join(w.Drawings, fmt.Sprintf("couchcore-seed-%d-%s.html", w.Seed, key))
	if err := porcupine.VisualizePath(document(), seen, path); err != nil {
		return fmt.Sprintf(" (it could not be drawn: %v)", err)
	}
	return ", it is drawn in " + path
}

// apply reports whether the step was possible in a state, and gives the next state.
func (s step) apply(now string) (bool, string) {
	switch s.outcome {
	case absent:
		return now == "", now
	case exists:
		return now != "", now
	case mismatch:
		return now != "" && now != s.expect, now
	default: // it was done, or may have been
	}
	switch s.verb {
	case read:
		return now == s.got, now
	case insert:
		return now == "", s.token
	case replace:
		return now != "", s.token
	case swap:
		return now == s.expect, s.token
	case remove:
		return now != "" || s.outcome == doubtful, ""
	default:
		return true, s.token
	}
}

// judgeTime is how long the histories may be looked at, in real time.
const judgeTime = 20 * time.Second

// What becomes of a history.
const (
	judged   = "history judged"
	unjudged = "history not judged in time"
)

// checkHistories judges P5: the history of each document is one that calls one after the other could have had. A call
// in doubt that was never applied is left out of it; one that was may have been at any time after its beginning.
func (w *world) checkHistories() {
	keys := map[string][]porcupine.Operation{}
	for _, e := range w.ledger {
		if !e.shared || e.outcome == open || e.outcome == failed || e.verb == read && e.outcome == doubtful {
			continue
		}
		ended := int64(e.ended)
		if e.outcome == doubtful {
			if n, known := w.facts.count(e); known && n == 0 {
				continue
			}
			ended = math.MaxInt64
		}
		keys[e.key] = append(keys[e.key], porcupine.Operation{
			ClientId: max(e.worker, 0), Call: int64(e.began), Return: ended,
			Input: step{verb: e.verb, token: e.token, expect: e.expect, outcome: e.outcome, got: e.got},
		})
	}
	for key := range keys {
		for _, f := range w.flushes {
			keys[key] = append(keys[key], porcupine.Operation{
				Call: int64(f.from), Return: int64(f.to), Input: step{verb: remove, outcome: doubtful},
			})
		}
	}
	until := time.Now().Add(judgeTime)
	names := make([]string, 0, len(keys))
	for key := range keys {
		names = append(names, key)
	}
	slices.Sort(names)
	for _, key := range names {
		switch porcupine.CheckOperationsTimeout(document(), keys[key], max(time.Until(until), time.Millisecond)) {
		case porcupine.Illegal:
			w.report.violateWith("P5", func() []string { return w.history(key) },
				"the history of %s is not linearizable%s", key, w.draw(key, keys[key]))
		case porcupine.Unknown:
			w.report.Reached[unjudged]++
		case porcupine.Ok:
			w.report.Reached[judged]++
		}
	}
}
