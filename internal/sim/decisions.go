package sim

import (
	"encoding/json"
	"fmt"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// The branches of the client's decision about an answer, see call.Judge and Router.answered: a set of seeds must come
// to each of them. Which one an answer took is found out from the answer that the client was handed, see meaningOf.

// branch is one of them.
type branch string

// The branches.
const (
	succeeds      branch = "answer: success"
	refuses       branch = "answer: a failure that left everything as it was"
	mayHaveDone   branch = "answer: a failure that may have changed something"
	nodeUnsure    branch = "answer: the node itself does not know"
	mapRetries    branch = "answer: the error map asks for a retry"
	mapMayHave    branch = "answer: the error map asks for a retry of what may have been done"
	mapRefuses    branch = "answer: the error map has it, without a retry"
	mapUnknown    branch = "answer: the error map does not have it"
	mapFetches    branch = "answer: the error map asks for the cluster map"
	mapBreaks     branch = "answer: the error map gives the connection up"
	mapLimits     branch = "answer: the error map calls it a limit"
	reconnects    branch = "answer: the connection has no bucket"
	movedWithMap  branch = "answer: not my vbucket, with a map"
	movedNoMap    branch = "answer: not my vbucket, without one"
	movedNewer    branch = "answer: not my vbucket, with a map that is newer"
	movedKnown    branch = "answer: not my vbucket, with a map that is not known to be newer"
	movedForeign  branch = "answer: not my vbucket, with a map of another bucket, or none that can be read"
	goneUntold    branch = "answer: unknown collection, without a manifest"
	goneOlder     branch = "answer: unknown collection, by an older manifest than the known id's"
	goneNow       branch = "answer: unknown collection, by a manifest that is not older"
	movedAhead    branch = "answer: not my vbucket, and the map in use says where it moves to"
	staleLogin    branch = "answer: the login is stale"
	afterItsCall  branch = "21 answer to a call that has ended"
	retriesPrefix        = "answer: retried for "
)

// branches are all of them.
func branches() []branch {
	bs := []branch{
		succeeds, refuses, mayHaveDone, nodeUnsure, mapRetries, mapMayHave, mapRefuses, mapUnknown, mapFetches,
		mapBreaks, mapLimits, reconnects, movedWithMap, movedNoMap, movedNewer, movedKnown, movedForeign, staleLogin,
		afterItsCall, unknownID, namesLeft, movedAhead, goneUntold, goneOlder, goneNow,
	}
	for _, why := range []retry.Reason{
		retry.KVNotMyVBucket, retry.KVCollectionOutdated, retry.BucketNotReady, retry.KVLocked,
		retry.KVTemporaryFailure, retry.KVSyncWriteInProgress, retry.KVSyncWriteReCommitInProgress,
		retry.KVErrorMapRetryIndicated,
	} {
		bs = append(bs, retriedFor(why))
	}
	return bs
}

func retriedFor(why retry.Reason) branch { return branch(retriesPrefix + why.String()) }

// Statuses that no client knows, and what the nodes' error maps say of them.
const (
	statusRetried memd.Status = 0x7e00 + iota
	statusKnown
	statusBreaks
	statusMayHave
	statusNowhere memd.Status = 0x7fff // no map has it
)

// statusUnmapped is that of a limit that the nodes' error maps do not have.
const statusUnmapped = memd.StatusRateLimitedNetworkEgress

var odd = map[memd.Status][]string{
	statusRetried: {"temp", "retry-now"}, statusKnown: {"item-only"}, statusBreaks: {"conn-state-invalidated"},
	statusMayHave: {"internal", "retry-later"},
}

// oddErrors lets the nodes' error maps have the odd statuses, and be without one of the limits.
func (w *world) oddErrors() {
	changed := map[string][]byte{}
	w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetErrorMap}}, mock.Rewrite(func(_, rep *memd.Packet) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if changed[string(rep.Value)] != nil {
			rep.Value = changed[string(rep.Value)]
			return
		}
		var m map[string]any
		if json.Unmarshal(rep.Value, &m) != nil {
			return
		}
		before := string(rep.Value)
		errs, _ := m["errors"].(map[string]any)
		for status, attrs := range odd {
			errs[fmt.Sprintf("%x", uint16(status))] = map[string]any{"name": "ODD", "desc": "Odd", "attrs": attrs}
		}
		delete(errs, fmt.Sprintf("%x", uint16(statusUnmapped)))
		rep.Value, _ = json.Marshal(m) // what was JSON is JSON again
		changed[before] = rep.Value
		w.errorMap = mapOf(rep.Value)
	}))
}

// answered looks at an answer that the client has been handed.
func (w *world) answered(s *sent, packet []byte) {
	var p memd.Packet
	if _, err := p.Parse(packet, 0); err != nil {
		return
	}
	w.refusal(s, &p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.about(s, &p)
	if s.same.op == memd.OpCollectionsGetID {
		return
	}
	w.givesUp(s, &p)
	for _, b := range w.branchesOf(s, &p) {
		w.report.Reached[string(b)]++
	}
}

// branchesOf are the branches that an answer takes. The lock is held.
func (w *world) branchesOf(s *sent, p *memd.Packet) []branch {
	m := meaningOf(s.same.op, p.Status, s.cas)
	if m.kind == nil {
		return []branch{succeeds}
	}
	var bs []branch
	add := func(b branch, is bool) {
		if is {
			bs = append(bs, b)
		}
	}
	add(refuses, m.final() && !m.changed)
	add(mayHaveDone, m.final() && m.changed && !m.unsure)
	add(nodeUnsure, m.unsure)
	add(reconnects, m.useless)
	add(staleLogin, p.Status == memd.StatusAuthStale)
	if p.Status == memd.StatusNotMyVBucket {
		add(movedWithMap, len(p.Value) > 0)
		add(movedNoMap, len(p.Value) == 0)
	}
	asked := m.asks || p.Status == memd.StatusInternal || p.Status == memd.StatusNotInitialized
	if asked && w.errorMap != nil {
		e, known := w.errorMap[p.Status]
		again := m.asks && e.again
		add(mapUnknown, !known)
		add(mapRetries, again && !(m.changed && e.changed))
		add(mapMayHave, again && m.changed && e.changed)
		add(mapRefuses, known && !again)
		add(mapFetches, e.fetches)
		add(mapBreaks, e.breaks)
		add(mapLimits, e.limit)
		if again {
			m.why = retry.KVErrorMapRetryIndicated
		}
	}
	add(retriedFor(m.why), m.why != retry.Unknown)
	return bs
}
