package services

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

// Saved is what a cluster's services know of its data: the definitions of indexes, datasets and design documents, and
// the functions of the eventing service.
type Saved struct {
	indexes       []queryIndex
	searchIndexes map[string]json.RawMessage
	analytics     analytics
	designs       map[string]map[string]*design
	functions     map[functionPlace]*function // of the eventing service
}

// Save returns what Load brings back.
func (s *State) Save() *Saved {
	functions := s.eventing.save()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &Saved{
		indexes: slices.Clone(s.indexes), searchIndexes: maps.Clone(s.searchIndexes),
		analytics: s.analytics.clone(), designs: map[string]map[string]*design{}, functions: functions,
	}
	for uuid, ds := range s.designs {
		out.designs[uuid] = maps.Clone(ds)
	}
	return out
}

// Load brings back what was saved, and ends the open transactions. now has the uuid of a bucket that has another one
// since, by its uuid in what was saved.
func (s *State) Load(saved *Saved, now map[string]string) {
	renamed := func(uuid string) string {
		if other, ok := now[uuid]; ok {
			return other
		}
		return uuid
	}
	indexes := slices.Clone(saved.indexes)
	for i := range indexes {
		indexes[i].uuid = renamed(indexes[i].uuid)
	}
	designs := map[string]map[string]*design{}
	for uuid, ds := range saved.designs {
		fresh := map[string]*design{}
		for name, d := range ds {
			fresh[name] = &design{raw: d.raw, rev: d.rev, views: d.views, indexes: map[string]*viewIndex{}}
		}
		designs[renamed(uuid)] = fresh
	}
	s.eventing.load(saved.functions)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexes, s.designs, s.txns = indexes, designs, map[string]*sqlpp.Txn{}
	s.searchIndexes, s.analytics = maps.Clone(saved.searchIndexes), saved.analytics.clone()
}

// PutSearchIndex stores the definition of a search index; bucket.scope.name is one of a scope.
func (s *State) PutSearchIndex(name string, definition map[string]json.RawMessage) {
	def := maps.Clone(definition)
	if def == nil {
		def = map[string]json.RawMessage{}
	}
	def["uuid"], def["name"] = json.RawMessage(quote(freshUUID()[:16])), json.RawMessage(quote(name))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.searchIndexes[name] = toJSON(def)
}

// ClearLog forgets the requests so far.
func (s *State) ClearLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}
