// Package analytics holds requests to the analytics service (SQL++ on shadow datasets), and what its answers mean: the
// error codes, and which of them may be retried.
//
// A program fills a Request and gives it to core.Cluster.Analytics, which sends it and gives the rows as they come:
//
//	rows, err := cluster.Analytics(ctx, &analytics.Request{Statement: "SELECT 1 AS one", Readonly: true})
//	for rows.Next() {
//		err = rows.Scan(&row)
//	}
//	err = rows.Err() // nil when the rows have come to their end
//
// It never sends anything, chooses a node, splits a response into rows, or imports net/http.
package analytics
