//go:build ignore

// Package gocbcore is the API of Couchbase's gocbcore on top of couchcore: agents, key-value operations, services,
// readiness, reports and cluster maps. The rest of the package, its options, results, errors and transactions, is
// gocbcore's own; the command "couchcore gocbcore" puts both together.
//
// It has no protocol, no retry loop and no connection of its own: it translates.
package gocbcore
