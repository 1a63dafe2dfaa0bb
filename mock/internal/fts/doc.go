// Package fts is the mock's full text search: enough of the search service for tests of applications.
//
// ParseIndex reads the definition of an index. Search runs a request against documents and returns hits, facets and
// counts. There is no index in the sense of a data structure: each request analyzes the documents that it is given, so
// that the answer is always up to date.
//
// What the package does not know is refused with an error that names it, an *Unsupported; it never guesses. Hits with
// the same score come in the order of their ids. No request makes it panic, recurse without a limit, or use more
// clauses than maxClauses.
//
// What it never holds: documents between requests, scripts, or anything of HTTP.
package fts
