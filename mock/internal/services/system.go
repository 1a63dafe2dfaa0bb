package services

import (
	"maps"
	"slices"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// The system keyspaces of the query service.

const datastore = "mock" // the id of the only datastore

// emptySpaces are system keyspaces in which the mock has nothing.
var emptySpaces = map[string]bool{
	"active_requests": true, "completed_requests": true, "completed_requests_history": true, "dictionary": true,
	"dictionary_cache": true, "functions": true, "functions_cache": true, "tasks_cache": true, "sequences": true,
	"all_sequences": true, "my_user_info": true, "user_info": true, "group_info": true, "vitals": true,
	"applicable_roles": true, "aus": true, "aus_settings": true,
}

// System are the rows of a system keyspace.
func (q *queryStore) System(name string) ([]map[string]any, bool) {
	switch name {
	case "dual":
		return []map[string]any{{}}, true
	case "datastores":
		return []map[string]any{{"id": datastore, "url": "http://" + q.s.host.ServiceAddr(0, Management)}}, true
	case "namespaces":
		return []map[string]any{{"datastore_id": datastore, "id": "default", "name": "default"}}, true
	case "nodes":
		return []map[string]any{{"name": q.s.host.ServiceAddr(0, Management), "services": []any{"n1ql"}}}, true
	case "buckets":
		return q.bucketRows(), true
	case "scopes", "all_scopes":
		return q.scopeRows(), true
	case "keyspaces", "all_keyspaces":
		return q.keyspaceRows(), true
	case "indexes", "all_indexes":
		return q.indexRows(), true
	case "prepareds":
		return q.preparedRows(), true
	case "transactions":
		return q.transactionRows(), true
	}
	return nil, emptySpaces[name]
}

// place is what rows about a bucket, scope or collection have in common.
func place(name, path string) map[string]any {
	return map[string]any{
		"datastore_id": datastore, "name": name, "namespace": "default", "namespace_id": "default",
		"path": "default:" + path,
	}
}

func (q *queryStore) bucketRows() []map[string]any {
	var rows []map[string]any
	for _, b := range q.s.host.Buckets() {
		rows = append(rows, place(b, b))
	}
	return rows
}

func (q *queryStore) scopeRows() []map[string]any {
	var rows []map[string]any
	for _, b := range q.s.host.Buckets() {
		for _, s := range q.s.host.Scopes(b) {
			row := place(s.Name, b+"."+s.Name)
			row["bucket"] = b
			rows = append(rows, row)
		}
	}
	return rows
}

// keyspaceRows are the buckets, for their default collections, and the other collections.
func (q *queryStore) keyspaceRows() []map[string]any {
	var rows []map[string]any
	for _, b := range q.s.host.Buckets() {
		row := place(b, b)
		row["id"] = b
		rows = append(rows, row)
		for _, s := range q.s.host.Scopes(b) {
			for _, c := range s.Collections {
				if c.ID == store.DefaultCollection {
					continue
				}
				row := place(c.Name, b+"."+s.Name+"."+c.Name)
				row["id"], row["bucket"], row["scope"] = c.Name, b, s.Name
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func (q *queryStore) indexRows() []map[string]any {
	var rows []map[string]any
	for _, ix := range q.Indexes() {
		keys := []any{}
		for _, k := range ix.Keys {
			keys = append(keys, k)
		}
		k := ix.Keyspace
		row := map[string]any{
			"name": ix.Name, "using": "gsi", "state": "online", "namespace_id": "default", "datastore_id": datastore,
			"id": k.String() + "/" + ix.Name, "index_key": keys, "keyspace_id": k.Bucket,
		}
		if k.Scope != store.DefaultName || k.Collection != store.DefaultName {
			row["bucket_id"], row["scope_id"], row["keyspace_id"] = k.Bucket, k.Scope, k.Collection
		}
		if ix.Primary {
			row["is_primary"] = true
		}
		if ix.Deferred {
			row["state"] = "deferred"
		}
		if ix.Condition != "" {
			row["condition"] = ix.Condition
		}
		rows = append(rows, row)
	}
	return rows
}

func (q *queryStore) preparedRows() []map[string]any {
	var rows []map[string]any
	known := q.s.Prepared()
	for _, statement := range slices.Sorted(maps.Keys(known)) {
		rows = append(rows, map[string]any{
			"name": known[statement], "statement": "PREPARE " + statement, "uses": int64(0), "namespace": "default",
		})
	}
	return rows
}

func (q *queryStore) transactionRows() []map[string]any {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	var rows []map[string]any
	for _, id := range slices.Sorted(maps.Keys(q.s.txns)) {
		rows = append(rows, map[string]any{"id": id})
	}
	return rows
}

var _ sqlpp.Store = (*queryStore)(nil)
