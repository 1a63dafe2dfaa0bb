package services

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/sqlpp"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// queryStore is what statements work on: the cluster's documents, and the indexes of the query service.
type queryStore struct{ s *State }

// queryIndex is one index. A bucket or collection that is made anew under the old name does not have it.
type queryIndex struct {
	sqlpp.Index
	uuid string
	cid  uint32
}

// failed is an error of a statement.
func failed(code int, text string) *sqlpp.Error { return &sqlpp.Error{Code: code, Message: text} }

// placeOf is the collection that one to three names stand for.
func (s *State) placeOf(parts []string) (sqlpp.Keyspace, uint32, *sqlpp.Error) {
	name, bucket := strings.Join(parts, "."), parts[0]
	k := sqlpp.Keyspace{Bucket: bucket, Scope: store.DefaultName, Collection: store.DefaultName}
	switch {
	case s.host.BucketUUID(bucket) == "":
		return k, 0, failed(sqlpp.CodeNoKeyspace, "Keyspace not found in CB datastore: default:"+name+
			" - cause: No bucket named "+bucket)
	case len(parts) > 1 && !s.host.HasScope(bucket, parts[1]):
		return k, 0, failed(sqlpp.CodeNoScope, "Scope not found in CB datastore: default:"+strings.Join(parts[:2], "."))
	case len(parts) == 3:
		k.Scope, k.Collection = parts[1], parts[2]
	}
	if id, ok := s.host.Collection(bucket, k.Scope, k.Collection); ok && len(parts) != 2 && len(parts) < 4 {
		return k, id, nil
	}
	return k, 0, failed(sqlpp.CodeNoKeyspace, "Keyspace not found in CB datastore: default:"+name)
}

func (q *queryStore) Keyspace(parts []string) (sqlpp.Keyspace, *sqlpp.Error) {
	k, _, err := q.s.placeOf(parts)
	return k, err
}

// cid is the id of a collection that was found; one that has gone since has none.
func (q *queryStore) cid(k sqlpp.Keyspace) (uint32, bool) {
	return q.s.host.Collection(k.Bucket, k.Scope, k.Collection)
}

func (q *queryStore) Documents(k sqlpp.Keyspace) []sqlpp.Document {
	cid, ok := q.cid(k)
	if !ok {
		return nil
	}
	var out []sqlpp.Document
	for _, d := range q.s.host.Documents(k.Bucket) {
		if d.Collection == cid {
			out = append(out, sqlpp.Document{Key: d.Key, Value: d.Value, CAS: d.CAS, Flags: d.Flags, Expiry: d.Expiry})
		}
	}
	slices.SortFunc(out, func(a, b sqlpp.Document) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

func (q *queryStore) Document(k sqlpp.Keyspace, key string) (sqlpp.Document, bool) {
	cid, ok := q.cid(k)
	if !ok || key == "" || len(key) > store.MaxKey {
		return sqlpp.Document{}, false
	}
	res := q.s.host.Apply(k.Bucket, &store.Op{Opcode: memd.OpGet, Collection: cid, Key: []byte(key)})
	if res.Status != memd.StatusSuccess {
		return sqlpp.Document{}, false
	}
	return sqlpp.Document{Key: key, Value: res.Value, CAS: res.CAS, Flags: res.Flags, Expiry: res.Expiry}, true
}

// stagedIn is the attribute in which the transactions of clients stage a document.
const stagedIn = "txn"

// version is a document, or its tombstone, with its attributes.
func (q *queryStore) version(k sqlpp.Keyspace, key string) store.Result {
	cid, _ := q.cid(k) // without one nothing is found
	return q.s.host.Apply(k.Bucket, &store.Op{Opcode: memd.OpGetMeta, Collection: cid, Key: []byte(key)})
}

// stage takes over a write that a client's transaction has staged, and reports whether it is there.
func (q *queryStore) stage(t *sqlpp.Txn, attempt string, m *stagedWrite) bool {
	k, _, err := q.s.placeOf([]string{m.Bucket, m.Scope, m.Collection})
	if err != nil || m.ID == "" || len(m.ID) > store.MaxKey {
		return false
	}
	var mark struct {
		ID struct {
			Attempt string `json:"atmpt"`
		} `json:"id"`
		Op struct {
			Type   string          `json:"type"`
			Staged json.RawMessage `json:"stgd"`
		} `json:"op"`
	}
	old := q.version(k, m.ID)
	if jsonInto(old.Xattrs.Value(stagedIn), &mark) != nil || mark.ID.Attempt != attempt {
		return false
	}
	was := old.CAS
	if old.Deleted {
		was = 0
	}
	t.Stage(k, m.ID, mark.Op.Staged, mark.Op.Type == "remove", was, old.CAS)
	return true
}

var writeOpcodes = map[sqlpp.WriteKind]memd.Opcode{
	sqlpp.Insert: memd.OpAdd, sqlpp.Upsert: memd.OpSet, sqlpp.Replace: memd.OpReplace, sqlpp.Delete: memd.OpDelete,
}

func (q *queryStore) Write(k sqlpp.Keyspace, w sqlpp.Write) (uint64, *sqlpp.Error) {
	cid, ok := q.cid(k)
	if !ok {
		return 0, failed(sqlpp.CodeExecution, "the collection has gone")
	}
	if w.Key == "" || len(w.Key) > store.MaxKey {
		return 0, failed(sqlpp.CodeExecution, "a key has 1 to 250 bytes")
	}
	o := &store.Op{
		Opcode: writeOpcodes[w.Kind], Collection: cid, Key: []byte(w.Key), Value: w.Value, CAS: w.CAS,
		Expiry: w.Expiry, PreserveTTL: w.PreserveExpiry, Datatype: memd.DatatypeJSON,
	}
	if w.Unstage && w.Kind == sqlpp.Replace {
		old := q.version(k, w.Key)
		o.Opcode = memd.OpSetWithMeta
		o.Meta = &store.Meta{
			Options: store.SkipConflict | store.RegenerateCAS, Rev: old.Rev + 1, Flags: old.Flags,
			Xattrs: old.Xattrs.Without(stagedIn),
		}
	}
	res := q.s.host.Apply(k.Bucket, o)
	switch {
	case res.Status == memd.StatusSuccess:
		return res.CAS, nil
	case res.Status == memd.StatusKeyExists && w.Kind == sqlpp.Insert:
		return 0, failed(sqlpp.CodeDuplicateKey, "Duplicate Key: "+w.Key)
	case res.Status == memd.StatusKeyExists:
		return 0, failed(sqlpp.CodeCASMismatch, "CAS mismatch")
	case res.Status == memd.StatusKeyNotFound:
		return 0, failed(sqlpp.CodeKeyNotFound, "Key not found: "+w.Key)
	}
	return 0, failed(sqlpp.CodeExecution, res.Status.String())
}

// Indexes are those of collections that exist.
func (q *queryStore) Indexes() []sqlpp.Index {
	s := q.s
	s.mu.Lock()
	all := slices.Clone(s.indexes)
	s.mu.Unlock()
	var out []sqlpp.Index
	for _, ix := range all {
		if cid, ok := q.cid(ix.Keyspace); ok && cid == ix.cid && s.host.BucketUUID(ix.Keyspace.Bucket) == ix.uuid {
			out = append(out, ix.Index)
		}
	}
	return out
}

// identity tells a keyspace from one that had its name before.
func (q *queryStore) identity(k sqlpp.Keyspace) (string, uint32) {
	cid, _ := q.cid(k) // it was found just now
	return q.s.host.BucketUUID(k.Bucket), cid
}

func (q *queryStore) CreateIndex(ix sqlpp.Index) bool {
	uuid, cid := q.identity(ix.Keyspace)
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	if q.s.indexAt(uuid, cid, ix.Name) >= 0 {
		return false
	}
	q.s.indexes = append(q.s.indexes, queryIndex{ix, uuid, cid})
	return true
}

// indexAt is the place of an index, -1 without one. The caller has the mutex.
func (s *State) indexAt(uuid string, cid uint32, name string) int {
	return slices.IndexFunc(s.indexes, func(ix queryIndex) bool {
		return ix.uuid == uuid && ix.cid == cid && ix.Name == name
	})
}

func (q *queryStore) DropIndex(k sqlpp.Keyspace, name string) bool {
	uuid, cid := q.identity(k)
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	i := q.s.indexAt(uuid, cid, name)
	if i >= 0 {
		q.s.indexes = slices.Delete(q.s.indexes, i, i+1)
	}
	return i >= 0
}

func (q *queryStore) BuildIndex(k sqlpp.Keyspace, name string) bool {
	uuid, cid := q.identity(k)
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	i := q.s.indexAt(uuid, cid, name)
	if i >= 0 {
		q.s.indexes[i].Deferred = false
	}
	return i >= 0
}

// Define creates, drops or empties a scope or a collection.
func (q *queryStore) Define(verb, what string, parts []string, maxTTL int32, lenient bool) *sqlpp.Error {
	h, bucket, scope := q.s.host, parts[0], parts[1]
	if h.BucketUUID(bucket) == "" {
		return failed(sqlpp.CodeNoBucket, "Bucket not found in CB datastore default:"+bucket)
	}
	has := h.HasScope(bucket, scope)
	if what == "COLLECTION" {
		if !has {
			return failed(sqlpp.CodeNoScope, "Scope not found in CB datastore default:"+bucket+"."+scope)
		}
		_, has = h.Collection(bucket, scope, parts[2])
	}
	name := "default:" + strings.Join(parts, ".")
	switch {
	case has == (verb == "CREATE") && lenient:
		return nil
	case has && verb == "CREATE":
		return failed(defineCodes[verb+" "+what], "Error while creating "+strings.ToLower(what)+" "+name+
			" - cause: it already exists")
	case !has && verb != "CREATE" && what == "SCOPE":
		return failed(sqlpp.CodeNoScope, "Scope not found in CB datastore "+name)
	case !has && verb != "CREATE":
		return failed(sqlpp.CodeNoKeyspace, "Keyspace not found in CB datastore: "+name)
	}
	if err := h.Define(verb, parts, maxTTL); err != nil {
		return failed(defineCodes[verb+" "+what], "Error while changing "+strings.ToLower(what)+" "+name+
			" - cause: "+err.Error())
	}
	return nil
}

// defineCodes are the codes of what a server could not do with a scope or a collection.
var defineCodes = map[string]int{
	"CREATE SCOPE": 12025, "DROP SCOPE": 12026, "CREATE COLLECTION": 12027, "DROP COLLECTION": 12028,
	"FLUSH COLLECTION": 12029,
}
