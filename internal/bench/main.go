package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

// ErrNotMet says that a must is missed, ErrInconclusive that none is, but that there is no verdict on some.
var (
	ErrNotMet       = errors.New("not every must is met")
	ErrInconclusive = errors.New("no must is missed, but some are inconclusive")
)

// settings are what the flags say.
type settings struct {
	matrix, gate, quick, list bool
	gocb                      bool           // gocb is measured, and nothing else
	readBuffer                int            // of its connections; 0 is gocbcore's
	cells                     *regexp.Regexp // of cells and probes; nil is all
	plan                      plan
	json, page, profiles      string
}

// repeatLimit is how long a run takes more than planned for slices that are repeated because others used the machine.
const repeatLimit = 7 * time.Minute

// Main is the program with these arguments: what was started by hand, or one of the processes that it starts from
// itself. It ends with what that has to do, or with an interrupt, and prints nothing of an error, which is not nil if
// something failed, or if the gate is closed.
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
	s, err := parse(args, progress)
	if err != nil {
		return err
	}
	if s.list {
		return printNames(out)
	}
	if unmeasured != "" {
		_, _ = fmt.Fprintln(progress, unmeasured)
	}
	if s.gocb {
		return runGocb(ctx, s, out, progress)
	}
	conditions := describe(s.plan) // first: the tree may change while this runs
	r, err := runAll(ctx, s, progress)
	rep := newReport(r, conditions)
	if err != nil { // it was interrupted: what there is is shown, and replaces nothing
		_, _ = io.WriteString(out, rep.page())
		return err
	}
	if err := s.write(rep, out); err != nil {
		return err
	}
	if s.gate {
		return gateError(rep.Rows)
	}
	return nil
}

func parse(args []string, progress io.Writer) (settings, error) {
	s := settings{}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(progress)
	fs.BoolVar(&s.matrix, "matrix", false, "measure the cells of the matrix")
	fs.BoolVar(&s.gate, "gate", false, "measure everything, judge every must, and say in the exit code how that "+
		"went: 1 missed, 2 inconclusive")
	fs.BoolVar(&s.quick, "quick", false, "a look at everything in three minutes: it is not a verdict")
	fs.BoolVar(&s.gocb, "gocb", false, "measure gocb on couchcore beside gocb on gocbcore, and nothing else; modules "+
		"are downloaded for it")
	fs.IntVar(&s.readBuffer, "read-buffer", 0, "with --gocb: how many `bytes` a connection's read buffer has "+
		"instead of gocbcore's 20 MiB")
	fs.BoolVar(&s.list, "list", false, "print the names of cells, probes and rows")
	cells := fs.String("cells", "", "measure only the cells and probes whose names match this `pattern`, a regular "+
		"expression")
	fs.IntVar(&s.plan.rounds, "rounds", 5, "rounds of each cell; two more where a single row is judged by it")
	fs.DurationVar(&s.plan.slice, "slice", 300*time.Millisecond, "how long one client works in one round")
	fs.StringVar(&s.json, "json", "", "write all figures as JSON to this `file`")
	fs.StringVar(&s.page, "page", "", "write the page of results to this `file`; bench/RESULTS.md for a whole run "+
		"with --gate, otherwise it is printed")
	fs.StringVar(&s.profiles, "profiles", "", "write CPU and allocation profiles of every client into this `directory`")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	switch {
	case fs.NArg() > 0:
		return s, fmt.Errorf("%q is not a flag", fs.Arg(0))
	case s.gocb && (s.matrix || s.list || *cells != "" || s.json != "" || s.page != "" || s.profiles != ""):
		return s, errors.New("--gocb goes with --gate, --quick, --rounds, --slice and --read-buffer alone")
	case s.readBuffer != 0 && !s.gocb, s.readBuffer < 0:
		return s, errors.New("--read-buffer goes with --gocb, and is at least 0")
	case !s.matrix && !s.gate && !s.quick && !s.list && !s.gocb:
		return s, errors.New("say what to do: --matrix, --gate or both, --quick or --gocb; --help says more")
	case s.plan.rounds < 1 || s.plan.slice <= 0:
		return s, errors.New("at least one round, and slices that take time")
	}
	s.plan.judged, s.plan.slow = s.plan.rounds+2, 5*s.plan.slice/2
	if s.quick {
		s.plan.rounds, s.plan.judged = 2, 2
		s.plan.slice, s.plan.slow = min(s.plan.slice, 60*time.Millisecond), min(s.plan.slow, 100*time.Millisecond)
	}
	if *cells != "" {
		re, err := regexp.Compile(*cells)
		if err != nil {
			return s, err
		}
		s.cells = re
	}
	if s.page == "" && s.gate && !s.quick && s.cells == nil {
		s.page = "bench/RESULTS.md"
	}
	return s, nil
}

func (s *settings) wants(name string) bool { return s.cells == nil || s.cells.MatchString(name) }

// write writes the report where it is wanted.
func (s *settings) write(rep *report, out io.Writer) error {
	var errs []error
	if s.json != "" {
		text, err := json.MarshalIndent(rep, "", "  ")
		errs = append(errs, err, os.WriteFile(s.json, append(text, '\n'), 0o644))
	}
	var err error
	if s.page != "" {
		err = os.WriteFile(s.page, []byte(rep.page()), 0o644)
		errs = append(errs, err)
	}
	if s.page == "" || err != nil { // a run is not lost for a file
		_, err = io.WriteString(out, rep.page())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// runAll measures everything that is wanted. What fails is in the results; only the end of ctx is an error.
func runAll(ctx context.Context, s settings, progress io.Writer) (*results, error) {
	f := newFleet(ctx)
	f.profiles = s.profiles
	if !s.quick {
		f.spare = repeatLimit
	}
	defer func() { _ = f.stop() }() // what they did is in the results
	r := &results{cells: map[string]*cellResult{}, probes: map[string]*probeResult{}}
	judged := judgedCells()
	for _, c := range allCells() {
		name := c.name()
		if !s.wants(name) || c.purpose == forRow && !s.gate && !s.quick {
			continue
		}
		rounds := s.plan.rounds
		if judged[name] {
			rounds = s.plan.judged
		}
		r.cells[name] = f.measure(&c, s.plan, rounds, progress)
		if err := ctx.Err(); err != nil {
			return r, err
		}
	}
	if !s.gate && !s.quick {
		return r, nil
	}
	for _, p := range probeRuns(s.quick) {
		if s.wants(p.name) {
			r.probes[p.name] = f.probe(p, s.plan.rounds, progress)
		}
		if err := ctx.Err(); err != nil {
			return r, err
		}
	}
	if s.wants(probeNameMicro) {
		r.probes[probeNameMicro] = observed(ctx, s.plan.rounds, progress)
	}
	return r, ctx.Err()
}

// gateError says whether every must is met.
func gateError(rows []outcome) error {
	missed, doubtful := 0, 0
	for i := range rows {
		switch rows[i].Verdict {
		case notMet:
			missed++
		case inconclusive:
			doubtful++
		case met:
		}
	}
	switch {
	case missed > 0:
		return fmt.Errorf("%w: %d of %d are missed, %d inconclusive", ErrNotMet, missed, len(rows), doubtful)
	case doubtful > 0:
		return fmt.Errorf("%w: %d of %d", ErrInconclusive, doubtful, len(rows))
	}
	return nil
}

func printNames(out io.Writer) error {
	judged := judgedCells()
	for _, c := range allCells() {
		kind := "cell"
		if c.purpose != forMatrix {
			kind = "extra"
		}
		note := ""
		if judged[c.name()] {
			note = "  (a row is judged by it)"
		}
		_, _ = fmt.Fprintf(out, "%-6s %s%s\n", kind, c.name(), note)
	}
	for _, p := range probeRuns(false) {
		_, _ = fmt.Fprintf(out, "probe  %s\n", p.name)
	}
	_, _ = fmt.Fprintf(out, "probe  %s\n", probeNameMicro)
	for _, w := range allRows() {
		_, _ = fmt.Fprintf(out, "row    %s: %s\n", w.name, w.what)
	}
	return nil
}
