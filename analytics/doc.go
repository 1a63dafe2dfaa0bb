// Package analytics holds requests to the analytics service (SQL++ on shadow datasets), and what its answers mean: the
// error codes, and which of them may be retried.
//
// It never sends anything, chooses a node, splits a response into rows, or imports net/http.
package analytics
