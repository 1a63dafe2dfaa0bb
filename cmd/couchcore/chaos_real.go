package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/couchcore/couchcore/internal/chaos"
)

const chaosDuration = time.Minute

// realOptions are those of the two forms of the command that use real sockets.
func (c *chaosCmd) realOptions(a *app) (chaos.Options, error) {
	if !chaos.KnownPlant(c.Plant) || c.Duration < 0 || c.Real && c.Soak {
		return chaos.Options{}, usagef("chaos: --real or --soak, and --duration of more than 0")
	}
	if known := chaos.Scenarios(); c.Scenario != "" && !slices.Contains(known, c.Scenario) {
		return chaos.Options{}, usagef("chaos: no scenario %q: there are %q", c.Scenario, known)
	}
	self, err := os.Executable()
	if err != nil {
		return chaos.Options{}, err
	}
	o := chaos.Options{
		Seed: c.Seed, Duration: c.Duration, Self: []string{self, "chaos", "--part"}, Env: []string{chaosEnv + "=1"},
		Scenario: c.Scenario, Plant: c.Plant, Live: a.live,
	}
	if o.Duration == 0 {
		o.Duration = chaosDuration
	}
	return o, nil
}

// onSockets runs chaos over real sockets, or a soak, until it is over or interrupted.
func (c *chaosCmd) onSockets(a *app) error {
	o, err := c.realOptions(a)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.Soak {
		return c.soak(ctx, a, o)
	}
	r, err := chaos.Run(ctx, o)
	a.live("")
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	if err := tellFailures(a, r, r.Failures); err != nil {
		return err
	}
	fired := 0
	for _, n := range r.Faults {
		fired += n
	}
	if err := a.table([][]string{
		{"rounds", grouped(r.Rounds), strings.Join(slices.Sorted(maps.Keys(r.Scenarios)), ", ")},
		{"calls", grouped(r.Calls), fmt.Sprintf("%s mutations held against what the nodes have applied, in %s",
			grouped(r.Mutations), r.Took)},
		{"faults met", grouped(fired), fmt.Sprintf("of %d kinds", len(r.Faults))},
		{"lost", grouped(r.Lost)},
		{"applied twice", grouped(r.AppliedTwice)},
		{"ended not once", grouped(r.EndedNotOnce)},
		{
			"past deadline", grouped(r.PastDeadline), fmt.Sprintf("+ 50 ms in %s; + 2 s in the others, with %s "+
				"between", plural(r.StrictRounds, "round"), plural(r.LateByLess, "call")),
		},
		{
			"late with process", grouped(r.LateWithProcess), "which was not run for " + r.WorstStall + " at most",
		},
		{"goroutines left", grouped(r.GoroutinesLeft)},
		{"descriptors left", grouped(r.DescriptorsLeft)},
		{"violations", grouped(r.Violations)},
	}); err != nil {
		return err
	}
	switch {
	case r.Violations > 0:
		first := r.Failures[0]
		return &shownError{exitFailed, fmt.Sprintf("chaos: %s violated: %s", first.Property, first.What)}
	case len(r.NotReached) > 0:
		return &shownError{exitFailed, "chaos: not reached: " + strings.Join(r.NotReached, ", ")}
	case ctx.Err() != nil:
		return errors.New("chaos: interrupted")
	}
	return a.print("%s", a.paint(green, "OK"))
}

// tellFailures prints the report as JSON where that is wanted, and what was violated as text where that is.
func tellFailures(a *app, report any, failures []chaos.Violation) error {
	if a.json {
		if err := a.emit(report); err != nil {
			return err
		}
	}
	for _, v := range failures {
		if err := a.print("%s\n", v); err != nil {
			return err
		}
	}
	return nil
}

func (c *chaosCmd) soak(ctx context.Context, a *app, o chaos.Options) error {
	r, err := chaos.Soak(ctx, o)
	a.live("")
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	if err := tellFailures(a, r, r.Failures); err != nil {
		return err
	}
	rate := fmt.Sprintf("in %s, %.0f calls a second", r.Took, r.Rate())
	rows := [][]string{{"samples", grouped(len(r.Samples)), rate}}
	bad := ""
	for _, v := range r.Verdicts {
		said := "ok"
		if !v.OK {
			said, bad = "TOO MUCH", v.What
		}
		rows = append(rows, []string{v.What, v.String(), said})
	}
	if err := a.table(rows); err != nil {
		return err
	}
	if !r.OK {
		if len(r.Failures) > 0 {
			bad = r.Failures[0].What
		}
		return &shownError{exitFailed, "chaos: the soak has failed: " + bad}
	}
	return a.print("%s", a.paint(green, "OK"))
}
