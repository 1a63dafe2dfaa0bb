package mock

import (
	"encoding/binary"
	"strings"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// COLLECTIONS_GET_MANIFEST, GET_COLLECTION_ID and GET_SCOPE_ID. Any node answers, from the one manifest that the bucket
// has, unless it lags behind: see SetManifestLag. Paths come in the value, or in the key as older clients send them.

// where is the path that a lookup asks for.
func (rq *request) where() string {
	if len(rq.p.Value) > 0 {
		return string(rq.p.Value)
	}
	return string(rq.p.Key)
}

// checkLookup refuses what a server does: a vbucket, and a path in both places.
func (rq *request) checkLookup() reply {
	switch {
	case len(rq.p.Key) > 0 && len(rq.p.Value) > 0:
		return fail(memd.StatusInvalid, "Cannot set both key and value")
	case rq.p.VBucket != 0:
		return fail(memd.StatusInvalid, "Request vbucket id must be 0")
	}
	return reply{}
}

func getManifest(rq *request) reply {
	if rep := rq.checkLookup(); rep.status != memd.StatusSuccess {
		return rep
	}
	rq.k.c.mu.Lock()
	defer rq.k.c.mu.Unlock()
	return reply{datatype: memd.DatatypeJSON, value: rq.manifest().JSON()}
}

func getCollectionID(rq *request) reply {
	if rep := rq.checkLookup(); rep.status != memd.StatusSuccess {
		return rep
	}
	scopeName, name, ok := strings.Cut(rq.where(), ".")
	if !ok || strings.Contains(name, ".") {
		return reply{status: memd.StatusInvalid}
	}
	scopeName, name = orDefault(scopeName), orDefault(name)
	rq.k.c.mu.Lock()
	defer rq.k.c.mu.Unlock()
	m := rq.manifest()
	s := m.Scope(scopeName)
	if s == nil {
		return unknown(memd.StatusUnknownScope, m)
	}
	col := s.Collection(name)
	if col == nil {
		return unknown(memd.StatusUnknownCollection, m)
	}
	return reply{extras: idExtras(m.UID, col.ID)}
}

func getScopeID(rq *request) reply {
	if rep := rq.checkLookup(); rep.status != memd.StatusSuccess {
		return rep
	}
	name, tail, _ := strings.Cut(rq.where(), ".")
	if strings.Contains(tail, ".") {
		return reply{status: memd.StatusInvalid}
	}
	rq.k.c.mu.Lock()
	defer rq.k.c.mu.Unlock()
	m := rq.manifest()
	s := m.Scope(orDefault(name))
	if s == nil {
		return unknown(memd.StatusUnknownScope, m)
	}
	return reply{extras: idExtras(m.UID, s.ID)}
}

func orDefault(name string) string {
	if name == "" {
		return store.DefaultName
	}
	return name
}

func idExtras(uid uint64, id uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uid), id)
}

// unknown is the answer for a scope or collection that does not exist; its body names the manifest.
func unknown(s memd.Status, m *store.Manifest) reply {
	uid := m.UID
	return reply{status: s, manifest: &uid, context: "Unknown scope or collection in operation"}
}
