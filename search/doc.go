// Package search holds requests to the search service (full text and vectors), and what its answers mean: the HTTP
// statuses with their texts, and which of them may be retried.
//
// A program fills a Request and gives it to core.Cluster.Search, which sends it and gives the hits as they come:
//
//	rows, err := cluster.Search(ctx, &search.Request{Index: "hotels", Query: map[string]any{"match": "sea"}})
//	for rows.Next() {
//		err = rows.Scan(&row)
//	}
//	err = rows.Err() // nil when the rows have come to their end
//
// It never sends anything, chooses a node, splits a response into hits, or imports net/http.
package search
