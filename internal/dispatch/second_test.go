package dispatch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// A processor changes sides only when nearly all calls are on its own.
func TestWhenAProcessorChangesSides(t *testing.T) {
	for name, c := range map[string]struct {
		here, there int
		crammed     bool
	}{
		"equal":          {500, 500, false},
		"more here":      {900, 120, false},
		"all here":       {1000, 0, true},
		"nearly all":     {1000, 124, true},
		"all there":      {0, 1000, false},
		"all, but few":   {manyOnce, 0, false},
		"a few too many": {manyOnce + 1, 0, true},
	} {
		require.Equal(t, c.crammed, crammed(c.here, c.there), name)
	}
}

// It looks whether to do so from time to time.
func TestAProcessorChangesSides(t *testing.T) {
	twice(t, func(t *testing.T, m *mock.Cluster, r *Router, p, q *pipeline) {
		in := m.Inject(mock.Match{Key: []byte("held")}, mock.Hold())
		defer in.Release()
		for range 2 * manyOnce {
			kv.Go(t.Context(), r, kv.Get{Key: []byte("held")}, func(kv.GetResult, error) {})
		}
		first, second := p.conn.Load(), q.conn.Load()
		require.Equal(t, 2*manyOnce, first.InFlight())
		moves, stays := side{}, side{second: true}
		for range sideTurns - 1 {
			require.False(t, moves.turn(first, second))
			require.True(t, stays.turn(first, second))
		}
		for range 2 * sideTurns {
			require.True(t, moves.turn(first, second))
			require.True(t, stays.turn(first, second))
		}
	})
}

// New calls are for the one connection and the other in turn, those of a batch for the same, and so they stay when they are
// used again.
func TestWhichConnectionACallIsFor(t *testing.T) {
	routed(t, func(t *testing.T, _ *mock.Cluster, r *Router) {
		n := map[bool]int{}
		var calls []*kv.Call
		for range 10 {
			c := r.NewCall()
			n[c.Second()]++
			calls = append(calls, c)
		}
		require.Equal(t, map[bool]int{false: 5, true: 5}, n)
		for _, c := range calls {
			second := c.Second()
			c.Reset()
			require.Equal(t, second, c.Second())
		}
		n = map[bool]int{}
		for range 10 {
			calls := make([]*kv.Call, 16)
			r.NewCalls(calls)
			for _, c := range calls {
				require.Equal(t, calls[0].Second(), c.Second())
			}
			n[calls[0].Second()]++
			n[r.NewReads().Second] += 10
			n[r.NewReads().Second] += 10
		}
		require.Equal(t, map[bool]int{false: 105, true: 105}, n)
	})
}

// Where there are enough calls each goes over the connection that it is for.
func TestCallsAreSharedAmongTwoConnections(t *testing.T) {
	twice(t, func(t *testing.T, _ *mock.Cluster, r *Router, p, _ *pipeline) {
		var wg sync.WaitGroup
		var used, batches [2]atomic.Int32
		first := p.conn.Load().Info().ID
		for range 4 * conn.Crowd {
			wg.Go(func() {
				for range 50 {
					upsertOver(t, r, first, &used)
					some := kv.GetMulti(t.Context(), r, kv.Common{}, [][]byte{[]byte("k"), []byte("k"), []byte("k")})
					if of := some[0].Result.Connection(); of == first {
						batches[0].Add(1)
					} else {
						batches[1].Add(1)
					}
					if some[0].Result.Connection() != some[2].Result.Connection() {
						t.Error("a batch goes over one connection")
					}
				}
			})
		}
		wg.Wait()
		for i := range used {
			require.Greater(t, used[i].Load(), int32(conn.Crowd*50/2), "each has a fair part of them")
			require.Greater(t, batches[i].Load(), int32(conn.Crowd*50/2), "and of the batches")
		}
	})
}

// Calls that have all come to be for one connection are shared again.
func TestCallsOfOneSideAreSharedAgain(t *testing.T) {
	twice(t, func(t *testing.T, _ *mock.Cluster, r *Router, p, _ *pipeline) {
		for _, second := range []bool{false, true} {
			r.pool.New = func() any {
				c := kv.NewCall()
				c.SetSecond(second)
				return c
			}
			var used [2]atomic.Int32
			for range 20 { // with new pools
				r.pool = sync.Pool{New: r.pool.New}
				crowdOf(t, r, p, &used)
			}
			for i := range used {
				require.Greater(t, used[i].Load(), int32(4*conn.Crowd*50*20/20), "%v: each has a part of them", second)
			}
		}
		r.sides.again.Store(true)
		looks(r, quietLooks)
		synctest.Wait()
		require.Nil(t, p.second.Load())
		require.False(t, r.sides.again.Load(), "where there is one connection they stay as they are")
	})
}

// upsertOver counts whether one call goes over the first connection.
func upsertOver(t *testing.T, r *Router, first string, used *[2]atomic.Int32) {
	switch res, err := kv.Do(t.Context(), r, kv.Upsert{Key: []byte("k")}); {
	case err != nil:
		t.Error(err)
	case res.Connection() == first:
		used[0].Add(1)
	default:
		used[1].Add(1)
	}
}

// crowdOf counts which connection many calls go over.
func crowdOf(t *testing.T, r *Router, p *pipeline, used *[2]atomic.Int32) {
	first := p.conn.Load().Info().ID
	var wg sync.WaitGroup
	for range 4 * conn.Crowd {
		wg.Go(func() {
			for range 50 {
				upsertOver(t, r, first, used)
			}
		})
	}
	wg.Wait()
}

// Neither a few calls nor a backlog are spread.
func TestWhoSharesAConnection(t *testing.T) {
	for inFlight, want := range map[int]bool{
		0: true, conn.Crowd/2 - 1: true, conn.Crowd / 2: false, 1024: false, backlog - 1: false, backlog: true, 4 * backlog: true,
	} {
		require.Equal(t, want, together(inFlight, conn.Crowd/2), inFlight)
	}
}

// twice runs f with a node that has two connections.
func twice(t *testing.T, f func(t *testing.T, m *mock.Cluster, r *Router, p, q *pipeline)) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	routed(t, func(t *testing.T, m *mock.Cluster, r *Router) {
		p := r.picker.Load().nodes[0]
		p.crowded()
		time.Sleep(time.Millisecond)
		q := p.second.Load()
		require.NotNil(t, q)
		require.True(t, p.pair.Both())
		f(t, m, r, p, q)
		synctest.Wait()
		require.Equal(t, p.second.Load() != nil, p.pair.Both())
	})
}

// What is asked of a node goes over its first connection, and what is asked of a connection over that one. Both are asked
// in turn whether they are there, and count as one node.
func TestWhatIsAskedOfANodeWithTwoConnections(t *testing.T) {
	twice(t, func(t *testing.T, _ *mock.Cluster, r *Router, p, q *pipeline) {
		ids := []string{p.conn.Load().Info().ID, q.conn.Load().Info().ID}
		for turn := range 4 {
			require.Equal(t, ids[turn%2], r.Probe(0, turn).Connection())
			res, err := kv.Do(t.Context(), r, kv.Noop{Pinned: true, Connection: ids[turn%2]})
			require.NoError(t, err)
			require.Equal(t, ids[turn%2], res.Connection())
			res, err = kv.Do(t.Context(), r, kv.Noop{Pinned: true})
			require.NoError(t, err)
			require.Equal(t, ids[0], res.Connection())
		}
		require.EqualValues(t, 1, r.serving.Load())
		require.Len(t, r.Logins(), 2)
		for range 3 {
			p.crowded()
			synctest.Wait()
		}
		require.Same(t, q, p.second.Load(), "there is no third one")
	})
}

// A call that has chosen a connection that ends meanwhile goes over the other one, at once, whichever it was.
func TestACallThatHasChosenTheConnectionThatEnds(t *testing.T) {
	ends := map[string]func(m *mock.Cluster, r *Router, p, q *pipeline){
		"lost":   func(m *mock.Cluster, _ *Router, _, _ *pipeline) { m.Network().Links()[1].Reset() },
		"unused": func(_ *mock.Cluster, r *Router, _, _ *pipeline) { looks(r, quietLooks) },
		"dying":  func(_ *mock.Cluster, _ *Router, _, q *pipeline) { q.conn.Load().Close(errUnused) },
	}
	for name, end := range ends {
		for _, wait := range []bool{false, true} {
			twice(t, func(t *testing.T, m *mock.Cluster, r *Router, p, q *pipeline) {
				held := &heldUp{r, func() {
					if end(m, r, p, q); wait {
						synctest.Wait()
						require.Nil(t, p.second.Load(), name)
					}
				}, func(_ *pipeline, c *kv.Call) { q.submit(c) }}
				began := time.Now()
				res, err := kv.Do(t.Context(), held, kv.Upsert{Key: []byte("k")})
				require.NoError(t, err, name)
				require.Zero(t, res.RetryInfo().Retries(), name)
				require.Less(t, time.Since(began), 10*time.Millisecond, name)
			})
		}
	}
}

func looks(r *Router, n int) {
	for range n + 1 {
		r.NoteActivity()
	}
}

// While the first connection is being made again the second has all calls.
func TestTheSecondConnectionStandsInForTheFirst(t *testing.T) {
	twice(t, func(t *testing.T, m *mock.Cluster, _ *Router, p, q *pipeline) {
		require.Same(t, p, p.share(q, true), "there are few calls")
		m.Network().Links()[0].Reset()
		synctest.Wait()
		p.conn.Store(nil)
		require.Same(t, q, p.share(q, false))
		require.Same(t, q, p.choose(kv.NewCall()), "so has a request that is not routed the short way")
		cn := q.conn.Swap(nil)
		require.Same(t, p, p.share(q, true))
		q.conn.Store(cn)
	})
}

// Who looks at the connections whenever something has changed sees the second one: its login is to be renewed, too.
func TestASecondConnectionIsSeen(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	for range 20 {
		routed(t, func(t *testing.T, _ *mock.Cluster, r *Router) {
			seen := make(chan int, 100)
			over := make(chan struct{})
			go func() {
				for {
					changed := r.Changed()
					seen <- len(r.Logins())
					select {
					case <-changed:
					case <-over:
						close(seen)
						return
					}
				}
			}()
			synctest.Wait()
			r.picker.Load().nodes[0].crowded()
			time.Sleep(time.Second)
			close(over)
			last := 0
			for n := range seen {
				last = n
			}
			require.Equal(t, 2, last)
		})
	}
}

// A second connection that is made just as its node leaves is closed: nobody else knows of it.
func TestASecondConnectionToANodeThatHasLeft(t *testing.T) {
	twice(t, func(t *testing.T, m *mock.Cluster, r *Router, p, _ *pipeline) {
		m.Network().Links()[1].Reset()
		time.Sleep(secondAgain)
		p.crowded()
		r.mu.Lock()
		delete(r.pipes, p.addr)
		r.mu.Unlock()
		time.Sleep(time.Second)
		require.Nil(t, p.second.Load())
		require.Len(t, m.Network().Links(), 1)
		r.mu.Lock()
		r.pipes[p.addr] = p // for Close
		r.mu.Unlock()
	})
}

// A second connection that cannot be made says nothing of the node, which has its first.
func TestASecondConnectionThatFailsIsNoFailureOfTheNode(t *testing.T) {
	twice(t, func(t *testing.T, m *mock.Cluster, r *Router, p, _ *pipeline) {
		m.Network().Links()[1].Reset()
		require.NoError(t, m.SetPassword(mock.DefaultUser, "another"))
		time.Sleep(secondAgain)
		p.crowded()
		time.Sleep(time.Second)
		require.Nil(t, p.second.Load())
		require.NotZero(t, p.widened)
		why, err := r.o.Health.Refine(retry.NodeNotAvailable, r.o.Bucket)
		require.NoError(t, err)
		require.Equal(t, retry.NodeNotAvailable, why)
	})
}

// Nothing is made for a node that has left, nor when everything is closed, nor soon again.
func TestWhenNoSecondConnectionIsBegun(t *testing.T) {
	twice(t, func(t *testing.T, m *mock.Cluster, r *Router, p, q *pipeline) {
		m.Network().Links()[1].Reset()
		synctest.Wait()
		none := func() {
			t.Helper()
			p.crowded()
			time.Sleep(time.Millisecond)
			require.Nil(t, p.second.Load())
			require.Len(t, m.Network().Links(), 1)
		}
		none()
		time.Sleep(secondAgain)
		r.mu.Lock()
		delete(r.pipes, p.addr)
		r.mu.Unlock()
		none()
		require.False(t, q.join())
		r.mu.Lock()
		r.pipes[p.addr] = p
		r.closed = true
		r.mu.Unlock()
		none()
		require.False(t, q.join())
		r.mu.Lock()
		r.closed = false
		r.mu.Unlock()
		p.crowded()
		time.Sleep(time.Millisecond)
		require.NotNil(t, p.second.Load())
	})
}
