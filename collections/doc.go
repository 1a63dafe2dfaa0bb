// Package collections keeps the ids of a bucket's collections: found without a lock, looked up once for however many
// calls wait, forgotten when a node does not know them any more.
//
// New makes the Cache of a bucket; its options say how a lookup is started. A call asks Get first. When the id is not
// known the call waits by Wait and is told as a Waiter. The lookup reports its outcome by Resolve.
//
// It never sends anything: the lookup is handed in. It never retries.
package collections
