package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/couchcore/couchcore/internal/sim"
)

const (
	lateGrace = 5 * time.Second // in which the process of a seed that is out of time says what it does
	lateLines = 40              // of that, in the report
	maxStacks = 64 << 20
)

// limit is how long a seed may take, in real time.
func (c *chaosCmd) limit(ops int) time.Duration {
	return cmp.Or(c.Limit, chaosLimit+time.Duration(ops)*chaosLimit/50_000)
}

// asksFirst has a process asked for the stacks of its goroutines when its time is over, and killed when it has not
// ended lateGrace later. One that is given up with the whole command is killed at once.
func asksFirst(command context.Context, child *exec.Cmd) {
	child.WaitDelay = lateGrace
	child.Cancel = func() error {
		if command.Err() == nil && child.Process.Signal(syscall.SIGQUIT) == nil {
			return nil
		}
		return child.Process.Kill() // some systems have no other signal
	}
}

// tellsWhenAsked writes how far the run is and the stacks of its goroutines when this process is asked, and ends it.
// The goroutine that waits for that lasts as long as the process.
func tellsWhenAsked(p *sim.Progress, to io.Writer) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGQUIT)
	go func() {
		<-asked
		_, _ = fmt.Fprintf(to, "%s\n\n%s\n", p, stacks()) // it ends in any case
		os.Exit(exitFailed)
	}()
}

// stacks are those of all goroutines but this one. Those of the run come first that keep its time from going on: they
// run, or wait for what is not the run's own, as a lock.
func stacks() string {
	buf := make([]byte, 1<<20)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < maxStacks {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	all := strings.Split(strings.TrimSpace(string(buf[:n])), "\n\n")[1:] // the first one is the caller's
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return strings.Join(all, "\n\n")
}

// rank orders the stacks of goroutines.
func rank(stack string) int {
	header, _, _ := strings.Cut(stack, "\n")
	switch inRun := strings.Contains(header, "synctest bubble"); {
	case inRun && !strings.Contains(header, "(durable)"):
		return 0
	case inRun:
		return 1
	}
	return 2
}

// late is the report of a seed that has not ended within its limit. told is what its process has said.
func late(o sim.Options, limit time.Duration, told string) *sim.Report {
	what := fmt.Sprintf("the seed did not end within its limit of %v of real time: ", limit)
	far, stacks, _ := strings.Cut(strings.TrimSpace(told), "\n\n")
	v := sim.Violation{Seed: o.Seed, Property: sim.Late}
	switch name, err := keep(o.Seed, stacks); {
	case stacks == "":
		v.What = fmt.Sprintf("%sits process did not say within %v how far it was", what, lateGrace)
		v.History = firstLines(told)
	case err != nil:
		v.What = fmt.Sprintf("%s%s; the stacks of its goroutines could not be kept: %v", what, far, err)
		v.History = firstLines(stacks)
	default:
		v.What = fmt.Sprintf("%s%s; all stacks of its goroutines are in %s", what, far, name)
		v.History = firstLines(stacks)
	}
	return &sim.Report{Seed: o.Seed, Violations: []sim.Violation{v}}
}

// keep writes the stacks to a file of their own.
func keep(seed uint64, stacks string) (name string, err error) {
	if stacks == "" {
		return "", nil
	}
	f, err := os.CreateTemp("", fmt.Sprintf("couchcore-chaos-seed-%d-*.txt", seed))
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(stacks + "\n")
	return f.Name(), cmp.Or(err, f.Close())
}

// firstLines are the first lines of a text.
func firstLines(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[:min(len(lines), lateLines)]
}
