// Package views holds requests to the view engine, and what its answers mean: the HTTP statuses with their bodies, and
// which of them may be retried. Servers have called views deprecated since 7.0.
//
// A program fills a Request and gives it to core.Bucket.View, which sends it and gives the rows as they come:
//
//	rows, err := bucket.View(ctx, &views.Request{Design: "orders", View: "by_total", Limit: 10})
//	for rows.Next() {
//		err = rows.Scan(&row)
//	}
//	err = rows.Err() // nil when the rows have come to their end
//
// It never sends anything, chooses a node, splits a response into rows, or imports net/http.
package views
