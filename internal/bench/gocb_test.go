package bench

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
)

// TestGocbIsMeasured compiles and measures gocb on couchcore and on gocbcore, for two short rounds: no verdict.
func TestGocbIsMeasured(t *testing.T) {
	testkit.RequireInterop(t)
	for _, more := range []string{"--rounds=2", "--read-buffer=262144"} {
		var out, progress bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"--gocb", "--quick", more}, &out, &progress), progress.String())
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 2+len(gocbCells), out.String())
		for _, line := range lines[2:] {
			require.Regexp(t, `^\| \w+, \d+ callers \| [\d.]+ \[[\d.]+-[\d.]+\] \| [\d., ]+ \| [\d.]+ \[`, line)
		}
		t.Log(out.String())
	}
}

func TestMeasuringGocbGoesAlone(t *testing.T) {
	for _, args := range [][]string{
		{"--gocb", "--matrix"},
		{"--gocb", "--list"},
		{"--gocb", "--cells", "Get"},
		{"--gocb", "--page", "p"},
		{"--quick", "--read-buffer", "1"},
		{"--gocb", "--read-buffer", "-1"},
	} {
		_, err := parse(args, io.Discard)
		require.ErrorContains(t, err, "--gocb", args)
	}
	s, err := parse([]string{"--gocb", "--gate", "--read-buffer", "262144"}, io.Discard)
	require.NoError(t, err)
	require.True(t, s.gocb && s.gate)
	require.Equal(t, 262144, s.readBuffer)
}

// A must is missed by the median of the throughputs, or of the processor's time.
func TestGocbsMusts(t *testing.T) {
	c := gocbCell{"Get", 16, 1.3, 1.6, 0.85}
	theirs := gocbFigures{[]float64{100, 100, 100}, []float64{10, 10, 10}, []float64{80, 80, 80}}
	for _, v := range []struct {
		perSecond, cpu []float64
		met            bool
	}{
		{[]float64{120, 131, 200}, []float64{9, 8.4, 5}, true},
		{[]float64{120, 129, 200}, []float64{9, 8.4, 5}, false},
		{[]float64{120, 131, 200}, []float64{9, 8.6, 5}, false},
	} {
		line, met := c.row(gocbFigures{v.perSecond, v.cpu, []float64{30, 30, 30}}, theirs)
		require.Equal(t, v.met, met, line)
		require.Contains(t, line, "[1.20-2.00]")
		require.Contains(t, line, "30.0, 80.0")
	}
}
