package kv_test

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// observed is what a node answers about a copy at a time.
type observed struct {
	current, persisted uint64
	state              kv.ObserveState
	cas                uint64
	status             memd.Status
	silent             bool // it never answers
	failedOver         bool
	oldSeqno           uint64
}

// watching is a server that acknowledges writes and answers questions after them.
type watching struct {
	*topo
	noToken bool
	writes  atomic.Int32
	asked   atomic.Int32
	began   time.Time
	copies  func(copy int, after time.Duration) observed
}

// Runner implements kv.Dispatcher.
func (x *watching) Runner() call.Runner { return x }

func newWatching(l call.Layout, copies func(copy int, after time.Duration) observed) *watching {
	w := &watching{copies: copies, began: time.Now()}
	w.topo = inLayout(l, w.answer)
	return w
}

func (w *watching) answer(c *call.Call) {
	p := &memd.Packet{Opcode: c.Req.Opcode, CAS: cas}
	c.SetVia(fakeVia)
	if c.Req.Opcode != memd.OpObserve && c.Req.Opcode != memd.OpObserveSeqno {
		w.writes.Add(1)
		if !w.noToken {
			p.Extras = tokenOf
		}
		give(c, p)
		return
	}
	w.asked.Add(1)
	o := w.copies(c.Req.Replica(), time.Since(w.began))
	if o.silent {
		return
	}
	p.Status = o.status
	if p.Status == 0 && c.Req.Opcode == memd.OpObserve {
		p.Value = append([]byte{0, 0, 0, 1, 'k'}, byte(o.state))
		p.Value = binary.BigEndian.AppendUint64(p.Value, o.cas)
	} else if p.Status == 0 {
		p.Value = make([]byte, 27)
		if o.failedOver {
			p.Value = make([]byte, 43)
			p.Value[0] = 1
			binary.BigEndian.PutUint64(p.Value[35:], o.oldSeqno)
		}
		binary.BigEndian.PutUint64(p.Value[11:], o.persisted)
		binary.BigEndian.PutUint64(p.Value[19:], o.current)
	}
	give(c, p)
}

var pollUpsert = kv.Upsert{Key: []byte("k"), Value: []byte("v")}

// The write's token has sequence number 9.
func TestPollingBySequenceNumber(t *testing.T) {
	// The active copy has it at once and on disk after 2 s, the first replica after 1 s and on disk after 3 s.
	behaviour := func(replica int, after time.Duration) observed {
		o := observed{current: 8, persisted: 8}
		switch {
		case replica == 0 && after >= 2*time.Second:
			o = observed{current: 9, persisted: 9}
		case replica == 0:
			o.current = 9
		case replica == 1 && after >= 3*time.Second:
			o = observed{current: 20, persisted: 10}
		case replica == 1 && after >= time.Second:
			o.current = 9
		}
		return o
	}
	for want, p := range map[time.Duration]kv.PollDurability{
		0: {}, time.Second: {ReplicateTo: 1}, 2 * time.Second: {PersistTo: 1}, 3 * time.Second: {
			PersistTo:   2,
			ReplicateTo: 1,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newWatching(threeCopies(), behaviour)
			res, err := kv.DoPolled(testContext(t), d, pollUpsert, p)
			require.NoError(t, err)
			require.EqualValues(t, 9, res.Token.Seqno)
			require.GreaterOrEqual(t, time.Since(d.began), want)
			require.Less(t, time.Since(d.began), want+150*time.Millisecond, "%+v", p)
			require.EqualValues(t, 1, d.writes.Load())
			require.Less(t, d.asked.Load(), int32(150), "with pauses between")
		})
	}
}

// The active copy is no replica, so two replicas must have the mutation.
func TestTheActiveCopyIsNoReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newWatching(threeCopies(), func(replica int, _ time.Duration) observed {
			if replica < 2 {
				return observed{current: 9, persisted: 9}
			}
			return observed{current: 8, persisted: 8}
		})
		_, err := kv.DoPolled(testContext(t), d, pollUpsert, kv.PollDurability{ReplicateTo: 2})
		e := kvError(t, err)
		require.ErrorIs(t, e, cberr.AmbiguousTimeout)
		require.True(t, e.Ambiguous())
		var pe *kv.PollError
		require.ErrorAs(t, e, &pe)
		require.Equal(t, 1, pe.Replicated)
		require.Equal(t, 2, pe.Persisted)
		require.ErrorContains(t, e, "on disk on 2 of 0 nodes, on 1 of 2 replicas")
		require.Equal(t, 10*time.Second, time.Since(d.began))
	})
}

func TestPollingByCAS(t *testing.T) {
	after := func(state kv.ObserveState, has uint64) func(int, time.Duration) observed {
		return func(replica int, d time.Duration) observed {
			if replica == 2 || replica == 1 && d < time.Second {
				return observed{state: kv.ObserveMissing, cas: 0}
			}
			return observed{state: state, cas: has}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		d := newWatching(threeCopies(), after(kv.ObservePersisted, cas))
		_, err := kv.DoPolled(testContext(t), d, pollUpsert, kv.PollDurability{
			PersistTo: 2, ReplicateTo: 1,
			ByCAS: true,
		})
		require.NoError(t, err)
		require.InDelta(t, time.Second, time.Since(d.began), float64(150*time.Millisecond))

		d = newWatching(threeCopies(), after(kv.ObserveFound, cas))
		d.noToken = true
		_, err = kv.DoPolled(testContext(t), d, pollUpsert, kv.PollDurability{ReplicateTo: 1})
		require.NoError(t, err, "without tokens the CAS is asked for")

		d = newWatching(threeCopies(), after(kv.ObserveFound, cas+1))
		_, err = kv.DoPolled(testContext(t), d, pollUpsert, kv.PollDurability{ReplicateTo: 1, ByCAS: true})
		require.ErrorIs(t, err, cberr.DurabilityAmbiguous, "the document was changed again")

		d = newWatching(threeCopies(), func(int, time.Duration) observed { return observed{state: kv.ObserveMissing} })
		_, err = kv.DoPolled(testContext(t), d, kv.Remove{Key: []byte("k")}, kv.PollDurability{
			PersistTo:   3,
			ReplicateTo: 2, ByCAS: true,
		})
		require.NoError(t, err)

		d = newWatching(threeCopies(), func(int, time.Duration) observed { return observed{state: kv.ObserveDeleted} })
		_, err = kv.DoPolled(testContext(t), d, kv.Remove{Key: []byte("k")}, kv.PollDurability{
			ReplicateTo: 2,
			ByCAS:       true,
		})
		require.NoError(t, err)
		_, err = kv.DoPolled(testContext(t), d, kv.Remove{Key: []byte("k")}, kv.PollDurability{
			PersistTo: 1,
			ByCAS:     true, Timeout: time.Second,
		})
		require.ErrorIs(t, err, cberr.AmbiguousTimeout, "the deletion is not on disk")
	})
}

// B43: a failover that kept the mutation changes nothing, one that lost it ends the waiting.
func TestPollingThroughAFailover_B43(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := func(int, time.Duration) observed {
			return observed{current: 9, persisted: 9, failedOver: true, oldSeqno: 9}
		}
		_, err := kv.DoPolled(testContext(t), newWatching(threeCopies(), kept), pollUpsert,
			kv.PollDurability{PersistTo: 3})
		require.NoError(t, err)
		lost := func(replica int, _ time.Duration) observed {
			return observed{current: 9, persisted: 9, failedOver: replica == 0, oldSeqno: 8}
		}
		_, err = kv.DoPolled(testContext(t), newWatching(threeCopies(), lost), pollUpsert,
			kv.PollDurability{PersistTo: 1})
		require.ErrorIs(t, err, cberr.DurabilityAmbiguous)
		require.True(t, kvError(t, err).Ambiguous())
		require.ErrorContains(t, err, "ended at 8 before mutation 9")
		unknown := func(int, time.Duration) observed { return observed{status: memd.StatusKeyNotFound} }
		_, err = kv.DoPolled(testContext(t), newWatching(threeCopies(), unknown), pollUpsert,
			kv.PollDurability{PersistTo: 1})
		require.ErrorIs(t, err, cberr.DurabilityAmbiguous)
	})
}

// A copy that does not answer holds up no wait that has enough without it, and delays no question to the others.
func TestPollingPastASilentCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, byCAS := range []bool{false, true} {
			d := newWatching(threeCopies(), func(replica int, after time.Duration) observed {
				has := replica == 0 || after >= time.Second
				return observed{
					current: 9, persisted: map[bool]uint64{true: 9, false: 8}[has], cas: cas,
					state: kv.ObserveState(map[bool]byte{true: 1}[has]), silent: replica == 1,
				}
			})
			_, err := kv.DoPolled(testContext(t), d, pollUpsert, kv.PollDurability{PersistTo: 1, ByCAS: byCAS})
			require.NoError(t, err)
			require.Zero(t, time.Since(d.began))
			_, err = kv.DoPolled(testContext(t), d, pollUpsert, kv.PollDurability{PersistTo: 2, ByCAS: byCAS})
			require.NoError(t, err)
			require.InDelta(t, time.Second, time.Since(d.began), float64(150*time.Millisecond))
			_, err = kv.DoPolled(testContext(t), d, pollUpsert, kv.PollDurability{
				PersistTo: 3, ByCAS: byCAS,
				Timeout: time.Second,
			})
			require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		}
	})
}

// What counts is who has the mutation now: a node that had it, and is no copy any more, does not.
func TestPollingForgetsANodeThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newWatching(threeCopies(), func(replica int, after time.Duration) observed {
			o := observed{current: 9, persisted: 8}
			moved := after >= time.Second // another node is the active copy, and has not yet written it
			if replica == 0 && (!moved || after >= 5*time.Second) || replica == 1 && after >= 3*time.Second {
				o.persisted = 9
			}
			o.failedOver, o.oldSeqno = moved, 9
			return o
		})
		_, err := kv.DoPolled(testContext(t), d, pollUpsert, kv.PollDurability{PersistTo: 2})
		require.NoError(t, err)
		require.InDelta(t, 5*time.Second, time.Since(d.began), float64(150*time.Millisecond))
	})
}

func TestPollingThatIsImpossibleWritesNothing(t *testing.T) {
	two := &fakeLayout{rows: [][]int{{0, 1}}, replicas: 1, nodes: 2}
	for p, kind := range map[kv.PollDurability]*cberr.Kind{
		{ReplicateTo: 2}: cberr.DurabilityImpossible, {PersistTo: 3}: cberr.DurabilityImpossible,
		{PersistTo: 5}: cberr.InvalidArgument, {ReplicateTo: -1}: cberr.InvalidArgument,
	} {
		d := newWatching(two, nil)
		_, err := kv.DoPolled(testContext(t), d, pollUpsert, p)
		e := kvError(t, err)
		require.ErrorIs(t, e, kind)
		require.Equal(t, "upsert", e.Op)
		require.False(t, e.Ambiguous())
		require.Zero(t, d.writes.Load())
	}
	durable := pollUpsert
	durable.Durability = memd.DurabilityMajority
	d := newWatching(two, nil)
	_, err := kv.DoPolled(testContext(t), d, durable, kv.PollDurability{PersistTo: 1})
	require.ErrorIs(t, err, cberr.InvalidArgument)
	require.Zero(t, d.writes.Load())
	d.layout = func(call.MapWait) (call.Layout, error) { return nil, errSeen }
	_, err = kv.DoPolled(testContext(t), d, pollUpsert, kv.PollDurability{PersistTo: 1})
	require.ErrorIs(t, err, errSeen)
}

func TestPollingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(int, time.Duration) observed { return observed{} }
		ctx, cancel := context.WithCancel(testContext(t))
		time.AfterFunc(time.Second, cancel)
		_, err := kv.DoPolled(ctx, newWatching(threeCopies(), never), pollUpsert, kv.PollDurability{PersistTo: 1})
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.True(t, kvError(t, err).Ambiguous(), "the write itself was acknowledged")

		d := newWatching(threeCopies(), never)
		slow := pollUpsert
		slow.Timeout = 3 * time.Second
		_, err = kv.DoPolled(t.Context(), d, slow, kv.PollDurability{PersistTo: 1})
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		require.Equal(t, 3*time.Second, time.Since(d.began))

		for want, p := range map[time.Duration]kv.PollDurability{4 * time.Second: {
			PersistTo: 1,
			Timeout:   4 * time.Second,
		}, 10 * time.Second: {PersistTo: 1}} {
			d = newWatching(threeCopies(), never) // nothing else says how long
			_, err = kv.DoPolled(t.Context(), d, pollUpsert, p)
			require.ErrorIs(t, err, cberr.AmbiguousTimeout)
			require.Equal(t, want, time.Since(d.began))
		}

		unsupported := func(int, time.Duration) observed { return observed{status: memd.StatusNotSupported} }
		_, err = kv.DoPolled(testContext(t), newWatching(threeCopies(), unsupported), pollUpsert,
			kv.PollDurability{PersistTo: 1})
		require.ErrorIs(t, err, cberr.UnsupportedOperation, "at once")

		away := func(replica int, after time.Duration) observed {
			if replica == 1 && after < time.Second {
				return observed{status: memd.StatusInternal}
			}
			return observed{current: 9, persisted: 9}
		}
		_, err = kv.DoPolled(testContext(t), newWatching(threeCopies(), away), pollUpsert,
			kv.PollDurability{PersistTo: 3})
		require.NoError(t, err, "a copy that fails is asked again")
	})
}

func TestAWriteThatFailsIsNotPolled(t *testing.T) {
	d := newWatching(threeCopies(), nil)
	d.refuse(memd.StatusKeyExists)
	_, err := kv.DoPolled(testContext(t), d, kv.Insert{Key: []byte("k")}, kv.PollDurability{PersistTo: 1})
	require.ErrorIs(t, err, cberr.DocumentExists)
	require.Zero(t, d.asked.Load())
}

// refuse refuses everything.
func (w *watching) refuse(st memd.Status) {
	w.fake.answer = func(c *call.Call) { give(c, &memd.Packet{Opcode: c.Req.Opcode, Status: st}) }
}
