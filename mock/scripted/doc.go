// Package scripted is a cluster whose every byte a test decides: nodes that accept connections, parse requests and
// answer as a minimal Couchbase node does, unless the test's hook answers instead. It has no semantics beyond that: no
// durability, no expiry, no sub-documents. Use it to send what package mock refuses to send, such as malformed maps,
// unknown statuses and answers in an impossible order; use package mock for everything else.
package scripted
