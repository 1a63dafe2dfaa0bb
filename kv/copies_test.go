package kv_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// threeCopies is a map in which the key "k" has an active copy and two replicas.
func threeCopies() *fakeLayout {
	return &fakeLayout{rows: [][]int{{0, 1, 2}}, replicas: 2, nodes: 3, groups: []string{"a", "b", "a"}}
}

// copyOf answers for one copy: after a while, with a document or a status; "" is silence.
type copyOf struct {
	after  time.Duration
	doc    string
	status memd.Status
	node   string
	silent bool
}

// serving answers reads by the number of the copy they ask.
func serving(l call.Layout, copies ...copyOf) *topo {
	return inLayout(l, func(c *call.Call) {
		a := copies[c.Req.Replica()]
		c.Share()
		c.State.Sent()
		c.Watch()
		if a.silent {
			return
		}
		time.AfterFunc(a.after, func() {
			if !c.State.Answered(c.State.Epoch()) {
				return
			}
			c.SetVia(&call.Via{Endpoint: a.node})
			p := &memd.Packet{Opcode: c.Req.Opcode, Status: a.status, Extras: be32, Value: []byte(a.doc)}
			if c.Req.Opcode == memd.OpSubdocMultiLookup && a.status == 0 {
				p.Extras = nil
				p.Value = append([]byte{0, 0, 0, 0, 0, byte(len(a.doc))}, a.doc...)
			}
			give(c, p)
		})
	})
}

var keyCopies = kv.GetReplica{Key: []byte("k")}

// K9: the first good answer wins, and the others end at once.
func TestAnyCopyGivesTheFirstGoodAnswer_K9(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := serving(threeCopies(), copyOf{silent: true}, copyOf{
			after: time.Second, status: memd.StatusKeyNotFound,
			node: "n1",
		}, copyOf{after: 2 * time.Second, doc: "second", node: "n2"})
		res, err := kv.GetAnyReplica(testContext(t), d, keyCopies)
		require.NoError(t, err)
		require.Equal(t, "second", string(res.Value))
		require.True(t, res.FromReplica)
		require.Equal(t, 2*time.Second, time.Since(began))
		require.EqualValues(t, 3, d.dispatched.Load(), "all at once")
		synctest.Wait()
	})
}

func TestAnyCopyWithoutAnswer(t *testing.T) {
	missing := copyOf{status: memd.StatusKeyNotFound}
	synctest.Test(t, func(t *testing.T) {
		_, err := kv.GetAnyReplica(testContext(t), serving(threeCopies(), missing, missing, missing), keyCopies)
		e := kvError(t, err)
		require.ErrorIs(t, e, cberr.DocumentUnretrievable)
		require.ErrorIs(t, e, cberr.DocumentNotFound, "the reasons are its cause")
		require.Equal(t, "get-any-replica", e.Op)

		d := serving(threeCopies(), missing, missing, copyOf{silent: true})
		_, err = kv.GetAnyReplica(testContext(t), d, keyCopies)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.NotErrorIs(t, err, cberr.DocumentUnretrievable)

		ctx, cancel := context.WithCancel(testContext(t))
		time.AfterFunc(time.Second, cancel)
		_, err = kv.GetAnyReplica(ctx, serving(threeCopies(), copyOf{silent: true}, missing, missing), keyCopies)
		require.ErrorIs(t, err, cberr.RequestCanceled)
	})
}

// K10, D104: the stream ends when the copies do, however few answer.
func TestAllCopiesAreStreamedAsTheyCome_K10_D104(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := serving(threeCopies(), copyOf{after: 3 * time.Second, doc: "active", node: "n0"},
			copyOf{after: time.Second, doc: "first", node: "n1"}, copyOf{
				after:  2 * time.Second,
				status: memd.StatusKeyNotFound, node: "n2",
			})
		s, err := kv.GetAllReplicas(testContext(t), d, keyCopies)
		require.NoError(t, err)
		defer s.Close()
		r, ok := s.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, "first", string(r.Value))
		require.True(t, r.FromReplica)
		require.Equal(t, time.Second, time.Since(began))
		r, ok = s.Next(t.Context())
		require.True(t, ok)
		require.Equal(t, "active", string(r.Value))
		require.False(t, r.FromReplica)
		_, ok = s.Next(t.Context())
		require.False(t, ok)
		require.NoError(t, s.Err())
		require.Len(t, s.Errors(), 1)

		began = time.Now()
		silent := copyOf{silent: true}
		s, err = kv.GetAllReplicas(testContext(t), serving(threeCopies(), silent, silent, silent), keyCopies)
		require.NoError(t, err)
		next, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, ok = s.Next(next)
		require.False(t, ok)
		require.Equal(t, time.Second, time.Since(began), "Next has a context of its own")
	})
}

func TestAllCopiesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := copyOf{silent: true}
		s, err := kv.GetAllReplicas(testContext(t), serving(threeCopies(), silent, silent, silent), keyCopies)
		require.NoError(t, err)
		began := time.Now()
		next, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, ok := s.Next(next)
		require.False(t, ok)
		require.Equal(t, time.Second, time.Since(began), "Next has a context of its own")
		require.ErrorIs(t, s.Err(), cberr.UnambiguousTimeout)
		_, ok = s.Next(t.Context())
		require.False(t, ok)

		s, err = kv.GetAllReplicas(testContext(t), serving(threeCopies(), silent, silent, silent), keyCopies)
		require.NoError(t, err)
		_, ok = s.Next(t.Context())
		require.False(t, ok, "the operation's deadline ends every copy")
		require.ErrorIs(t, s.Err(), cberr.UnambiguousTimeout)

		missing := copyOf{status: memd.StatusKeyNotFound}
		s, err = kv.GetAllReplicas(testContext(t), serving(threeCopies(), missing, silent, missing), keyCopies)
		require.NoError(t, err)
		_, ok = s.Next(t.Context())
		require.False(t, ok)
		require.NoError(t, s.Err(), "a copy has said that there is nothing")
	})
}

// While the map changes two replicas' numbers can lead to one node: its answer counts once.
func TestOneAnswerOfANode_K10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := serving(threeCopies(), copyOf{doc: "x", node: "n0"}, copyOf{after: 1, doc: "x", node: "n1"},
			copyOf{after: 2, doc: "x", node: "n1"})
		s, err := kv.GetAllReplicas(testContext(t), d, keyCopies)
		require.NoError(t, err)
		n := 0
		for _, ok := s.Next(t.Context()); ok; _, ok = s.Next(t.Context()) {
			n++
		}
		require.Equal(t, 2, n)
	})
}

func TestCopiesOfAServerGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []copyOf{{doc: "0", node: "n0"}, {doc: "1", node: "n1"}, {doc: "2", node: "n2"}}
		for group, want := range map[string]int{"": 3, "a": 2, "b": 1, "c": 0} {
			op := keyCopies
			op.ServerGroup = group
			d := serving(threeCopies(), all...)
			s, err := kv.GetAllReplicas(testContext(t), d, op)
			require.NoError(t, err)
			n := 0
			for _, ok := s.Next(t.Context()); ok; _, ok = s.Next(t.Context()) {
				n++
			}
			require.Equal(t, want, n, group)
			require.NoError(t, s.Err())
			require.EqualValues(t, want, d.dispatched.Load(), "no request to other groups")
		}
		op := keyCopies
		op.ServerGroup = "c"
		_, err := kv.GetAnyReplica(testContext(t), serving(threeCopies(), all...), op)
		require.ErrorIs(t, err, cberr.DocumentUnretrievable)
	})
}

func TestLookupInCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op := kv.LookupIn{Key: []byte("k"), Specs: []kv.LookupSpec{kv.GetPath("a")}}
		l := threeCopies()
		d := serving(l, copyOf{silent: true}, copyOf{after: time.Second, doc: "1", node: "n1"}, copyOf{silent: true})
		res, err := kv.LookupInAnyReplica(testContext(t), d, op)
		require.NoError(t, err)
		require.Equal(t, "1", string(res.Paths[0].Value))
		require.True(t, res.FromReplica)

		l.caps = map[string]bool{}
		d = serving(l, copyOf{}, copyOf{}, copyOf{})
		_, err = kv.LookupInAnyReplica(testContext(t), d, op)
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
		require.Equal(t, "lookup-in-any-replica", kvError(t, err).Op)
		require.Zero(t, d.dispatched.Load(), "B60: nothing is sent, not even to the active copy")
	})
}

func TestCopiesOfABadArgument(t *testing.T) {
	d := serving(threeCopies())
	_, err := kv.GetAnyReplica(testContext(t), d, kv.GetReplica{})
	require.ErrorIs(t, err, cberr.InvalidArgument)
	_, err = kv.LookupInAllReplicas(testContext(t), d, kv.LookupIn{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.InvalidArgument)
	require.Zero(t, d.dispatched.Load())

	d.layout = func(call.MapWait) (call.Layout, error) { return nil, errSeen }
	_, err = kv.GetAnyReplica(testContext(t), d, keyCopies)
	require.ErrorIs(t, err, errSeen)
}

// A bucket whose map is still empty is waited for, as a call for a document waits; one that has no vbuckets says so.
func TestOperationsWaitForAMapWithVBuckets(t *testing.T) {
	all := map[string]func(d kv.Dispatcher) error{
		"copies": func(d kv.Dispatcher) error { return discard(kv.GetAnyReplica(testContext(t), d, keyCopies)) },
		"history": func(d kv.Dispatcher) error {
			return discard(kv.DoInHistory(testContext(t), d, &kv.Histories{}, 7, kv.Upsert{Key: []byte("k")}))
		},
		"scan": func(d kv.Dispatcher) error {
			run, err := kv.Scan{}.Run(testContext(t), d)
			if err == nil {
				run.Close()
			}
			return err
		},
	}
	for name, run := range all {
		var l *fakeLayout
		waited := 0
		d := inLayout(nil, func(c *call.Call) {
			switch c.Req.Opcode {
			case memd.OpGetFailoverLog:
				give(c, &memd.Packet{
					Opcode: c.Req.Opcode,
					Value:  []byte("\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00"),
				})
			case memd.OpRangeScanCreate:
				give(c, &memd.Packet{Opcode: c.Req.Opcode, Status: memd.StatusKeyNotFound})
			default:
				give(c, &memd.Packet{Opcode: c.Req.Opcode, Extras: be32})
			}
		})
		d.layout = func(w call.MapWait) (call.Layout, error) {
			require.True(t, w.VBuckets, name)
			if l.nodes > 0 && len(l.rows) == 0 {
				waited++
				l = threeCopies()
			}
			return l, nil
		}
		l = &fakeLayout{nodes: 3}
		require.NoError(t, run(d), name)
		require.Equal(t, 1, waited, name)
		require.NoError(t, run(d), name)
		require.Equal(t, 1, waited, "%s: the map is there", name)
		l = &fakeLayout{}
		require.ErrorIs(t, run(d), cberr.UnsupportedOperation, name)
	}
}
