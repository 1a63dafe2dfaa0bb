package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Visits also make the calls that programs make rarely: reads of all kinds and copies, writes by paths and with
// metadata, and questions to nodes that are about no document. So every operation of the package kv is called.

// inquired are the reads that a visit has made: no two of them have one key, so that their requests can be told apart.
// Those by several paths, of whatever copy, are one of them: lookUp.
type inquired map[verb]bool

// again reports whether a read was made before, and notes that it is.
func (in inquired) again(v verb) bool {
	before := in[v]
	in[v] = true
	return before
}

// inquire makes one such call.
func (w *world) inquire(t *tour, key string, array bool, asked inquired) {
	copies := w.replicas > 0 && !t.calm
	switch pick := t.r.below(11); {
	case pick < 3:
		w.askNode(t, key)
	case pick == 10:
		e := &entry{key: fmt.Sprintf("i-%d-%d", t.id, t.n), verb: read, alone: true, cid: noCollection}
		e.named = t.calm || t.r.below(2) == 0
		w.step(t, e)
	case pick < 4:
		own := fmt.Sprintf("m-%d-%d", t.id, t.n)
		e := &entry{key: own, verb: []verb{setMeta, addMeta, deleteMeta}[t.r.below(3)]}
		if e.verb != deleteMeta {
			e.token = fmt.Sprintf("v-%d-%d", t.id, t.n)
			e.value = e.token
		}
		w.step(t, e)
	case pick < 6 && copies && !w.tight: // the calls that these consist of begin at one instant
		of := []verb{readFirst, readEach, lookUpFirst, lookUpEach}[t.r.below(4)]
		if (of == lookUpFirst || of == lookUpEach) && asked.again(lookUp) {
			return
		}
		w.step(t, &entry{key: key + []string{"", "", "-none"}[t.r.below(3)], verb: of})
	case pick < 7 && copies:
		e := &entry{key: key, verb: []verb{readExCopy, lookUpCopy}[t.r.below(2)], replica: t.copy(w)}
		as := e.verb
		if as == lookUpCopy {
			as = lookUp
		}
		if !asked.again(as) {
			w.step(t, e)
		}
	default:
		of := []verb{hasDocument, readOrNull, readEx, readPath, hasPath, countPath}[t.r.below(6)]
		byPath := of == readPath || of == hasPath || of == countPath
		// the features of readEx may not have been granted
		if byPath && !array || of == readEx && t.calm || asked.again(of) {
			return
		}
		w.step(t, &entry{key: key, verb: of})
	}
}

// askNode asks a node something.
func (w *world) askNode(t *tour, key string) {
	of := askRandom + verb(t.r.below(int(verbs-askRandom)))
	if of != askState {
		key = fmt.Sprintf("%v-%d-%d", of, t.id, t.n) // by which the call is known
	}
	w.step(t, &entry{key: key, verb: of})
}

// paths are what a mutation by paths does beside adding a part to the document.
type paths uint8

const (
	onePath       paths = iota // nothing
	alsoAttribute              // it sets an attribute
	alsoMissing                // it replaces what is not there, so that nothing is done
	pathKinds
)

// missed is what a large set of seeds comes to.
const missed = "a mutation by paths of which one is missing"

// mutations are those of a mutate-in.
func (e *entry) mutations() []kv.MutateSpec {
	all := []kv.MutateSpec{kv.ArrayAppend("", []byte(e.value))}
	switch e.more {
	case alsoAttribute:
		all = append(all, kv.MutateSpec{Op: memd.OpSubdocDictUpsert, Path: "a", Value: []byte(e.value), Xattr: true})
	case alsoMissing:
		all = append(all, kv.ReplacePath("[9999]", []byte(e.value)))
	case onePath, pathKinds:
	}
	return all
}

// checkMissing judges a mutation of which one path is missing: it fails (P5), and checkCount judges that nothing of it
// was applied.
func (w *world) checkMissing(e *entry) {
	switch {
	case e.more != alsoMissing:
	case e.outcome == done:
		w.report.violateWith("P5", func() []string { return w.history(e.key) }, "%s: a path of it is not there", e)
	case errors.Is(e.err, cberr.PathNotFound):
		w.report.Reached[missed]++
	}
}

// lookups are those of a lookup-in. The path in the middle is never there.
func lookups() []kv.LookupSpec {
	return []kv.LookupSpec{kv.ExistsPath("[0]"), kv.GetPath("[9999]"), kv.WholeDocument()}
}

// looks notes what a lookup-in has read (P5).
func (e *entry) looks(w *world, l kv.LookupInResult) retry.Info {
	if l.Paths[1].Err() == nil {
		w.report.violate("P5", "%s: it has found a path that is not there", e)
	}
	e.took(w, l.Paths[2].Value, l.CAS)
	return l.RetryInfo()
}

// reads notes what a read has given.
func (e *entry) reads(w *world, g kv.GetResult) retry.Info {
	e.took(w, g.Value, g.CAS)
	return g.RetryInfo()
}

func mutatedIn(m kv.MutateInResult) retry.Info { return m.RetryInfo() }

func lookedIn(l kv.LookupInResult) retry.Info { return l.RetryInfo() }

// sendSeldom makes the request of a verb that is seldom called.
func (w *world) sendSeldom(ctx context.Context, e *entry, in kv.Common, durable memd.DurabilityLevel, form int) {
	key, value := []byte(e.key), []byte(e.value)
	push := func(spec kv.MutateSpec) {
		one(w, ctx, e, kv.MutatePath{Common: in, Key: key, Spec: spec, Durability: durable}, form, mutatedIn)
	}
	look := func(spec kv.LookupSpec) {
		one(w, ctx, e, kv.LookupPath{Common: in, Key: key, Spec: spec}, form, lookedIn)
	}
	meta := kv.Meta{StoreCAS: 1, RevSeqno: 1}
	switch e.verb {
	case hasDocument:
		one(w, ctx, e, kv.Exists{Common: in, Key: key}, form, kv.MetaResult.RetryInfo)
	case readOrNull:
		one(w, ctx, e, kv.GetOrNull{Common: in, Key: key}, form,
			func(g kv.GetResult) retry.Info { return e.reads(w, g) })
	case readEx, readExCopy:
		one(w, ctx, e, kv.GetEx{Common: in, Key: key, Replica: e.replica}, form, func(g kv.GetExResult) retry.Info {
			e.took(w, g.Value, g.CAS)
			return g.RetryInfo()
		})
	case readPath:
		look(kv.GetPath("[0]"))
	case hasPath:
		look(kv.ExistsPath("[0]"))
	case countPath:
		look(kv.CountPath(""))
	case pushLast:
		push(kv.ArrayAppend("", value))
	case pushFirst:
		push(kv.ArrayPrepend("", value))
	case insertAt:
		push(kv.ArrayInsert("[0]", value))
	case addUnique:
		push(kv.ArrayAddUnique("", value))
	case setMeta:
		one(w, ctx, e, kv.SetWithMeta{Common: in, Key: key, Value: value, Meta: meta}, form, mutated)
	case addMeta:
		one(w, ctx, e, kv.AddWithMeta{Common: in, Key: key, Value: value, Meta: meta}, form, mutated)
	case deleteMeta:
		one(w, ctx, e, kv.DeleteWithMeta{Common: in, Key: key, Meta: meta}, form, mutated)
	case readFirst, readEach, lookUpFirst, lookUpEach:
		w.sendParts(ctx, e, in)
	default:
		w.sendToNode(ctx, e, in, form)
	}
}

// sendParts makes a call that consists of several.
func (w *world) sendParts(ctx context.Context, e *entry, in kv.Common) {
	ctx, ended := context.WithValue(ctx, callKey{}, e), make(chan struct{})
	get := kv.GetReplica{Common: in, Key: []byte(e.key)}
	look := kv.LookupIn{Common: in, Key: []byte(e.key), Specs: lookups()}
	go func() {
		var err error
		switch e.verb {
		case readFirst:
			var g kv.GetResult
			if g, err = kv.GetAnyReplica(ctx, w.b, get); err == nil {
				e.reads(w, g)
			}
		case lookUpFirst:
			var l kv.LookupInResult
			if l, err = kv.LookupInAnyReplica(ctx, w.b, look); err == nil {
				e.looks(w, l)
			}
		case readEach:
			var all *kv.Replicas[kv.GetResult]
			if all, err = kv.GetAllReplicas(ctx, w.b, get); err == nil {
				err = each(ctx, all, func(g kv.GetResult) { e.reads(w, g) })
			}
		default:
			var all *kv.Replicas[kv.LookupInResult]
			if all, err = kv.LookupInAllReplicas(ctx, w.b, look); err == nil {
				err = each(ctx, all, func(l kv.LookupInResult) { e.looks(w, l) })
			}
		}
		w.finish(e, retry.Info{}, err)
		close(ended)
	}()
	w.await(e, ended)
}

// each gives all answers of a document's copies to f.
func each[R interface{ Endpoint() string }](ctx context.Context, all *kv.Replicas[R], f func(R)) error {
	defer all.Close()
	for {
		r, ok := all.Next(ctx)
		if !ok {
			return all.Err()
		}
		f(r)
	}
}

// sendToNode makes the request of a verb whose requests are not looked at.
func (w *world) sendToNode(ctx context.Context, e *entry, in kv.Common, form int) {
	vb := uint16(w.d.below(w.vbuckets, text(e.key)))
	switch e.verb {
	case askRandom:
		one(w, ctx, e, kv.GetRandom{Common: in}, form, kv.RandomResult.RetryInfo)
	case askState:
		one(w, ctx, e, kv.Observe{Common: in, Key: []byte(e.key)}, form, kv.ObserveResult.RetryInfo)
	case askSeqno:
		of := w.logged()
		one(w, ctx, e, kv.ObserveSeqno{Common: in, VBucket: of.VBucket, UUID: of.UUID}, form, kv.SeqnoResult.RetryInfo)
	case askFailovers:
		one(w, ctx, e, kv.GetFailoverLog{Common: in, VBucket: vb}, form, func(l kv.FailoverLog) retry.Info {
			w.mu.Lock()
			e.history = l.Entries[0]
			w.mu.Unlock()
			if got := l.Entries[0].VBucket; got != vb {
				w.report.violate("P5", "%s: its answer is about vbucket %d", e, got)
			}
			return l.RetryInfo()
		})
	case askStat:
		one(w, ctx, e, kv.Stat{Common: in}, form, kv.StatResult.RetryInfo)
	case askNoop:
		one(w, ctx, e, kv.Noop{Common: in}, form, kv.Result.RetryInfo)
	case askVersion:
		one(w, ctx, e, kv.GetVersion{Common: in}, form, kv.GetResult.RetryInfo)
	case askManifest:
		one(w, ctx, e, kv.GetManifest{Common: in}, form, kv.Manifest.RetryInfo)
	case askScope:
		one(w, ctx, e, kv.GetScopeID{Common: in, Name: "s"}, form, kv.IDResult.RetryInfo)
	default: // send has it
	}
}

// logged is the history that the last failover log has named.
func (w *world) logged() (of kv.MutationToken) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range slices.Backward(w.ledger) {
		if e.history.UUID != 0 {
			return e.history
		}
	}
	return of
}

// noCollection is the id of no collection: a call that has it and names is looked up by the names, one with the id
// alone fails.
const noCollection = 0x7fff

// What a large set of seeds comes to.
const (
	unknownID branch = "answer: unknown collection, to a call that has nothing but its id"
	namesLeft branch = "answer: unknown collection, to a call that has its id and names"
)

// idAlone reports whether the call has its collection's id, and no names.
func (e *entry) idAlone() bool { return e.cid != 0 && !e.named }

// checkID notes what has become of a call with the id of no collection, and judges that one with nothing else fails
// with the answer (P6).
func (w *world) checkID(e *entry) {
	switch known := e.cid != 0 && e.reasons.Has(retry.KVCollectionOutdated); {
	case e.idAlone() && known:
		w.report.violateWith("P6", func() []string { return w.history(e.key) },
			"%s: it was sent again although it has no names", e)
	case e.idAlone() && cberr.KindOf(e.err) == cberr.CollectionNotFound:
		w.report.Reached[string(unknownID)]++
	case known:
		w.report.Reached[string(namesLeft)]++
	}
}

// replicaRead is the flag of a lookup-in that asks a replica.
const replicaRead = 0x20

// asksCopy reports whether a request is for a replica.
func asksCopy(p *memd.Packet) bool {
	switch p.Opcode {
	case memd.OpGetReplica, memd.OpGetExReplica:
		return true
	case memd.OpSubdocMultiLookup:
		return len(p.Extras) == 1 && p.Extras[0]&replicaRead != 0
	}
	return false
}
