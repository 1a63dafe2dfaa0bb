// Package control offers the Go API of a mock cluster as JSON over HTTP, so that tests in any language can put faults
// in force, script answers, change the topology, load data and look at what was sent.
//
// Listen serves it on a loopback address; New makes a handler for a server of the caller's. The routes are one table,
// routes.go. The document openapi.json describes them and is served at /openapi.json; docs/testing.md is the guide.
//
// What it never holds: what a request does. It translates requests into calls of package mock, which a test in Go uses
// without it.
package control
