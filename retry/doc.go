// Package retry decides whether, when and how often a failed operation is tried again.
//
// It holds the reasons and their flags, the State that every operation embeds, the strategies and backoffs, and the
// Orchestrator, the one entry to retrying. Safety is not a strategy's business: the orchestrator alone keeps an
// operation that may have been executed from being sent again, completes each operation once, and keeps its deadline
// and its bounds, whatever a strategy answers. Cost follows failure: an operation that never fails costs a few atomic
// operations and no allocation.
//
// A program chooses a Strategy, for all calls or for one, reads an Info, or repeats work of its own with Do:
//
//	cfg.Retry.Strategy = retry.BestEffort{Backoff: retry.Exponential(time.Millisecond, time.Second, 2)}
//	info, ok := retry.InfoOf(err) // how often it was retried, and why
//
// It never holds a status code, HTTP, a socket, a circuit breaker, a log line or a metric exporter, and imports the
// standard library only. The numbers of a service pass through it as an opaque code.
package retry
