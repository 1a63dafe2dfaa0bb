package gocbcore_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// speedVariable asks for the measurement, and says how many rounds it has.
const speedVariable = "COUCHCORE_GOCB_SPEED"

// cell is one kind of load, and what gocb on couchcore must do of it, over gocb on gocbcore.
type cell struct {
	op              string
	callers         int
	throughput, cpu float64
}

var cells = []cell{{"get", 16, 1.3, 0.85}, {"get", 128, 1.9, 0.6}, {"upsert", 16, 1.3, 0.85}, {"upsert", 128, 1.9, 0.6}}

// TestGocbIsFaster measures gocb on couchcore beside gocb on gocbcore, without spans and meters, each in a process of
// its own, against the responder of ./bench. Rounds take turns, and who is first changes. It is for a quiet machine: a
// figure that is missed is reported and fails.
func TestGocbIsFaster(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv(speedVariable))
	if err != nil {
		t.Skipf("set %s to a number of rounds, on a quiet machine", speedVariable)
	}
	dir := t.TempDir()
	bench := filepath.Join(dir, "bench")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bench, "./bench")
	build.Dir = root(t)
	require.NoError(t, build.Run())
	responder := talkTo(t, bench, "-role=responder")
	var where struct {
		Nodes map[string][]struct {
			Addr string `json:"plain"`
		} `json:"nodes"`
	}
	require.NoError(t, json.Unmarshal([]byte(responder.line(t)), &where))
	var kinds []*talk
	for _, module := range []string{assembled(t, newest()), ""} {
		home, run := gocbProgram(t, module, readFile(t, "testdata/speed/main.go"))
		run("build", "-o", filepath.Join(home, "speed"), ".")
		k := talkTo(t, filepath.Join(home, "speed"), where.Nodes["1"][0].Addr)
		require.Equal(t, "ready", k.line(t))
		kinds = append(kinds, k)
	}
	for _, c := range cells {
		t.Run(fmt.Sprintf("%s-%d", c.op, c.callers), func(t *testing.T) { c.measure(t, kinds, rounds) })
	}
}

// measure compares ours, which is the first, and theirs.
func (c cell) measure(t *testing.T, kinds []*talk, rounds int) {
	var throughput, cpu []float64
	for r := range rounds + 1 { // the first one warms up
		var rate, cost [2]float64
		for i := range kinds {
			who := (i + r) % 2
			var n, took, used float64
			_, err := fmt.Fprintf(kinds[who].in, "%s %d 400\n", c.op, c.callers)
			require.NoError(t, err)
			_, err = fmt.Sscan(kinds[who].line(t), &n, &took, &used)
			require.NoError(t, err)
			rate[who], cost[who] = n/took, used/n
		}
		if r > 0 {
			throughput, cpu = append(throughput, rate[0]/rate[1]), append(cpu, cost[0]/cost[1])
		}
	}
	slices.Sort(throughput)
	slices.Sort(cpu)
	t.Logf("throughput %.2f [%.2f-%.2f], processor %.2f [%.2f-%.2f]", throughput[rounds/2], throughput[0],
		throughput[rounds-1], cpu[rounds/2], cpu[0], cpu[rounds-1])
	require.GreaterOrEqual(t, throughput[rounds/2], c.throughput)
	require.LessOrEqual(t, cpu[rounds/2], c.cpu)
}

// talk is a program that answers lines with lines. It ends with its input, at the end of the test.
type talk struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func talkTo(t *testing.T, name string, args ...string) *talk {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	k := &talk{in: in, out: bufio.NewScanner(out)}
	k.out.Buffer(nil, 1<<20)
	return k
}

func (k *talk) line(t *testing.T) string {
	t.Helper()
	require.True(t, k.out.Scan())
	return k.out.Text()
}

// end closes the program's input.
func (k *talk) end(t *testing.T) {
	t.Helper()
	require.NoError(t, k.in.Close())
}
