// Package kv holds the key-value operations: one type per operation with its fields and its coding, the table of what
// each opcode may do, the meaning of every status, the error type, and the three ways to run an operation: Do, Start
// and Go. What runs them is a Dispatcher, which the core's bucket is.
//
// It never opens a socket, knows a topology, starts a timer, or decides whether to retry.
package kv
