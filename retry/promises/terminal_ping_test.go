package promises_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// Ping answers as soon as a condition is known that keeps a bucket from its map, whatever the strategy: it does not
// wait until the time of a call is over.
func TestAPingBesideAMisspeltBucketAnswersAtOnce(t *testing.T) {
	for name, s := range map[string]retry.Strategy{"default": nil, "a strategy that waits": retry.BestEffort{}} {
		for seeds, spoil := range map[string]func(m *mock.Cluster){
			"all answer":    func(*mock.Cluster) {},
			"one is silent": func(m *mock.Cluster) { silence(m, 1) },
		} {
			t.Run(name+", "+seeds, func(t *testing.T) {
				inBubble(t, func(t *testing.T, m *mock.Cluster) {
					spoil(m)
					cl := client(t, m, strategy(s))
					cl.Bucket("defualt")
					began := time.Now()
					r, err := cl.Ping(within(t, time.Minute), core.PingOptions{Services: []string{"query"}})
					require.NoError(t, err)
					require.NotEmpty(t, r.Services["query"])
					require.Less(t, time.Since(began), 300*ms)
				})
			})
		}
		t.Run(name+", a password that is refused", func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				cl := client(t, m, strategy(s), wrongPassword)
				cl.Bucket("default")
				failsAtOnce(t, cberr.AuthenticationFailure, 300*ms, func(ctx context.Context) error {
					_, err := cl.Ping(ctx, core.PingOptions{})
					return err
				})
			})
		})
		t.Run(name+", beside a good one", func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				cl := client(t, m, strategy(s))
				require.NoError(t, cl.Bucket("default").WaitReady(within(t, time.Second)))
				cl.Bucket("defualt")
				began := time.Now()
				r, err := cl.Ping(within(t, time.Minute), core.PingOptions{})
				require.NoError(t, err)
				require.NotEmpty(t, r.Services["kv"])
				require.Less(t, time.Since(began), 300*ms)
			})
		})
	}
}
