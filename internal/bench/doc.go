// Package bench is what the command of that name does: it measures couchcore beside gocbcore, a hand-written client and the wire, each in
// a process of its own, and judges the targets.
package bench
