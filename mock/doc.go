// Package mock is a Couchbase-style cluster inside the process, for tests: nodes, buckets, vbuckets, scopes,
// collections, users, real document semantics, faults on demand and topology changes. It speaks the memcached binary
// protocol through package memd, over TCP on the loopback interface, over TLS, or over a network in memory that works
// inside testing/synctest. Query, search, analytics, views and management answer over HTTP, by themselves or as a script
// says. Real SDKs can connect to it.
//
// What differs from a server is listed in FIDELITY.md. The package never imports the client's packages: its own JSON
// structs and its own tables keep it a second opinion on the protocol.
package mock
