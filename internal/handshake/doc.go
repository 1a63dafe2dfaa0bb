// Package handshake makes a connection to a node's key-value service and brings it to where requests can be sent: dial,
// TLS, HELLO, the error map, SASL, SELECT_BUCKET and the node's first cluster map. It knows nothing of calls; package
// conn carries them over what Connect gives.
//
// The order of the requests is that of the SDK RFC 0024; the payloads are those of kv_engine's docs/BinaryProtocol.md
// and docs/sasl.md.
package handshake
