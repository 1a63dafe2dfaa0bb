package sim

import (
	"slices"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Each kind of error that an operation on a document can have is returned at least once in a large set of seeds. What
// no fault and no document of the simulation leads to, a node answers without a cause: it refuses requests with every
// status that the client knows as a refusal.

// anyRefusal is the name of that fault.
const anyRefusal = "26 refused for any reason"

// These are before what calls have come to.
const (
	errorPrefix = "error: "
	donePrefix  = "done: "
)

// untrue are kinds that would be a lie about a document or its collection when they come without a cause.
var untrue = []*cberr.Kind{
	cberr.DocumentNotFound, cberr.DocumentExists, cberr.CASMismatch, cberr.ScopeNotFound, cberr.CollectionNotFound,
}

// knownRefusals are the statuses with which a node refuses whatever it is asked for, by what they mean.
func knownRefusals() (sts [][]memd.Status) {
	place := map[*cberr.Kind]int{}
	for st := memd.StatusSuccess + 1; st < statusRetried; st++ {
		m := meaningOf(memd.OpGet, st, false)
		ends := m.final() || st == statusUnmapped
		if !ends || m.changed || m.kind == cberr.Couchbase || slices.Contains(untrue, m.kind) {
			continue
		}
		i, known := place[m.kind]
		if !known {
			i = len(sts)
			place[m.kind], sts = i, append(sts, nil)
		}
		sts[i] = append(sts[i], st)
	}
	return sts
}

// orRefusals is f, or most times a node that refuses some requests, each for another reason.
func orRefusals(f fault) fault {
	other := f.begin
	f.begin = func(w *world, r *source, addr string) (end func() int) {
		if w.leavesOut(anyRefusal) || w.d.below(4, text("refused"), uint64(time.Now().UnixNano())) == 0 {
			return other(w, r, addr)
		}
		all := knownRefusals()
		var ins []*mock.Injection
		for range 25 {
			sts := all[r.below(len(all))]
			m := mock.Match{Nodes: w.nodesAt(addr), Opcodes: documentOps(), Times: 1}
			ins = append(ins, w.m.Inject(m, mock.Status(sts[r.below(len(sts))])))
		}
		return func() int {
			for _, in := range ins {
				in.Remove()
				w.fired(anyRefusal, in.Fired())
			}
			return 0
		}
	}
	return f
}

// withoutStatus are kinds of errors that calls have because of what no node has answered.
var withoutStatus = []*cberr.Kind{
	cberr.AmbiguousTimeout, cberr.UnambiguousTimeout, cberr.RequestCanceled, cberr.BucketAccess, cberr.TLSFailure,
	cberr.CircuitBreakerOpen, cberr.DecodingFailure, cberr.FeatureNotAvailable, cberr.DocumentUnretrievable,
	cberr.ReplicaIndexOutOfBounds, cberr.ReplicaIndexCurrentlyUnavailable,
}

// errorKinds are the kinds of errors that a large set of seeds must have returned: those of every status, for each of
// the operations, and those without one.
func errorKinds() (names []string) {
	add := func(k *cberr.Kind) {
		if k != nil && !slices.Contains(names, errorPrefix+k.Name()) {
			names = append(names, errorPrefix+k.Name())
		}
	}
	for v := range verbs {
		for st := memd.StatusSuccess + 1; st < statusRetried; st++ {
			add(meaningOf(v.op(), st, true).kind)
			add(meaningOf(v.op(), st, false).kind)
		}
	}
	for _, k := range withoutStatus {
		add(k)
	}
	return names
}
