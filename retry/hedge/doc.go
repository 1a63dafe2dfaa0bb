// Package hedge sends an idempotent operation to a second place before the first has answered, and takes the first good
// answer. It is opt-in: a hedged operation costs the servers more, and a replica's answer may be stale.
//
// The package knows nothing of services, nodes or statuses, and holds nothing that safety depends on.
package hedge
