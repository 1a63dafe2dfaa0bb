// Package testkit holds what tests of several packages share: golden files, hex fixtures, and the foreign servers
// (CouchbaseMock, memcached) that the opt-in tests start.
//
// It imports nothing of this module, and only test files import it.
package testkit
