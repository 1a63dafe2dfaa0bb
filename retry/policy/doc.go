// Package policy holds wrappers that are themselves retry strategies: limits of attempts and time, the throttle of a
// node, token buckets, the server's pushback, and a filter of reasons. They are stacked, and each only narrows or
// delays what the strategy below it would do. Parse reads a policy file, which builds such stacks by service and
// operation.
//
// A stack is meant to be built outside in as FastFailOnTerminalError, Only, Limit, Throttle (or Bucket), Pushback,
// BestEffort: a limit lies outside of Pushback, so that a server cannot extend it.
//
// The package holds nothing that safety depends on: whatever a stack answers, the orchestrator of package retry keeps
// its promises. It never sends, waits or starts a goroutine, and it knows no service's numbers: the parser of a file
// supplies them.
package policy
