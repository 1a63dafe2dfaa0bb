package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheWholeProgram measures a little of every sort, in the processes that a real run has, and writes the page.
func TestTheWholeProgram(t *testing.T) {
	dir := t.TempDir()
	page, figures := filepath.Join(dir, "page.md"), filepath.Join(dir, "figures.json")
	var out, progress bytes.Buffer
	args := []string{
		"--matrix", "--gate", "--quick", "--page", page, "--json", figures, "--cells",
		"^(Get, 128 callers|Get, 128 callers, contexts|" +
			"Upsert, 16 callers, TLS|Get, 5k/s|Get, 16 callers, round trip 1 ms|Get, 128 callers, 3 nodes, 2 " +
			"busy|rows of a query|" +
			"Get, 10k/s, 16 callers at most, host application|allocations|in flight)$",
	}
	err := run(t.Context(), args, &out, &progress)
	require.True(t, err != nil && !strings.Contains(progress.String(), "failed"), progress.String())
	require.Empty(t, out.String(), "the page is in the file")

	text, err := os.ReadFile(figures)
	require.NoError(t, err)
	var rep report
	require.NoError(t, json.Unmarshal(text, &rep))
	require.Empty(t, rep.Errors)
	require.Len(t, rep.Cells, 8, progress.String())
	for _, c := range rep.Cells {
		require.Empty(t, c.Error, c.Name)
		require.Equal(t, 2, c.Rounds, c.Name)
		if strings.Contains(c.Name, "busy") || strings.Contains(c.Name, "query") {
			continue // a busy machine may not finish one of these in a slice as short as this
		}
		for _, l := range c.Lanes {
			require.Positive(t, l.PerSecond, "%s: %s", c.Name, l.Client)
			require.Positive(t, l.P50, "%s: %s", c.Name, l.Client)
		}
	}
	require.Positive(t, rep.Probes[probeNameFlight]["bytes"])
	require.Contains(t, rep.Probes[probeNameAllocs], "get")
	for _, o := range rep.Rows {
		require.False(t, o.Verdict != inconclusive && o.Reason != "", o.Name)
		if o.Rounds > 1 {
			require.Equal(t, inconclusive, o.Verdict, "%s: a quick look is no verdict", o.Name)
		}
	}

	md, err := os.ReadFile(page)
	require.NoError(t, err)
	requirePage(t, string(md))
	for _, want := range []string{
		"## Targets", "## The matrix", "## The host application", "## Beside the matrix",
		"| Upsert, 16 callers, TLS |",
	} {
		require.Contains(t, string(md), want)
	}
	require.NotContains(t, string(md), "## What has failed")
}

// requirePage checks what a page of results begins with.
func requirePage(t *testing.T, md string) {
	t.Helper()
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(mod), peerModule+" ")
	require.True(t, found)
	version := strings.Fields(after)[0]
	_, after, found = strings.Cut(strings.Join(strings.Fields(md), " "), "Conditions: ")
	require.True(t, found, "the page has no line of conditions")
	if !strings.Contains(after, "gocbcore ;") { // a test binary does not know its modules
		require.Contains(t, after, "gocbcore "+version+";", "the page is of another gocbcore: run make bench-gate on "+
			"a machine with nothing else to do")
	}
	for line := range strings.Lines(md) {
		require.True(t, line[0] == '|' || len(line) <= maxColumns+1, "%s", line)
	}
}

// TestThePageIsNotStale looks at nothing but what the results were measured with.
func TestThePageIsNotStale(t *testing.T) {
	md, err := os.ReadFile("../../bench/RESULTS.md")
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(md), "\n")
	if !strings.Contains(first, "pending") {
		requirePage(t, string(md))
	}
}

// TestWhatFailsIsNamedAndTheRunGoesOn has a client that cannot be started, and then one that can.
func TestWhatFailsIsNamedAndTheRunGoesOn(t *testing.T) {
	f := newFleet(t.Context())
	defer func() { require.NoError(t, f.stop()) }()
	p := plan{rounds: 1, judged: 1, slice: 20 * time.Millisecond, slow: 20 * time.Millisecond}
	broken := cell{callers: 2, lanes: []lane{{kind: "unheard-of"}}}
	_, err := f.client(place{kind: kindOurs, nodes: 1, mode: modeCleartext, procs: defaultProcs})
	require.NoError(t, err, "it is ended with the broken cell")
	var progress bytes.Buffer
	res := f.measure(&broken, p, 1, &progress)
	require.NotEmpty(t, res.Error)
	require.Contains(t, progress.String(), broken.name())
	rep := reportOf(&broken, res)
	require.Contains(t, (&report{Cells: []cellReport{rep}}).page(), "## What has failed\n\n* Get, 2 callers: ")
	good := cell{callers: 2}
	require.Empty(t, f.measure(&good, p, 1, io.Discard).Error)
}

// TestOperationsThatFail are counted, and end the slice's caller in time.
func TestOperationsThatFail(t *testing.T) {
	for _, rate := range []int{0, 100_000} {
		r := runner{c: failing{}}
		s := r.run(job{Op: opGet, Callers: 2, Size: 16, Time: 30 * time.Millisecond, Rate: rate})
		require.Positive(t, s.Errors)
		require.Equal(t, errSASLPlainOnly.Error(), s.Error)
		require.Zero(t, s.Ops)
	}
}

type failing struct{}

func (failing) work(job, int) func() (int, error) {
	return func() (int, error) { return 0, errSASLPlainOnly }
}

func (failing) close() {}

// TestAnOpenLoopCountsFromTheClock has operations that take longer than their distance: they wait for the caller, and
// the wait counts.
func TestAnOpenLoopCountsFromTheClock(t *testing.T) {
	r := runner{c: sleeping{}}
	s := r.run(job{Op: opGet, Callers: 1, Size: 16, Time: 200 * time.Millisecond, Rate: 2000})
	require.Empty(t, s.Error)
	require.Less(t, s.Ops, int64(100), "one caller does one operation at a time")
	require.Greater(t, s.P99, 20_000.0)
}

type sleeping struct{}

func (sleeping) work(job, int) func() (int, error) {
	return func() (int, error) {
		time.Sleep(5 * time.Millisecond)
		return 1, nil
	}
}

func (sleeping) close() {}

func local(t *testing.T) (*responder, clusters) {
	r := newResponder()
	where, closeAll, err := r.listen()
	require.NoError(t, err)
	t.Cleanup(closeAll)
	return r, where
}

func (w *clusters) target(nodes string, m mode, tls bool) target {
	out := target{mode: m, tls: tls, ca: w.CA}
	for _, n := range w.Nodes[nodes] {
		addr := n.Cleartext
		if tls {
			addr = n.TLS
		}
		out.addrs = append(out.addrs, addr)
	}
	return out
}

// TestEveryKindAgainstTheResponder has each client do a few operations of each sort, plain and encrypted.
func TestEveryKindAgainstTheResponder(t *testing.T) {
	r, where := local(t)
	for _, k := range allKinds() {
		nodes := "3"
		if k.lanes != nil {
			nodes = "1" // it has one connection
		}
		for _, tls := range []bool{false, true} {
			c, err := k.open(where.target(nodes, modeCleartext, tls))
			if tls && (k.name == kindBound || k.name == kindStep) {
				require.ErrorIs(t, err, errSASLPlainOnly, k.name)
				continue
			}
			require.NoError(t, err, k.name)
			for _, j := range []job{
				{Op: opGet, Size: 16}, {Op: opUpsert, Size: 16}, {Op: opGet, Size: 256, Fresh: true}, {
					Op:   opUpsert,
					Size: 256, Fresh: true,
				},
			} {
				j.Callers = 2
				do := c.work(j, 0)
				for range 3 {
					n, err := do()
					require.NoError(t, err, "%s: %+v", k.name, j)
					require.Positive(t, n)
				}
			}
			c.close()
		}
	}
	require.Zero(t, r.misrouted.Load())
	require.Positive(t, r.requests.Load())
}

// TestModes has the responder hold answers, refuse, keep a pace and give rows.
func TestModes(t *testing.T) {
	r, where := local(t)
	for _, m := range []mode{modeShortHold, modeLongHold, modeMoved, modePaced, modeQuery} {
		for _, open := range []func(target) (client, error){oursOpener(formDo), openPeer} {
			c, err := open(where.target("1", m, false))
			require.NoError(t, err, m)
			j := job{Op: opGet, Callers: 1, Size: 16}
			if m == modeQuery {
				j.Op = opQuery
			}
			do := c.work(j, 0)
			before := r.requests.Load()
			for range 3 {
				began := time.Now()
				_, err := do()
				require.NoError(t, err, m)
				require.GreaterOrEqual(t, time.Since(began), m.hold())
			}
			if m == modeMoved {
				require.GreaterOrEqual(t, r.requests.Load()-before, int64(6), "%s: each needs two requests", m)
			}
			c.close()
		}
	}
	_, err := openPeer(target{addrs: where.target("1", modeCleartext, false).addrs, mode: "unheard-of"})
	require.Error(t, err)
}

// TestTheBoundEndsWhatIsNotAnswered keeps the yardstick honest: it has deadlines, too.
func TestTheBoundEndsWhatIsNotAnswered(t *testing.T) {
	_, where := local(t)
	b, err := newBound(where.target("1", modeMute, false).addrs, modeMute)
	require.NoError(t, err)
	defer b.close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = b.do(ctx, opGet, keys(0)[0], nil)
	require.ErrorIs(t, err, errBoundTimeout)
	<-ctx.Done()
	_, err = b.do(ctx, opGet, keys(0)[0], nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestTheProgramEndsWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(300*time.Millisecond, cancel)
	defer timer.Stop()
	began := time.Now()
	require.Error(t, run(ctx, []string{"--matrix", "--rounds", "1000", "--cells", "^Get, 16 callers$"}, io.Discard,
		io.Discard))
	require.Less(t, time.Since(began), exitLimit)
}

func TestFlags(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"--list"}, &out, io.Discard))
	require.Contains(t, out.String(), "row    plain-128")
	require.Contains(t, out.String(), "cell   Get, 1024 callers, TLS")
	for _, args := range [][]string{
		nil, {"--matrix", "--rounds", "0"}, {"--matrix", "--cells", "("}, {"--nonsense"}, {"--matrix", "more"},
	} {
		require.Error(t, run(t.Context(), args, io.Discard, io.Discard), "%v", args)
	}
	whole, err := parse([]string{"--matrix", "--gate"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "bench/RESULTS.md", whole.page)
	var shown bytes.Buffer
	lost := settings{page: filepath.Join(t.TempDir(), "no", "page.md")}
	require.Error(t, lost.write(newReport(&results{}, conditions{}), &shown))
	require.Contains(t, shown.String(), "## Targets", "a run is not lost for a file")
	part, err := parse([]string{"--gate", "--cells", "TLS"}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, part.page, "a part of the cells does not overwrite the page")
	require.Equal(t, roleClient, childRole([]string{"-role=client", "-kind=x"}))
	require.Equal(t, role(""), childRole([]string{"--json"}))
	require.Error(t, runChild([]string{"-role=client", "-kind=unheard-of"}, &bytes.Buffer{}, io.Discard))
}

// TestThePageIsStampedByTheCommand builds the program as users run it: only then does it know its modules.
func TestThePageIsStampedByTheCommand(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "run", "../../bench", "--matrix", "--quick", "--cells",
		"nothing").Output()
	require.NoError(t, err)
	require.NotContains(t, string(out), "gocbcore ;")
	requirePage(t, string(out))
}
