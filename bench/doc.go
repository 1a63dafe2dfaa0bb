// Command bench measures couchcore beside gocbcore, a hand-written client and the wire, over loopback, against one fast
// responder, and judges the targets of the project.
//
// It starts itself again: once as the responder, and once per client, so that no client shares heap, collector or
// scheduler with another. All are connected first; then one works for a slice of a second while the others wait, in
// rounds whose order rotates. Ratios are taken within a round, and their median over the rounds is the figure.
//
//	go run ./bench             all measurements, as text; about half an hour
//	go run ./bench --json      the same for machines: every target with value, limit and verdict
//	go run ./bench --quick     a look: few and short slices, nothing is judged
//
// It never changes what it measures: clients run with their defaults, no check of theirs is off, and nothing here is
// linked into the product.
package main
