package services

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/couchcore/couchcore/mock/internal/store"
)

// The query service's indexes: names that statements make and drop, and that system:indexes lists. Nothing is ever
// looked up in one.

// queryIndex is one index. keyspace is "bucket" or "bucket.scope.collection".
type queryIndex struct {
	name, keyspace, keys string
	primary              bool
}

const (
	identifier = "(`[^`]+`|[A-Za-z_][\\w-]*)"
	keyspace   = "((?:default:)?(?:`[^`]+`|[A-Za-z_][\\w-]*)(?:\\.(?:`[^`]+`|[A-Za-z_][\\w-]*)){0,2})"
)

var (
	createPrimary = regexp.MustCompile(`(?is)^CREATE\s+PRIMARY\s+INDEX\s+(?:` + identifier + `\s+)?(IF\s+NOT\s+EXISTS\s+)?ON\s+` + keyspace + `(?:\s.*)?$`)
	createIndex   = regexp.MustCompile(`(?is)^CREATE\s+INDEX\s+` + identifier + `\s+(IF\s+NOT\s+EXISTS\s+)?ON\s+` + keyspace + `\s*\((.*?)\)(?:\s.*)?;?$`)
	dropPrimary   = regexp.MustCompile(`(?is)^DROP\s+PRIMARY\s+INDEX\s+(IF\s+EXISTS\s+)?ON\s+` + keyspace + `(?:\s.*)?$`)
	dropIndex     = regexp.MustCompile(`(?is)^DROP\s+INDEX\s+` + identifier + `\s+(IF\s+EXISTS\s+)?ON\s+` + keyspace + `(?:\s.*)?$`)
	dropIndexOld  = regexp.MustCompile(`(?is)^DROP\s+INDEX\s+` + keyspace + `\.` + identifier + `(?:\s.*)?$`)
	buildIndex    = regexp.MustCompile(`(?is)^BUILD\s+INDEX\s+ON\s+` + keyspace + `\s*\(.*\)\s*;?$`)
	systemIndexes = regexp.MustCompile("(?i)\\bFROM\\s+`?system`?:`?indexes\\b")
)

// unquotedName takes the namespace and the quotes away from a keyspace.
func unquotedName(s string) string {
	s = strings.ReplaceAll(s, "`", "")
	if before, after, ok := strings.Cut(s, ":"); ok && strings.EqualFold(before, "default") {
		return after
	}
	return s
}

// indexStatement executes a statement about indexes, and reports whether it is one.
func (x *Call) indexStatement() (Answer, bool) {
	st := strings.TrimRight(x.rq.Statement, "; \n\t")
	if systemIndexes.MatchString(st) {
		return Answer{Rows: x.listIndexes()}, true
	}
	if m := createPrimary.FindStringSubmatch(st); m != nil {
		name := unquotedName(m[1])
		if name == "" {
			name = "#primary"
		}
		return x.createIndex(queryIndex{name, unquotedName(m[3]), "", true}, m[2] != ""), true
	}
	if m := createIndex.FindStringSubmatch(st); m != nil {
		return x.createIndex(queryIndex{unquotedName(m[1]), unquotedName(m[3]), m[4], false}, m[2] != ""), true
	}
	if m := dropPrimary.FindStringSubmatch(st); m != nil {
		return x.dropIndex("#primary", unquotedName(m[2]), m[1] != ""), true
	}
	if m := dropIndex.FindStringSubmatch(st); m != nil {
		return x.dropIndex(unquotedName(m[1]), unquotedName(m[3]), m[2] != ""), true
	}
	if m := dropIndexOld.FindStringSubmatch(st); m != nil {
		return x.dropIndex(unquotedName(m[2]), unquotedName(m[1]), false), true
	}
	if m := buildIndex.FindStringSubmatch(st); m != nil {
		if failure := x.s.keyspaceMissing(unquotedName(m[1])); failure != nil {
			return *failure, true
		}
		return Answer{}, true
	}
	return Answer{}, false
}

// keyspaceMissing is the failure for a bucket, or a collection of one, that does not exist; nil for one that does.
func (s *State) keyspaceMissing(name string) *Answer {
	_, failure := s.placeOf(name)
	return failure
}

// placeOf is the collection that a keyspace's full name stands for, or the failure without one.
func (s *State) placeOf(name string) (collectionPlace, *Answer) {
	parts := strings.Split(name, ".")
	bucket := parts[0]
	switch {
	case s.host.BucketUUID(bucket) == "":
		return collectionPlace{},
			failure1(12003, "Keyspace not found in CB datastore: default:%s - cause: No bucket named %s", name, bucket)
	case len(parts) == 1:
		return collectionPlace{bucket, store.DefaultCollection, bucket}, nil
	case !s.host.HasScope(bucket, parts[1]):
		return collectionPlace{}, failure1(12021, "Scope not found in CB datastore: default:%s", strings.Join(parts[:2],
			"."))
	}
	if len(parts) == 3 {
		if id, ok := s.host.Collection(bucket, parts[1], parts[2]); ok {
			return collectionPlace{bucket, id, parts[2]}, nil
		}
	}
	return collectionPlace{}, failure1(12003, "Keyspace not found in CB datastore: default:%s", name)
}

func (x *Call) createIndex(ix queryIndex, unless bool) Answer {
	s := x.s
	if failure := s.keyspaceMissing(ix.keyspace); failure != nil {
		return *failure
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.indexes {
		if old.keyspace == ix.keyspace && old.name == ix.name {
			if unless {
				return Answer{}
			}
			return *failure1(4300, "The index %s already exists.", ix.name)
		}
	}
	s.indexes = append(s.indexes, ix)
	return Answer{}
}

func (x *Call) dropIndex(name, keyspace string, unless bool) Answer {
	s := x.s
	if failure := s.keyspaceMissing(keyspace); failure != nil {
		return *failure
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, ix := range s.indexes {
		if ix.keyspace == keyspace && ix.name == name {
			s.indexes = append(s.indexes[:i:i], s.indexes[i+1:]...)
			return Answer{}
		}
	}
	if unless {
		return Answer{}
	}
	return *failure1(12016, "Index Not Found - cause: GSI index %s not found.", name)
}

// indexed reports whether a keyspace has a primary index.
func (s *State) indexed(keyspace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ix := range s.indexes {
		if ix.keyspace == keyspace && ix.primary {
			return true
		}
	}
	return false
}

// listIndexes are the rows of system:indexes, those of one bucket when the request has a parameter $bucketName, and of
// its scope and collection alike.
func (x *Call) listIndexes() []string {
	s := x.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []string
	for _, ix := range s.indexes {
		parts := strings.Split(ix.keyspace, ".")
		bucket, scope, collection := parts[0], "_default", "_default"
		if len(parts) == 3 {
			scope, collection = parts[1], parts[2]
		}
		if x.differs("$bucketName", bucket) || x.differs("$scopeName", scope) || x.differs("$collectionName",
			collection) {
			continue
		}
		row := fmt.Sprintf(`{"name":%s,"using":"gsi","state":"online","namespace_id":"default","datastore_id":"mock","id":%s,`,
			quote(ix.name), quote(ix.keyspace+"/"+ix.name))
		if len(parts) == 3 {
			row += fmt.Sprintf(`"bucket_id":%s,"scope_id":%s,"keyspace_id":%s,`, quote(bucket), quote(scope), quote(collection))
		} else {
			row += fmt.Sprintf(`"keyspace_id":%s,`, quote(bucket))
		}
		if ix.primary {
			rows = append(rows, row+`"index_key":[],"is_primary":true}`)
		} else {
			rows = append(rows, row+`"index_key":[`+quote(ix.keys)+`]}`)
		}
	}
	return rows
}

// differs reports whether a named parameter is given, and is not value.
func (x *Call) differs(name, value string) bool {
	given := x.rq.text(name)
	return given != "" && given != value
}
