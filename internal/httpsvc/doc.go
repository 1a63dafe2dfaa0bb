// Package httpsvc describes requests to a cluster's HTTP services as data, and reads their answers: one streaming
// reader of rows for all four of them, a tolerant reader of single fields, and the refusals of the cluster manager,
// which has no package of its own.
//
// It never opens a socket, imports net/http, chooses a node, retries, or knows an error code of the other services.
package httpsvc
