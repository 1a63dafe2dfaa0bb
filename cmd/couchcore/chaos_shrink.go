package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/sim"
)

const (
	shrinkRuns = 120             // runs of a seed that fails, at most
	shrinkTime = 2 * time.Minute // and for no longer than that
	shrinkOps  = 20              // the fewest calls that are tried
)

// shrinker looks for a smaller run of a seed that violates the same property.
type shrinker struct {
	ctx      context.Context
	run      func(sim.Options) *sim.Report
	property string
	best     sim.Options
	faults   []string // that the best run may do without
	left     int      // runs
	until    time.Time
}

// shrink gives the smallest run that it finds until ctx ends; ok is false when the failure did not come again.
func (c *chaosCmd) shrink(ctx context.Context, self string, v sim.Violation, ops int) (smaller sim.Options, ok bool) {
	s := &shrinker{
		ctx: ctx, property: v.Property, left: shrinkRuns, until: time.Now().Add(shrinkTime),
		run: func(o sim.Options) *sim.Report { return c.judged(ctx, self, o, v.Property == sim.Replay) },
	}
	o := c.options(v.Seed)
	o.Ops = ops
	if !s.try(o) {
		return o, false
	}
	s.fewerCalls()
	plan := sim.Plan(s.best)
	s.without(slices.DeleteFunc(sim.Parts(), func(part string) bool { return !strings.Contains(plan, part+" true") }))
	s.without(s.faults)
	s.fewerActors()
	s.fewerCalls()
	return s.best, true
}

// try runs o, which becomes the best if it fails as before. A process that has died cannot say what it has met, so such
// a run may do without any fault.
func (s *shrinker) try(o sim.Options) bool {
	if s.ctx.Err() != nil || s.left == 0 || time.Now().After(s.until) {
		return false
	}
	s.left--
	r := s.run(o)
	alike := func(v sim.Violation) bool { return v.Property == s.property }
	if s.ctx.Err() != nil || !slices.ContainsFunc(r.Violations, alike) {
		return false
	}
	s.best, s.faults = o, slices.DeleteFunc(sim.Faults(), func(name string) bool {
		return slices.Contains(o.Without, name) || s.property != sim.Died && r.FaultsFired[name] == 0
	})
	return true
}

func (s *shrinker) fewerCalls() {
	for o := s.best; o.Ops/2 >= shrinkOps; {
		if o.Ops /= 2; !s.try(o) {
			return
		}
	}
}

// without leaves out as many of the names as it can: all, then halves of what is left, then single ones.
func (s *shrinker) without(names []string) {
	for size := len(names); size > 0; size /= 2 {
		for at := 0; at < len(names); {
			some := names[at:min(at+size, len(names))]
			o := s.best
			o.Without = slices.Concat(o.Without, some)
			if !s.try(o) {
				at += size
				continue
			}
			names = slices.Delete(slices.Clone(names), at, at+len(some))
		}
	}
}

func (s *shrinker) fewerActors() {
	for _, n := range []int{1, 2, 4, 8, 16} {
		o := s.best
		if o.Workers = n; s.try(o) {
			break
		}
	}
	for n := 1; n < 5; n++ {
		o := s.best
		if o.Nodes = n; s.try(o) {
			break
		}
	}
}

// builtFrom is a line with the commit that the command was built from, if that is known.
func builtFrom() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", and changed since"
		}
	}
	if revision == "" {
		return ""
	}
	return "\n  commit " + revision + changed
}

// command is what runs the options again, and shows that they violate the property. That a seed does not replay takes
// two runs.
func command(o sim.Options, property string) string {
	text := fmt.Sprintf("couchcore chaos --seed %d --seeds 1 --ops %d", o.Seed, o.Ops)
	if o.Workers > 0 {
		text += fmt.Sprintf(" --workers %d", o.Workers)
	}
	if o.Nodes > 0 {
		text += fmt.Sprintf(" --nodes %d", o.Nodes)
	}
	for _, name := range o.Without {
		text += fmt.Sprintf(" --without %q", name)
	}
	if property == sim.Replay {
		text += " --replay"
	}
	return text
}

// goTest is a test of package sim_test that runs the options again, and compares the traces of ten runs if the property
// is that they are the same.
func goTest(o sim.Options, property string) string {
	helper := "run"
	if property == sim.Replay {
		helper = "tenTimes"
	}
	fields := []string{fmt.Sprintf("Seed: %d, Ops: %d", o.Seed, o.Ops)}
	if o.Workers > 0 {
		fields = append(fields, fmt.Sprintf("Workers: %d", o.Workers))
	}
	if o.Nodes > 0 {
		fields = append(fields, fmt.Sprintf("Nodes: %d", o.Nodes))
	}
	if len(o.Without) > 0 {
		fields = append(fields, fmt.Sprintf("Without: %#v", o.Without))
	}
	return fmt.Sprintf("func TestSeed%d(t *testing.T) {\n\t%s(t, sim.Options{%s})\n}", o.Seed, helper,
		strings.Join(fields, ", "))
}
