package kv_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Compressed values come back as they were, and a client that wants them raw gets them raw.
func TestCompressionOnACluster(t *testing.T) {
	for _, mode := range []string{"off", "passive", "active"} {
		onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
			text := bytes.Repeat([]byte(`{"a":"0123456789"},`), 200)
			key := []byte("k")
			_, err := kv.Do(testContext(t), b, kv.Upsert{Key: key, Value: text})
			require.NoError(t, err)
			res, err := kv.Do(testContext(t), b, kv.Get{Key: key})
			require.NoError(t, err)
			require.Equal(t, text, res.Value)
			require.Zero(t, res.Datatype&memd.DatatypeSnappy)
			raw, err := kv.Do(testContext(t), b, kv.Get{Key: key, KeepCompressed: true})
			require.NoError(t, err)
			require.Equal(t, mode != "off", raw.Datatype&memd.DatatypeSnappy != 0, mode)
			inflated, err := call.Inflate(raw.Value, raw.Datatype, 0)
			require.NoError(t, err)
			require.Equal(t, text, inflated)
			_, err = kv.Do(testContext(t), b, kv.Append{Key: key, Value: text})
			require.NoError(t, err)
			require.Equal(t, string(text)+string(text), read(t, b, kv.Common{}, "k"))
		}, mock.Compression(mode))
	}
}

// Legacy durability against nodes: by sequence number and by CAS.
func TestPollingOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		for _, c := range places {
			for _, byCAS := range []bool{false, true} {
				p := kv.PollDurability{PersistTo: 3, ReplicateTo: 2, ByCAS: byCAS}
				_, err := kv.DoPolled(testContext(t), b, kv.Upsert{Common: c, Key: []byte("k"), Value: []byte("v")}, p)
				require.NoError(t, err, "by CAS: %v", byCAS)
				_, err = kv.DoPolled(testContext(t), b, kv.Remove{Common: c, Key: []byte("k")}, p)
				require.NoError(t, err)
				require.NoError(t, m.SetReplicaLag("default", time.Second))
				began := time.Now()
				_, err = kv.DoPolled(testContext(t), b, kv.Upsert{Common: c, Key: []byte("k"), Value: []byte("v")},
					kv.PollDurability{ReplicateTo: 1, ByCAS: byCAS})
				require.NoError(t, err)
				require.InDelta(t, time.Second, time.Since(began), float64(200*time.Millisecond),
					"as soon as a replica has it")
				require.NoError(t, m.SetReplicaLag("default", 0))
			}
		}
		_, err := kv.DoPolled(testContext(t), b, kv.Upsert{Key: []byte("k")}, kv.PollDurability{ReplicateTo: 3})
		require.ErrorIs(t, err, cberr.DurabilityImpossible)
	})
}

// fill stores n documents in each place and gives their keys, sorted.
func fill(t *testing.T, b *core.Bucket, n int) []string {
	t.Helper()
	var keys []string
	for _, c := range places {
		docs := make([]kv.Upsert, n)
		for i := range docs {
			k := fmt.Sprintf("k%04d", i)
			docs[i] = kv.Upsert{Common: c, Key: []byte(k), Value: []byte(`{"k":"` + k + `"}`), Flags: 0x02000006}
			if c.Scope == "" {
				keys = append(keys, k)
			}
		}
		for _, o := range kv.UpsertMulti(testContext(t), b, docs) {
			require.NoError(t, o.Err)
		}
	}
	return keys
}

func scanned(t *testing.T, b *core.Bucket, op kv.Scan) []string {
	t.Helper()
	run, err := op.Run(testContext(t), b)
	require.NoError(t, err)
	var keys []string
	for it, err := range run.All(testContext(t)) {
		require.NoError(t, err)
		keys = append(keys, string(it.Key))
		if !op.KeysOnly {
			require.Equal(t, `{"k":"`+string(it.Key)+`"}`, string(it.Value))
			require.EqualValues(t, 0x02000006, it.Flags)
			require.NotZero(t, it.CAS)
			require.NotZero(t, it.Seqno)
		}
	}
	return keys
}

// B64, K31: ranges, prefixes, samples and everything, in each collection.
func TestScansOnACluster_B64(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		all := fill(t, b, 300)
		for _, c := range places {
			require.Equal(t, all, sorted(scanned(t, b, kv.Scan{Common: c})))
			require.Equal(t, all, scanned(t, b, kv.Scan{Common: c, KeysOnly: true, Sorted: true}))
			require.Equal(t, all[100:200], scanned(t, b, kv.Scan{
				Common: c, Range: kv.PrefixRange([]byte("k01")),
				Sorted: true,
			}))
			require.Equal(t, all[11:20], scanned(t, b, kv.Scan{Common: c, Sorted: true, Range: &kv.ScanRange{
				Start: []byte("k0010"), ExcludeStart: true, End: []byte("k0020"), ExcludeEnd: true,
			}}))
			sample := scanned(t, b, kv.Scan{
				Common: c, Samples: 20, Seed: 3,
				KeysOnly: true,
			})
			require.Len(t, sample, 20)
			require.Len(t, slices.Compact(sorted(sample)), 20)
			require.Empty(t, scanned(t, b, kv.Scan{Common: c, Range: kv.PrefixRange([]byte("x"))}))
		}
		_, err := kv.Do(testContext(t), b, kv.RangeScanCreate{Common: kv.Common{
			Scope: "s", Collection: "nope",
			Retry: never{},
		}, Range: &kv.ScanRange{}})
		require.ErrorIs(t, err, cberr.CollectionNotFound)
	})
}

// A scan knows of the mutations that it is to be consistent with; one of another history is refused.
func TestAConsistentScanOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		fill(t, b, 50)
		res, err := kv.Do(testContext(t), b, kv.Upsert{Key: []byte("k9999"), Value: []byte(`{"k":"k9999"}`), Flags: 0x02000006})
		require.NoError(t, err)
		require.Contains(t, scanned(t, b, kv.Scan{ConsistentWith: []kv.MutationToken{res.Token}}), "k9999")
		stale := res.Token
		stale.UUID++
		run, err := kv.Scan{ConsistentWith: []kv.MutationToken{stale}}.Run(testContext(t), b)
		require.NoError(t, err)
		for run.Next(testContext(t)) {
		}
		require.Equal(t, memd.StatusVBUUIDNotEqual, kvError(t, run.Err()).Status)
	})
}

// K31: while vbuckets move and connections break a scan finds everything once.
func TestScansThroughChangesOfTheCluster_K31(t *testing.T) {
	for name, change := range map[string]func(m *mock.Cluster, n int) error{
		"moves":  func(m *mock.Cluster, n int) error { return m.MoveVBucket("default", n%16, n/16%3) },
		"breaks": func(m *mock.Cluster, n int) error { return m.CloseConns(n % 3) },
	} {
		onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			all := fill(t, b, 400)
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpRangeScanContinue}}, mock.Delay(5*time.Millisecond))
			run, err := kv.Scan{KeysOnly: true, BatchItems: 3}.Run(contextOf(t, time.Minute), b)
			require.NoError(t, err)
			defer run.Close()
			var keys []string
			for n := 0; run.Next(contextOf(t, time.Minute)); n++ {
				keys = append(keys, string(run.Item().Key))
				if n%10 == 9 {
					require.NoError(t, change(m, n), name)
				}
			}
			require.NoError(t, run.Err(), name)
			require.Equal(t, all, sorted(keys), name)
		})
	}
}

// K30: a scan that is given up leaves nothing running on the nodes.
func TestAScanThatIsGivenUpOnACluster_K30(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		fill(t, b, 500)
		run, err := kv.Scan{BatchItems: 2}.Run(testContext(t), b)
		require.NoError(t, err)
		require.True(t, run.Next(testContext(t)))
		run.Close()
		require.NoError(t, run.Err())
		require.Positive(t, m.Frames(memd.OpRangeScanCancel))
		require.Zero(t, m.Scans("default"))
		// A scan that is used after its cancellation is unknown.
		scan, err := kv.Do(testContext(t), b, kv.RangeScanCreate{Range: &kv.ScanRange{}})
		require.NoError(t, err)
		_, err = kv.Do(testContext(t), b, kv.RangeScanCancel{Scan: scan})
		require.NoError(t, err)
		_, err = kv.Do(testContext(t), b, kv.RangeScanContinue{Scan: scan})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		// And one whose connection is gone is refused without a request.
		scan, err = kv.Do(testContext(t), b, kv.RangeScanCreate{Range: &kv.ScanRange{}})
		require.NoError(t, err)
		m.DisconnectAll()
		time.Sleep(time.Second)
		_, err = kv.Do(testContext(t), b, kv.RangeScanContinue{Scan: scan})
		var gone *call.ConnectionGoneError
		require.ErrorAs(t, err, &gone)
	})
}

// B41, D105: some document of the collection, from all nodes.
func TestRandomDocumentsOnACluster_B41_D105(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		for _, c := range places {
			_, err := kv.Do(testContext(t), b, kv.GetRandom{Common: c})
			require.ErrorIs(t, err, cberr.DocumentNotFound, "an empty collection")
		}
		_, err := kv.Do(testContext(t), b, kv.Upsert{Common: places[1], Key: []byte("only"), Value: []byte("1")})
		require.NoError(t, err)
		fillOne := func(n int) {
			for i := range n {
				insert(t, b, kv.Common{}, fmt.Sprintf("r%d", i), "1")
			}
		}
		fillOne(100)
		nodes := map[string]int{}
		for range 90 {
			res, err := kv.Do(testContext(t), b, kv.GetRandom{})
			require.NoError(t, err)
			require.Equal(t, byte('r'), res.Key[0])
			require.Equal(t, "1", string(res.Value))
			nodes[res.Endpoint()]++
		}
		require.Len(t, nodes, 3)
		for node, n := range nodes {
			require.Greater(t, n, 15, "D105: %s", node)
		}
		found := false
		for range 30 {
			res, err := kv.Do(testContext(t), b, kv.GetRandom{Common: places[1]})
			if err == nil {
				require.Equal(t, "only", string(res.Key))
				found = true
			}
		}
		require.True(t, found)
	})
}

// B44: a document that is written with its metadata has it.
func TestMetadataWritesOnACluster_B44(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		at := time.Now().Add(time.Hour).Truncate(time.Second)
		for _, c := range places {
			key := []byte("k")
			m := kv.Meta{Flags: 7, Expiry: at, RevSeqno: 12, StoreCAS: 0x1122334455667700}
			_, err := kv.Do(testContext(t), b, kv.AddWithMeta{Common: c, Key: key, Value: []byte("v"), Meta: m})
			require.NoError(t, err)
			_, err = kv.Do(testContext(t), b, kv.AddWithMeta{Common: c, Key: key, Value: []byte("v"), Meta: m})
			require.ErrorIs(t, err, cberr.DocumentExists)
			got, err := kv.Do(testContext(t), b, kv.GetMeta{Common: c, Key: key})
			require.NoError(t, err)
			require.Equal(t, m.StoreCAS, got.CAS)
			require.EqualValues(t, 7, got.Flags)
			require.EqualValues(t, 12, got.RevSeqno)
			require.True(t, at.Equal(got.Expiry))
			require.Equal(t, "v", read(t, b, c, "k"))

			m.RevSeqno, m.StoreCAS = 13, 0x1122334455667701
			_, err = kv.Do(testContext(t), b, kv.SetWithMeta{
				Common: c, Key: key, Value: []byte("w"), Meta: m,
				CheckCAS: 5,
			})
			require.ErrorIs(t, err, cberr.CASMismatch)
			_, err = kv.Do(testContext(t), b, kv.SetWithMeta{Common: c, Key: key, Value: []byte("w"), Meta: m})
			require.NoError(t, err)
			require.Equal(t, "w", read(t, b, c, "k"))
			m.RevSeqno, m.StoreCAS, m.Expiry = 14, 0x1122334455667702, time.Time{}
			_, err = kv.Do(testContext(t), b, kv.DeleteWithMeta{Common: c, Key: key, Meta: m})
			require.NoError(t, err)
			got, err = kv.Do(testContext(t), b, kv.GetMeta{Common: c, Key: key})
			require.NoError(t, err)
			require.True(t, got.Deleted)
			require.EqualValues(t, 14, got.RevSeqno)
		}
	})
}

// K26: a document with its attributes in one request, from the active copy and from a replica.
func TestGetExOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		for _, c := range places {
			insert(t, b, c, "k", `{"a":1}`)
			res, err := kv.Do(testContext(t), b, kv.GetEx{Common: c, Key: []byte("k")})
			require.NoError(t, err)
			require.Empty(t, res.Xattrs)
			require.JSONEq(t, `{"a":1}`, string(res.Value))
			_, err = kv.Do(testContext(t), b, kv.MutateIn{
				Common: c, Key: []byte("k"),
				Specs: []kv.MutateSpec{{Op: memd.OpSubdocDictUpsert, Path: "x", Value: []byte("7"), Xattr: true}},
			})
			require.NoError(t, err)
			res, err = kv.Do(testContext(t), b, kv.GetEx{Common: c, Key: []byte("k")})
			require.NoError(t, err)
			v, ok := res.Xattrs.Get("x")
			require.True(t, ok)
			require.Equal(t, "7", string(v))
			require.JSONEq(t, `{"a":1}`, string(res.Value))
			replica, err := kv.Do(testContext(t), b, kv.GetEx{Common: c, Key: []byte("k"), Replica: 1})
			require.NoError(t, err)
			require.Equal(t, string(res.Value), string(replica.Value))
			_, err = kv.Do(testContext(t), b, kv.GetEx{Common: c, Key: []byte("no"), Replica: 1})
			require.ErrorIs(t, err, cberr.DocumentNotFoundOnReplica)
		}
	})
}

// contextOf is a context that ends after d.
func contextOf(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
