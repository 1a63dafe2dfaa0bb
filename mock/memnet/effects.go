package memnet

import "time"

// Effects are what faults have done to one direction so far: a fault that is set and that nothing has met has done
// nothing. A piece is what is written at once, cut as SetPackets, SetPieces and SetBandwidth say; the end of the stream
// counts as one for Held.
type Effects struct {
	Failed  int // writes that FailAfter has failed
	Lost    int // pieces that have vanished by Drop, by Blackhole, or behind the end that EndAfter sets
	Ended   int // reads that EndAfter has ended
	Broken  int // reads that Reset has failed
	Held    int // pieces that Hold, HoldAfter or Partition have kept back beyond their arrival
	Split   int // pieces that SetPieces has made shorter than they would have been
	Slowed  int // pieces that SetBandwidth has made leave later
	Delayed int // pieces that a latency has made arrive later
}

// Effects are what faults have done to the direction so far. What is kept back now counts already.
func (f *Flow) Effects() Effects {
	f.link.mu.Lock()
	defer f.link.mu.Unlock()
	e := f.effects
	e.Held += f.kept()
	return e
}

// kept is how many pieces have arrived and are held. The caller holds the link's mutex.
func (f *Flow) kept() (n int) {
	if !f.held() || f.closedR || f.reset {
		return 0
	}
	now := time.Now()
	for _, s := range f.segs {
		if now.Before(s.at) {
			return n
		}
		n++
	}
	if f.eof && passed(f.eofAt) {
		n++
	}
	return n
}

// released counts what was kept until a change, if that was the end of it. What drop has counted is still held. The
// caller holds the link's mutex.
func (f *Flow) released(kept int) {
	if !f.held() {
		f.effects.Held += kept
	}
}
