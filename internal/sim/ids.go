package sim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Ids of collections (P8): what a node that lags behind says changes nothing that is known already. The client does not
// forget the id of a collection because of such a node, writes nothing with an older id once it knows a newer one, and
// no call ends with "collection not found" while the collection exists. What the client was told is found out from the
// answers that it was handed; that it has listened, from a request with the id.

// collectionPath is that of the collection that comes and goes.
const collectionPath = "s.c"

// soon is how long an answer about an id may take so that it surely comes before the client gives its request up.
const soon = 300 * time.Millisecond

// ids are what the client knows of the collection.
type ids struct {
	uid   uint64 // of the manifest
	id    uint32
	asked *sent // the last question; nil once something was learned from it
	told  bool  // an answer has the id, and no request has had it yet
	sure  bool  // the client has it
	learn []learned
	gone  int    // so many are dropping the collection now
	never []span // when it was gone

	gave    []refusedBy
	refused *refusedID // the last refusal of the id that the client had; nil once it has another one
	again   []*refusedID
}

// refusedBy is a refusal of the id that the client had, and the branch of the decision about it.
type refusedBy struct {
	by *sent
	is branch
}

// refusedID is what came of a refusal of the id that the client had: the client asks a node for the id, and does not
// take one of an older manifest for the answer before it has asked others.
type refusedID struct {
	by    *sent  // the refused request
	uid   uint64 // of the manifest that refuses
	asked int    // so many lookups have left since
	old   uint32 // an id of an older manifest that one of them brought
	used  *sent  // with that id, after one lookup alone
}

// learned is a stretch of time in which the client has known an id.
type learned struct {
	id       uint32
	from, to time.Duration // 0: still
}

// watchesIDs reports whether the ids of the run's collections only grow.
func (w *world) watchesIDs() bool { return !w.renew }

// leaves looks at a request that leaves the client.
func (w *world) leaves(s *sent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watchMap()
	if !w.watchesIDs() {
		return
	}
	k := &w.ids
	if s.same.op != memd.OpCollectionsGetID {
		if k.told && s.cid == k.id {
			k.told, k.sure = false, true
			k.learn = append(k.learn, learned{id: k.id, from: w.since()})
		}
		if f := k.refused; f != nil && f.asked == 1 && f.old == s.cid && s.cid > 0 && f.used == nil {
			f.used = s
			k.again = append(k.again, f)
		}
		return
	}
	if s.same.key != collectionPath {
		return
	}
	if k.refused != nil {
		k.refused.asked++
	}
	if k.sure && !w.closing.Load() {
		w.report.violateAt(w.since(), "P8", "%v after the beginning the client asks for the id of %s, which it has, "+
			"of manifest %x, and no node of that or of a newer one has refused", w.since(), collectionPath, k.uid)
	}
	k.forget(w.since())
	k.asked = s
}

// forget notes that the client need not have the id any more.
func (k *ids) forget(at time.Duration) {
	if k.sure {
		k.learn[len(k.learn)-1].to = at
	}
	k.told, k.sure = false, false
}

// about looks at an answer about the collection. The lock is held.
func (w *world) about(s *sent, p *memd.Packet) {
	k := &w.ids
	switch {
	case !w.watchesIDs():
	case s.same.op == memd.OpCollectionsGetID:
		if k.asked == s && p.Status == memd.StatusSuccess && len(p.Extras) == 12 && time.Since(s.at) < soon {
			k.uid, k.id = binary.BigEndian.Uint64(p.Extras), binary.BigEndian.Uint32(p.Extras[8:])
			k.told = true
			if f := k.refused; f != nil && k.uid < f.uid {
				f.old = k.id
			} else {
				k.refused = nil
			}
		}
		k.asked = nil
	case p.Status == memd.StatusUnknownCollection:
		var body struct {
			UID string `json:"manifest_uid"`
		}
		_ = json.Unmarshal(p.Value, &body) // without one the client has to believe it
		uid, err := strconv.ParseUint(body.UID, 16, 64)
		if s.cid == k.id && k.sure {
			k.gave = append(k.gave, refusedBy{s, k.manifest(uid, err)})
		}
		if err == nil && uid < k.uid {
			return
		}
		if k.refused = nil; k.sure && err == nil && s.cid == k.id {
			k.refused = &refusedID{by: s, uid: uid}
		}
		k.forget(w.since())
	}
}

// manifest is the branch of a refusal of an id by a node's manifest.
func (k *ids) manifest(uid uint64, err error) branch {
	switch {
	case err != nil:
		return goneUntold
	case uid < k.uid:
		return goneOlder
	}
	return goneNow
}

// lagging is the name of a fault that is met when a node of an older manifest refuses an id.
const lagging = "41 a node lags behind with the manifest"

// lag lets a node lag behind while the collection is dropped and created again. Half the faults in which no node tells
// an id are this one instead.
func (w *world) lag(r *source, addr string) (end func() int) {
	nodes := w.nodesAt(addr)
	w.mu.Lock()
	gone := w.ids.gone > 0
	w.mu.Unlock()
	if gone || nodes == nil || w.m.SetManifestLag(bucketName, true, nodes...) != nil {
		return func() int { return 0 }
	}
	w.recreate(r, r.below(2) == 0)
	return func() int {
		_ = w.m.SetManifestLag(bucketName, false, nodes...) // the bucket may be gone, and the lag with it
		return 0
	}
}

// goes notes that the collection is being dropped, and returns what notes that it is there again.
func (w *world) goes() (returns func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ids.gone++; w.ids.gone == 1 {
		w.ids.never = append(w.ids.never, span{from: w.since()})
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ids.gone--; w.ids.gone == 0 {
			w.ids.never[len(w.ids.never)-1].to = w.since()
		}
	}
}

// checkIDs judges the calls to the collection.
func (w *world) checkIDs() {
	if !w.watchesIDs() {
		return
	}
	for _, f := range w.ids.gave {
		if w.awaited(f.by) {
			w.report.Reached[string(f.is)]++
		}
		if f.is == goneOlder {
			w.report.FaultsFired[lagging]++
		}
	}
	for _, f := range w.ids.again {
		if w.awaited(f.by) {
			w.report.violateAt(f.used.at.Sub(w.began), "P8", "%v after the beginning a node of manifest %x refused "+
				"the id %d of %s, and a request for %s had it again %v later, by one node's word of an older manifest",
				f.by.answered.Sub(w.began), f.uid, f.old, collectionPath, f.used.same.key,
				f.used.at.Sub(f.by.answered))
			break
		}
	}
	used := map[identity][]*sent{}
	for _, s := range w.facts.traffic {
		used[s.same] = append(used[s.same], s)
	}
	for _, e := range w.ledger {
		if !e.named {
			continue
		}
		bad := func(format string, args ...any) {
			w.report.violateWith("P8", func() []string { return w.history(e.key) }, format, args...)
		}
		if e.polite && e.notFound() && !w.missing(e) {
			bad("%s: %s was there all the time", e, collectionPath)
		}
		id, _ := e.identity()
		for _, s := range used[id] {
			if newer, ok := w.knew(e.began, s.at.Sub(w.began)); ok && s.cid < newer {
				bad("%s: a request of it had the id %d, and the client knew of %d", e, s.cid, newer)
			}
		}
	}
}

// notFound reports whether the call says that there is no such collection.
func (e *entry) notFound() bool {
	return (errors.Is(e.err, cberr.CollectionNotFound) || errors.Is(e.err, cberr.ScopeNotFound)) &&
		!errors.Is(e.err, cberr.Timeout) && !errors.Is(e.err, cberr.RequestCanceled) &&
		!errors.Is(e.err, retry.ErrTooManyInRetry) && !errors.Is(e.err, retry.ErrClosed)
}

// missing reports whether the collection was gone at some time of the call.
func (w *world) missing(e *entry) bool {
	for _, s := range w.ids.never {
		if e.began <= s.to && e.ended >= s.from || s.to == 0 {
			return true
		}
	}
	return false
}

// knew is the id that the client had all the time from one instant to another.
func (w *world) knew(from, to time.Duration) (id uint32, ok bool) {
	for _, l := range w.ids.learn {
		if l.from+digests < from && (l.to == 0 || l.to > to) {
			return l.id, true
		}
	}
	return 0, false
}
