package core_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
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

// More of what the client does against the real CouchbaseMock, where the server's own records (command log, stored
// documents, retry verifier) are the oracle.

// couchbaseMockWith is couchbaseMock for a client whose configuration the test changes.
func couchbaseMockWith(
	t *testing.T, o testkit.MockOptions, change func(*core.Config), body func(t *testing.T,
		m *testkit.CouchbaseMockServer, b *core.Bucket),
) {
	t.Helper()
	o.Buckets = []string{"default:secret"}
	testkit.CouchbaseMock(t, o, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		cfg := core.Config{
			Seeds: core.SeedConfig{Hosts: m.Addresses("default")},
			Auth:  core.AuthConfig{Username: "default", Password: core.NewSecret("secret")},
			KV:    core.KVConfig{Timeout: 10 * time.Second},
		}
		if change != nil {
			change(&cfg)
		}
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(longer(t)))
		body(t, m, b)
	})
}

// noPoll leaves only what the servers say by themselves: maps come in NOT_MY_VBUCKET answers.
func noPoll(c *core.Config) { c.Maps.PollInterval = time.Hour }

// nodeOf is the index of the node that has the key's active copy.
func nodeOf(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket, key []byte) int {
	t.Helper()
	_, nodes, ok := b.Locate(key)
	require.True(t, ok)
	i := slices.Index(m.Addresses("default"), nodes[0])
	require.GreaterOrEqual(t, i, 0)
	return i
}

// keysOf are so many keys whose active copies are on the node.
func keysOf(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket, node, n int) [][]byte {
	t.Helper()
	var keys [][]byte
	for i := 0; len(keys) < n; i++ {
		key := fmt.Appendf(nil, "key-%d", i)
		if nodeOf(t, m, b, key) == node {
			keys = append(keys, key)
		}
	}
	return keys
}

// stored is one copy of a document as the server has it.
type stored struct {
	Value string
	CAS   uint64
}

// copies are what the server itself says of a key, one for each node; nil where the node is not in the key's chain.
func copies(t *testing.T, m *testkit.CouchbaseMockServer, key []byte) []*stored {
	t.Helper()
	var nodes []*struct{ Cache stored }
	require.NoError(t, json.Unmarshal(m.Command("KEYINFO", map[string]any{"Key": string(key), "Bucket": "default"}),
		&nodes))
	var out []*stored
	for _, n := range nodes {
		if n == nil {
			out = append(out, nil)
		} else {
			out = append(out, &n.Cache)
		}
	}
	return out
}

// logged is a request as the server has recorded it.
type logged struct {
	Opcode memd.Opcode `json:"opcode"`
	MS     int64       `json:"ms_timestamp"`
}

func commandLog(t *testing.T, m *testkit.CouchbaseMockServer, node int) (log []logged) {
	t.Helper()
	require.NoError(t, json.Unmarshal(m.Command("GET_CMDLOG", map[string]any{"idx": node, "bucket": "default"}), &log))
	return log
}

func TestCouchbaseMockStoresWhatWasSent(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		for i := range 30 {
			key, value := fmt.Appendf(nil, "stored-%d", i), fmt.Sprintf("value-%d", i)
			w, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte(value)})
			require.NoError(t, err)
			_, nodes, _ := b.Locate(key)
			active, has := nodeOf(t, m, b, key), 0
			for n, c := range copies(t, m, key) {
				if c != nil {
					has++
					require.Equal(t, value, c.Value)
					require.Equal(t, w.CAS, c.CAS)
					require.Contains(t, nodes, m.Addresses("default")[n])
				} else {
					require.NotEqual(t, active, n, "our hash and the server's name another node")
				}
			}
			require.Equal(t, 2, has, "the active copy and one replica")
		}

		key := []byte("short")
		_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("v"), Expiry: kv.ExpireAfter(time.Minute)})
		require.NoError(t, err)
		m.Command("TIME_TRAVEL", map[string]any{"Offset": 50})
		_, err = kv.Do(ctx, b, kv.Get{Key: key})
		require.NoError(t, err)
		m.Command("TIME_TRAVEL", map[string]any{"Offset": 20})
		_, err = kv.Do(ctx, b, kv.Get{Key: key})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
	})
}

func TestCouchbaseMockLacksExists(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, _ *testkit.CouchbaseMockServer, b *core.Bucket) {
		_, err := kv.Do(longer(t), b, kv.Exists{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.UnsupportedOperation)
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, memd.StatusUnknownCommand, e.Status)
		require.Zero(t, e.Retry.Retries())
		_, err = kv.Do(longer(t), b, kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.DocumentNotFound, "the connection is as good as before")
	})
}

func TestCouchbaseMockManyInFlight(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		run := func(n int) time.Duration {
			value := func(i int) []byte { return bytes.Repeat([]byte{'a' + byte(i%26)}, i%3000) }
			began := time.Now()
			var sets []kv.Future[kv.MutationResult]
			for i := range n {
				sets = append(sets, kv.Start(ctx, b, kv.Upsert{
					Key: fmt.Appendf(nil, "many-%d", i), Value: value(i),
					Flags: uint32(i),
				}))
			}
			for _, f := range sets {
				_, err := f.Wait(ctx)
				require.NoError(t, err)
			}
			var gets []kv.Future[kv.GetResult]
			for i := range n {
				gets = append(gets, kv.Start(ctx, b, kv.Get{Key: fmt.Appendf(nil, "many-%d", i)}))
			}
			for i, f := range gets {
				r, err := f.Wait(ctx)
				require.NoError(t, err)
				require.True(t, bytes.Equal(value(i), r.Value))
				require.EqualValues(t, i, r.Flags)
			}
			return time.Since(began)
		}
		t.Logf("%d operations in %v", 2*3000, run(3000))
		// The same with every answer cut in two, inside of a header.
		m.Command("HICCUP", map[string]any{"msecs": 2, "offset": 7})
		t.Logf("%d operations in %v, answers cut", 2*200, run(200))
		m.Command("HICCUP", map[string]any{"msecs": 0, "offset": 0})
		require.Zero(t, b.Orphans())
	})
}

// TestCouchbaseMockRetryTimesAreOurs: the server's error map tells for three codes when to try again. The retry rules
// forbid using that: the delays are the strategy's.
func TestCouchbaseMockRetryTimesAreOurs(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx, key, n := longer(t), []byte("k"), []byte("n")
		_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)
		node := nodeOf(t, m, b, key)
		for _, code := range []memd.Status{0x7ff0, 0x7ff1, 0x7ff2} {
			const failures = 7
			m.Command("OPFAIL", map[string]any{
				"code": code, "count": failures, "servers": []int{node},
				"operation": memd.OpGet,
			})
			m.Command("START_RETRY_VERIFY", map[string]any{"idx": node, "bucket": "default"})
			res, err := kv.Do(ctx, b, kv.Get{Key: key, Common: kv.Common{Retry: retry.BestEffort{}}})
			require.NoError(t, err)
			gets := slices.DeleteFunc(commandLog(t, m, node), func(r logged) bool { return r.Opcode != memd.OpGet })
			require.Len(t, gets, failures+1, "the server counts as many")
			require.Len(t, res.RetryInfo().Log, failures)
			for i, a := range res.RetryInfo().Log {
				require.Equal(t, retry.KVErrorMapRetryIndicated, a.Reason)
				high := min(time.Millisecond<<i, 500*time.Millisecond)
				require.GreaterOrEqual(t, a.Delay, max(high/2, time.Millisecond), "0x%x: delay %d", uint16(code), i)
				require.LessOrEqual(t, a.Delay, high, "0x%x: delay %d", uint16(code), i)
				gap := time.Duration(gets[i+1].MS-gets[i].MS+1) * time.Millisecond
				require.GreaterOrEqual(t, gap, a.Delay.Truncate(time.Millisecond), "the server's clock agrees")
			}
			_, err = m.TryCommand("CHECK_RETRY_VERIFY", map[string]any{
				"idx": node, "bucket": "default",
				"opcode": memd.OpGet, "errcode": code, "fuzz_ms": 5,
			})
			require.Error(t, err, "the server's own check of the map's times does not hold for us")
		}

		// What was refused was not executed: a counter may go again.
		opfail(m, 0x7ff1, memd.OpIncrement, 3)
		initial := uint64(1)
		c, err := kv.Do(ctx, b, kv.Increment{Key: n, Delta: 1, Initial: &initial})
		require.NoError(t, err)
		require.EqualValues(t, 1, c.Value)
		require.Equal(t, 3, c.RetryInfo().Counted)
		opfail(m, 0, memd.OpIncrement, 0)

		// And for good: a timeout that says what it was about. The delays leave no attempt on the wire at the deadline,
		// which would be in doubt.
		opfail(m, 0x7ff2, memd.OpIncrement, -1)
		slow := retry.BestEffort{Backoff: retry.Constant(300 * time.Millisecond)}
		_, err = kv.Do(ctx, b, kv.Increment{Key: n, Delta: 1, Common: kv.Common{
			Timeout: 500 * time.Millisecond,
			Retry:   slow,
		}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.False(t, e.Ambiguous())
		require.True(t, e.Retry.Reasons.Has(retry.KVErrorMapRetryIndicated))
		require.ErrorContains(t, err, "0x7ff2")
		opfail(m, 0, memd.OpIncrement, 0)
		c, err = kv.Do(ctx, b, kv.Increment{Key: n, Delta: 1})
		require.NoError(t, err)
		require.EqualValues(t, 2, c.Value, "the one that timed out was not applied")
	})
}

// TestCouchbaseMockTruncateLosesAnswers: an answer that fits into the limit is thrown away by the released server, a
// longer one is kept until the limit is lifted and the node writes again.
func TestCouchbaseMockTruncateLosesAnswers(t *testing.T) {
	o := testkit.MockOptions{Nodes: 1, Replicas: -1, VBuckets: 4}
	couchbaseMockWith(t, o, noPoll, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx, key := longer(t), []byte("k")
		initial := uint64(1)
		_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)

		m.Command("TRUNCATE", map[string]any{"limit": 1000})
		_, err = kv.Do(ctx, b, kv.Increment{
			Key: []byte("n"), Delta: 1, Initial: &initial,
			Common: kv.Common{Timeout: 200 * time.Millisecond},
		})
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		require.Equal(t, "1", copies(t, m, []byte("n"))[0].Value, "it was applied, and the client cannot know")
		_, err = kv.Do(ctx, b, kv.Get{Key: key, Common: kv.Common{Timeout: 200 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)

		m.Command("TRUNCATE", map[string]any{"limit": 10})
		waits := kv.Start(ctx, b, kv.Get{Key: key})
		counts := kv.Start(ctx, b, kv.Increment{Key: []byte("n"), Delta: 1})
		select {
		case <-waits.Done():
			t.Fatal("nothing is answered")
		case <-time.After(50 * time.Millisecond):
		}
		m.Command("TRUNCATE", map[string]any{"limit": 0})
		_, err = kv.Do(ctx, b, kv.Noop{})
		require.NoError(t, err)
		r, err := waits.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, "v", string(r.Value))
		n, err := counts.Wait(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 2, n.Value)
		require.Equal(t, "2", copies(t, m, []byte("n"))[0].Value)
	})
}

func TestCouchbaseMockErrorReferences(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		m.Command("SET_ENHANCED_ERRORS", map[string]any{"enabled": true})
		_, err := kv.Do(longer(t), b, kv.Get{Key: []byte("absent")})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.NotEmpty(t, e.Ref)
		require.Equal(t, "Failed to lookup item", e.Context)
		require.ErrorContains(t, err, e.Ref)
	})
}
