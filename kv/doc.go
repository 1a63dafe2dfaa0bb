// Package kv holds the key-value operations: one type per operation with its fields and its coding, the table of what
// each opcode may do, the meaning of every status, the error type, and the three ways to run an operation: Do, Start
// and Go. What runs them is a Dispatcher, which the core's bucket is. Above them are the forms that take several
// requests: AnyCopy and AllCopies read from replicas, Scan finds documents, Batch runs many operations, DoPolled waits
// for durability as old servers have it, StatAll asks all nodes.
//
// It never opens a socket, reads a cluster map, or decides whether to retry an operation. Do, Start and Go start no
// timer; a scan and DoPolled pause between their requests.
package kv
