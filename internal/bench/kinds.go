package bench

import (
	"fmt"
	"slices"
)

// target is where a client connects to and what it finds there.
type target struct {
	addrs []string
	mode  mode
	tls   bool
	ca    string // the certificate that signed those of the nodes
}

// kind is a client that can be measured.
type kind struct {
	name  string
	about string
	open  func(t target) (client, error)
	lanes func(callers int) int // goroutines that stand for that many callers; nil: one each
}

func oneLane(int) int { return 1 }

// Names of kinds that cells and rows refer to.
const (
	kindPeer  = "gocbcore"
	kindOurs  = "couchcore"
	kindBulk  = "couchcore-bulk"
	kindBound = "bound"
	kindStep  = "lock-step"
)

// allKinds is the table of clients, and what is measured beside them.
func allKinds() []kind {
	return []kind{
		{
			name: kindPeer, about: "gocbcore's asynchronous calls and a channel per caller that is made once",
			open: openPeer,
		},
		{name: kindOurs, about: "kv.Do with a fresh operation per call, defaults", open: oursOpener(formDo)},
		{
			name: kindBulk, about: fmt.Sprintf("kv.GetMulti and kv.UpsertMulti, %d keys per call", bulkKeys),
			open: oursOpener(formBulk),
		},
		{name: kindBound, about: "a client by hand with the feature tax", open: openBound},
		{
			name: kindStep, about: "one goroutine: write N prepared requests, read N answers, repeat", open: openStep,
			lanes: oneLane,
		},
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

// rotation is the order in which a caller visits its keys: every caller has keys of its own as long as there are
// enough.
type rotation struct {
	keys [][]byte
	next int
	step int
}

func newRotation(j job, caller int, all [][]byte) rotation {
	return rotation{keys: all, next: caller % keyCount, step: max(1, min(j.Callers, keyCount/2))}
}

func (r *rotation) key() []byte {
	at := r.next
	r.next = (r.next + r.step) % keyCount
	return r.keys[at]
}

// checkLen is what every client does with a value.
func checkLen(got, want int) error {
	if got != want {
		return fmt.Errorf("value of %d bytes, want %d", got, want)
	}
	return nil
}
