// Package store is what the mock's nodes hold of a bucket: documents with their CAS, locks, expiries and extended
// attributes, the copies that nodes have of each vbucket, their histories, range scans, and the manifest of scopes and
// collections.
//
// New makes a Store, Assign gives vbuckets to nodes, Apply executes one operation on one document and says what became
// of it. The caller says which node executes an operation and what time it is. Everything is plain data without a lock:
// the caller has one.
//
// What it never holds: packets of a connection, answers, clocks, the cluster's map, who may do what.
package store
