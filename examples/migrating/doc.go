// Package migrating shows what a program does on couchcore that it did on gocbcore. docs/migrating-from-gocbcore.md
// explains it.
package migrating
