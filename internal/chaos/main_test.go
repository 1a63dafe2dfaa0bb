package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const partEnv = "COUCHCORE_TEST_CHAOS_PART"

// TestMain makes the test binary a part when a supervisor under test has started it for that.
func TestMain(m *testing.M) {
	if os.Getenv(partEnv) != "" {
		if err := Part(os.Args[len(os.Args)-1], os.Stdin, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func options(plant string, d time.Duration) Options {
	return Options{Seed: 1, Duration: d, Self: []string{os.Args[0]}, Env: []string{partEnv + "=1"}, Plant: plant}
}

func needed(t *testing.T) {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skip(err)
	}
	if testing.Short() {
		t.Skip("starts processes and takes seconds")
	}
}

// One round over real sockets finds nothing, and has met what it is to meet.
func TestARound(t *testing.T) {
	needed(t)
	r, err := Run(context.Background(), options("", time.Second))
	require.NoError(t, err)
	require.Equal(t, 1, r.Rounds)
	require.Empty(t, r.Failures)
	require.Zero(t, r.Violations)
	require.Greater(t, r.Mutations, 100)
	require.Positive(t, r.Reached[string(applied)])
	require.NotEmpty(t, r.Faults)
}

// So does one whose nodes are mocks in processes of their own, by their journals, and those are removed.
func TestARoundOfMockProcesses(t *testing.T) {
	needed(t)
	t.Setenv("TMPDIR", t.TempDir())
	for seed, name := range map[uint64]string{1: "mock processes", 2: "mock processes over TLS"} {
		o := options("", time.Second)
		o.Seed, o.Scenario = seed, "mock processes"
		r, err := Run(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, map[string]int{name: 1}, r.Scenarios)
		require.Empty(t, r.Failures)
		require.Greater(t, r.Mutations, 100)
		require.Positive(t, r.Reached[string(applied)])
	}
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// A supervisor that is told to end does, and leaves no process.
func TestARunEndsWithItsContext(t *testing.T) {
	needed(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	began := time.Now()
	r, err := Run(ctx, options("", time.Hour))
	require.NoError(t, err)
	require.Empty(t, r.Failures)
	require.Less(t, time.Since(began), 30*time.Second)
}

// Each planted defect is noticed by the property that it breaks. The gate runs it.
func TestPlantedDefectsAreNoticed(t *testing.T) {
	needed(t)
	if os.Getenv("COUCHCORE_TWINS") == "" {
		t.Skip("COUCHCORE_TWINS=1 runs it: a round for each of them")
	}
	t.Run(plantLate+" with two processors", lateWithTwoProcessors) // alone: threads that have to wait explain 200 ms
	for plant, property := range map[string]string{plantLost: "P3", plantUntrue: "P4"} {
		t.Run(plant+" by the journals", func(t *testing.T) {
			o := options(plant, time.Second)
			o.Scenario = "mock processes"
			planted(t, o, property)
		})
	}
	t.Run(plantHeap+" with little memory", func(t *testing.T) {
		o := options(plantHeap, time.Second)
		o.Scenario = "little memory"
		planted(t, o, "P12")
	})
	for plant, property := range map[string]string{
		plantLost: "P3", plantTwice: "P2", plantUntrue: "P4", plantUnended: "P1", plantLate: "P1",
		plantGoroutine: "P11", plantDescriptor: "P11", plantNode: "P16",
	} {
		t.Run(plant, func(t *testing.T) {
			t.Parallel()
			planted(t, options(plant, time.Second), property)
		})
	}
}

func planted(t *testing.T, o Options, property string) {
	t.Helper()
	o.Env = append(o.Env, "GOMAXPROCS=1") // 200 ms are late where 50 ms are allowed
	r, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.NotZero(t, r.Violations)
	for _, v := range r.Failures {
		require.Equal(t, property, v.Property, v.String())
	}
}

func lateWithTwoProcessors(t *testing.T) {
	d := newDelays(procRoot)
	if d == nil {
		t.Skip("the system does not count what threads wait for: 2 s are allowed")
	}
	o := options(plantLate, time.Second)
	o.Env = append(o.Env, "GOMAXPROCS=2")
	began, waited := time.Now(), time.Duration(0)
	var r *Report
	d.runs(t, func() {
		var err error
		r, err = Run(context.Background(), o)
		require.NoError(t, err)
		waited = d.waited(began, time.Now())
	})
	took := time.Since(began)
	require.Equal(t, 1, r.StrictRounds)
	for _, v := range r.Failures {
		require.Equal(t, "P1", v.Property, v.String())
	}
	if r.PastDeadline == 0 && waited > took/4 {
		t.Skipf("this process's threads waited for %v in %v: what the client's waited explains 200 ms", waited, took)
	}
	require.NotZero(t, r.PastDeadline, "threads waited for %v in %v", waited, took)
	t.Logf("%d calls of %d past their deadline, threads waited for %v in %v", r.PastDeadline, r.Calls, waited, took)
}

// A soak of some seconds is quiet about a client that keeps nothing, and each planted defect fails it.
func TestASoakNoticesDefects(t *testing.T) {
	needed(t)
	for plant, what := range map[string]string{
		"": "", plantGoroutine: "goroutines", plantDescriptor: "descriptors", plantHeap: "heap", plantLatency: "p99",
		plantFailing: "failed calls", plantHanging: "loss",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, err := Soak(context.Background(), options(plant, 6*time.Second))
			require.NoError(t, err)
			require.Empty(t, r.Failures)
			for _, v := range r.Verdicts {
				// the machine of a test may be slower at its end than at its beginning
				if strings.Contains(v.What, "p99") && plant != plantLatency ||
					strings.Contains(v.What, "loss") && plant != plantHanging {
					continue
				}
				require.Equal(t, plant == "" || !strings.Contains(v.What, what), v.OK, "%s: %v", v.What, v)
			}
		})
	}
}
