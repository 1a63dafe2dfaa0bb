package promises_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// Failed and Retries, and what the observer hears, count the same things in every form of an operation: three attempts,
// of which the first two fail, are two retries, of which one has failed.
func TestEveryFormCountsItsRetriesAlike(t *testing.T) {
	key, get := []byte("k"), memd.OpGet
	for name, f := range map[string]struct {
		op   string
		code memd.Opcode
		run  func(t *testing.T, b *core.Bucket) error
	}{
		"waited for": {"get", get, func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(within(t, time.Second), b, kv.Get{Key: key})
			return err
		}},
		"future": {"get", get, func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Start(within(t, time.Second), b, kv.Get{Key: key}).Wait(t.Context())
			return err
		}},
		"callback": {"get", get, func(t *testing.T, b *core.Bucket) error {
			done := make(chan error, 1)
			kv.Go(within(t, time.Second), b, kv.Get{Key: key}, func(_ kv.GetResult, err error) { done <- err })
			return <-done
		}},
		"batch": {"get", get, func(t *testing.T, b *core.Bucket) error {
			return kv.Batch(within(t, time.Second), b, []kv.Get{{Key: key}}, 0)[0].Err
		}},
		"all copies": {"get", get, func(t *testing.T, b *core.Bucket) error {
			all, err := kv.GetAllReplicas(within(t, time.Second), b, kv.GetReplica{Key: key})
			if err != nil {
				return err
			}
			for range 2 {
				_, there := all.Next(t.Context())
				require.True(t, there)
			}
			return errors.Join(all.Err(), errors.Join(all.Errors()...))
		}},
		"scan": {"range-scan-create", memd.OpRangeScanCreate, func(t *testing.T, b *core.Bucket) error {
			run, err := kv.Scan{Concurrency: 1}.Run(within(t, time.Second), b)
			if err != nil {
				return err
			}
			for _, e := range run.All(t.Context()) {
				err = errors.Join(err, e)
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				rec := &retryRecorder{}
				cl := client(t, m, func(cfg *core.Config) { cfg.Observe.Retry = rec })
				b := cl.Bucket("default")
				require.NoError(t, b.WaitReady(within(t, time.Second)))
				for i := range 500 { // no vbucket is empty: a scan of such a one is refused
					k := kv.Upsert{Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v")}
					if i == 0 {
						k.Key = key
					}
					_, err := kv.Do(within(t, time.Second), b, k)
					require.NoError(t, err)
				}
				m.Inject(times(2, memd.StatusTmpFail, f.code))
				require.NoError(t, f.run(t, b))
				s := cl.RetryStats().Operations[retry.OperationKey{Service: retry.KV, Operation: f.op}]
				require.EqualValues(t, 2, s.Retries)
				require.EqualValues(t, 1, s.Failed)
				require.Zero(t, s.Hedges)
				require.Zero(t, s.Transparent)
				require.Len(t, rec.retries, 2)
				require.Empty(t, rec.gaveUp)
				var failed int
				for _, a := range rec.attempts {
					require.Equal(t, f.op, a.Operation)
					if a.Err != nil {
						failed++
					}
				}
				require.Len(t, rec.attempts, 3)
				require.Equal(t, 2, failed)
			})
		})
	}
}
