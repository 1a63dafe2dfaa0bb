package bench

import (
	"fmt"
	"slices"
)

// target is where a client connects to and what it finds there.
type target struct {
	addrs []string
	mode  mode
}

// kind is a client that can be measured.
type kind struct {
	name  string
	about string
	open  func(t target) (client, error)
	lanes func(workers int) int // goroutines that stand for that many workers; nil: one each
	keys  int                   // keys that one call moves; 0 means 1
}

func oneLane(int) int { return 1 }

// Names of kinds that cells and checks refer to.
const (
	kindPeer         = "gocbcore"
	kindPeerDeadline = "gocbcore-deadline"
	kindOurs         = "couchcore"
	kindInto         = "couchcore-into"
	kindBulk         = "couchcore-bulk"
	kindBulkInto     = "couchcore-bulk-into"
	kindCallback     = "couchcore-callback"
	kindFuture       = "couchcore-future"
	kindContext      = "couchcore-context"
	kindBound        = "bound"
	kindBoundTaxed   = "bound-taxed"
	kindStep         = "lock-step"
	kindWire         = "wire"
	kindNull         = "nothing"
)

// allKinds is the table of clients, and what is measured beside them.
func allKinds() []kind {
	return []kind{
		{name: kindPeer, about: "gocbcore v10.9.3: asynchronous calls and a pooled channel, no deadline: its best case", open: peerOpener(false)},
		{name: kindPeerDeadline, about: "the same with 2.5 s per operation", open: peerOpener(true)},
		{name: kindOurs, about: "kv.Do with a fresh operation per call, defaults", open: oursOpener(formDo)},
		{name: kindInto, about: "kv.Do into the caller's buffer", open: oursOpener(formInto)},
		{name: kindBulk, about: fmt.Sprintf("kv.GetMulti and kv.UpsertMulti, %d keys per call", bulkKeys), open: oursOpener(formBulk), keys: bulkKeys},
		{name: kindBulkInto, about: fmt.Sprintf("kv.Batch of %d reads into the caller's buffers", bulkKeys), open: oursOpener(formBulkInto), keys: bulkKeys},
		{name: kindCallback, about: "kv.Go", open: oursOpener(formGo)},
		{name: kindFuture, about: "kv.Start and Wait", open: oursOpener(formStart)},
		{name: kindContext, about: "kv.Do with a context that can be cancelled", open: oursOpener(formContext)},
		{name: kindBound, about: "a client by hand: what Go allows when nothing but speed matters", open: boundOpener(false)},
		{name: kindBoundTaxed, about: "the same with context, routing, deadlines, claims and a histogram", open: boundOpener(true)},
		{name: kindStep, about: "one goroutine: write N prepared requests, read N answers, repeat", open: openStep, lanes: oneLane},
		{name: kindWire, about: "prepared batches always on the way: the limit of the wire and of the responder", open: openWire, lanes: oneLane},
		{name: kindNull, about: "the harness itself", open: openNull},
	}
}

func kindNamed(name string) (kind, bool) {
	all := allKinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

// rotation is the order in which a worker visits its keys: every worker has keys of its own as long as there are enough.
type rotation struct {
	keys [][]byte
	next int
	step int
}

func newRotation(j job, worker int, all [][]byte) rotation {
	return rotation{keys: all, next: worker % keyCount, step: max(1, min(j.Workers, keyCount/2))}
}

func (r *rotation) key() []byte { return r.keys[r.at()] }

// at is the number of the next key.
func (r *rotation) at() int {
	at := r.next
	r.next = (r.next + r.step) % keyCount
	return at
}

// checkLen is what every client does with a value.
func checkLen(got, want int) error {
	if got != want {
		return fmt.Errorf("value of %d bytes, want %d", got, want)
	}
	return nil
}

type nothing struct{}

func openNull(target) (client, error) { return nothing{}, nil }

func (nothing) work(job, int) func() (int, error) {
	return func() (int, error) { return 1, nil }
}

func (nothing) close() {}
