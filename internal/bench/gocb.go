package bench

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/couchcore/couchcore/compat/gocbcore"
)

// gocb on couchcore, beside gocb on gocbcore: the same program, compiled with the module that compat/gocbcore assembles
// and with gocbcore itself. Both are made in a temporary folder, of the modules that the go command downloads.

// gocbVersion is the version of gocb that the program is compiled with.
const gocbVersion = "v2.12.4"

//go:embed testdata/gocb/main.go
var gocbProgram []byte

// gocbCell is one load, and what gocb on couchcore must reach of it over gocb on gocbcore, and what it aims at.
type gocbCell struct {
	Op      string
	Callers int

	throughput, goal, cpu float64
}

var gocbCells = []gocbCell{
	{"Get", 16, 1.3, 1.6, 0.85},
	{"Get", 128, 1.9, 2.5, 0.6},
	{"Upsert", 16, 1.3, 1.6, 0.85},
	{"Upsert", 128, 1.9, 2.5, 0.6},
}

// gocbLoad and gocbDone are lines to the program, and from it.
type (
	gocbLoad struct {
		Op      string        `json:"op"`
		Callers int           `json:"callers"`
		Time    time.Duration `json:"time_ns"`
	}
	gocbDone struct {
		Count  float64       `json:"count"`
		Took   time.Duration `json:"took_ns"`
		CPU    time.Duration `json:"cpu_ns"`
		Allocs float64       `json:"allocs"`
	}
)

// gocbFigures are those of one of the two, round by round.
type gocbFigures struct {
	perSecond, cpu, allocs []float64 // operations, and microseconds and allocations for each
}

func (f *gocbFigures) add(d gocbDone) {
	f.perSecond = append(f.perSecond, d.Count/d.Took.Seconds())
	f.cpu = append(f.cpu, float64(d.CPU.Microseconds())/d.Count)
	f.allocs = append(f.allocs, d.Allocs/d.Count)
}

// runGocb measures both, and prints a table. With gate the error says that a must is missed.
func runGocb(ctx context.Context, s settings, out, progress io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "couchcore-gocb")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	responder, err := startStation(ctx, false)
	if err != nil {
		return err
	}
	defer func() { _ = responder.p.stop() }()
	addr := responder.where.Nodes["1"][0].Cleartext
	if s.readBuffer > 0 {
		addr += fmt.Sprintf("?kv_buffer_size=%d", s.readBuffer)
	}
	var both [2]*process // ours, theirs
	for i, replaced := range []bool{true, false} {
		_, _ = fmt.Fprintln(progress, "gocb", gocbVersion, "is compiled with", [2]string{"couchcore", "gocbcore"}[i])
		binary, err := compileGocb(ctx, filepath.Join(dir, fmt.Sprint(i)), replaced)
		if err != nil {
			return err
		}
		if both[i], err = launch(ctx, 0, binary, addr); err != nil {
			return err
		}
		defer func() { _ = both[i].stop() }()
		if err := both[i].read(&gocbDone{}); err != nil {
			return err
		}
	}
	return measureGocb(both, s, out, progress)
}

func measureGocb(both [2]*process, s settings, out, progress io.Writer) error {
	_, _ = fmt.Fprintln(out, "| load | throughput | must, goal | processor | must | a second | processor, us | "+
		"allocations |\n|---|---|---|---|---|---|---|---|")
	met := true
	for _, c := range gocbCells {
		_, _ = fmt.Fprintf(progress, "%s, %d callers\n", c.Op, c.Callers)
		var figures [2]gocbFigures
		for round := range s.plan.rounds + 1 { // the first one warms up
			for i := range both {
				i = (i + round) % len(both) // the first is another one in each round
				var d gocbDone
				if err := both[i].ask(gocbLoad{c.Op, c.Callers, s.plan.slice}, &d); err != nil {
					return err
				}
				if round > 0 {
					figures[i].add(d)
				}
			}
		}
		line, ok := c.row(figures[0], figures[1])
		met = met && ok
		_, _ = fmt.Fprintln(out, line)
	}
	if s.gate && !met {
		return ErrNotMet
	}
	return nil
}

// row is a cell's line of the table, and whether its musts are met.
func (c gocbCell) row(ours, theirs gocbFigures) (line string, met bool) {
	faster, cheaper := paired(ours.perSecond, theirs.perSecond), paired(ours.cpu, theirs.cpu)
	two := func(form string, a, b []float64) string { return fmt.Sprintf(form+", "+form, median(a), median(b)) }
	line = fmt.Sprintf("| %s, %d callers | %s | %.1f, %.1f | %s | %.2f | %s | %s | %s |", c.Op, c.Callers,
		ranged(faster), c.throughput, c.goal, ranged(cheaper), c.cpu, two("%.0f", ours.perSecond, theirs.perSecond),
		two("%.1f", ours.cpu, theirs.cpu), two("%.1f", ours.allocs, theirs.allocs))
	return line, median(faster) >= c.throughput && median(cheaper) <= c.cpu
}

// ranged is a median with the least and the greatest.
func ranged(xs []float64) string {
	least, most := xs[0], xs[0]
	for _, x := range xs {
		least, most = min(least, x), max(most, x)
	}
	return fmt.Sprintf("%.2f [%.2f-%.2f]", median(xs), least, most)
}

// compileGocb compiles the program in a module of its own, whose gocbcore is the one that is assembled if replaced.
func compileGocb(ctx context.Context, dir string, replaced bool) (binary string, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), gocbProgram, 0o600); err != nil {
		return "", err
	}
	versions := gocbcore.Versions()
	version := versions[len(versions)-1]
	edit := []string{
		"mod", "edit", "-require=github.com/couchbase/gocb/v2@" + gocbVersion,
		"-require=" + gocbcore.Module + "@" + version,
	}
	if replaced {
		root, err := goTool(ctx, ".", "list", "-m", "-f", "{{.Dir}}", "github.com/couchcore/couchcore")
		if err != nil {
			return "", err
		}
		module := filepath.Join(dir, "gocbcore")
		_, err = goTool(ctx, ".", "run", "github.com/couchcore/couchcore/cmd/couchcore", "gocbcore", module,
			"--couchcore", root, "--gocbcore", version)
		if err != nil {
			return "", err
		}
		edit = append(edit, "-replace="+gocbcore.Module+"="+module, "-replace=github.com/couchcore/couchcore="+root)
	}
	binary = filepath.Join(dir, "speed")
	for _, args := range [][]string{{"mod", "init", "speed"}, edit, {"mod", "tidy"}, {"build", "-o", binary, "."}} {
		if _, err := goTool(ctx, dir, args...); err != nil {
			return "", err
		}
	}
	return binary, nil
}

// goTool runs the go command in a directory.
func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = os.Environ()
	if dir != "." {
		cmd.Env = append(cmd.Env, "GOFLAGS=-mod=mod", "GOWORK=off", "GONOSUMDB=*")
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}
