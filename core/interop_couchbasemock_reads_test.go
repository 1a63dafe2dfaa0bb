package core_test

import (
	"bytes"
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

// Many reads at once, which share what their calls would repeat, against the real CouchbaseMock.

func TestCouchbaseMockManyReads(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		const n = 2000
		ctx := longer(t)
		value := func(i int) []byte { return bytes.Repeat([]byte{'a' + byte(i%26)}, i%3000) }
		absent := func(i int) bool { return i%7 == 3 }
		keys := make([][]byte, n)
		var docs []kv.Upsert
		for i := range n {
			if keys[i] = fmt.Appendf(nil, "read-%d", i); !absent(i) {
				docs = append(docs, kv.Upsert{Key: keys[i], Value: value(i), Flags: uint32(i)})
			}
		}
		cas := map[string]uint64{}
		for i, o := range kv.UpsertMulti(ctx, b, docs) {
			require.NoError(t, o.Err)
			cas[string(docs[i].Key)] = o.Result.CAS
		}
		check := func(out []kv.Outcome[kv.GetResult], n int) {
			t.Helper()
			require.Len(t, out, n)
			for i, o := range out {
				if absent(i) {
					require.ErrorIs(t, o.Err, cberr.DocumentNotFound, "%s", keys[i])
					continue
				}
				require.NoError(t, o.Err, "%s", keys[i])
				require.True(t, bytes.Equal(value(i), o.Result.Value), "%s", keys[i])
				require.EqualValues(t, i, o.Result.Flags)
				require.Equal(t, cas[string(keys[i])], o.Result.CAS)
			}
		}
		check(kv.GetMulti(ctx, b, kv.Common{}, keys), n)

		into := make([]kv.Get, n)
		for i := range into {
			into[i] = kv.Get{Key: keys[i], Into: append(make([]byte, 0, 3001), '>')}
		}
		out := kv.Batch[kv.GetResult](ctx, b, into, 64)
		for i := range out {
			if !absent(i) {
				require.Equal(t, byte('>'), out[i].Result.Value[0])
				require.Same(t, &into[i].Into[0], &out[i].Result.Value[0], "the caller's buffer")
				out[i].Result.Value = out[i].Result.Value[1:]
			}
		}
		check(out, n)

		// With every answer cut in two, inside of a header.
		m.Command("HICCUP", map[string]any{"msecs": 2, "offset": 7})
		check(kv.GetMulti(ctx, b, kv.Common{}, keys[:200]), 200)
		m.Command("HICCUP", map[string]any{"msecs": 0, "offset": 0})

		// Some of them fail for a while.
		opfail(m, memd.StatusTmpFail, memd.OpGet, 5)
		out = kv.GetMulti(ctx, b, kv.Common{Retry: retry.BestEffort{}}, keys[:200])
		check(out, 200)
		attempts := 0
		for _, o := range out {
			attempts += o.Result.RetryInfo().Counted
		}
		require.Positive(t, attempts, "the history of those that did not succeed at once")
		require.Zero(t, b.Orphans())
	})
}

func TestCouchbaseMockManyReadsOfMovedVBuckets(t *testing.T) {
	couchbaseMockWith(t, testkit.MockOptions{}, noPoll, func(t *testing.T, m *testkit.CouchbaseMockServer,
		b *core.Bucket,
	) {
		ctx := longer(t)
		keys := append(keysOf(t, m, b, 0, 40), keysOf(t, m, b, 1, 40)...)
		before, _ := b.Map()
		m.Command("FAILOVER", map[string]any{"idx": 1, "rebalance": true})
		var docs []kv.Upsert
		for _, key := range keys[:40] { // only these have a node that can say where the others are
			docs = append(docs, kv.Upsert{Key: key, Value: key})
		}
		for _, o := range kv.UpsertMulti(ctx, b, docs) {
			require.NoError(t, o.Err)
		}
		m.Command("RESPAWN", map[string]any{"idx": 1, "rebalance": true})
		moved := 0
		for i, o := range kv.GetMulti(ctx, b, kv.Common{Timeout: 8 * time.Second, Retry: retry.BestEffort{}}, keys) {
			if o.Err != nil { // the server moves vbuckets without their contents
				require.ErrorIs(t, o.Err, cberr.DocumentNotFound, "%s", keys[i])
				continue
			}
			require.Equal(t, string(keys[i]), string(o.Result.Value))
			if o.Result.RetryInfo().Reasons.Has(retry.KVNotMyVBucket) {
				moved++
			}
		}
		after, _ := b.Map()
		require.Greater(t, after.Rev, before.Rev)
		require.Positive(t, moved, "reads that were sent to a former node and found the document elsewhere")
	})
}

// TestCouchbaseMockManyReadsWithoutAnswers: reads have no part in what is in doubt.
func TestCouchbaseMockManyReadsWithoutAnswers(t *testing.T) {
	o := testkit.MockOptions{Nodes: 1, Replicas: -1, VBuckets: 4}
	couchbaseMockWith(t, o, noPoll, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		keys := keysOf(t, m, b, 0, 50)
		for _, key := range keys {
			_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: key})
			require.NoError(t, err)
		}
		m.Command("TRUNCATE", map[string]any{"limit": 1000})
		for _, o := range kv.GetMulti(ctx, b, kv.Common{Timeout: 200 * time.Millisecond}, keys) {
			require.ErrorIs(t, o.Err, cberr.UnambiguousTimeout)
			var e *kv.Error
			require.ErrorAs(t, o.Err, &e)
			require.Equal(t, m.Addresses("default")[0], e.Endpoint)
		}
		m.Command("TRUNCATE", map[string]any{"limit": 0})
		for i, o := range kv.GetMulti(ctx, b, kv.Common{}, keys) {
			require.NoError(t, o.Err)
			require.Equal(t, string(keys[i]), string(o.Result.Value))
		}
	})
}
