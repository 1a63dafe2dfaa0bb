// Package memnet is a network in memory: listeners, dials and connections that behave as TCP does, with faults on
// demand. It works inside testing/synctest, because it has no goroutines and waits on channels and timers of its own.
//
// New makes a Network, Network.Listen opens an address, Network.Dial connects to it. Faults of addresses and hosts are
// methods of Network, those of one connection are methods of Link, and those of one direction are methods of Flow.
//
// What it never holds: protocols, TLS, the cluster. It knows bytes, hosts and ports.
package memnet
