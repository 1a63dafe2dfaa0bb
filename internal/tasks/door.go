package tasks

import (
	"context"
	"sync/atomic"
)

// Door counts what is under way, until it is shut: then nothing new is let in, and Wait waits for the rest. The counts
// are spread over places, so that processors that let in and out at the same time do not take turns at one of them.
type Door struct {
	shut   atomic.Bool
	next   atomic.Uint32
	left   chan struct{} // has a value when a place has become empty since Shut
	places [128]Place
}

// Place is one of a door's counts. What enters at a place leaves there.
type Place struct {
	door *Door
	n    atomic.Int64
	_    [48]byte // one place for each line of a processor's cache
}

// NewDoor makes a door that is open.
func NewDoor() *Door {
	d := &Door{left: make(chan struct{}, 1)}
	for i := range d.places {
		d.places[i].door = d
	}
	return d
}

// Place gives a place. One that is kept and used again costs less than one for each use.
func (d *Door) Place() *Place { return &d.places[d.next.Add(1)%uint32(len(d.places))] }

// Enter counts one more, and says whether the door is open. When it is shut nothing is counted.
func (p *Place) Enter() bool {
	p.n.Add(1)
	if p.door.IsShut() {
		p.Leave()
		return false
	}
	return true
}

// Hold counts one more whether the door is open or not: a part of what has entered, which may stay longer.
func (p *Place) Hold() { p.n.Add(1) }

// Leave undoes an Enter that was true, or a Hold.
func (p *Place) Leave() {
	if p.n.Add(-1) == 0 && p.door.IsShut() {
		p.door.notify()
	}
}

func (d *Door) notify() {
	select {
	case d.left <- struct{}{}:
	default:
	}
}

// Shut lets nothing new in from now on.
func (d *Door) Shut() { d.shut.Store(true) }

// IsShut reports whether Shut was called.
func (d *Door) IsShut() bool { return d.shut.Load() }

// Wait waits until everything has left a door that is shut, or until ctx ends. It gives how many have not left.
func (d *Door) Wait(ctx context.Context) int64 {
	for {
		n := d.count()
		if n == 0 { // the second look sees parts that entered during the first, before what they are parts of left
			n = d.count()
		}
		if n == 0 {
			d.notify() // another Wait may wait for the same
			return 0
		}
		select {
		case <-d.left:
		case <-ctx.Done():
			return d.count()
		}
	}
}

func (d *Door) count() (n int64) {
	for i := range d.places {
		n += d.places[i].n.Load()
	}
	return n
}
