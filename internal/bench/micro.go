package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// observePackage has the benchmarks of an operation without observers, and one that metrics observe. A
// provider of metrics is nothing that this program may link, so the go command runs them.
const observePackage = "github.com/couchcore/couchcore/internal/observe"

// observed measures the cost of observability in nanoseconds and allocations per operation, in rounds.
func observed(ctx context.Context, count int, progress io.Writer) *probeResult {
	res := &probeResult{timed: true}
	busy, known := machineBusy()
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkOperation(Off|Metrics)$",
		"-benchmem",
		"-benchtime", "100ms", "-count", strconv.Itoa(count), observePackage)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		res.err = fmt.Errorf("%s: go test %s: %w: %s", probeNameMicro, observePackage, err,
			oneLine(string(text)+errs.String()))
	}
	clean := false
	if now, ok := machineBusy(); ok && known && cmd.ProcessState != nil {
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		clean = foreignShare(now-busy-used, time.Since(began)) <= foreignLimit
	}
	if res.err == nil {
		res.fill(parseBenchmarks(string(text)))
		for range res.rounds {
			res.clean = append(res.clean, clean)
		}
	}
	say(progress, probeNameMicro, res)
	return res
}

// fill makes one round of each repetition.
func (p *probeResult) fill(ns, allocs map[string][]float64) {
	for name, key := range map[string]string{"BenchmarkOperationOff": "off", "BenchmarkOperationMetrics": "metrics"} {
		if len(ns[name]) == 0 || len(allocs[name]) != len(ns[name]) {
			p.err = fmt.Errorf("%s has no %s with allocations", observePackage, name)
			return
		}
		for i := range ns[name] {
			if i == len(p.rounds) {
				p.rounds = append(p.rounds, map[string]float64{})
			}
			p.rounds[i][key+"_ns"], p.rounds[i][key+"_allocs"] = ns[name][i], allocs[name][i]
		}
	}
}

// parseBenchmarks reads what go test prints for benchmarks: nanoseconds and allocations per operation, by name.
func parseBenchmarks(text string) (ns, allocs map[string][]float64) {
	ns, allocs = map[string][]float64{}, map[string][]float64{}
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := f[0]
		if i := strings.LastIndexByte(name, '-'); i > 0 { // the number of processors
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				break
			}
			switch f[i+1] {
			case "ns/op":
				ns[name] = append(ns[name], v)
			case "allocs/op":
				allocs[name] = append(allocs[name], v)
			}
		}
	}
	return ns, allocs
}
