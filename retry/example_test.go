package retry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/retry"
)

type robot struct{}

// politeToRobots gives up early for requests of robots and does as BestEffort does for everybody else.
type politeToRobots struct{ retry.BestEffort }

func (p politeToRobots) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if r.Context.Value(robot{}) != nil && !why.Unseen() {
		return retry.Stop()
	}
	return p.BestEffort.RetryAfter(ctx, r, why)
}

// A strategy of one's own embeds BestEffort, decides the cases that matter to it, and leaves the others to BestEffort.
func ExampleStrategy() {
	s := politeToRobots{retry.BestEffort{Backoff: retry.Constant(5 * time.Millisecond)}}
	person := context.Background()
	for _, ctx := range []context.Context{person, context.WithValue(person, robot{}, true)} {
		r := &retry.Request{Context: ctx, Idempotent: true}
		delay, again := s.RetryAfter(ctx, r, retry.KVTemporaryFailure).Delay()
		fmt.Println(again, delay)
	}
	// Output:
	// true 5ms
	// false 0s
}

// A Backoff is useful without an operation too, to wait for something between attempts.
func ExampleClamp() {
	wait := retry.Clamp(retry.Exponential(10*time.Millisecond, time.Second, 3), 20*time.Millisecond, 200*time.Millisecond)
	for step := range 5 {
		fmt.Print(wait(step, 0), " ")
	}
	fmt.Println()
	// Output: 20ms 30ms 90ms 200ms 200ms
}
