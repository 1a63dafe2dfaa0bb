package kv_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// K8 to K10, K20, B38: all copies, any copy, and one by its number.
func TestCopiesOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		for _, c := range places {
			insert(t, b, c, "k", `{"a":1}`)
			time.Sleep(time.Second) // replicated
			s, err := kv.GetAllReplicas(testContext(t), b, kv.GetReplica{Common: c, Key: []byte("k")})
			require.NoError(t, err)
			nodes, replicas := map[string]bool{}, 0
			for r, ok := s.Next(t.Context()); ok; r, ok = s.Next(t.Context()) {
				require.Equal(t, `{"a":1}`, string(r.Value))
				nodes[r.Endpoint()] = true
				if r.FromReplica {
					replicas++
				}
			}
			require.NoError(t, s.Err())
			require.Len(t, nodes, 3)
			require.Equal(t, 2, replicas)
			any1, err := kv.GetAnyReplica(testContext(t), b, kv.GetReplica{Common: c, Key: []byte("k")})
			require.NoError(t, err)
			require.Equal(t, `{"a":1}`, string(any1.Value))
			look := kv.LookupIn{Common: c, Key: []byte("k"), Specs: []kv.LookupSpec{kv.GetPath("a")}}
			ls, err := kv.LookupInAllReplicas(testContext(t), b, look)
			require.NoError(t, err)
			n := 0
			for r, ok := ls.Next(t.Context()); ok; r, ok = ls.Next(t.Context()) {
				require.Equal(t, "1", string(r.Paths[0].Value))
				n++
			}
			require.Equal(t, 3, n)
			_, err = kv.GetAnyReplica(testContext(t), b, kv.GetReplica{Common: c, Key: []byte("missing")})
			require.ErrorIs(t, err, cberr.DocumentUnretrievable)
		}
		one, err := kv.Do(testContext(t), b, kv.GetReplica{Key: []byte("k"), Replica: 2})
		require.NoError(t, err)
		require.True(t, one.FromReplica)
		_, err = kv.Do(testContext(t), b, kv.GetReplica{Key: []byte("k"), Replica: 3})
		require.ErrorIs(t, err, cberr.ReplicaIndexOutOfBounds)
		wrapped, err := kv.Do(testContext(t), b, kv.GetReplica{Key: []byte("k"), Replica: 3, Wrap: true})
		require.NoError(t, err)
		require.NotEqual(t, one.Endpoint(), wrapped.Endpoint())
		_, err = kv.Do(testContext(t), b, kv.GetReplica{Key: []byte("missing"), Replica: 1})
		require.ErrorIs(t, err, cberr.DocumentNotFoundOnReplica)
		require.ErrorIs(t, err, cberr.DocumentNotFound)
	})
}

// D104: a replica that leaves midway ends no stream late, and gives no node two voices.
func TestAReplicaThatLeavesMidway_D104(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		insert(t, b, kv.Common{}, "k", `1`)
		time.Sleep(time.Second)
		_, nodes, _ := b.Locate([]byte("k"))
		var gone int
		for i := range 3 {
			if m.Node(i).Addr() == nodes[2] {
				gone = i
			}
		}
		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetReplica}}, mock.Delay(time.Second))
		began := time.Now()
		s, err := kv.GetAllReplicas(testContext(t), b, kv.GetReplica{
			Common: kv.Common{Timeout: 5 * time.Second},
			Key:    []byte("k"),
		})
		require.NoError(t, err)
		time.AfterFunc(500*time.Millisecond, func() { _ = m.Failover(gone) })
		seen := map[string]int{}
		next := testContext(t) // longer than the copies may take
		for r, ok := s.Next(next); ok; r, ok = s.Next(next) {
			seen[r.Endpoint()]++
		}
		require.NoError(t, s.Err())
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
		require.GreaterOrEqual(t, len(seen), 2)
		for node, n := range seen {
			require.Equal(t, 1, n, node)
		}
		in.Remove()
	})
}

// B39, B49: every level of durability on every write that takes one; tokens name vbucket, history and growing numbers.
func TestDurableWritesOnACluster_B39_B49(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		for _, level := range []memd.DurabilityLevel{0, 1, 2, 3} {
			for _, c := range places {
				key, v := fmt.Appendf(nil, "k-%d", level), []byte("1")
				do := func(res kv.MutationResult, err error) kv.MutationResult {
					t.Helper()
					require.NoError(t, err)
					return res
				}
				var last kv.MutationToken
				for i, res := range []func() kv.MutationResult{
					func() kv.MutationResult {
						return do(kv.Do(testContext(t), b, kv.Upsert{Common: c, Key: key, Value: v, Durability: level}))
					},
					func() kv.MutationResult {
						return do(kv.Do(testContext(t), b, kv.Replace{
							Common: c, Key: key, Value: v,
							Durability: level,
						}))
					},
					func() kv.MutationResult {
						return do(kv.Do(testContext(t), b, kv.Append{Common: c, Key: key, Value: v, Durability: level}))
					},
					func() kv.MutationResult {
						return do(kv.Do(testContext(t), b, kv.Prepend{
							Common: c, Key: key, Value: v,
							Durability: level,
						}))
					},
					func() kv.MutationResult {
						r, err := kv.Do(testContext(t), b, kv.Increment{
							Common: c, Key: key, Delta: 1,
							Durability: level,
						})
						require.EqualValues(t, 112, r.Value)
						return do(r.MutationResult, err)
					},
					func() kv.MutationResult {
						r, err := kv.Do(testContext(t), b, kv.Decrement{
							Common: c, Key: key, Delta: 1,
							Durability: level,
						})
						return do(r.MutationResult, err)
					},
					func() kv.MutationResult {
						r, err := kv.Do(testContext(t), b, kv.MutateIn{
							Common: c, Key: key,
							Specs: []kv.MutateSpec{kv.ReplacePath("", []byte("{}"))}, Durability: level,
						})
						return do(r.MutationResult, err)
					},
					func() kv.MutationResult {
						return do(kv.Do(testContext(t), b, kv.Remove{Common: c, Key: key, Durability: level}))
					},
					func() kv.MutationResult {
						return do(kv.Do(testContext(t), b, kv.Insert{Common: c, Key: key, Value: v, Durability: level}))
					},
				} {
					r := res()
					vb, _, _ := b.Locate(key)
					require.Equal(t, vb, r.Token.VBucket)
					require.Equal(t, "default", r.Token.Bucket)
					require.True(t, i == 0 || r.Token.UUID == last.UUID)
					require.Greater(t, r.Token.Seqno, last.Seqno)
					last = r.Token
				}
				if level > 0 {
					got, err := kv.Do(testContext(t), b, kv.GetReplica{Common: c, Key: key, Replica: 1})
					require.NoError(t, err, "B39: on a replica once it is acknowledged")
					require.Equal(t, "1", string(got.Value))
				}
			}
		}
	})
}

// B42, K35: statistics of all nodes; one that fails has its error beside the others'.
func TestStatsOnACluster_B42(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		all, err := kv.StatAll(testContext(t), b, kv.Stat{})
		require.NoError(t, err)
		require.Len(t, all, 3)
		nodes := map[string]bool{}
		for _, s := range all {
			require.NoError(t, s.Err)
			require.NotEmpty(t, s.Result.Stats)
			nodes[s.Result.Endpoint()] = true
		}
		require.Len(t, nodes, 3)

		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpStat}, Nodes: []int{1}}, mock.Drop())
		all, err = kv.StatAll(testContext(t), b, kv.Stat{Common: kv.Common{Timeout: time.Second}})
		require.NoError(t, err)
		failed := 0
		for _, s := range all {
			if s.Err != nil {
				require.ErrorIs(t, s.Err, cberr.UnambiguousTimeout)
				failed++
			}
		}
		require.Equal(t, 1, failed)

		vb, nodesOf, _ := b.Locate([]byte("k"))
		one, err := kv.Do(testContext(t), b, kv.Stat{Group: "vbucket", ByVBucket: true, VBucket: vb})
		require.NoError(t, err)
		require.Equal(t, nodesOf[0], one.Endpoint())
		require.NotEmpty(t, one.Stats)
		_, err = kv.Do(testContext(t), b, kv.Stat{ByVBucket: true, VBucket: 999})
		require.ErrorIs(t, err, cberr.InvalidArgument)
	})
}

// K22, K33, K36, K37: what nodes say of documents, vbuckets, collections and themselves.
func TestMetadataOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		for _, c := range places {
			stored := insert(t, b, c, "k", `{"a":1}`)
			for _, v1 := range []bool{false, true} {
				meta, err := kv.Do(testContext(t), b, kv.GetMeta{Common: c, Key: []byte("k"), V1: v1})
				require.NoError(t, err)
				require.Equal(t, stored, meta.CAS)
				require.EqualValues(t, 0x02000006, meta.Flags)
				require.False(t, meta.Deleted)
				require.Equal(t, !v1, meta.HasDatatype)
				require.Positive(t, meta.RevSeqno)
			}
			_, err := kv.Do(testContext(t), b, kv.Remove{Common: c, Key: []byte("k")})
			require.NoError(t, err)
			meta, err := kv.Do(testContext(t), b, kv.GetMeta{Common: c, Key: []byte("k")})
			require.NoError(t, err)
			require.True(t, meta.Deleted)
			_, err = kv.Do(testContext(t), b, kv.GetMeta{Common: c, Key: []byte("never")})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
		}
		res, err := kv.Do(testContext(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		log, err := kv.Do(testContext(t), b, kv.GetFailoverLog{VBucket: res.Token.VBucket})
		require.NoError(t, err)
		require.Equal(t, res.Token.UUID, log.Entries[0].UUID)
		for replica := range 3 {
			seq, err := kv.Do(testContext(t), b, kv.ObserveSeqno{
				VBucket: res.Token.VBucket, UUID: res.Token.UUID,
				Replica: replica,
			})
			require.NoError(t, err)
			require.Equal(t, res.Token.VBucket, seq.VBucket)
			require.GreaterOrEqual(t, seq.Current, res.Token.Seqno)
		}
		var h kv.Histories
		_, err = kv.DoInHistory(testContext(t), b, &h, res.Token.UUID, kv.GetMeta{Key: []byte("k")})
		require.NoError(t, err)
		_, err = kv.DoInHistory(testContext(t), b, &h, 1, kv.GetMeta{Key: []byte("k")})
		var he *kv.HistoryError
		require.ErrorAs(t, err, &he)

		man, err := kv.Do(testContext(t), b, kv.GetManifest{})
		require.NoError(t, err)
		var id uint32
		for _, s := range man.Scopes {
			for _, c := range s.Collections {
				if s.Name == "s" && c.Name == "c" {
					id = c.ID
				}
			}
		}
		got, err := kv.Do(testContext(t), b, kv.GetCollectionID{Path: "s.c"})
		require.NoError(t, err)
		require.Equal(t, id, got.ID)
		require.Equal(t, man.UID, got.ManifestUID)
		scope, err := kv.Do(testContext(t), b, kv.GetScopeID{Name: "s"})
		require.NoError(t, err)
		require.Equal(t, man.UID, scope.ManifestUID)
		each, err := kv.ManifestAll(testContext(t), b, kv.GetManifest{})
		require.NoError(t, err)
		require.Len(t, each, 3)
		for _, o := range each {
			require.NoError(t, o.Err)
			require.Equal(t, man.UID, o.Result.UID)
		}
		_, err = kv.Do(testContext(t), b, kv.GetScopeID{Name: "nope"})
		require.ErrorIs(t, err, cberr.ScopeNotFound)
		v, err := kv.Do(testContext(t), b, kv.GetVersion{})
		require.NoError(t, err)
		require.NotEmpty(t, v.Value)
	})
}

// B43: after a failover the history is another one, and the old one's end is told.
func TestObserveSeqnoAfterAFailover_B43(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		res, err := kv.Do(testContext(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		for i := range 3 {
			if m.Node(i).Addr() == res.Endpoint() {
				require.NoError(t, m.Failover(i))
			}
		}
		seq, err := kv.Do(testContext(t), b, kv.ObserveSeqno{VBucket: res.Token.VBucket, UUID: res.Token.UUID})
		require.NoError(t, err)
		require.True(t, seq.FailedOver)
		require.Equal(t, res.Token.UUID, seq.OldUUID)
		require.NotEqual(t, res.Token.UUID, seq.UUID)
		require.GreaterOrEqual(t, seq.OldSeqno, res.Token.Seqno)
		_, err = kv.Do(testContext(t), b, kv.ObserveSeqno{VBucket: res.Token.VBucket, UUID: 12345})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
	})
}

// A batch over a cluster: more documents than a window, one of them wrong.
func TestABatchOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		const n = 2000
		docs := make([]kv.Upsert, n)
		keys := keysOf(n)
		for i := range docs {
			docs[i] = kv.Upsert{Key: keys[i], Value: []byte(strings.Repeat("x", i%50))}
		}
		docs[7].CAS = 1
		for i, o := range kv.UpsertMulti(testContext(t), b, docs) {
			if i == 7 {
				require.ErrorIs(t, o.Err, cberr.DocumentNotFound)
				continue
			}
			require.NoError(t, o.Err)
		}
		for i, o := range kv.GetMulti(testContext(t), b, kv.Common{}, keys) {
			if i == 7 {
				require.ErrorIs(t, o.Err, cberr.DocumentNotFound)
				continue
			}
			require.NoError(t, o.Err)
			require.Len(t, o.Result.Value, i%50)
		}
	})
}

// Every operation is one that the mock knows: it answers with a result or with a reason of its own.
func TestEveryOperationOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		for _, op := range append(subjects(), onePath()...) {
			time.Sleep(kv.MaxLockTime) // whatever was locked
			insert(t, b, kv.Common{}, "abc", `{"a":[1],"n":1}`)
			_, err := op.do(contextOf(t, time.Second), b)
			if err == nil {
				continue
			}
			require.NotErrorIs(t, err, cberr.UnsupportedOperation, op.name)
			require.NotErrorIs(t, err, cberr.FeatureNotAvailable, op.name)
			require.NotErrorIs(t, err, cberr.Timeout, op.name)
			var a *kv.ArgumentError
			if errors.As(err, &a) {
				require.Equal(t, "vbucket", a.Field, "%s: %v; those of vbuckets have tests of their own", op.name, err)
			}
		}
	})
}

// Many batches of many sizes at once: the calls that they share between them never meet.
func TestBatchesAtOnce(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		const n = 100
		keys := keysOf(n)
		docs := make([]kv.Upsert, n)
		for i := range docs {
			docs[i] = kv.Upsert{Key: keys[i], Value: keys[i]}
		}
		for _, o := range kv.UpsertMulti(testContext(t), b, docs) {
			require.NoError(t, o.Err)
		}
		var wg sync.WaitGroup
		for worker := range 16 {
			wg.Go(func() {
				for round := range 20 {
					size := 1 + (worker*7+round*13)%50
					from := (worker + round) % (n - size)
					for i, o := range kv.GetMulti(testContext(t), b, kv.Common{}, keys[from:from+size]) {
						if o.Err != nil || string(o.Result.Value) != string(keys[from+i]) {
							t.Errorf("%s: %q, %v", keys[from+i], o.Result.Value, o.Err)
						}
					}
				}
			})
		}
		wg.Wait()
	})
}
