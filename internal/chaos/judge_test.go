package chaos

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestTheJudgeFindsEachKindOfLie(t *testing.T) {
	log := func(times int) (all []mock.Applied) {
		for range times {
			all = append(all, mock.Applied{Opcode: memd.OpAppend, Key: "log", Token: "t"})
		}
		return all
	}
	for _, c := range []struct {
		how   outcome
		times int
		want  string
	}{
		{applied, 1, ""},
		{refused, 0, ""},
		{doubtful, 0, ""},
		{doubtful, 1, ""},
		{applied, 0, "P3"},
		{refused, 1, "P4"},
		{applied, 2, "P2"},
		{doubtful, 2, "P2"},
		{"", 1, "P1"},
	} {
		r := newReport(1)
		ends := map[string]*ended{"+t": {ID: "+t", Verb: "append", Outcome: c.how}}
		if c.how == "" {
			delete(ends, "+t")
		}
		judge(r, ends, log(c.times))
		if c.want == "" {
			require.Empty(t, r.Failures, "%v applied %d times", c.how, c.times)
			continue
		}
		require.Len(t, r.Failures, 1)
		require.Equal(t, c.want, r.Failures[0].Property)
	}
}

func TestWhatAProcessWasNotRunForIsCounted(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	w := newWatch()
	w.due.Store(at(2).UnixNano())
	w.woke(at(3))  // 1 ms late: nothing
	w.woke(at(50)) // due at 5
	require.EqualValues(t, 45*time.Millisecond, w.worst.Load())
	require.Equal(t, 20*time.Millisecond, w.stalled(at(30), at(52)))
	require.Equal(t, 5*time.Millisecond, w.stalled(at(0), at(10)))
	require.Equal(t, 8*time.Millisecond, w.stalled(at(51), at(60)), "it is due at 52 and has not woken")
	for i := range 2 * watchKeeps { // what is old is forgotten
		w.woke(at(60 + 10*i))
	}
	require.Zero(t, w.stalled(at(30), at(52)))
}

// A limit is over when the process was run for so long. A pause of the machine is a tick that comes late: one second.
func TestALimitCountsTheTimeThatTheProcessIsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, fired := time.Now(), make(chan time.Duration, 1)
		r := afterRun(3*time.Second, func() { fired <- time.Since(began) })
		require.Equal(t, 3*time.Second, <-fired)
		require.False(t, r.stop())
		r = afterRun(2*time.Second, func() { t.Error("it was stopped") })
		time.Sleep(1500 * time.Millisecond)
		require.True(t, r.stop())
		time.Sleep(time.Minute)
		r = afterRun(3*time.Second, func() { fired <- 0 })
		r.t.Reset(time.Hour) // as if the machine was paused
		time.Sleep(time.Hour + 1900*time.Millisecond)
		require.Empty(t, fired)
		time.Sleep(200 * time.Millisecond)
		require.NotEmpty(t, fired)
	})
}

// Within four turns of one run, and within one turn of four runs with seeds in a row, each scenario has rounds with one
// processor and with several, over TCP and over TLS. With one processor, and where the system counts what threads wait
// for, each call is judged to 50 ms.
func TestEachScenarioMeetsBothKindsOfProcess(t *testing.T) {
	for first := range uint64(6) {
		for _, c := range []struct{ seeds, rounds int }{{1, turns * len(scenarios)}, {turns, len(scenarios)}} {
			met := map[string]map[string]int{}
			for i := range c.seeds * c.rounds {
				seed, number := first+uint64(i/c.rounds), i%c.rounds
				sc := scenarios[number%len(scenarios)]
				if met[sc.name] == nil {
					met[sc.name] = map[string]int{}
				}
				met[sc.name][fmt.Sprintf("TLS %v, one processor %v", overTLSIn(seed, number),
					oneProcessor(seed, number))]++
				if number%len(scenarios) > 0 { // a turn of any run has both
					require.NotEqual(t, overTLSIn(seed, number-1), overTLSIn(seed, number))
				}
			}
			for name, kinds := range met {
				require.Len(t, kinds, 4, "%s: %v", name, kinds)
			}
		}
	}
	require.Equal(t, deadlineSlack, slackOf(1, false))
	require.Equal(t, deadlineSlack, slackOf(2, true))
	require.Equal(t, coarseSlack, slackOf(2, false))
}

// Hours of samples, each with one thing that grows: the verdict on it alone says so.
func TestASoakOfHoursIsJudged(t *testing.T) {
	for _, c := range []struct {
		name  string
		grows func(s *Sample, hours float64)
		bad   string
	}{
		{"nothing", func(*Sample, float64) {}, ""},
		{"a goroutine an hour", func(s *Sample, h float64) { s.Goroutines += int(h) }, "goroutines, growth"},
		{"a descriptor an hour", func(s *Sample, h float64) { s.Descriptors += int(h) }, "descriptors, growth"},
		{"1.5 MiB an hour", func(s *Sample, h float64) { s.Heap += int64(h * 1.5 * (1 << 20)) }, "live heap, growth"},
		{"0.8 MiB an hour", func(s *Sample, h float64) { s.Heap += int64(h * 0.8 * (1 << 20)) }, ""},
		{"3 % an hour", func(s *Sample, h float64) { s.P99 *= 1 + 0.03*h }, "p99 of calls at the end"},
		{"one call of two hundred fails", func(s *Sample, _ float64) { s.Failed = s.Calls / 200 }, ""},
		{"all calls fail from the middle on", func(s *Sample, h float64) {
			s.Failed = max(0, int64((h-4)*3600*1000))
		}, "failed calls"},
		{"no call ends from the middle on", func(s *Sample, h float64) {
			s.Calls = min(s.Calls, 4*3600*1000)
		}, "calls a second, loss"},
		{"odd samples", func(s *Sample, h float64) {
			if int(h*120)%17 == 0 {
				s.Goroutines, s.Heap, s.P99 = s.Goroutines+20, s.Heap+8<<20, s.P99*5
			}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &SoakReport{}
			for i := range 8 * 120 {
				s := Sample{
					At: float64(i) * 30, Goroutines: 40 + i%3, Descriptors: 12, Heap: 5<<20 + int64(i%7)<<14,
					P99: 1.5 + float64(i%5)/100, Calls: int64(i) * 30 * 1000,
				}
				c.grows(&s, float64(i)/120)
				r.Samples = append(r.Samples, s)
			}
			r.judge()
			require.Equal(t, c.bad == "", r.OK, fmt.Sprint(r.Verdicts))
			for _, v := range r.Verdicts {
				require.Equal(t, v.What != c.bad, v.OK, "%s: %v", v.What, v)
			}
		})
	}
	short := &SoakReport{Samples: make([]Sample, leastSamples-1)}
	short.judge()
	require.False(t, short.OK)
}

// What the process was not run for before the client counts a call's time is not the client's; any other time is.
func TestACallMayBeLateByWhatItBeganLate(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	const limit, entry = time.Second, 60 * time.Millisecond
	for _, c := range []struct {
		name    string
		stalled time.Duration // at the beginning
		waited  time.Duration // of all threads, by then
		later   time.Duration // what they waited until the deadline
		late    time.Duration
		busy    int64
	}{
		{"not run", entry, 0, 0, entry + deadlineSlack, 1},
		{"not run, and late as well", entry, 0, 0, entry + deadlineSlack + time.Millisecond, 0},
		{"not run for a part of it", 9 * time.Millisecond, 0, 0, entry, 0},
		{"its threads waited", 0, 9 * entry, 0, entry + deadlineSlack, 1},
		{"its threads waited, and it is late as well", 0, 9 * entry, 0, entry + deadlineSlack + time.Millisecond, 0},
		{"its threads waited later", 0, 0, time.Second, entry, 0},
		{"its threads waited for more than counts", 0, time.Minute, 0, coarseSlack + time.Millisecond, 0},
		{"slow to begin", 0, 0, 0, entry, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &worker{client: &client{sc: &scenarios[0], to: newWire(io.Discard), watch: newWatch()}}
			a := &attempt{w: w, on: new(opened), limit: limit, began: began, over: began.Add(limit + c.late)}
			w.slack = deadlineSlack
			if c.stalled > 0 {
				w.watch.due.Store(began.UnixNano())
				w.watch.woke(began.Add(c.stalled))
			}
			w.watch.due.Store(time.Now().UnixNano())
			w.delays = new(delays)
			keep := func(at time.Time, sum time.Duration) { w.delays.keep(delay{at, at, sum}) }
			keep(began, 0)
			keep(began.Add(entry), c.waited)
			keep(began.Add(limit), c.waited+c.later)
			keep(a.over, c.waited+c.later)
			ctx := context.WithValue(t.Context(), attemptKey{}, a)
			new(balance).Begin(ctx, core.Operation{Parts: true})
			require.Zero(t, a.counts.Load(), "a batch counts when its calls do")
			new(balance).Begin(ctx, core.Operation{})
			require.InDelta(t, time.Now().UnixNano(), a.counts.Load(), float64(time.Minute))
			a.counts.Store(began.Add(entry).UnixNano())
			a.judgeTime("upsert", nil)
			require.Equal(t, c.busy, w.busy.Load())
			require.Equal(t, c.busy == 0, len(w.to.pending) > 0)
		})
	}
}

// A pause in which the deadline passed and the client began to count counts once.
func TestAPauseCountsOnce(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	a := &attempt{began: began}
	a.counts.Store(began.Add(time.Minute).UnixNano())
	from, to := a.entry(began.Add(time.Second))
	require.Equal(t, time.Second, to.Sub(from))
	a.counts.Store(began.Add(-time.Minute).UnixNano())
	from, to = a.entry(began.Add(time.Second))
	require.Zero(t, to.Sub(from))
}
