// Package memd is the memcached binary protocol as Couchbase speaks it: packets, opcodes, statuses, HELLO features,
// framing extras, durability, datatypes and collection prefixes, appended and parsed in both directions with limits.
//
// A Packet's Parse reads one packet of what a connection has brought, and AppendTo writes one; both name the field that
// breaks a limit. The tables (opcodes, statuses, features) have a String each.
//
// It never opens a connection, reads a clock, starts a goroutine, logs, or decides anything.
package memd
