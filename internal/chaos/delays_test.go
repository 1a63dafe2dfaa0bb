package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proc is a directory in which threads and the machine are as a test says.
type proc struct {
	*testing.T
	root string
}

func newProc(t *testing.T) *proc {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	return &proc{t, t.TempDir()}
}

func (p *proc) write(text string, path ...string) {
	name := filepath.Join(append([]string{p.root}, path...)...)
	require.NoError(p, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(p, os.WriteFile(name, []byte(text), 0o600))
}

// thread ran for 7 ns and waited for so long.
func (p *proc) thread(name string, waited time.Duration) {
	p.write(fmt.Sprintf("7 %d 1\n", waited), "self", "task", name, "schedstat")
}

func (p *proc) remove(path ...string) {
	require.NoError(p, os.RemoveAll(filepath.Join(append([]string{p.root}, path...)...)))
}

// waits gives what is counted beside a change.
func (d *delays) waits(change func()) time.Duration {
	before := d.last().sum
	change()
	d.sample()
	return d.last().sum - before
}

// runs has samples taken while f runs.
func (d *delays) runs(t *testing.T, f func()) {
	t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wg.Go(func() { d.run(ctx) })
	f()
}

func TestWhatThreadsWaitedForIsCounted(t *testing.T) {
	p := newProc(t)
	require.Nil(t, newDelays(p.root), "there is no such directory")
	p.write("0 0 0\n", "self", "task", "1", "schedstat")
	require.Nil(t, newDelays(p.root), "a kernel that does not count")
	p.thread("1", 40)
	d := newDelays(p.root)
	require.NotNil(t, d)
	defer d.close()
	require.EqualValues(t, 60, d.waits(func() { p.thread("1", 100) }))
	require.EqualValues(t, 30, d.waits(func() { p.thread("1", 110); p.thread("2", 20) }), "another thread")
	require.Zero(t, d.waits(func() { p.remove("self", "task", "1") }), "it has ended")
	require.Len(t, d.threads, 1)
	require.EqualValues(t, 5, d.waits(func() { p.thread("1", 5) }), "it is another one")

	loop := filepath.Join(p.root, "self", "task", "3", "schedstat")
	require.NoError(t, os.Mkdir(filepath.Dir(loop), 0o700))
	require.NoError(t, os.Symlink("schedstat", loop))
	began := d.last().began
	blind := d.waits(func() { time.Sleep(time.Millisecond) })
	require.Equal(t, d.last().began.Sub(began), blind, "a thread that cannot be read may have waited all the time")
}

func TestProcessorsThatWereTakenAwayAreCounted(t *testing.T) {
	p := newProc(t)
	p.write("cpu  11 12 13 14 15 16 17 18 19 20\ncpu0 1 1 1 1 1 1 1 99 1 1\n", "stat")
	p.thread("1", 0)
	d := newDelays(p.root)
	require.NotNil(t, d)
	defer d.close()
	require.Equal(t, 20*time.Millisecond, d.waits(func() { p.write("cpu  11 12 13 14 15 16 17 20 19 20\n", "stat") }))
	require.Zero(t, d.waits(func() { p.write("cpu  11 12 13\n", "stat") }), "a system that does not tell")
}

// What a call may be late by is counted from the last sample that ended before its deadline.
func TestDelaysAreThoseOfTheTimeBetween(t *testing.T) {
	p := newProc(t)
	p.thread("1", 0)
	d := newDelays(p.root)
	require.NotNil(t, d)
	base := time.Now().Add(-time.Hour)
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	note := func(began, ended int, sum time.Duration) {
		d.sum = sum
		d.keep(delay{at(began), at(ended), sum})
	}
	d.count = 0
	note(0, 1, 0)
	note(10, 11, 5)
	note(20, 35, 50) // it was held up: what it has counted was in part after the 30th ms
	note(40, 44, 70)
	require.EqualValues(t, 20, d.waited(at(36), at(39)))
	require.EqualValues(t, 65, d.waited(at(30), at(39)))
	require.EqualValues(t, 50, d.waited(at(9), at(12)), "until the first sample that began later")
	require.EqualValues(t, 45, d.waited(at(12), at(20)))
	p.thread("1", 8)
	d.runs(t, func() {
		require.EqualValues(t, 28, d.waited(at(36), at(42)), "the last one began before the end")
	})
	for i := range 2 * delaysKeeps { // what is old is forgotten
		note(100+i, 100+i, time.Duration(1000+i))
	}
	require.Zero(t, d.waited(at(36), at(99)))
	require.EqualValues(t, delaysKeeps-1, d.waited(at(36), at(100+2*delaysKeeps-1)))
}

// More threads than processors: the kernel says that they wait.
func TestTheKernelCountsWhatThreadsWaitFor(t *testing.T) {
	d := newDelays(procRoot)
	if d == nil {
		t.Skip("the system does not count it")
	}
	threads := runtime.NumCPU() + 2
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	began := time.Now()
	until := began.Add(200 * time.Millisecond)
	d.runs(t, func() {
		var wg sync.WaitGroup
		for range threads {
			wg.Go(func() {
				for time.Now().Before(until) {
				}
			})
		}
		wg.Wait()
		require.Greater(t, d.waited(began, time.Now()), 20*time.Millisecond)
	})
}

// A call may be late by what threads waited for, but by no more than where that is not counted.
func TestACallMayBeLateByWhatThreadsWaitedFor(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name          string
		late, waited  time.Duration
		counted       bool
		busy, between int64
	}{
		{"in time", 50 * time.Millisecond, 0, true, 0, 0},
		{"late", 51 * time.Millisecond, 0, true, 0, 0},
		{"late by what threads waited", 250 * time.Millisecond, 200 * time.Millisecond, true, 1, 0},
		{"late by more", 251 * time.Millisecond, 200 * time.Millisecond, true, 0, 0},
		{"late by much", 2001 * time.Millisecond, time.Minute, true, 0, 0},
		{"not counted", 2 * time.Second, 0, false, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &worker{client: &client{sc: &scenarios[0], to: newWire(io.Discard), watch: newWatch()}}
			a := &attempt{w: w, on: new(opened), began: began, over: began.Add(c.late)}
			if c.counted {
				w.delays = &delays{count: 2}
				w.delays.kept[1] = delay{a.over, a.over, c.waited}
			}
			w.slack = slackOf(2, c.counted)
			a.judgeTime("get", nil)
			require.Equal(t, c.busy, w.busy.Load())
			require.Equal(t, c.between, w.between.Load())
			violated := c.late > deadlineSlack && c.busy+c.between == 0
			require.Equal(t, violated, len(w.to.pending) > 0, string(w.to.pending))
		})
	}
}
