package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample is a report of made-up figures.
func sample() *report {
	r := newResults()
	for _, w := range allWorkers {
		name := cellPlain(opGet, 256, w, 1)
		res := &cellResult{Name: name, Lanes: []string{kindPeer, kindOurs, kindWire}, Clean: []bool{true, true}}
		for range 2 {
			res.Rounds = append(res.Rounds, []slice{
				{Ops: 150_000, Elapsed: time.Second, CPU: 900 * time.Millisecond, P50: 700, P99: 4000},
				{Ops: 1_050_000, Elapsed: time.Second, CPU: 900 * time.Millisecond, P50: 100, P99: 300},
				{Ops: 8_000_000, Elapsed: time.Second},
			})
		}
		r.cells[name] = res
	}
	r.probes[probeNameAllocs] = &probeResult{rounds: []map[string]float64{{"get": 1, "get_into": 0, "upsert": 0}}, clean: []bool{true}}
	return newReport(r, conditions{Date: "2026-01-02", CPU: "a | b", Cores: 2, Go: "go1.26", Versions: map[string]string{"gocbcore": "v10.9.3"}})
}

func TestTables(t *testing.T) {
	rep := sample()
	require.False(t, rep.Met)
	row := rep.Cells[2].Rows[1]
	require.Equal(t, kindOurs, row.Client)
	require.InDelta(t, 7, row.X, 1e-9)
	require.InDelta(t, 1050000, row.PerSecond, 1)
	require.InDelta(t, 1.0/7, row.CPUX, 1e-3)
	require.InDelta(t, 8/1.05, rep.Cells[2].Headroom, 1e-6, "the limit over the fastest client, limits left out")

	text := rep.text()
	require.Contains(t, text, "1050")
	require.Contains(t, text, "throughput over gocbcore, 128 workers, Get")
	require.Contains(t, text, "inconclusive (looks met)")

	md := rep.markdown()
	require.Contains(t, md, "the responder's own limit is 8M per second, 7.62 times the fastest client")
	require.Contains(t, md, "| gocbcore | v10.9.3 |")
	for _, line := range strings.Split(md, "\n") {
		if strings.HasPrefix(line, "| couchcore |") && strings.Contains(line, "1050") {
			require.Equal(t, len(columns)+1, strings.Count(line, "|"))
		}
	}
	for i := range len(md) {
		require.Less(t, md[i], byte(0x80), "only ASCII is committed")
	}
}

// What the responder can do is beside every cell of the matrix, though it is measured in one of them for each operation and size.
func TestTheRespondersLimitIsBesideEachCell(t *testing.T) {
	r := newResults()
	limits := map[string]float64{}
	for _, c := range allCells() {
		if c.size == 4096 {
			continue // not measured
		}
		res := &cellResult{Name: c.name, Clean: []bool{true}, Rounds: make([][]slice, 1)}
		for _, l := range c.lanes {
			s := slice{Ops: 1000, Elapsed: time.Second}
			if l.kind == kindWire {
				s.Ops = int64(10_000 + c.size)
				limits[string(c.op)+sizeName(c.size)] = float64(s.Ops)
			}
			res.Lanes, res.Rounds[0] = append(res.Lanes, l.label()), append(res.Rounds[0], s)
		}
		r.cells[c.name] = res
	}
	require.Len(t, limits, 2*(len(sizes)-1))
	cells := map[string]cell{}
	for _, c := range allCells() {
		cells[c.name] = c
	}
	for _, rep := range newReport(r, conditions{}).Cells {
		c := cells[rep.Name]
		want := limits[string(c.op)+sizeName(c.size)]
		if c.mode != modePlain || c.pinned {
			want = 0 // its responder does more, or has less
		}
		require.InDelta(t, want, rep.Limit, 1e-6, rep.Name)
		require.InDelta(t, want/1000, rep.Headroom, 1e-6, rep.Name)
	}
	delete(r.cells, cellPlain(opGet, 256, wireWorkers, 1))
	for _, rep := range newReport(r, conditions{}).Cells {
		if c := cells[rep.Name]; c.op == opGet && c.size == 256 {
			require.Zero(t, rep.Limit, "%s: nobody has measured it", rep.Name)
		}
	}
}

func TestReportIsWritten(t *testing.T) {
	dir := t.TempDir()
	md := filepath.Join(dir, "r.md")
	var out bytes.Buffer
	require.NoError(t, sample().write(&out, true, md))
	var back report
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Len(t, back.Checks, len(allChecks()))
	for _, file := range []string{md} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotEmpty(t, text)
	}
	require.Error(t, sample().write(io.Discard, false, filepath.Join(dir, "no", "r.md")))
}
