// Package query holds requests to the query service (SQL++), the plans of prepared statements, and what answers mean:
// rows and metadata, the error codes, and which of them may be retried.
//
// It never opens a socket, chooses a node, splits a response into rows, or imports net/http: it sends with what it is
// given.
package query
