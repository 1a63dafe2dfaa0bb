// Package memd is the memcached binary protocol as Couchbase speaks it: packets, opcodes, statuses, HELLO features,
// framing extras, durability, datatypes and collection prefixes, appended and parsed in both directions with limits.
//
// It never opens a connection, reads a clock, starts a goroutine, logs, or decides anything.
package memd
