// Package hedge sends an idempotent operation to a second place before the first has answered, and takes the first good
// answer. It is opt-in: a hedged operation costs the servers more, and a replica's answer may be stale.
//
// Do runs a function for the first attempt, and again after each delay, until one attempt succeeds:
//
//	p := hedge.Policy{MaxAttempts: 3, Delay: 20 * time.Millisecond, Idempotent: true}
//	doc, stats, err := hedge.Do(ctx, p, func(ctx context.Context, n int, used *hedge.Avoid) (Doc, error) {
//		return read(ctx, copies[n])
//	})
//
// The package knows nothing of services, nodes or statuses, and holds nothing that safety depends on.
package hedge
