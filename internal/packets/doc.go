// Package packets reads what clients and nodes say to each other: from a capture of a network, or from a proxy that
// stands between them. It is a reader's tool, and no part of the client.
package packets
