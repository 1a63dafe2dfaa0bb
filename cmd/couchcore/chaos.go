package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/couchcore/couchcore/internal/chaos"
	"github.com/couchcore/couchcore/internal/sim"
)

const (
	chaosOps     = 5000            // calls of a seed, unless told
	chaosLimit   = 2 * time.Minute // of real time for one seed, and then as much again for each 50 000 calls
	chaosNeeds   = 200_000         // calls from which on a set must have met everything
	chaosMaxSeed = 1 << 20
	chaosReplays = 5 // seeds that are run again, the first ones, unless told
)

// chaosCmd runs the simulation: each seed in a process of its own, because a deadlock or a panic ends it.
type chaosCmd struct {
	Ops   int    `help:"Calls of all seeds together (default: 5000 for each)."`
	Seed  uint64 `default:"1" help:"The first seed (default: 1)."`
	Seeds int    `default:"40" help:"How many seeds, counting up (default: 40)."`
	Child bool   `hidden:"" help:"Run one seed in this process and print its report."`
	// of a smaller run, as a failure names them
	Without []string      `sep:"none" placeholder:"NAME" help:"Leave out a fault, a change or a part of the run (repeatable)."`
	Workers int           `help:"The most workers of a run."`
	Nodes   int           `help:"The most nodes of a run."`
	Replay  *bool         `negatable:"" help:"Run each seed twice and compare the traces (default: the first five)."`
	Shrink  bool          `default:"true" negatable:"" help:"Look for a smaller run that fails like the first one (default: yes)."`
	DrawIn  string        `placeholder:"DIR" help:"Where histories that are not linearizable are drawn (default: where temporary files are; nowhere with --json)."`
	Break   sim.Defect    `hidden:"" help:"Plant a defect, to see that it is noticed."`
	Limit   time.Duration `hidden:"" help:"How long one seed may take, in real time."`
	// over real sockets: see chaos_real.go
	Real     bool          `help:"Instead: real sockets and processes, which are killed, stopped and reset (default: no)."`
	Soak     bool          `help:"Instead: load over real sockets, to see whether anything grows (default: no)."`
	Duration time.Duration `help:"How long --real and --soak take (default: 1m)."`
	Scenario string        `placeholder:"NAME" help:"Only that scenario of --real, see docs/chaos.md (default: all in turn)."`
	Plant    string        `hidden:"" help:"Plant a defect in the process of the client."`
	Part     string        `hidden:"" help:"Be a process that --real or --soak has started."`
}

// Run implements the command.
func (c *chaosCmd) Run(a *app) error {
	switch {
	case c.Part != "":
		return chaos.Part(c.Part, a.stdin, a.stdout)
	case c.Real || c.Soak:
		return c.onSockets(a)
	}
	if c.Seeds < 1 || c.Seeds > chaosMaxSeed || c.Ops < 0 || c.Ops > 0 && c.Ops < c.Seeds || !c.Break.Known() {
		return usagef("chaos: --seeds is 1 to %d, --ops at least one for each of them", chaosMaxSeed)
	}
	ops := chaosOps
	if c.Ops > 0 {
		ops = c.Ops / c.Seeds
	}
	if c.Child {
		o := c.options(c.Seed)
		o.Ops, o.Progress = ops, new(sim.Progress)
		tellsWhenAsked(o.Progress, a.stderr)
		sim.Main(o, func(r *sim.Report) {
			if err := a.emit(r); err != nil {
				os.Exit(exitFailed)
			}
			os.Exit(exitOK)
		})
		return errors.New("chaos: the simulation did not run")
	}
	if c.DrawIn == "" && !a.json {
		c.DrawIn = os.TempDir()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	t, err := c.all(ctx, a, ops)
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	return c.verdict(ctx, a, t, ops, time.Since(began))
}

// options are those of a seed's run, but for the number of calls.
func (c *chaosCmd) options(seed uint64) sim.Options {
	return sim.Options{
		Seed: seed, Without: c.Without, Workers: c.Workers, Nodes: c.Nodes, Break: c.Break, Drawings: c.DrawIn,
	}
}

// all runs the seeds, as many at the same time as there are processors, and adds their reports up in order. When ctx
// ends, those under way are given up.
func (c *chaosCmd) all(ctx context.Context, a *app, ops int) (*sim.Totals, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	reports := make([]*sim.Report, c.Seeds)
	next := make(chan int)
	var mu sync.Mutex
	ended, bad := 0, 0
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				o := c.options(c.Seed + uint64(i))
				o.Ops = ops
				r := c.judged(ctx, self, o, c.replays(i))
				if ctx.Err() != nil {
					continue
				}
				mu.Lock()
				reports[i] = r
				ended++
				bad += len(r.Violations)
				a.live("chaos   %d of %d seeds   %s", ended, c.Seeds, plural(bad, "violation"))
				mu.Unlock()
			}
		})
	}
	for i := 0; i < c.Seeds && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	wg.Wait()
	a.live("")
	t := sim.NewTotals()
	for _, r := range reports {
		if r != nil {
			t.Add(r)
		}
	}
	t.Finish()
	return t, nil
}

// replays reports whether the seed with that index is run again.
func (c *chaosCmd) replays(i int) bool {
	if c.Replay != nil {
		return *c.Replay
	}
	return i < chaosReplays
}

// judged runs a seed, and again if that is to show whether it replays: another run of it, on two processors, has the
// same trace.
func (c *chaosCmd) judged(ctx context.Context, self string, o sim.Options, again bool) *sim.Report {
	r := c.one(ctx, self, o, 1)
	if !again || len(r.Violations) > 0 {
		return r
	}
	next := c.one(ctx, self, o, 2)
	switch r.Replayed = next.Trace == r.Trace; {
	case len(next.Violations) > 0:
		r.Violations = next.Violations
	case !r.Replayed:
		r.Violations = append(r.Violations, sim.Violation{
			Seed: r.Seed, Property: sim.Replay, What: "another run of the seed has the trace " + next.Trace,
		})
	}
	return r
}

// one runs a seed in a process of its own, most on one processor, since others run at the same time. A process that
// dies, or does not end in time, is a violation.
func (c *chaosCmd) one(command context.Context, self string, o sim.Options, processors int) *sim.Report {
	limit := c.limit(o.Ops)
	ctx, cancel := context.WithTimeout(command, limit)
	defer cancel()
	args := []string{
		"chaos", "--child", "--seeds=1", fmt.Sprintf("--seed=%d", o.Seed), fmt.Sprintf("--ops=%d", o.Ops),
		fmt.Sprintf("--workers=%d", o.Workers), fmt.Sprintf("--nodes=%d", o.Nodes),
	}
	if o.Break != "" {
		args = append(args, "--break="+string(o.Break))
	}
	if o.Drawings != "" {
		args = append(args, "--draw-in="+o.Drawings)
	}
	for _, name := range o.Without {
		args = append(args, "--without="+name)
	}
	child := exec.CommandContext(ctx, self, args...)
	asksFirst(command, child)
	child.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", processors), chaosEnv+"=1")
	var out, errs bytes.Buffer
	child.Stdout, child.Stderr = &out, &errs
	err := child.Run()
	r := new(sim.Report)
	if err == nil {
		err = json.Unmarshal(out.Bytes(), r)
	}
	switch {
	case err != nil && ctx.Err() != nil && command.Err() == nil:
		return late(o, limit, errs.String())
	case err != nil:
		return &sim.Report{Seed: o.Seed, Violations: []sim.Violation{{
			Seed: o.Seed, Property: sim.Died, What: fmt.Sprintf("the process ended: %v", err),
			History: firstLines(errs.String()),
		}}}
	}
	return r
}

// smaller prints a smaller run that fails like v, if one is found.
func (c *chaosCmd) smaller(ctx context.Context, a *app, v sim.Violation, ops int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	a.live("chaos   looking for a smaller run of seed %d", v.Seed)
	o, found := c.shrink(ctx, self, v, ops)
	a.live("")
	if !found {
		return nil
	}
	return a.print("smaller: %s\n\n%s\n", command(o, v.Property), goTest(o, v.Property))
}

// chaosEnv marks the processes that run one seed.
const chaosEnv = "COUCHCORE_CHAOS_CHILD"

// verdict prints what was found, and fails when anything was violated, or ctx has ended.
func (c *chaosCmd) verdict(ctx context.Context, a *app, t *sim.Totals, ops int, took time.Duration) error {
	complete := t.Ops < chaosNeeds || len(t.NotReached) == 0
	if a.json {
		if err := a.emit(t); err != nil {
			return err
		}
	}
	for _, v := range t.Failures {
		o := c.options(v.Seed)
		o.Ops = ops
		if err := a.print("%s%s\n  again: %s\n", v, builtFrom(), command(o, v.Property)); err != nil {
			return err
		}
	}
	// each smaller run of a seed that was late may take as long as that
	inTime := slices.IndexFunc(t.Failures, func(v sim.Violation) bool { return v.Property != sim.Late })
	if inTime >= 0 && c.Shrink && !a.json && ctx.Err() == nil {
		if err := c.smaller(ctx, a, t.Failures[inTime], ops); err != nil {
			return err
		}
	}
	fired, raised := 0, 0
	for _, n := range t.FaultsFired {
		fired += n
	}
	for _, n := range t.ReasonsFired {
		raised += n
	}
	histories, unjudged := t.Histories()
	rows := [][]string{
		{"seeds", grouped(t.Seeds), fmt.Sprintf("%d of them run again, with the same trace", t.Replayed)},
		{"calls", grouped(t.Ops), fmt.Sprintf("%s requests, in %s", grouped(t.Frames), short(took))},
		{"faults met", grouped(fired), fmt.Sprintf("of %d kinds", len(t.FaultsFired))},
		{"reasons", grouped(raised), fmt.Sprintf("of %d kinds", len(t.ReasonsFired))},
		{"histories", grouped(histories)},
		{"not judged", grouped(unjudged)},
		{"lost", grouped(t.Lost)},
		{"applied twice", grouped(t.AppliedTwice)},
		{"goroutines left", grouped(t.GoroutinesLeft)},
		{"violations", grouped(t.Violations)},
	}
	if err := a.table(rows); err != nil {
		return err
	}
	switch {
	case t.Violations > 0:
		first := t.Failures[0]
		return &shownError{exitFailed, fmt.Sprintf("chaos: %s violated by seed %d: %s", first.Property, first.Seed,
			first.What)}
	case ctx.Err() != nil:
		return errors.New("chaos: interrupted")
	case !complete:
		return &shownError{exitFailed, "chaos: not reached: " + strings.Join(t.NotReached, ", ")}
	}
	return a.print("%s", a.paint(green, "OK"))
}
