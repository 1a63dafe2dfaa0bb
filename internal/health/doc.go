// Package health keeps the terminal conditions of a cluster's connections: a refused login, a failed TLS handshake, a
// bucket without access. It explains why a call cannot be dispatched; it decides nothing.
package health
