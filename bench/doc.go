// Command bench measures couchcore beside gocbcore and a client by hand, over loopback, against one fast responder, in
// the combinations of callers, nodes, round trips, TLS, contexts, busy processors and arrivals that users have, and
// judges the targets of the project. METHOD.md says how.
//
//	go run ./bench --matrix --gate   everything; writes bench/RESULTS.md, fails if a must is missed or inconclusive
//	go run ./bench --matrix          the matrix alone, as text
//	go run ./bench --quick           a look: few and short slices, nothing is judged
//
// It never changes what it measures: clients run with their defaults, no check of theirs is off, and nothing here is
// linked into the product.
package main
