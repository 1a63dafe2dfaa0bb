// Package conn carries calls over one connection to a node's key-value service, from the end of the handshake: the
// table of opaques, the reader that completes calls, the writer that sends many requests in one write, and the
// deadlines of the calls in flight.
//
// It never routes a call or decides about a retry.
package conn
