// Package httpsvc describes requests to a cluster's HTTP services as data, and reads their answers: one streaming
// reader of rows for all four of them, and a tolerant reader of single fields.
//
// It never opens a socket, imports net/http, chooses a node, retries, or knows an error code of a service.
package httpsvc
