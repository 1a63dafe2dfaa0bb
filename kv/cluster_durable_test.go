package kv_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// durableWrites are all that a durability level can be asked of.
func durableWrites(key []byte, level memd.DurabilityLevel) map[string]subject {
	v := []byte("1")
	path := []kv.MutateSpec{kv.ReplacePath("", []byte("2"))}
	return map[string]subject{
		"upsert":    on("", kv.Upsert{Key: key, Value: v, Durability: level}),
		"replace":   on("", kv.Replace{Key: key, Value: v, Durability: level}),
		"append":    on("", kv.Append{Key: key, Value: v, Durability: level}),
		"prepend":   on("", kv.Prepend{Key: key, Value: v, Durability: level}),
		"increment": on("", kv.Increment{Key: key, Delta: 1, Durability: level}),
		"decrement": on("", kv.Decrement{Key: key, Delta: 1, Durability: level}),
		"mutate-in": on("", kv.MutateIn{Key: key, Specs: path, Durability: level}),
		"remove":    on("", kv.Remove{Key: key, Durability: level}),
	}
}

// The outcomes of durable writes, for every write that can be durable. Only one of them leaves it open what happened.
func TestOutcomesOfDurableWrites(t *testing.T) {
	for st, c := range map[memd.Status]struct {
		kind      *cberr.Kind
		ambiguous bool
	}{
		memd.StatusDurabilityInvalidLevel: {cberr.DurabilityLevelNotAvailable, false},
		memd.StatusDurabilityImpossible:   {cberr.DurabilityImpossible, false},
		memd.StatusSyncWriteAmbiguous:     {cberr.DurabilityAmbiguous, true},
	} {
		onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			insert(t, b, kv.Common{}, "k", "5")
			in := m.Inject(mock.Match{Key: []byte("k")}, mock.Status(st))
			for name, op := range durableWrites([]byte("k"), memd.DurabilityMajority) {
				_, err := op.do(testContext(t), b)
				e := kvError(t, err)
				require.ErrorIs(t, e, c.kind, name)
				require.Equal(t, c.ambiguous, e.Ambiguous(), name)
				require.Zero(t, e.Retry.Retries(), "%s is not sent again", name)
			}
			in.Remove()
		})
	}
}

// Another durable write under way, or one that is committed anew: the write waits for its turn, and succeeds.
func TestADurableWriteWaitsForAnother(t *testing.T) {
	for st, reason := range map[memd.Status]retry.Reason{
		memd.StatusSyncWriteInProgress:         retry.KVSyncWriteInProgress,
		memd.StatusSyncWriteReCommitInProgress: retry.KVSyncWriteReCommitInProgress,
	} {
		onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			insert(t, b, kv.Common{}, "k", "5")
			m.Inject(mock.Match{Key: []byte("k"), Times: 3}, mock.Status(st))
			res, err := kv.Do(testContext(t), b, kv.Upsert{
				Key: []byte("k"), Value: []byte("1"),
				Durability: memd.DurabilityMajority,
			})
			require.NoError(t, err)
			require.Equal(t, 3, res.RetryInfo().Retries())
			require.True(t, res.RetryInfo().Reasons.Has(reason))

			m.Inject(mock.Match{Key: []byte("k")}, mock.Status(st))
			_, err = kv.Do(testContext(t), b, kv.Upsert{
				Common: kv.Common{Timeout: time.Second}, Key: []byte("k"),
				Durability: memd.DurabilityMajority,
			})
			e := kvError(t, err)
			require.ErrorIs(t, e, cberr.UnambiguousTimeout)
			require.False(t, e.Ambiguous(), "nothing was applied by any attempt")
			require.True(t, e.Retry.Reasons.Has(reason))
		})
	}
}

// A bucket that can't write durably says so before anything is sent, whatever a connection has granted.
func TestDurabilityWithoutTheFeature(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual(),
			mock.WithoutFeatures(memd.FeatureSyncReplication))
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		b := c.Bucket("default")
		for name, op := range durableWrites([]byte("k"), memd.DurabilityMajority) {
			_, err := op.do(testContext(t), b)
			require.ErrorIs(t, err, cberr.FeatureNotAvailable, name)
		}
		require.Zero(t, m.Frames(memd.OpSet))
	})
}

// Answers may come in any order.
func TestAnswersOutOfOrder(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		insert(t, b, kv.Common{}, "slow", "1")
		in := m.Inject(mock.Match{Key: []byte("slow"), Opcodes: []memd.Opcode{memd.OpGet}}, mock.HoldReply())
		slow := kv.Start(testContext(t), b, kv.Get{Key: []byte("slow")})
		for i := range 50 {
			insert(t, b, kv.Common{}, "slow"+string(rune('a'+i%26)), "2")
		}
		select {
		case <-slow.Done():
			t.Fatal("its answer is held")
		default:
		}
		in.Release()
		res, err := slow.Wait(testContext(t))
		require.NoError(t, err)
		require.Equal(t, "1", string(res.Value))
	})
}

// Copies are taken from the nodes of one group alone.
func TestServerGroupsOnACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(2), mock.Bucket("default", 16), mock.Virtual(),
			mock.ServerGroups("a", "b", "b"))
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		b := c.Bucket("default")
		insert(t, b, kv.Common{}, "k", "1")
		for group, want := range map[string]int{"": 3, "a": 1, "b": 2, "c": 0} {
			s, err := kv.GetAllReplicas(testContext(t), b, kv.GetReplica{Key: []byte("k"), ServerGroup: group})
			require.NoError(t, err)
			n := 0
			for r, ok := s.Next(t.Context()); ok; r, ok = s.Next(t.Context()) {
				if group == "a" {
					require.Equal(t, m.Node(0).Addr(), r.Endpoint())
				}
				n++
			}
			require.Equal(t, want, n, group)
		}
		_, err = kv.GetAnyReplica(testContext(t), b, kv.GetReplica{Key: []byte("k"), ServerGroup: "c"})
		require.ErrorIs(t, err, cberr.DocumentUnretrievable)
	})
}

// corruptly answers with a value that says it is compressed, and is not.
func corruptly(claims []byte) mock.Fault {
	return mock.Corrupt(func(reply []byte) []byte {
		var p memd.Packet
		if _, err := p.Parse(reply, 0); err != nil {
			return reply
		}
		p.Datatype, p.Value = memd.DatatypeSnappy, claims
		out, _ := p.AppendTo(nil)
		return out
	})
}

// A corrupt compressed value, or one that claims too much, fails its own call, at once, and the connection goes on: for
// every operation that reads (D7).
func TestACorruptValueOnACluster_D7(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		fill(t, b, 64)
		key := []byte("k0001")
		for _, claims := range [][]byte{{0x05}, {0xff, 0xff, 0xff, 0xff, 0x07, 0, 0}} {
			for op, read := range map[memd.Opcode]subject{
				memd.OpGet: on("", kv.Get{Key: key}), memd.OpGAT: on("", kv.GetAndTouch{Key: key}),
				memd.OpGetLocked:    on("", kv.GetAndLock{Key: []byte("k0002"), LockTime: time.Second}),
				memd.OpGetReplica:   on("", kv.GetReplica{Key: key, Replica: 1}),
				memd.OpGetEx:        on("", kv.GetEx{Key: key}),
				memd.OpGetExReplica: on("", kv.GetEx{Key: key, Replica: 1}), memd.OpGetRandomKey: on("",
					kv.GetRandom{}),
				memd.OpSubdocGet:              on("", kv.LookupPath{Key: key, Spec: kv.GetPath("k")}),
				memd.OpSubdocMultiLookup:      on("", kv.LookupIn{Key: key, Specs: []kv.LookupSpec{kv.GetPath("k")}}),
				memd.OpCollectionsGetManifest: on("", kv.GetManifest{}), memd.OpGetClusterConfig: on("",
					kv.GetClusterConfig{Pinned: true}),
				memd.OpObserveSeqno: on("", kv.ObserveSeqno{VBucket: 1}), memd.OpVersion: on("", kv.GetVersion{}),
				memd.OpGetFailoverLog: on("", kv.GetFailoverLog{VBucket: 1}),
			} {
				match := mock.Match{Opcodes: []memd.Opcode{op}, Times: 1}
				answer := corruptly(claims)
				if op == memd.OpObserveSeqno { // no node has that history
					answer = mock.Reply(func(_, rep *memd.Packet) {
						rep.Datatype, rep.Value = memd.DatatypeSnappy,
							claims
					})
				}
				time.Sleep(2 * time.Second) // what was locked before is free again
				in := m.Inject(match, answer)
				began := time.Now()
				_, err := read.do(testContext(t), b)
				var ce *kv.CompressionError
				require.ErrorAs(t, err, &ce, op.String())
				require.ErrorIs(t, err, cberr.DecodingFailure, op.String())
				require.Zero(t, time.Since(began), op.String())
				require.Equal(t, 1, in.Fired(), op.String())
				if op != memd.OpObserveSeqno {
					time.Sleep(2 * time.Second)
					_, err = read.do(testContext(t), b)
					require.NoError(t, err, op.String())
				}
			}
		}
		require.Equal(t, `{"k":"k0001"}`, read(t, b, kv.Common{}, "k0001"))
	})
}

// The same for a document that a scan has found: the scan ends, also on the server.
func TestACorruptValueInAScan_D7(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		fill(t, b, 300)
		head := make([]byte, 24)
		item := append(append(head, byte(memd.DatatypeSnappy)), 1, 'k', 1, 0x05)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpRangeScanContinue}, Times: 1},
			mock.Reply(func(_, rep *memd.Packet) {
				rep.Status, rep.Extras, rep.Value = memd.StatusRangeScanMore, []byte{0, 0, 0, 1}, item
			}))
		run, err := kv.Scan{Concurrency: 1, BatchItems: 1}.Run(testContext(t), b)
		require.NoError(t, err)
		for run.Next(t.Context()) { // to the end
		}
		var ce *kv.CompressionError
		require.ErrorAs(t, run.Err(), &ce)
		require.ErrorIs(t, run.Err(), cberr.DecodingFailure)
		require.Equal(t, 1, m.Frames(memd.OpRangeScanCancel))
		require.Equal(t, `{"k":"k0001"}`, read(t, b, kv.Common{}, "k0001"))
	})
}

// Answers in any order find their calls: each of many in flight gets its own.
func TestAnswersInAnyOrder(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		fill(t, b, 200)
		random := rand.New(rand.NewPCG(7, 11))
		for i := range 60 {
			m.Inject(mock.Match{Key: fmt.Appendf(nil, "k%04d", i), Opcodes: []memd.Opcode{memd.OpGet}},
				mock.DelayReply(time.Duration(random.IntN(50))*time.Millisecond))
		}
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 200 {
			key := fmt.Sprintf("k%04d", i)
			wg.Add(1)
			kv.Go(testContext(t), b, kv.Get{Key: []byte(key)}, func(res kv.GetResult, err error) {
				defer wg.Done()
				mu.Lock()
				defer mu.Unlock()
				order = append(order, key)
				if err != nil || string(res.Value) != `{"k":"`+key+`"}` {
					t.Errorf("%s: %s %v", key, res.Value, err)
				}
			})
		}
		wg.Wait()
		require.Len(t, order, 200)
		require.False(t, slices.IsSorted(order))
		require.Equal(t, 200, m.Frames(memd.OpGet), "each was sent once")
	})
}
