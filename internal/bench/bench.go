package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// settings are what the flags say.
type settings struct {
	plan     plan
	quick    bool
	only     *regexp.Regexp // of cells, probes and checks; nil is all
	profiles string
}

// probeRun is one probe of the plan.
type probeRun struct {
	name  string // as its result is kept
	probe string
	nodes int
	mode  mode
	how   probeOptions
	timed bool // in rounds, judged as cells are
	short bool // less than what is to be judged
}

// probeRuns are all probes. In a quick look they do less; what they find is no verdict then.
func probeRuns(quick bool) []probeRun {
	silence, load, futures := silenceBefore, 10*time.Second, 1_000_000
	if quick {
		silence, load, futures = 200*time.Millisecond, 800*time.Millisecond, 50_000
	}
	return []probeRun{
		{name: probeNameAllocs, probe: "allocs", nodes: 1, mode: modePlain, how: probeOptions{Count: 2000}},
		{name: probeNameFewer, probe: "idle", nodes: 20, mode: modePlain, how: probeOptions{Time: min(silence, time.Second)}},
		{name: probeNameIdle, probe: "idle", nodes: 100, mode: modePlain, how: probeOptions{Time: silence}, short: quick},
		{name: probeNameIdleP, probe: "idle", nodes: 20, mode: modePlain, how: probeOptions{Time: min(silence, time.Second), Peer: true}},
		{name: probeNameFlight, probe: "inflight", nodes: 1, mode: modeMute, how: probeOptions{Count: 16000}},
		{name: probeNameFlightP, probe: "inflight", nodes: 1, mode: modeMute, how: probeOptions{Count: 16000, Peer: true}},
		{name: probeNameWaiting, probe: "waiting", nodes: 1, mode: modePlain, how: probeOptions{Count: 2000}},
		{name: probeNameFutures, probe: "futures", nodes: 1, mode: modePlain, how: probeOptions{Count: futures}, short: quick},
		{name: probeNameLoad, probe: "overload", nodes: 1, mode: modePaced, how: probeOptions{Time: load}, timed: true, short: quick},
	}
}

// needed are the cells and probes that the wish for some of them asks for: those whose name matches, and those that a
// matching check is made of.
func needed(s settings) (cells map[string]bool, probes map[string]bool) {
	cells, probes = map[string]bool{}, map[string]bool{}
	all := s.only == nil
	for _, c := range allCells() {
		cells[c.name] = all || s.only.MatchString(c.name)
	}
	for _, p := range probeRuns(s.quick) {
		probes[p.name] = all || s.only.MatchString(p.name)
	}
	probes[probeNameMicro] = all || s.only.MatchString(probeNameMicro)
	if all {
		return cells, probes
	}
	for _, c := range allChecks() {
		if !s.only.MatchString(c.name) {
			continue
		}
		for _, name := range dependencies(&c) {
			if _, ok := cells[name]; ok {
				cells[name] = true
			} else {
				probes[name] = true
			}
		}
	}
	return cells, probes
}

// dependencies finds the cells and probes that a check is made of, by what it asks for.
func dependencies(c *check) []string {
	r := newResults()
	r.asked = map[string]bool{}
	c.find(r)
	return slices.Sorted(keysOf(r.asked))
}

// runAll measures everything that is wanted. It stops early when ctx ends.
func runAll(ctx context.Context, s settings, progress io.Writer) (r *results, err error) {
	cells, probes := needed(s)
	f := newFleet(ctx)
	f.profiles = s.profiles
	defer func() { err = errors.Join(err, f.stop()) }()
	r = newResults()
	for _, c := range allCells() {
		if !cells[c.name] {
			continue
		}
		res, err := f.measure(c, s.plan, progress)
		if err != nil {
			return r, err
		}
		r.cells[c.name] = res
	}
	for _, p := range probeRuns(s.quick) {
		if !probes[p.name] {
			continue
		}
		r.probes[p.name] = f.probe(p, s.plan, progress)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
	}
	if probes[probeNameMicro] {
		r.probes[probeNameMicro] = observed(ctx, s.plan.gate, progress)
	}
	return r, nil
}

// judged gives every check's outcome.
func judged(r *results) []outcome {
	all := allChecks()
	out := make([]outcome, len(all))
	for i := range all {
		out[i] = all[i].judge(r)
	}
	return out
}

// blocked are the checks that keep the whole from being met.
func blocked(out []outcome) []string {
	var names []string
	for _, o := range out {
		if o.Verdict != met {
			names = append(names, o.Name+" ("+string(o.Verdict)+")")
		}
	}
	return names
}

// gateError says that not every must is met.
func gateError(out []outcome) error {
	if names := blocked(out); len(names) > 0 {
		return fmt.Errorf("%d of %d targets are not met: %s", len(names), len(out), strings.Join(names, ", "))
	}
	return nil
}
