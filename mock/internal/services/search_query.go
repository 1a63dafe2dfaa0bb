package services

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/mock/internal/fts"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// searchQuery executes a query over the documents as they are now.
func (x *Call) searchQuery(name string) Answer {
	failure := func(err error) Answer {
		return searchFailure("rest_index: Query, indexName: %s, err: %v", name, err)
	}
	indexes, err := x.s.searched(name)
	if err != nil {
		return failure(err)
	}
	var sources []fts.Source
	for _, ix := range indexes {
		if !x.may(ix.Bucket) {
			return Answer{Status: http.StatusForbidden, Errors: []Error{{Message: "rest_auth: Forbidden. User needs " +
				"one of the following permissions: cluster.bucket[" + ix.Bucket + "].fts!read"}}}
		}
		sources = append(sources, fts.Source{Index: ix, Documents: x.s.searchable(ix.Bucket)})
	}
	found, err := fts.Search(x.r.Context(), sources, x.rq.Body)
	var missing *fts.Unsupported
	if errors.As(err, &missing) {
		x.refuses(missing.Error())
	}
	if err != nil {
		return failure(err)
	}
	return Answer{Rows: found.Hits, Members: map[string]string{
		"total_hits": strconv.Itoa(found.Total), "facets": string(found.Facets),
		"max_score": strconv.FormatFloat(found.MaxScore, 'g', -1, 64),
	}}
}

// searched are the indexes that a name stands for: one, or those behind an alias.
func (s *State) searched(name string) ([]*fts.Index, error) {
	var out []*fts.Index
	scope := name[:strings.LastIndexByte(name, '.')+1]
	names, seen := []string{name}, map[string]bool{}
	for len(names) > 0 {
		next := names[0]
		names = names[1:]
		s.mu.Lock()
		def := s.searchIndexes[next]
		if def == nil {
			def = s.searchIndexes[scope+next]
		}
		s.mu.Unlock()
		if def == nil {
			return nil, errors.New("alias has a target that is not there, indexName: " + next)
		}
		if seen[next] {
			continue
		}
		seen[next] = true
		ix, err := fts.ParseIndex(def)
		if err != nil {
			return nil, err
		}
		if ix.Alias {
			names = append(names, ix.Targets...)
			continue
		}
		out = append(out, ix)
	}
	return out, nil
}

// searchable are the documents of a bucket with the names of their collections.
func (s *State) searchable(bucket string) []fts.Document {
	type place struct{ scope, collection string }
	names := map[uint32]place{}
	for _, sc := range s.host.Scopes(bucket) {
		for _, col := range sc.Collections {
			names[col.ID] = place{sc.Name, col.Name}
		}
	}
	var out []fts.Document
	for _, d := range s.host.Documents(bucket) {
		if at, ok := names[d.Collection]; ok && isText(d) {
			out = append(out, fts.Document{ID: d.Key, Scope: at.scope, Collection: at.collection, Value: d.Value})
		}
	}
	return out
}

// isText reports whether a document has a value that can be JSON.
func isText(d store.Document) bool { return len(d.Value) > 0 && d.Value[0] < 0x80 }

// searchCount is how many documents an index has.
func (s *State) searchCount(name string) (n int) {
	indexes, _ := s.searched(name) // one that is broken has none
	for _, ix := range indexes {
		n += fts.Count(fts.Source{Index: ix, Documents: s.searchable(ix.Bucket)})
	}
	return n
}
