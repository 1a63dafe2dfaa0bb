package bench

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// foreignLimit is the share of the cores that others may use during a slice; above it the slice is repeated.
const foreignLimit = 0.10

// repeats is how often a slice is repeated for others' CPU, spareRounds how many rounds may come on top for it.
const (
	repeats     = 2
	spareRounds = 5
)

// plan is how much is measured.
type plan struct {
	rounds int           // of each cell
	gate   int           // of cells by which targets are judged
	slice  time.Duration // of one client in one round
}

// cellResult is what a cell's rounds gave. Rounds holds one slice per lane, in the order of the lanes.
type cellResult struct {
	Name   string    `json:"name"`
	Lanes  []string  `json:"lanes"`
	Rounds [][]slice `json:"rounds"`
	Clean  []bool    `json:"clean"` // the round had no slice with too much of others' CPU
	Error  string    `json:"error,omitempty"`
}

// series gives a figure of one lane in every clean round, or in every round when none is clean; nil for no such lane.
func (r *cellResult) series(lane string, m metric) []float64 {
	if r == nil {
		return nil
	}
	at := -1
	for i, l := range r.Lanes {
		if l == lane {
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	var out []float64
	all := r.clean() == 0
	for i := range r.Rounds {
		if all || r.Clean[i] {
			out = append(out, m(&r.Rounds[i][at]))
		}
	}
	return out
}

// clean is the number of clean rounds.
func (r *cellResult) clean() int {
	n := 0
	for _, c := range r.Clean {
		if c {
			n++
		}
	}
	return n
}

// measure runs a cell: all clients are connected first, then each round has every one of them work once.
func (f *fleet) measure(c cell, p plan, progress io.Writer) (*cellResult, error) {
	res := &cellResult{Name: c.name}
	keep := map[place]bool{}
	for _, at := range c.places() {
		keep[at] = true
	}
	if err := f.release(keep); err != nil {
		return nil, err
	}
	for _, l := range c.lanes {
		res.Lanes = append(res.Lanes, l.label())
		if _, err := f.client(c.place(l)); err != nil {
			return nil, err
		}
	}
	want := p.rounds
	if c.gate {
		want = max(want, p.gate)
	}
	for round := 0; round < want+spareRounds && res.clean() < want; round++ {
		if round >= want && p.gate < judgeRounds {
			break // nothing is judged, so nothing needs more rounds
		}
		slices, clean, err := f.round(&c, p.slice, round)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		res.Rounds, res.Clean = append(res.Rounds, slices), append(res.Clean, clean)
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
	}
	for i, l := range res.Lanes {
		for _, r := range res.Rounds {
			if r[i].Errors > 0 && res.Error == "" {
				res.Error = fmt.Sprintf("%s: %d operations failed, the first with: %s", l, r[i].Errors, r[i].Error)
			}
		}
	}
	_, _ = fmt.Fprintf(progress, "%s: %d rounds, %d clean %s\n", c.name, len(res.Rounds), res.clean(), res.Error)
	return res, nil
}

// round has every lane work once; the first is another one each time.
func (f *fleet) round(c *cell, d time.Duration, round int) (out []slice, clean bool, err error) {
	out, clean = make([]slice, len(c.lanes)), true
	for k := range c.lanes {
		i := (k + round) % len(c.lanes)
		j := c.job(c.lanes[i])
		j.Time = d
		s, err := f.cleanest(c.place(c.lanes[i]), j)
		if err != nil {
			return nil, false, err
		}
		out[i] = s
		clean = clean && s.Foreign >= 0 && s.Foreign <= foreignLimit
	}
	return out, clean, nil
}

// cleanest runs one slice, again if others used too much of the machine, and keeps the cleanest.
func (f *fleet) cleanest(at place, j job) (best slice, err error) {
	for try := 0; try <= repeats; try++ {
		s, err := f.one(at, j)
		if err != nil {
			return s, err
		}
		if try == 0 || s.Foreign < best.Foreign {
			best = s
		}
		if best.Foreign <= foreignLimit {
			break
		}
	}
	return best, nil
}

// one runs one slice and adds what only the orchestrator can see.
func (f *fleet) one(at place, j job) (slice, error) {
	p, err := f.client(at)
	if err != nil {
		return slice{}, err
	}
	st, err := f.station(at.pinned)
	if err != nil {
		return slice{}, err
	}
	before, err := st.stats()
	if err != nil {
		return slice{}, err
	}
	busy, known := machineBusy()
	began := time.Now()
	var a answer
	if err := p.ask(command{Run: &j}, &a); err != nil {
		return slice{}, err
	}
	took := time.Since(began)
	after, err := st.stats()
	if err != nil {
		return slice{}, err
	}
	if a.Slice == nil {
		return slice{}, errors.New(a.Error)
	}
	s := *a.Slice
	server := after.CPU - before.CPU
	// The server's counts are of the warming up, too: they are scaled to what was measured.
	if requests := after.Requests - before.Requests; requests > 0 {
		s.ServerCPU = time.Duration(float64(server) / float64(requests) * float64(s.Ops))
	}
	if reads := after.Reads - before.Reads; reads > 0 {
		s.PerRead = float64(after.Requests-before.Requests) / float64(reads)
	}
	s.Foreign = -1
	if now, ok := machineBusy(); ok && known {
		s.Foreign = foreignShare(now-busy-s.AllCPU-server, took)
	}
	return s, nil
}

// probe runs a probe in processes of its own, one per round. One that fails leaves its checks inconclusive and nothing
// else.
func (f *fleet) probe(p probeRun, pl plan, progress io.Writer) *probeResult {
	res := &probeResult{timed: p.timed, short: p.short}
	rounds := 1
	if p.timed {
		rounds = pl.gate
	}
	for range rounds {
		values, share, err := f.probeOnce(p)
		if err != nil {
			res.err = fmt.Errorf("%s: %w", p.name, err)
			break
		}
		res.rounds, res.clean = append(res.rounds, values), append(res.clean, share >= 0 && share <= foreignLimit)
	}
	say(progress, p.name, res)
	return res
}

func say(progress io.Writer, name string, res *probeResult) {
	if res.err != nil {
		_, _ = fmt.Fprintln(progress, res.err)
		return
	}
	_, _ = fmt.Fprintf(progress, "%s: %s\n", name, listed(res.medians()))
}

// probeOnce runs a probe in a fresh process; nobody else is there. foreign is the share of the cores that others used.
func (f *fleet) probeOnce(p probeRun) (values map[string]float64, foreign float64, err error) {
	if err := f.release(nil); err != nil {
		return nil, 0, err
	}
	at := place{kind: kindOurs, nodes: p.nodes, mode: p.mode, lazy: true}
	child, err := f.client(at)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.station(false)
	if err != nil {
		return nil, 0, err
	}
	before, err := st.stats()
	if err != nil {
		return nil, 0, err
	}
	busy, known := machineBusy()
	began := time.Now()
	var a answer
	if err := child.ask(command{Probe: p.probe, How: p.how}, &a); err != nil {
		return nil, 0, err
	}
	if a.Error != "" {
		return nil, 0, errors.New(a.Error)
	}
	took := time.Since(began)
	after, err := st.stats()
	if err != nil {
		return nil, 0, err
	}
	foreign = -1
	if now, ok := machineBusy(); ok && known {
		foreign = foreignShare(now-busy-a.CPU-(after.CPU-before.CPU), took)
	}
	return a.Values, foreign, nil
}

// foreignShare is what others used of all cores; the machine counts in ticks, so a little below nothing is nothing.
func foreignShare(others, took time.Duration) float64 {
	return max(0, others.Seconds()/(took.Seconds()*float64(runtime.NumCPU())))
}
