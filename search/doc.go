// Package search holds requests to the search service (full text and vectors), and what its answers mean: the HTTP
// statuses with their texts, and which of them may be retried.
//
// It never sends anything, chooses a node, splits a response into hits, or imports net/http.
package search
