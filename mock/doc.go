// Package mock is a Couchbase-style cluster inside the process, for tests: nodes, buckets, vbuckets, scopes,
// collections, users, real document semantics, faults on demand and topology changes. It speaks the memcached binary
// protocol through package memd, over TCP on the loopback interface, over TLS, or over a network in memory that works
// inside testing/synctest. Query, search, analytics, views, management and eventing answer over HTTP, by themselves
// or as a script says. Real SDKs can connect to it.
//
// Start(t) is a cluster for as long as a test runs, New one that the caller closes; options say of what it consists
// and, with Documents, what is in it. Cluster.Inject puts faults in force, Cluster.Script answers for services, methods
// such as Failover and Rebalance change the topology, Snapshot and Restore bring the data back. Cluster.Expect,
// FrameLog, ApplyLog and ServiceLog tell what has happened. The guide is docs/testing.md; what differs from a server is
// listed in FIDELITY.md.
//
// Parts of it are packages of their own: the network (memnet), nodes whose every byte a test decides (scripted),
// functions of views and eventing in JavaScript (viewjs), all that the API can do as JSON over HTTP (control),
// CouchbaseMock's control protocol (couchbasemock). What this package names of the internal ones stands in one place,
// with the names of the network's types: rooms.go.
//
// What it never holds: anything of the client. Its own JSON structs and its own tables keep it a second opinion on the
// protocol. Documents, sub-document paths and the services of HTTP are in the packages below internal; here are nodes,
// connections, opcodes, accounts, topology, management.
package mock
