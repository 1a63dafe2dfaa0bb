package kv_test

import (
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
		"touch":     on("", kv.Touch{Key: key, Durability: level}),
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
			res, err := kv.Do(testContext(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("1"), Durability: memd.DurabilityMajority})
			require.NoError(t, err)
			require.Equal(t, 3, res.Retry.Retries())
			require.True(t, res.Retry.Reasons.Has(reason))

			m.Inject(mock.Match{Key: []byte("k")}, mock.Status(st))
			_, err = kv.Do(testContext(t), b, kv.Upsert{Common: kv.Common{Timeout: time.Second}, Key: []byte("k"), Durability: memd.DurabilityMajority})
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
		m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual(), mock.WithoutFeatures(memd.FeatureSyncReplication))
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Username, cfg.Password, cfg.Dial = "Administrator", core.NewSecret("password"), m.Dial
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
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(2), mock.Bucket("default", 16), mock.Virtual(), mock.ServerGroups("a", "b", "b"))
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Username, cfg.Password, cfg.Dial = "Administrator", core.NewSecret("password"), m.Dial
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		b := c.Bucket("default")
		insert(t, b, kv.Common{}, "k", "1")
		for group, want := range map[string]int{"": 3, "a": 1, "b": 2, "c": 0} {
			s, err := kv.AllCopies(testContext(t), b, kv.GetCopies{Key: []byte("k"), ServerGroup: group})
			require.NoError(t, err)
			n := 0
			for r, ok := s.Next(t.Context()); ok; r, ok = s.Next(t.Context()) {
				if group == "a" {
					require.Equal(t, m.Node(0).Addr(), r.Endpoint)
				}
				n++
			}
			require.Equal(t, want, n, group)
		}
		_, err = kv.AnyCopy(testContext(t), b, kv.GetCopies{Key: []byte("k"), ServerGroup: "c"})
		require.ErrorIs(t, err, cberr.DocumentUnretrievable)
	})
}

// A corrupt compressed value fails its own call, at once, and the connection goes on (D7).
func TestACorruptValueOnACluster_D7(t *testing.T) {
	onCluster(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		insert(t, b, kv.Common{}, "k", `{"a":1}`)
		for _, claims := range [][]byte{{0x05}, {0xff, 0xff, 0xff, 0xff, 0x07, 0, 0}} {
			in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Corrupt(func(reply []byte) []byte {
				var p memd.Packet
				if _, err := p.Parse(reply, 0); err != nil {
					return reply
				}
				p.Datatype, p.Value = memd.DatatypeSnappy, claims
				out, _ := p.AppendTo(nil)
				return out
			}))
			began := time.Now()
			_, err := kv.Do(testContext(t), b, kv.Get{Key: []byte("k")})
			var ce *kv.CompressionError
			require.ErrorAs(t, err, &ce)
			require.ErrorIs(t, err, cberr.DecodingFailure)
			require.Zero(t, time.Since(began))
			require.Equal(t, 1, in.Fired())
			require.Equal(t, `{"a":1}`, read(t, b, kv.Common{}, "k"))
		}
	})
}
