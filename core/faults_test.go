package core_test

import (
	"context"
	"errors"
	"fmt"
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

func only(op memd.Opcode, times int) mock.Match {
	return mock.Match{Opcodes: []memd.Opcode{op}, Times: times}
}

// virtual runs f in a bubble with a mock of three nodes and a client.
func virtual(t *testing.T, f func(t *testing.T, m *mock.Cluster, b *core.Bucket), opts ...mock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, append([]mock.Option{mock.Nodes(3), mock.Replicas(1), mock.Bucket("default", 64,
			mock.WithCollection("s", "c")), mock.Virtual()}, opts...)...)
		b := open(t, m).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		f(t, m, b)
	})
}

func applied(m *mock.Cluster, key string) int {
	n := 0
	for _, a := range m.ApplyLog("default") {
		if a.Key == key {
			n++
		}
	}
	return n
}

// keyOn gives a key whose active copy is on the node.
func keyOn(t *testing.T, b *core.Bucket, addr string) []byte {
	t.Helper()
	for i := range 10000 {
		key := fmt.Appendf(nil, "key-%d", i)
		if _, nodes, ok := b.Locate(key); ok && nodes[0] == addr {
			return key
		}
	}
	t.Fatal("no key for " + addr)
	return nil
}

// A vbucket that has moved is found by the map in the answer: one re-route at once, which is no attempt.
func TestNotMyVBucketWithMapIsReroutedAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		vb, _, _ := b.Locate(key)
		require.NoError(t, m.MoveVBucket("default", int(vb), 1))
		began := time.Now()
		res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)
		require.Equal(t, m.Node(1).Addr(), res.Endpoint())
		require.Zero(t, time.Since(began))
		require.Equal(t, 0, res.RetryInfo().Counted)
		require.Equal(t, 1, res.RetryInfo().Transparent)
		require.True(t, res.RetryInfo().Reasons.Has(retry.KVNotMyVBucket))
		require.Equal(t, 1, applied(m, string(key)))
	})
}

// D63: without a map in the answer one is fetched at once, not at the next poll.
func TestD63NotMyVBucketWithoutMapFetchesOne(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		vb, _, _ := b.Locate(key)
		require.NoError(t, m.MoveVBucket("default", int(vb), 1))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Nodes: []int{0}}, mock.NotMyVBucket(false, nil))
		began := time.Now()
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)
		require.Less(t, time.Since(began), 100*time.Millisecond)
		require.Equal(t, 1, applied(m, string(key)))
	})
}

// Always-retried reasons follow the controlled backoff under any strategy, which is never asked, and end at the
// deadline.
func TestEndlessNotMyVBucketFollowsTheControlledBackoff(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(only(memd.OpSet, 0), mock.NotMyVBucket(true, nil))
		began := time.Now()
		asked := 0
		s := retry.Func(func(context.Context, *retry.Request,
			retry.Reason,
		) retry.Action {
			asked++
			return retry.Stop()
		})
		before := m.Frames(memd.OpSet)
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: s}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout) // every attempt was refused
		require.Equal(t, 2500*time.Millisecond, time.Since(began))
		require.Equal(t, 7, m.Frames(memd.OpSet)-before) // at 0, 1, 11, 61, 161, 661, 1661 ms
		require.Zero(t, asked)
		require.Zero(t, applied(m, "k"))
	})
}

// A call that waits between refusals ends with its context, although nothing else keeps its deadline then.
func TestEndlessNotMyVBucketEndsWithItsContext(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(only(memd.OpSet, 0), mock.NotMyVBucket(true, nil))
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout) // from now on the map that comes with the refusals is known
		c, cancel := context.WithCancel(ctx(t))
		time.AfterFunc(300*time.Millisecond, cancel)
		began := time.Now()
		_, err = kv.Do(c, b, kv.Upsert{Key: []byte("k")})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 300*time.Millisecond, time.Since(began))
		require.Zero(t, applied(m, "k"))
	})
}

// D35: an answer whose map drops the node that gave it freezes nothing.
func TestD35MapThatDropsTheAnsweringNode(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(2).Addr())
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("1")})
		require.NoError(t, err)
		require.NoError(t, m.Failover(2))
		res, err := kv.Do(ctx(t), b, kv.Get{Key: key})
		require.NoError(t, err)
		require.NotEqual(t, m.Node(2).Addr(), res.Endpoint())
		m.BumpRevision() // the next map is handled too
		_, rev := m.Revision()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		mp, _ := b.Map()
		require.Equal(t, rev, mp.Rev)
		require.Len(t, mp.Nodes, 2)
	})
}

// D92: a lookup's answer that is lost delays the collection's calls, and no others.
func TestD92LostCollectionLookup(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		in := m.Inject(only(memd.OpCollectionsGetID, 1), mock.Drop())
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte{byte(i)}, Common: kv.Common{
					Scope:      "s",
					Collection: "c",
				}})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // until they wait for it
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("other")})
		require.NoError(t, err)
		require.Less(t, time.Since(began), time.Millisecond)
		wg.Wait()
		require.Less(t, time.Since(began), time.Second)
		require.Equal(t, 1, in.Fired())
		require.Equal(t, 2, m.Frames(memd.OpCollectionsGetID)) // one lookup for all, asked twice
	})
	met := 0
	for i := range 3 { // one node answers no lookup at all, whichever it is: another one is asked, and no strategy
		virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			in := m.Inject(mock.Match{Nodes: []int{i}, Opcodes: []memd.Opcode{memd.OpCollectionsGetID}}, mock.Drop())
			began := time.Now()
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{
				Scope: "s", Collection: "c",
				Retry: never,
			}})
			require.NoError(t, err)
			require.Less(t, time.Since(began), time.Second)
			met += in.Fired()
		})
	}
	require.Positive(t, met)
}

// B16, D93: a collection that was dropped and created again is found by the next call, under its new id.
func TestB16RecreatedCollection(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		in := kv.Common{Scope: "s", Collection: "c"}
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: in})
		require.NoError(t, err)
		require.NoError(t, m.DropCollection("default", "s", "c"))
		id, err := m.CreateCollection("default", "s", "c")
		require.NoError(t, err)
		res, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: in})
		require.NoError(t, err)
		require.True(t, res.RetryInfo().Reasons.Has(retry.KVCollectionOutdated))
		log := m.ApplyLog("default")
		require.Equal(t, id, log[len(log)-1].Collection)
	})
}

// B17: calls on a missing collection succeed once it exists, with a strategy that waits.
func TestB17CollectionCreatedMeanwhile(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		var fs []kv.Future[kv.MutationResult]
		for i := range 10 {
			fs = append(fs, kv.Start(ctx(t), b, kv.Upsert{
				Key: []byte{byte(i)}, Common: kv.Common{Scope: "new", Collection: "c", Retry: retry.BestEffort{}},
			}))
		}
		time.Sleep(300 * time.Millisecond)
		_, err := m.CreateScope("default", "new")
		require.NoError(t, err)
		_, err = m.CreateCollection("default", "new", "c")
		require.NoError(t, err)
		for _, f := range fs {
			_, err := f.Wait(ctx(t))
			require.NoError(t, err)
		}
	})
}

// D36: a call that cannot be encoded fails alone, in the middle of a thousand others.
func TestD36UnencodableCallFailsAlone(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		var fs []kv.Future[kv.MutationResult]
		for i := range 1000 {
			fs = append(fs, kv.Start(ctx(t), b, kv.Upsert{Key: fmt.Appendf(nil, "k%d", i)}))
			if i == 500 {
				_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), PreserveExpiry: true})
				require.ErrorIs(t, err, cberr.FeatureNotAvailable)
			}
		}
		for _, f := range fs {
			_, err := f.Wait(ctx(t))
			require.NoError(t, err)
		}
		require.Zero(t, applied(m, "k"))
		require.Equal(t, 3, m.Frames(memd.OpHello)) // no connection was made again
	}, mock.WithoutFeatures(memd.FeaturePreserveTTL))
}

// D37: cancels at every moment disturb neither the connection nor another call.
func TestD37CancelRacesDispatch(t *testing.T) {
	m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16))
	b := open(t, m).Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				c, cancel := context.WithCancel(t.Context())
				go cancel()
				key := fmt.Appendf(nil, "k-%d-%d", w, i)
				_, err := kv.Do(c, b, kv.Upsert{Key: key, Value: key})
				clear(key) // the caller's bytes are its own again
				if err != nil && !errors.Is(err, cberr.RequestCanceled) {
					t.Error(err)
				}
				if _, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte("steady")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, m.Frames(memd.OpHello))
	for _, a := range m.ApplyLog("default") {
		require.NotContains(t, a.Key, "\x00") // no frame was made of bytes that the caller had back
	}
}

// A lost socket: what may be sent again is, what may have been applied never is.
func TestLostSocket(t *testing.T) {
	for _, f := range []struct {
		name    string
		fault   mock.Fault
		applied int
	}{{"before", mock.CloseBefore(), 0}, {"after", mock.CloseAfter(), 1}} {
		t.Run(f.name, func(t *testing.T) {
			virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				m.Inject(only(memd.OpSet, 1), f.fault)
				always := retry.Func(func(context.Context, *retry.Request,
					retry.Reason,
				) retry.Action {
					return retry.After(0)
				})
				_, err := kv.Do(ctx(t), b, kv.Upsert{
					Key: []byte("k"), Value: []byte("v"),
					Common: kv.Common{Retry: always},
				})
				var e *kv.Error
				require.ErrorAs(t, err, &e)
				require.ErrorIs(t, err, cberr.RequestCanceled)
				require.True(t, e.Ambiguous())
				require.Equal(t, f.applied, applied(m, "k"))
				m.Inject(only(memd.OpGet, 1), f.fault)
				_, err = kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
				require.NoError(t, err)
				res, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
				require.NoError(t, err)
				require.True(t, res.RetryInfo().Reasons.Has(retry.SocketClosedWhileInFlight))
			})
		})
	}
}

// Ambiguity is a fact: a write that was sent and not answered may have been applied, one that was refused was not.
func TestTimeoutsTellTheTruth(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		short := kv.Common{Timeout: 100 * time.Millisecond}
		m.Inject(only(memd.OpSet, 1), mock.DropReply())
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: short})
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		require.Equal(t, 1, applied(m, "k"))
		m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail))
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k2"), Common: short})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Zero(t, applied(m, "k2"))
		m.Inject(only(memd.OpGet, 1), mock.Drop())
		_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: short})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	})
}

// D7, D1: a malformed answer ends its connection, and nothing else.
func TestD1GarbageEndsOneConnection(t *testing.T) {
	for name, f := range map[string]mock.Fault{
		"magic": mock.CorruptMagic(), "length": mock.CorruptLength(),
		"parts": mock.CorruptParts(),
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				key := keyOn(t, b, m.Node(0).Addr())
				_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
				require.NoError(t, err)
				in := m.Inject(only(memd.OpGet, 1), f)
				_, err = kv.Do(ctx(t), b, kv.Get{Key: key}) // sent again on the next connection
				require.NoError(t, err)
				require.Equal(t, 1, in.Fired())
				require.Equal(t, 4, m.Frames(memd.OpHello))
			})
		})
	}
}

// D42, B81: Close ends calls in every phase at once, and later ones too.
func TestD42CloseEndsCallsInEveryPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
		c := open(t, m)
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		m.Inject(only(memd.OpGet, 0), mock.Drop())                       // on the wire
		m.Inject(only(memd.OpTouch, 0), mock.Status(memd.StatusTmpFail)) // parked
		m.Inject(only(memd.OpCollectionsGetID, 0), mock.Drop())          // waiting for an id
		m.Inject(only(memd.OpDelete, 0), mock.Drop())                    // on the wire, not idempotent
		absent := c.Bucket("absent")                                     // waiting for a bucket
		wire := kv.Start(ctx(t), b, kv.Get{Key: []byte("k")})
		parked := kv.Start(ctx(t), b, kv.Touch{Key: []byte("k")})
		lookup := kv.Start(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Collection: "c"}})
		inDoubt := kv.Start(ctx(t), b, kv.Remove{Key: []byte("k")})
		waiting := kv.Start(ctx(t), absent, kv.Get{Key: []byte("k")})
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		check := func(err error, inDoubt bool) {
			t.Helper()
			var e *kv.Error
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, cberr.RequestCanceled)
			require.ErrorIs(t, err, retry.ErrClosed)
			require.Equal(t, inDoubt, e.Ambiguous())
		}
		_, err := wire.Wait(ctx(t))
		check(err, false)
		_, err = parked.Wait(ctx(t))
		check(err, false)
		_, err = lookup.Wait(ctx(t))
		check(err, false)
		_, err = waiting.Wait(ctx(t))
		check(err, false)
		_, err = inDoubt.Wait(ctx(t))
		check(err, true)
		require.Zero(t, time.Since(began))
		_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
		check(err, false)
		_, err = kv.Do(ctx(t), c.Bucket("new"), kv.Get{Key: []byte("k")})
		check(err, false)
	})
}

// D51: a callback or a strategy that blocks delays no other call; one that panics fails its own.
func TestD51UserCodeHurtsNoOtherCall(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		release := make(chan struct{})
		began := time.Now()
		done := make(chan error, 2)
		kv.Go(ctx(t), b, kv.Upsert{Key: []byte("a")}, func(kv.MutationResult, error) { <-release })
		kv.Go(ctx(t), b, kv.Upsert{Key: []byte("b")}, func(kv.MutationResult, error) { panic("callback") })
		kv.Go(ctx(t), b, kv.Upsert{Key: []byte("c")}, func(_ kv.MutationResult, err error) {
			_, again := kv.Do(t.Context(), b, kv.Get{Key: []byte("c")}) // a blocking call inside a callback
			done <- errors.Join(err, again)
		})
		require.NoError(t, <-done)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpTouch}, Key: []byte("a")}, mock.Status(memd.StatusTmpFail))
		slow := retry.Func(func(context.Context, *retry.Request,
			retry.Reason,
		) retry.Action {
			<-release
			return retry.Stop()
		})
		mad := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { panic("strategy") })
		stuck := kv.Start(ctx(t), b, kv.Touch{Key: []byte("a"), Common: kv.Common{Retry: slow}})
		_, err := kv.Do(ctx(t), b, kv.Touch{Key: []byte("a"), Common: kv.Common{Retry: mad}})
		var p *retry.PanicError
		require.ErrorAs(t, err, &p)
		_, err = kv.Do(ctx(t), b, kv.Touch{Key: []byte("b")})
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		_, err = stuck.Wait(ctx(t)) // its deadline holds although its strategy never answers
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 2500*time.Millisecond, time.Since(began))
		close(release)
	})
}
