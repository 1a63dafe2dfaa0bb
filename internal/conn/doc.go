// Package conn is one connection to a node's key-value service: dialling, TLS, the bootstrap, the reader that completes
// calls and flushes requests, the table of opaques, and the deadlines of the calls in flight. It also keeps the
// cluster's record of terminal conditions, Health.
//
// It never routes a call or decides about a retry.
package conn
