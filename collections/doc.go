// Package collections keeps the ids of a bucket's collections: found without a lock, looked up once for however many
// calls wait, forgotten when a node does not know them any more.
//
// It never sends anything: the lookup is handed in. It never retries.
package collections
