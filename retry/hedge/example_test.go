package hedge_test

import (
	"context"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/retry/hedge"
)

// A read that asks the next copy when the one before has not answered within 10 ms.
func ExampleDo() {
	copies := []string{"active", "replica 1", "replica 2"}
	p := hedge.Policy{MaxAttempts: len(copies), Delay: 10 * time.Millisecond, Idempotent: true}
	read := func(ctx context.Context, n int, used *hedge.Avoid) (string, error) {
		used.Use(copies[n])
		if n == 0 { // it is too slow: Do ends its context when another copy has answered
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		return "the document of " + copies[n], nil
	}
	doc, stats, err := hedge.Do(context.Background(), p, read)
	fmt.Println(doc, err)
	fmt.Println("sent", stats.Sent, "won by", stats.Winner)
	// Output:
	// the document of replica 1 <nil>
	// sent 2 won by 1
}
