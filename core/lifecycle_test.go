package core_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
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

// CB-2, D67, D72: while a node is down the strategy is asked, and once it is back its calls succeed. A write that never
// left is sent once.
func TestD67NodeThatIsDownIsAReason(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(1).Addr())
		require.NoError(t, m.Kill(1))
		var mu sync.Mutex
		seen := map[retry.Reason]int{}
		s := retry.Func(func(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
			mu.Lock()
			seen[why]++
			mu.Unlock()
			return retry.BestEffort{}.RetryAfter(ctx, r, why)
		})
		f := kv.Start(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v"), Common: kv.Common{Retry: s}})
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, m.Respawn(1))
		res, err := f.Wait(ctx(t))
		require.NoError(t, err)
		require.True(t, res.RetryInfo().Reasons.Has(retry.SocketNotAvailable))
		require.Positive(t, seen[retry.SocketNotAvailable])
		require.Equal(t, 1, applied(m, string(key)))
		_, err = kv.Do(ctx(t), b, kv.Get{Key: key})
		require.NoError(t, err)
	})
}

// D74: a strategy that says "at once" to everything spins neither processor nor clock while there is no way to the
// node.
func TestD74RecklessStrategyDoesNotSpin(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(1).Addr())
		require.NoError(t, m.Kill(1))
		asked := 0
		s := retry.Func(func(context.Context, *retry.Request,
			retry.Reason,
		) retry.Action {
			asked++
			return retry.After(0)
		})
		began := time.Now()
		_, err := kv.Do(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Retry: s, Timeout: 100 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		require.LessOrEqual(t, asked, 102)
	})
}

// A node that stays down: the timeout carries the reason and the last failure to connect.
func TestTimeoutOnADeadNodeSaysWhy(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(1).Addr())
		require.NoError(t, m.Kill(1))
		_, err := kv.Do(ctx(t), b, kv.Get{Key: key})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorContains(t, err, m.Node(1).Addr())
		info, _ := retry.InfoOf(err)
		require.True(t, info.Reasons.Has(retry.SocketNotAvailable))
	})
}

// D24: a first seed that does not answer costs nothing while another does.
func TestD24DeadSeedCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
		c := open(t, m, func(cfg *core.Config) {
			cfg.Seeds.Hosts = append([]string{"10.99.0.1:11210"}, cfg.Seeds.Hosts...)
			dial := cfg.Net.Dial
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr == "10.99.0.1:11210" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return dial(ctx, network, addr)
			}
		})
		began := time.Now()
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.Less(t, time.Since(began), 100*time.Millisecond)
	})
}

// D20: a peer that accepts and stays silent holds neither calls beyond their deadline nor Close.
func TestD20SilentPeer(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { silentPeer(t, encrypted) })
	}
}

func silentPeer(t *testing.T, encrypted bool) {
	var open atomic.Int64
	c, err := core.Open(t.Context(), core.Config{
		Net: core.NetConfig{
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, _ := net.Pipe()
				open.Add(1)
				return &closeCounter{near, &open, sync.Once{}}, nil
			},
		},
		Auth: core.AuthConfig{Username: "u"},
		TLS:  core.TLSConfig{Enabled: encrypted},
	})
	require.NoError(t, err)
	began := time.Now()
	_, err = kv.Do(ctx(t), c.Bucket("b"), kv.Get{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	require.Equal(t, 2500*time.Millisecond, time.Since(began))
	time.Sleep(time.Minute) // several attempts to connect
	began = time.Now()
	require.NoError(t, c.Close())
	require.Less(t, time.Since(began), time.Second)
	require.Zero(t, open.Load())
}

type closeCounter struct {
	net.Conn
	n    *atomic.Int64
	once sync.Once
}

func (c *closeCounter) Close() error {
	c.once.Do(func() { c.n.Add(-1) })
	return c.Conn.Close()
}

// Faults 1 and 17: attempts to connect follow the backoff, whatever fails, and nothing spins.
func TestRedialsAreBounded(t *testing.T) {
	for name, failure := range map[string]error{"refused": syscall.ECONNREFUSED, "too many files": syscall.EMFILE} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dials atomic.Int64
				c, err := core.Open(t.Context(), core.Config{
					Net: core.NetConfig{
						Dial: func(context.Context, string, string) (net.Conn, error) {
							dials.Add(1)
							return nil, failure
						},
					},
				})
				require.NoError(t, err)
				_, err = kv.Do(ctx(t), c.Bucket("b"), kv.Get{Key: []byte("k")})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.ErrorIs(t, err, failure)
				time.Sleep(57500 * time.Millisecond)
				n := dials.Load()
				require.Greater(t, n, int64(15)) // at least every 4 s
				require.Less(t, n, int64(40))    // 30 ms doubling to 4 s, less the jitter
				require.NoError(t, c.Close())
			})
		})
	}
}

// D55: a burst far beyond the connection's limit completes: a full connection is a reason, and the strategy waits.
func TestD55BurstOnOneNodeCompletes(t *testing.T) {
	calls := 50_000
	if raceEnabled {
		calls = 10_000
	}
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual())
		b := open(t, m, func(c *core.Config) { c.Limits.InFlight, c.Limits.Parked = 4096, 60000 }).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		m.Inject(only(memd.OpSet, 0), mock.Delay(time.Millisecond)) // the clock stands still until all have begun
		var fs []kv.Future[kv.MutationResult]
		all := ctx(t)
		for i := range calls {
			fs = append(fs, kv.Start(all, b, kv.Upsert{Key: fmt.Appendf(nil, "k%d", i)}))
		}
		full := false
		for _, f := range fs {
			res, err := f.Wait(all)
			require.NoError(t, err)
			full = full || res.RetryInfo().Reasons.Has(retry.EndpointNotWritable)
		}
		require.True(t, full)
		require.Len(t, m.ApplyLog("default"), calls)
	})
}

// Faults 18, 19, 21: answers without a waiter, or twice, or too late, are counted and change no call.
func TestOrphansHurtNoCall(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("1")})
		require.NoError(t, err)
		m.Inject(only(memd.OpGet, 1), mock.Twice())
		_, err = kv.Do(ctx(t), b, kv.Get{Key: key})
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 1, b.Orphans())
		m.Inject(only(memd.OpGet, 1), mock.CorruptOpaque())
		_, err = kv.Do(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: 50 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.EqualValues(t, 2, b.Orphans())
		in := m.Inject(only(memd.OpGet, 1), mock.HoldReply())
		c, cancel := context.WithCancel(t.Context())
		f := kv.Start(c, b, kv.Get{Key: key})
		time.Sleep(time.Second)
		cancel()
		_, err = f.Wait(ctx(t))
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.ErrorIs(t, err, context.Canceled)
		in.Release()
		for range 100 {
			_, err = kv.Do(ctx(t), b, kv.Get{Key: key})
			require.NoError(t, err)
		}
		synctest.Wait()
		require.EqualValues(t, 3, b.Orphans())
		require.Equal(t, 3, m.Frames(memd.OpHello))
	})
}

// An answer that carries another opcode than its request means that the stream is out of step: the connection ends, and
// no call gets a foreign answer.
func TestAnswerWithAnotherOpcodeEndsTheConnection(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		m.Inject(only(memd.OpGet, 1), mock.Rewrite(func(_, rep *memd.Packet) { rep.Opcode = memd.OpGAT }))
		res, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")}) // sent again
		require.NoError(t, err)
		require.Equal(t, "v", string(res.Value))
		require.Equal(t, 4, m.Frames(memd.OpHello))
		m.Inject(only(memd.OpSet, 1), mock.Rewrite(func(_, rep *memd.Packet) { rep.Opcode = memd.OpAdd }))
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("w")})
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.True(t, e.Ambiguous())
		// A failure with another opcode is no more this request's answer.
		m.Inject(only(memd.OpGet, 1), mock.Rewrite(func(_, rep *memd.Packet) {
			rep.Opcode, rep.Status = memd.OpGAT,
				memd.StatusTooBig
		}))
		require.NoError(t, b.WaitReady(ctx(t))) // the connection that the write has ended is replaced
		synctest.Wait()
		hellos := m.Frames(memd.OpHello)
		_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		require.Equal(t, hellos+1, m.Frames(memd.OpHello))
	})
}

// Orphans are reported every ten seconds, all of them counted.
func TestOrphansAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(locked{&mu, &out}, nil))
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		b := open(t, m, func(c *core.Config) { c.Observe.Log = log }).Bucket("default")
		m.Inject(only(memd.OpGet, 3), mock.Twice())
		for range 3 {
			_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
		}
		time.Sleep(15 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Contains(t, out.String(), "Orphaned responses observed")
		require.Contains(t, out.String(), "count=3")
	})
}

// The end of a context is noticed within 5 ms, and at once by a call that has waited longer.
func TestCancellationIsNoticedInTime(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(only(memd.OpGet, 0), mock.Drop())
		for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, time.Second} {
			c, cancel := context.WithCancel(t.Context())
			var canceled time.Time
			time.AfterFunc(after, func() { canceled = time.Now(); cancel() })
			_, err := kv.Do(c, b, kv.Get{Key: []byte("k")})
			require.ErrorIs(t, err, cberr.RequestCanceled)
			late := time.Since(canceled)
			if after > 5*time.Millisecond {
				require.Zero(t, late)
			}
			require.LessOrEqual(t, late, 5*time.Millisecond)
		}
		for before := range 60 { // another call, after which contexts are looked at already
			other, end := context.WithCancel(t.Context())
			f := kv.Start(other, b, kv.Get{Key: []byte("k")})
			time.Sleep(time.Duration(before) * 100 * time.Microsecond)
			c, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Microsecond, cancel)
			began := time.Now()
			_, err := kv.Do(c, b, kv.Get{Key: []byte("k")})
			require.ErrorIs(t, err, cberr.RequestCanceled)
			require.LessOrEqual(t, time.Since(began), 5*time.Millisecond, before)
			end()
			_, err = f.Wait(t.Context())
			require.ErrorIs(t, err, cberr.RequestCanceled)
		}
		c, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := kv.Do(c, b, kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 300*time.Millisecond, time.Since(began))
	})
}

// registry is a context that can end, and counts who waits for that.
type registry struct {
	context.Context
	done chan struct{}
	n    atomic.Int32
}

func (r *registry) Done() <-chan struct{} { return r.done }

func (r *registry) AfterFunc(func()) (stop func() bool) {
	r.n.Add(1)
	return func() bool { return true }
}

// A call that is answered soon does not wait for the end of its context, however many there are at any time.
func TestAContextCostsNothingBeforeItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual(), mock.Latency(time.Millisecond))
		b := open(t, m).Bucket("default")
		require.NoError(t, b.WaitReady(t.Context()))
		c := &registry{Context: context.Background(), done: make(chan struct{})}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Microsecond)
				for range 50 {
					_, err := kv.Do(c, b, kv.Upsert{Key: []byte("k")})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.Zero(t, c.n.Load())
		m.Inject(only(memd.OpGet, 1), mock.Delay(20*time.Millisecond))
		_, err := kv.Do(c, b, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		require.EqualValues(t, 1, c.n.Load())
	})
}

// D62: an idle client asks for the map with the version it knows, and gets nothing back; D30: a node without a map is
// asked again.
func TestD62D30ConfigPolling(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		empty, full := 0, 0
		m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(req, rep *memd.Packet) {
			if len(req.Extras) == 16 && len(rep.Value) == 0 {
				empty++
			} else {
				full++
			}
		}))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 24, empty)
		require.Zero(t, full)
	})
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual())
		m.Inject(only(memd.OpGetClusterConfig, 3), mock.Status(memd.StatusKeyNotFound))
		_, err := kv.Do(ctx(t), open(t, m).Bucket("default"), kv.Upsert{
			Key:    []byte("k"),
			Common: kv.Common{Timeout: 9 * time.Second},
		})
		require.NoError(t, err)
	})
}

// Fault 42: a bucket that is deleted and created again, with another uuid, is found again.
func TestRecreatedBucket(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.NoError(t, m.DropBucket("default"))
		time.Sleep(time.Second)
		require.NoError(t, m.CreateBucket("default", 32))
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: 9 * time.Second}})
		require.NoError(t, err)
		mp, _ := b.Map()
		require.Equal(t, 32, mp.VBuckets)
	})
}

// Guarantee 5, D59: two goroutines per connection at most, none per call, none after Close (the bubble checks that).
func TestGoroutinesPerConnection_D59(t *testing.T) {
	m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64))
	c := open(t, m)
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	m.Inject(only(memd.OpGet, 0), mock.Drop())
	before := runtime.NumGoroutine()
	var fs []kv.Future[kv.GetResult]
	for i := range 1000 {
		fs = append(fs, kv.Start(context.Background(), b, kv.Get{
			Key:    []byte{byte(i), byte(i >> 8)},
			Common: kv.Common{Timeout: 200 * time.Millisecond},
		}))
	}
	requireGoroutines(t, before+3)
	for _, f := range fs {
		_, err := f.Wait(ctx(t))
		require.ErrorIs(t, err, cberr.Timeout)
	}
}

// A strategy of one call does not touch another's, and nil inherits the cluster's.
func TestStrategyPerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual())
		never := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
		b := open(t, m, func(c *core.Config) { c.Retry.Strategy = never }).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		m.Inject(only(memd.OpTouch, 3), mock.Status(memd.StatusTmpFail))
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		_, err = kv.Do(ctx(t), b, kv.Touch{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		res, err := kv.Do(ctx(t), b, kv.Touch{Key: []byte("k"), Common: kv.Common{Retry: retry.BestEffort{}}})
		require.NoError(t, err)
		require.Equal(t, 2, res.RetryInfo().Counted)
	})
}

// A map that is known to exist is asked of another node when the first one stays silent, not at the next poll.
func TestWantedMapIsAskedOfEveryNode(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		vb, _, _ := b.Locate(key)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}, Nodes: []int{0, 1}}, mock.Drop())
		require.NoError(t, m.MoveVBucket("default", int(vb), 1))
		m.Inject(only(memd.OpSet, 1), mock.NotMyVBucket(false, nil))
		began := time.Now()
		f := kv.Start(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v")})
		synctest.Wait()
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Nodes: []int{0}}, mock.NotMyVBucket(false, nil))
		_, err := f.Wait(ctx(t))
		require.NoError(t, err)
		require.Less(t, time.Since(began), 2*time.Second)
		require.Equal(t, 1, applied(m, string(key)))
	})
}

// requireGoroutines waits for goroutines that have ended to be counted no more: the runtime counts one until its stack
// is put away, which may be after everybody could see its end.
func requireGoroutines(t *testing.T, most int) {
	t.Helper()
	for range 100000 {
		if runtime.NumGoroutine() <= most {
			return
		}
		runtime.Gosched()
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), most)
}
