package core_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// D68: a missing collection is known in milliseconds with the default strategy, which waits for nothing there, and is
// waited for with BestEffort.
func TestAMissingCollection_D68(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		for _, c := range []kv.Common{{Collection: "later"}, {Scope: "later", Collection: "c"}} {
			began := time.Now()
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: c})
			require.Less(t, time.Since(began), 50*time.Millisecond)
			require.NotErrorIs(t, err, cberr.Timeout)
			if c.Scope == "" {
				require.ErrorIs(t, err, cberr.CollectionNotFound)
			} else {
				require.ErrorIs(t, err, cberr.ScopeNotFound)
			}
		}
		began := time.Now()
		f := kv.Start(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{
			Collection: "later",
			Retry:      retry.BestEffort{},
		}})
		time.Sleep(time.Second)
		_, err := m.CreateCollection("default", "_default", "later")
		require.NoError(t, err)
		_, err = f.Wait(ctx(t))
		require.NoError(t, err)
		require.Less(t, time.Since(began), 1600*time.Millisecond) // the longest delay is half a second
	})
}

// D73: a vbucket without a node is a reason that the strategy judges; the call succeeds when it has one again.
func TestAVBucketWithoutANode_D73(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(1).Addr())
		require.NoError(t, m.Failover(1))
		time.Sleep(3 * time.Second) // the map has come
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Retry: never}})
		info, ok := retry.InfoOf(err)
		require.True(t, ok)
		require.Equal(t, retry.NodeNotAvailable, info.Reason)
		require.ErrorContains(t, err, "no reachable node")
		f := kv.Start(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Timeout: 9 * time.Second}})
		time.Sleep(time.Second)
		require.NoError(t, m.Rebalance())
		res, err := f.Wait(ctx(t))
		require.NoError(t, err)
		require.True(t, res.RetryInfo().Reasons.Has(retry.NodeNotAvailable))
	}, mock.Replicas(0))
}

// D88: whether a timeout is ambiguous is a fact of what was sent and answered: in every phase in which a deadline can
// come, a write that is called unambiguous was not applied.
func TestADeadlineInEveryPhase_D88(t *testing.T) {
	short := kv.Common{Timeout: 100 * time.Millisecond}
	for name, c := range map[string]struct {
		arrange   func(t *testing.T, m *mock.Cluster, b *core.Bucket)
		op        kv.Upsert
		ambiguous bool
		applied   int
	}{
		"in the queue": {arrange: func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			for i := range m.Nodes() {
				m.Network().Silence(m.Node(i).Addr())
			}
			m.DisconnectAll()
			time.Sleep(time.Millisecond)
		}},
		"waiting for the collection": {arrange: func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			m.Inject(only(memd.OpCollectionsGetID, 0), mock.Drop())
		}, op: kv.Upsert{Common: kv.Common{Scope: "s", Collection: "c"}}},
		"on the wire, never arrived": {arrange: func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			for _, l := range m.Network().Links() {
				l.Up().Hold()
			}
		}, ambiguous: true},
		"on the wire, refused too late": {arrange: func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			m.Inject(only(memd.OpSet, 0), mock.Delay(time.Second))
		}, ambiguous: true, applied: 1},
		"applied, the answer lost": {arrange: func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			m.Inject(only(memd.OpSet, 0), mock.DropReply())
		}, ambiguous: true, applied: 1},
		"parked after a refusal": {arrange: func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail))
		}, op: kv.Upsert{Common: kv.Common{Retry: retry.BestEffort{Backoff: retry.Constant(30 * time.Millisecond)}}}},
		"parked without a node": {arrange: func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			for i := range m.Nodes() {
				m.Network().Refuse(m.Node(i).Addr())
			}
			m.DisconnectAll()
			time.Sleep(time.Millisecond)
		}},
		"while its strategy thinks": {arrange: func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail))
		}, op: kv.Upsert{Common: kv.Common{Retry: thinker{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				c.arrange(t, m, b)
				op := c.op
				op.Key, op.Timeout = []byte("k"), short.Timeout
				began := time.Now()
				_, err := kv.Do(ctx(t), b, op)
				require.Equal(t, short.Timeout, time.Since(began))
				want := cberr.UnambiguousTimeout
				if c.ambiguous {
					want = cberr.AmbiguousTimeout
				}
				require.ErrorIs(t, err, want)
				time.Sleep(2 * time.Second)
				require.Equal(t, c.applied, applied(m, "k"))
			})
		})
	}
}

// D80: the creation of a scan follows a vbucket that moves, and asks its strategy, as any other request does.
func TestAScanIsCreatedWhereItsVBucketIs_D80(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)
		vb, _, _ := b.Locate(key)
		create := kv.RangeScanCreate{VBucket: vb, Range: &kv.ScanRange{}}
		first, err := kv.Do(ctx(t), b, create)
		require.NoError(t, err)
		require.Equal(t, m.Node(0).Addr(), first.Endpoint())
		require.NoError(t, m.MoveVBucket("default", int(vb), 1))
		second, err := kv.Do(ctx(t), b, create)
		require.NoError(t, err)
		require.Equal(t, m.Node(1).Addr(), second.Endpoint())
		require.Equal(t, 1, second.RetryInfo().Transparent)

		m.Inject(only(memd.OpRangeScanCreate, 1), mock.Status(memd.StatusTmpFail))
		asked := 0
		create.Retry = retry.Func(func(context.Context, *retry.Request,
			retry.Reason,
		) retry.Action {
			asked++
			return retry.After(0)
		})
		_, err = kv.Do(ctx(t), b, create)
		require.NoError(t, err)
		require.Equal(t, 1, asked)
	})
}

// thinker is a strategy that never answers.
type thinker struct{}

func (thinker) RetryAfter(ctx context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
	<-ctx.Done()
	return retry.Stop()
}

// later retries after a time.
type later time.Duration

func (l later) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.After(time.Duration(l))
}

// D103: the time that a durable write gives its server is what is left for the call less a tenth, and never more than
// the frame can say: its two largest values are reserved.
func TestTheServersTimeForADurableWrite_D103(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		for timeout, want := range map[time.Duration][]uint16{
			10 * time.Second: {9000, 5400}, 5 * time.Second: {4500, 1500}, 100 * time.Second: {65534, 65534},
			time.Hour: {65534, 65534},
		} {
			var got []uint16
			in := m.Count(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Func: func(p *memd.Packet) bool {
				for frames := p.Frames; len(frames) > 0; {
					id, data, tail, err := memd.NextFrame(frames)
					if err != nil {
						return false
					}
					if id == memd.FrameDurability && len(data) == 3 {
						got = append(got, uint16(data[1])<<8|uint16(data[2]))
					}
					frames = tail
				}
				return false
			}})
			busy := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1},
				mock.Status(memd.StatusSyncWriteInProgress))
			c, cancel := context.WithTimeout(t.Context(), timeout)
			_, err := kv.Do(c, b, kv.Upsert{
				Key: []byte("k"), Durability: memd.DurabilityMajority,
				Common: kv.Common{Timeout: timeout, Retry: later(4 * time.Second)},
			})
			cancel()
			require.NoError(t, err)
			in.Remove()
			busy.Remove()
			require.Equal(t, want, got, "%v: of what is left, for each attempt", timeout)
		}
	})
}
