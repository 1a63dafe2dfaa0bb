package bench

import (
	"cmp"
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
	spareRounds = 3
)

// plan is how much is measured.
type plan struct {
	rounds int           // of each cell
	judged int           // of cells by which single rows are judged
	slice  time.Duration // of one client in one round
	slow   time.Duration // the same, of cells that need longer ones
}

// length is how long a client works in one round of a cell.
func (p *plan) length(c *cell) time.Duration {
	switch {
	case c.purpose == forHost || c.hold > 0 && c.callers == 1: // the fewest figures for a 99th percentile
		return 2 * p.slow
	case c.slow():
		return p.slow
	}
	return p.slice
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

// foreign is the median of the rounds' largest share of the cores that others used.
func (r *cellResult) foreign() float64 {
	var all []float64
	for _, lanes := range r.Rounds {
		most := 0.0
		for i := range lanes {
			most = max(most, lanes[i].Foreign)
		}
		all = append(all, most)
	}
	return finite(median(all))
}

// measure runs a cell: all clients are connected first, then each round has every one of them work once. What fails is
// in the result, and its processes are ended, so that the next cell begins anew.
func (f *fleet) measure(c *cell, p plan, rounds int, progress io.Writer) *cellResult {
	began := time.Now()
	res := &cellResult{Name: c.name()}
	keep := map[place]bool{}
	for _, at := range c.places() {
		keep[at] = true
	}
	if err := f.release(keep); err != nil { // it was of cells that are done
		_, _ = fmt.Fprintln(progress, "a client of an earlier cell:", err)
	}
	if err := f.fill(res, c, p, rounds); err != nil {
		res.Error = oneLine(err.Error())
		_ = f.stop() // what has failed is in the result
	}
	for i, l := range res.Lanes {
		for _, r := range res.Rounds {
			if r[i].Errors > 0 && res.Error == "" {
				res.Error = fmt.Sprintf("%s: %s failed, the first with: %s", l, plural(int(r[i].Errors), "operation"),
					r[i].Error)
			}
		}
	}
	_, _ = fmt.Fprintf(progress, "%5.1f s  %s: %d rounds, %d clean %s\n",
		time.Since(began).Seconds(), res.Name, len(res.Rounds), res.clean(), res.Error)
	return res
}

func (f *fleet) fill(res *cellResult, c *cell, p plan, rounds int) error {
	for _, l := range c.all() {
		res.Lanes = append(res.Lanes, l.label())
		if _, err := f.client(c.place(l)); err != nil {
			return err
		}
	}
	d := p.length(c)
	f.now = min(f.spare, time.Duration(rounds*len(c.all()))*d) // no cell uses up what the others need
	for round := 0; round < rounds+spareRounds && res.clean() < rounds; round++ {
		if round >= rounds && f.now <= 0 {
			break
		}
		began := time.Now()
		slices, clean, err := f.round(c, d, round)
		if err != nil {
			return err
		}
		if round >= rounds {
			f.repeated(began)
		}
		res.Rounds, res.Clean = append(res.Rounds, slices), append(res.Clean, clean)
	}
	return nil
}

// repeated counts what has been repeated since began.
func (f *fleet) repeated(began time.Time) {
	f.spare -= time.Since(began)
	f.now -= time.Since(began)
}

// round has every lane work once; the first is another one each time.
func (f *fleet) round(c *cell, d time.Duration, round int) (out []slice, clean bool, err error) {
	lanes := c.all()
	out, clean = make([]slice, len(lanes)), true
	for k := range lanes {
		i := (k + round) % len(lanes)
		j := c.job(lanes[i])
		j.Time = d
		s, err := f.cleanest(c.place(lanes[i]), j)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", lanes[i].label(), err)
		}
		out[i] = s
		clean = clean && s.Foreign >= 0 && s.Foreign <= foreignLimit
	}
	return out, clean, nil
}

// cleanest runs one slice, again if others used too much of the machine, and keeps the cleanest.
func (f *fleet) cleanest(at place, j job) (best slice, err error) {
	for try := 0; try <= repeats; try++ {
		began := time.Now()
		s, err := f.one(at, j)
		if err != nil {
			return s, err
		}
		if try > 0 {
			f.repeated(began)
		}
		if try == 0 || s.Foreign < best.Foreign {
			best = s
		}
		if best.Foreign <= foreignLimit || f.now <= 0 {
			break
		}
	}
	return best, nil
}

// one runs one slice.
func (f *fleet) one(at place, j job) (slice, error) {
	a, foreign, err := f.watched(at, command{Run: &j})
	if err != nil {
		return slice{}, err
	}
	if a.Slice == nil {
		return slice{}, errors.New(a.Error)
	}
	a.Slice.Foreign = foreign
	return *a.Slice, nil
}

// watched has a client do something, and gives the share of the cores that others used meanwhile, -1 when it is not
// known.
func (f *fleet) watched(at place, do command) (a answer, foreign float64, err error) {
	if err := f.ctx.Err(); err != nil {
		return a, -1, err
	}
	p, err := f.client(at)
	if err != nil {
		return a, -1, err
	}
	st, err := f.station(at.pinned)
	if err != nil {
		return a, -1, err
	}
	before, err := st.stats()
	if err != nil {
		return a, -1, err
	}
	busy, known := machineBusy()
	began := time.Now()
	if err := p.ask(do, &a); err != nil {
		return a, -1, err
	}
	took := time.Since(began)
	after, err := st.stats()
	if err != nil {
		return a, -1, err
	}
	if after.Misrouted > before.Misrouted {
		return a, -1, errors.New("a request went to the wrong node")
	}
	own := a.CPU
	if a.Slice != nil {
		own = a.Slice.AllCPU
	}
	foreign = -1
	if now, ok := machineBusy(); ok && known {
		foreign = foreignShare(now-busy-own-(after.CPU-before.CPU), took)
	}
	return a, foreign, nil
}

// foreignShare is what others used of all cores; the machine counts in ticks, so a little below nothing is nothing.
func foreignShare(used, took time.Duration) float64 {
	return min(1, max(0, used.Seconds()/(took.Seconds()*float64(runtime.NumCPU()))))
}

// probe runs a probe in processes of its own, one per round. One that fails leaves its rows inconclusive and nothing
// else.
func (f *fleet) probe(p probeRun, rounds int, progress io.Writer) *probeResult {
	res := &probeResult{timed: p.timed, short: p.short}
	if !p.timed {
		rounds = 1
	}
	at := place{kind: kindOurs, nodes: p.nodes, mode: cmp.Or(p.mode, modeCleartext), procs: defaultProcs, lazy: true}
	for range rounds {
		if err := f.release(nil); err != nil {
			_, _ = fmt.Fprintln(progress, "a client of an earlier cell:", err)
		}
		a, share, err := f.watched(at, command{Probe: p.probe, How: p.how})
		if err == nil && a.Error != "" {
			err = errors.New(a.Error)
		}
		if err != nil {
			res.err = fmt.Errorf("%s: %w", p.name, err)
			_ = f.stop() // the next begins anew
			break
		}
		res.rounds, res.clean = append(res.rounds, a.Values), append(res.clean, share >= 0 && share <= foreignLimit)
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
