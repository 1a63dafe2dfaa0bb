// Package views holds requests to the view engine, and what its answers mean: the HTTP statuses with their bodies, and
// which of them may be retried. Servers have called views deprecated since 7.0.
//
// It never sends anything, chooses a node, splits a response into rows, or imports net/http.
package views
