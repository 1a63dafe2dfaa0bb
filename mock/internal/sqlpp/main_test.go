package sqlpp_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store for tests: the keyspaces b and b.s.c.
type memory struct {
	docs    map[sqlpp.Keyspace]map[string]sqlpp.Document
	indexes []sqlpp.Index
	cas     uint64
}

var (
	b = sqlpp.Keyspace{Bucket: "b", Scope: "_default", Collection: "_default"}
	c = sqlpp.Keyspace{Bucket: "b", Scope: "s", Collection: "c"}
)

func newMemory(docs map[string]string) *memory {
	m := &memory{docs: map[sqlpp.Keyspace]map[string]sqlpp.Document{b: {}, c: {}}, cas: 100}
	for _, key := range slices.Sorted(maps.Keys(docs)) {
		m.cas++
		m.docs[b][key] = sqlpp.Document{Key: key, Value: []byte(docs[key]), CAS: m.cas}
	}
	m.indexes = []sqlpp.Index{{Name: "#primary", Keyspace: b, Primary: true}}
	return m
}

func (m *memory) Keyspace(parts []string) (sqlpp.Keyspace, *sqlpp.Error) {
	switch {
	case len(parts) == 1 && parts[0] == "b":
		return b, nil
	case slices.Equal(parts, []string{"b", "s", "c"}):
		return c, nil
	}
	return sqlpp.Keyspace{}, &sqlpp.Error{Code: sqlpp.CodeNoKeyspace, Message: "Keyspace not found"}
}

func (m *memory) Documents(k sqlpp.Keyspace) []sqlpp.Document {
	return slices.SortedFunc(maps.Values(m.docs[k]), func(a, b sqlpp.Document) int { return cmp.Compare(a.Key, b.Key) })
}

func (m *memory) Document(k sqlpp.Keyspace, key string) (sqlpp.Document, bool) {
	d, ok := m.docs[k][key]
	return d, ok
}

func (m *memory) Write(k sqlpp.Keyspace, w sqlpp.Write) (uint64, *sqlpp.Error) {
	d, has := m.docs[k][w.Key]
	switch {
	case w.Kind == sqlpp.Insert && has:
		return 0, &sqlpp.Error{Code: sqlpp.CodeDuplicateKey, Message: "Duplicate Key: " + w.Key}
	case (w.Kind == sqlpp.Replace || w.Kind == sqlpp.Delete) && !has:
		return 0, &sqlpp.Error{Code: sqlpp.CodeKeyNotFound, Message: "Key not found: " + w.Key}
	case w.CAS != 0 && w.CAS != d.CAS:
		return 0, &sqlpp.Error{Code: sqlpp.CodeCASMismatch, Message: "CAS mismatch"}
	}
	if w.Kind == sqlpp.Delete {
		delete(m.docs[k], w.Key)
		return 0, nil
	}
	m.cas++
	m.docs[k][w.Key] = sqlpp.Document{Key: w.Key, Value: w.Value, CAS: m.cas, Expiry: w.Expiry}
	return m.cas, nil
}

func (m *memory) Indexes() []sqlpp.Index { return m.indexes }

func (m *memory) CreateIndex(ix sqlpp.Index) bool {
	if m.at(ix.Keyspace, ix.Name) >= 0 {
		return false
	}
	m.indexes = append(m.indexes, ix)
	return true
}

func (m *memory) at(k sqlpp.Keyspace, name string) int {
	return slices.IndexFunc(m.indexes, func(ix sqlpp.Index) bool { return ix.Keyspace == k && ix.Name == name })
}

func (m *memory) DropIndex(k sqlpp.Keyspace, name string) bool {
	i := m.at(k, name)
	if i >= 0 {
		m.indexes = slices.Delete(m.indexes, i, i+1)
	}
	return i >= 0
}

func (m *memory) BuildIndex(k sqlpp.Keyspace, name string) bool {
	i := m.at(k, name)
	if i >= 0 {
		m.indexes[i].Deferred = false
	}
	return i >= 0
}

func (m *memory) Define(string, string, []string, int32, bool) *sqlpp.Error { return nil }

func (m *memory) System(name string) ([]map[string]any, bool) {
	return []map[string]any{{"name": name}}, name == "dual"
}

func (m *memory) options() *sqlpp.Options {
	return &sqlpp.Options{
		Store: m, Now: time.Unix(1700000000, 0), UUID: func() string { return "u" },
		Named: map[string]any{"n": int64(3)}, Args: []any{"first", int64(2)},
	}
}
