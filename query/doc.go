// Package query holds requests to the query service (SQL++), the plans of prepared statements, and what answers mean:
// rows and metadata, the error codes, and which of them may be retried.
//
// A program fills a Request and gives it to core.Cluster.Query, which sends it and gives the rows as they come:
//
//	rows, err := cluster.Query(ctx, &query.Request{Statement: "SELECT 1 AS one", Readonly: true})
//	for rows.Next() {
//		err = rows.Scan(&row)
//	}
//	err = rows.Err() // nil when the rows have come to their end
//
// It never opens a socket, chooses a node, splits a response into rows, or imports net/http: it sends with what it is
// given.
package query
