package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheWholeProgram measures a little, in the processes that a real run has.
func TestTheWholeProgram(t *testing.T) {
	var out, progress bytes.Buffer
	args := []string{
		"--json", "--quick", "--rounds", "1", "--gate-rounds", "1", "--slice", "20ms",
		"--only", "^(get 256 B, 16 workers|first-retry|allocs|in flight)$",
	}
	require.NoError(t, run(t.Context(), args, &out, &progress), progress.String())
	var rep report
	require.NoError(t, json.Unmarshal(out.Bytes(), &rep))
	require.Empty(t, rep.Errors)
	require.Len(t, rep.Cells, 2, progress.String())
	for _, c := range rep.Cells {
		require.Empty(t, c.Error, c.Name)
		require.Len(t, c.Rows, lanesOf(c.Name), c.Name)
	}
	require.Positive(t, rep.Probes[probeNameFlight]["bytes"])
	require.Contains(t, rep.Probes[probeNameAllocs], "get")
	require.False(t, rep.Met, "a quick look is no verdict")
}

// TestEveryKindAgainstTheResponder has each client do a few operations of each sort.
func TestEveryKindAgainstTheResponder(t *testing.T) {
	r := newResponder()
	ports, closeAll, err := r.listen()
	require.NoError(t, err)
	defer closeAll()
	for _, k := range allKinds() {
		nodes := "3"
		if k.lanes != nil {
			nodes = "1" // they have one connection
		}
		c, err := k.open(target{ports[nodes], modePlain})
		require.NoError(t, err, k.name)
		for _, size := range sizes {
			for _, op := range []operation{opGet, opUpsert} {
				j := job{Op: op, Workers: 2, Size: size}
				do := c.work(j, 0)
				for range 3 {
					n, err := do()
					require.NoError(t, err, "%s: %s %d", k.name, op, size)
					require.Positive(t, n)
				}
				if d, ok := c.(interface{ drain(job) error }); ok {
					require.NoError(t, d.drain(j), "%s: %s %d", k.name, op, size)
				}
			}
		}
		c.close()
	}
	require.Zero(t, r.misrouted.Load())
	require.Positive(t, r.requests.Load())
}

// TestModes has the responder misbehave, and the client do what it is for.
func TestModes(t *testing.T) {
	r := newResponder()
	ports, closeAll, err := r.listen()
	require.NoError(t, err)
	defer closeAll()
	for _, m := range []mode{modeHold, modeTmpFail, modeMoved, modePaced, modePacked, modeAbsent} {
		for _, open := range []func(target) (client, error){oursOpener(formDo), oursOpener(formBulk), peerOpener(false)} {
			c, err := open(target{ports["1"], m})
			require.NoError(t, err, m)
			do := c.work(job{Op: opGet, Workers: 1, Size: 16}, 0)
			before := r.requests.Load()
			for range 3 {
				began := time.Now()
				_, err := do()
				require.NoError(t, err, m)
				if m == modeHold {
					require.GreaterOrEqual(t, time.Since(began), holdTime)
				}
			}
			if m == modeTmpFail || m == modeMoved {
				require.GreaterOrEqual(t, r.requests.Load()-before, int64(6), "%s: each needs two requests", m)
			}
			c.close()
		}
	}
}

// TestTheBoundEndsWhatIsNotAnswered keeps the yardstick honest: it has deadlines, too.
func TestTheBoundEndsWhatIsNotAnswered(t *testing.T) {
	r := newResponder()
	ports, closeAll, err := r.listen()
	require.NoError(t, err)
	defer closeAll()
	b, err := newBound(ports["1"], modeMute, true)
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
	require.Error(t, run(ctx, []string{"--rounds", "1000", "--only", "^get 16 B, 1 worker$"}, io.Discard, io.Discard))
	require.Less(t, time.Since(began), exitLimit)
}

func TestFlags(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"--list"}, &out, io.Discard))
	require.Contains(t, out.String(), "target  get-throughput-128")
	require.Error(t, run(t.Context(), []string{"--rounds", "0"}, io.Discard, io.Discard))
	require.Error(t, run(t.Context(), []string{"--only", "("}, io.Discard, io.Discard))
	require.Error(t, run(t.Context(), []string{"--nonsense"}, io.Discard, io.Discard))
	require.Equal(t, roleClient, childRole([]string{"-role=client", "-kind=x"}))
	require.Equal(t, role(""), childRole([]string{"--json"}))
	require.Error(t, runChild([]string{"-role=client", "-kind=unheard-of"}, &bytes.Buffer{}, io.Discard))
}

func lanesOf(name string) int {
	for _, c := range allCells() {
		if c.name == name {
			return len(c.lanes)
		}
	}
	return 0
}
