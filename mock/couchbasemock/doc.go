// Package couchbasemock speaks the control protocol of CouchbaseMock for a cluster of package mock, so that test suites
// that drive CouchbaseMock can drive the mock: over HTTP on the management ports, or over a connection.
//
// Attach makes a cluster take the commands. Control.Run executes one, Control.Serve answers those of a connection. What
// differs from CouchbaseMock is listed in FIDELITY.md of package mock.
//
// What it never holds: what a command does. It translates commands into calls of the mock's Go API, which a test in Go
// uses without it.
package couchbasemock
