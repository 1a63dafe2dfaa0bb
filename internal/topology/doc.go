// Package topology turns a cluster map's JSON into an immutable Snapshot and answers questions about it: which map is
// newer, which vbucket a key belongs to, which node holds it, at which address.
//
// It does no I/O, starts no goroutine, and reads no clock.
package topology
