package core_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// What the client does against the real CouchbaseMock, which shares no code and no table with ours.

// couchbaseMock runs the body with a client of a fresh three-node CouchbaseMock.
func couchbaseMock(t *testing.T, body func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket)) {
	t.Helper()
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}},
		func(t *testing.T, m *testkit.CouchbaseMockServer) {
			b := openCouchbaseMock(t, m, "secret").Bucket("default")
			require.NoError(t, b.WaitReady(longer(t)))
			body(t, m, b)
		})
}

// longer is a context for a JVM that has just started.
func longer(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return c
}

func openCouchbaseMock(t *testing.T, m *testkit.CouchbaseMockServer, password string) *core.Cluster {
	t.Helper()
	c, err := core.Open(t.Context(), core.Config{
		Seeds: core.SeedConfig{Hosts: m.Addresses("default")},
		Auth:  core.AuthConfig{Username: "default", Password: core.NewSecret(password)},
		KV:    core.KVConfig{Timeout: 10 * time.Second},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestCouchbaseMockTakesEveryOperation(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, _ *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		key, other := []byte("k"), []byte("other")

		w, err := kv.Do(ctx, b, kv.Insert{Key: key, Value: []byte(`{"a":1}`)})
		require.NoError(t, err)
		require.NotZero(t, w.CAS)
		require.False(t, w.Token.IsZero())
		_, err = kv.Do(ctx, b, kv.Insert{Key: key, Value: []byte(`{}`)})
		require.ErrorIs(t, err, cberr.DocumentExists)
		r, err := kv.Do(ctx, b, kv.Get{Key: key})
		require.NoError(t, err)
		require.Equal(t, `{"a":1}`, string(r.Value))
		require.Equal(t, w.CAS, r.CAS)

		_, err = kv.Do(ctx, b, kv.Replace{Key: key, Value: []byte(`2`), CAS: w.CAS + 1})
		require.ErrorIs(t, err, cberr.CASMismatch)
		_, err = kv.Do(ctx, b, kv.Replace{Key: key, Value: []byte(`2`), CAS: w.CAS})
		require.NoError(t, err)
		_, err = kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte(`b`)})
		require.NoError(t, err)
		_, err = kv.Do(ctx, b, kv.Append{Key: key, Value: []byte(`c`)})
		require.NoError(t, err)
		_, err = kv.Do(ctx, b, kv.Prepend{Key: key, Value: []byte(`a`)})
		require.NoError(t, err)
		r, err = kv.Do(ctx, b, kv.GetAndTouch{Key: key, Expiry: kv.ExpireAfter(time.Hour)})
		require.NoError(t, err)
		require.Equal(t, "abc", string(r.Value))
		_, err = kv.Do(ctx, b, kv.Touch{Key: key})
		require.NoError(t, err)

		initial := uint64(10)
		n, err := kv.Do(ctx, b, kv.Increment{Key: other, Delta: 5, Initial: &initial})
		require.NoError(t, err)
		require.EqualValues(t, 10, n.Value)
		n, err = kv.Do(ctx, b, kv.Increment{Key: other, Delta: 5})
		require.NoError(t, err)
		require.EqualValues(t, 15, n.Value)
		n, err = kv.Do(ctx, b, kv.Decrement{Key: other, Delta: 1})
		require.NoError(t, err)
		require.EqualValues(t, 14, n.Value)

		l, err := kv.Do(ctx, b, kv.GetAndLock{Key: key, LockTime: 20 * time.Second})
		require.NoError(t, err)
		_, err = kv.Do(ctx, b, kv.Unlock{Key: key, CAS: l.CAS})
		require.NoError(t, err)

		replica, err := kv.Do(ctx, b, kv.GetReplica{Key: key, Replica: 1})
		require.NoError(t, err)
		require.Equal(t, "abc", string(replica.Value))
		_, err = kv.Do(ctx, b, kv.Noop{})
		require.NoError(t, err)

		_, err = kv.Do(ctx, b, kv.Remove{Key: key})
		require.NoError(t, err)
		_, err = kv.Do(ctx, b, kv.Get{Key: key})
		require.ErrorIs(t, err, cberr.DocumentNotFound)

		// What it does not have is said, not tried in vain.
		_, err = kv.Do(ctx, b, kv.Get{Key: key, Common: kv.Common{Collection: "c"}})
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
		_, err = kv.Do(ctx, b, kv.Upsert{Key: key, Durability: memd.DurabilityMajority})
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
	})
}

// opfail makes the next count requests of every node fail.
func opfail(m *testkit.CouchbaseMockServer, code memd.Status, op memd.Opcode, count int) {
	m.Command("OPFAIL", map[string]any{"code": code, "count": count, "operation": op})
}

func TestCouchbaseMockFailuresAreRetried(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx, key := longer(t), []byte("k")
		_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("1")})
		require.NoError(t, err)
		for code, reason := range map[memd.Status]retry.Reason{
			memd.StatusTmpFail: retry.KVTemporaryFailure,
			// Codes that are left to its error map, three of which only that explains.
			memd.StatusBusy: retry.KVErrorMapRetryIndicated,
			0x7ff0:          retry.KVErrorMapRetryIndicated,
			0x7ff1:          retry.KVErrorMapRetryIndicated,
			0x7ff2:          retry.KVErrorMapRetryIndicated,
		} {
			opfail(m, code, memd.OpGet, 2)
			res, err := kv.Do(ctx, b, kv.Get{Key: key})
			require.NoError(t, err, "0x%x", uint16(code))
			require.Equal(t, 2, res.RetryInfo().Counted, "0x%x", uint16(code))
			require.True(t, res.RetryInfo().Reasons.Has(reason), "0x%x: %v", uint16(code), res.RetryInfo())
			// The map's own intervals are not used: the delays are those of the strategy's backoff.
			require.Less(t, res.RetryInfo().Waited, 500*time.Millisecond, "0x%x", uint16(code))
		}

		opfail(m, memd.StatusTmpFail, memd.OpSet, 1)
		w, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("2")})
		require.NoError(t, err, "a refused write was not executed, so it may go again")
		require.Equal(t, 1, w.RetryInfo().Counted)

		opfail(m, memd.StatusTooBig, memd.OpSet, 1)
		_, err = kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("3")})
		require.ErrorIs(t, err, cberr.ValueTooLarge)
		opfail(m, 0, memd.OpSet, 0)
	})
}

func TestCouchbaseMockHiccupDelaysAndTruncateBreaks(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx, key := longer(t), []byte("k")
		_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("value")})
		require.NoError(t, err)

		m.Command("HICCUP", map[string]any{"msecs": 150, "offset": 20})
		began := time.Now()
		r, err := kv.Do(ctx, b, kv.Get{Key: key})
		require.NoError(t, err)
		require.Equal(t, "value", string(r.Value))
		require.GreaterOrEqual(t, time.Since(began), 150*time.Millisecond, "the answer came in two pieces")
		m.Command("HICCUP", map[string]any{"msecs": 0, "offset": 0})

		// Answers longer than the limit do not arrive while it is in force, so the call ends at its deadline. (The
		// released server holds them back whole, where its documentation speaks of their first bytes.)
		m.Command("TRUNCATE", map[string]any{"limit": 10})
		_, err = kv.Do(ctx, b, kv.Increment{
			Key: []byte("n"), Initial: new(uint64),
			Common: kv.Common{Timeout: 300 * time.Millisecond},
		})
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		_, err = kv.Do(ctx, b, kv.Get{Key: key, Common: kv.Common{Timeout: 300 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		m.Command("TRUNCATE", map[string]any{"limit": 0})
		require.Eventually(t, func() bool {
			r, err := kv.Do(ctx, b, kv.Get{Key: key, Common: kv.Common{Timeout: time.Second}})
			return err == nil && string(r.Value) == "value"
		}, 20*time.Second, 10*time.Millisecond)
	})
}

func TestCouchbaseMockFailoverAndRespawn(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		const keys = 40
		store := func() (failed []error) {
			for i := range keys {
				_, err := kv.Do(ctx, b, kv.Upsert{
					Key: fmt.Appendf(nil, "key-%d", i), Value: []byte("v"), Common: kv.Common{Timeout: 5 * time.Second},
				})
				if err != nil {
					failed = append(failed, err)
				}
			}
			return failed
		}
		require.Empty(t, store())
		before, ok := b.Map()
		require.True(t, ok)

		// The node falls silent with its sockets open; the others' map moves its vbuckets.
		m.Command("FAILOVER", map[string]any{"idx": 1, "rebalance": true})
		require.Eventually(t, func() bool {
			now, _ := b.Map()
			return now.Rev > before.Rev && len(now.Nodes) == 2
		}, 20*time.Second, 10*time.Millisecond)
		require.Empty(t, store(), "every vbucket has a living node")

		m.Command("RESPAWN", map[string]any{"idx": 1})
		require.Eventually(t, func() bool {
			now, _ := b.Map()
			return len(now.Nodes) == 3
		}, 20*time.Second, 10*time.Millisecond)
		require.Empty(t, store())
	})
}

// TestCouchbaseMockWrongPassword matters because this server answers a failed SCRAM login with success: only the
// missing server signature tells.
func TestCouchbaseMockWrongPassword(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}},
		func(t *testing.T, m *testkit.CouchbaseMockServer) {
			b := openCouchbaseMock(t, m, "guessed").Bucket("default")
			began := time.Now()
			_, err := kv.Do(longer(t), b, kv.Get{Key: []byte("k")})
			require.ErrorIs(t, err, cberr.AuthenticationFailure)
			require.Less(t, time.Since(began), 5*time.Second)
			require.NotContains(t, err.Error(), "guessed")
		})
}
