// Package bench is what the command of that name does: it measures couchcore beside gocbcore and a client by hand, each
// in a process of its own, over the matrix of what users have, and judges the targets. bench/METHOD.md says how.
package bench
