package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

// Main is the program with these arguments: what was started by hand, or one of the processes that it starts from itself. It ends with
// what that has to do, or with an interrupt, and prints nothing of an error, which is not nil if something failed.
func Main(args []string) error {
	if childRole(args) != "" {
		return runChild(args, os.Stdin, os.Stdout)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, args, os.Stdout, os.Stderr); !errors.Is(err, flag.ErrHelp) {
		return err
	}
	return nil
}

// run is the program without its process: results go to out, progress to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(progress)
	asJSON := fs.Bool("json", false, "print the results as JSON, and progress on standard error")
	quick := fs.Bool("quick", false, "a look: short slices, two rounds, short probes")
	rounds := fs.Int("rounds", 7, "rounds of each cell")
	gateRounds := fs.Int("gate-rounds", judgeRounds, "rounds of the cells by which targets are judged")
	sliceTime := fs.Duration("slice", 350*time.Millisecond, "how long one client works in one round")
	only := fs.String("only", "", "measure only what matches this `regexp`: names of cells, probes and targets")
	list := fs.Bool("list", false, "print the names of cells, probes and targets")
	gate := fs.Bool("gate", false, "fail unless every must is met")
	md := fs.String("md", "", "write the results as Markdown to this `file`")
	profiles := fs.String("profiles", "", "write CPU and allocation profiles of every client into this `directory`")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *list {
		return printNames(out)
	}
	s := settings{plan: plan{*rounds, *gateRounds, *sliceTime}, quick: *quick, profiles: *profiles}
	if *quick {
		s.plan = plan{min(*rounds, 2), min(*gateRounds, 2), min(*sliceTime, 100*time.Millisecond)}
	}
	if s.plan.rounds < 1 || s.plan.slice <= 0 {
		return errors.New("at least one round, and slices that take time")
	}
	if *only != "" {
		re, err := regexp.Compile(*only)
		if err != nil {
			return err
		}
		s.only = re
	}
	conditions := describe(s.plan) // first: the tree may change while this runs
	r, err := runAll(ctx, s, progress)
	if err != nil {
		return err
	}
	rep := newReport(r, conditions)
	if err := rep.write(out, *asJSON, *md); err != nil {
		return err
	}
	if *gate {
		return gateError(rep.Checks)
	}
	return nil
}

func printNames(out io.Writer) error {
	for _, c := range allCells() {
		_, _ = fmt.Fprintf(out, "cell    %s\n", c.name)
	}
	for _, p := range probeRuns(false) {
		_, _ = fmt.Fprintf(out, "probe   %s\n", p.name)
	}
	_, _ = fmt.Fprintf(out, "probe   %s\n", probeNameMicro)
	for _, c := range allChecks() {
		_, _ = fmt.Fprintf(out, "target  %s: %s\n", c.name, c.what)
	}
	return nil
}
