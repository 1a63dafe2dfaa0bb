package field_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/retry"
)

// Bounds of what a server may make the client do. "A few" is what the documents promise.
const (
	// the first, and then with pauses that double, from 30 ms on for nodes and from 100 ms for maps over HTTP
	dialsInASecond       = 8
	requestsInAMillisec  = 5
	watchedTime          = 5 * time.Second
	watchedLatency       = 50 * time.Microsecond // each way: a loop without pauses makes 10,000 rounds a second
	requestsInASecondMax = 1100                  // of one call: one a millisecond
)

// watched is a scripted cluster in virtual time that notes when the client dials and sends requests.
type watched struct {
	s      *scripted.Cluster
	b      *core.Bucket
	answer scripted.Hook

	mu       sync.Mutex
	newest   scripted.Spec          // the map that nodes give
	dials    map[string][]time.Time // by address
	requests map[memd.Opcode][]time.Time
}

func (w *watched) dial(network *mock.Network) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		w.mu.Lock()
		w.dials[addr] = append(w.dials[addr], time.Now())
		w.mu.Unlock()
		return network.Dial(ctx, addr)
	}
}

func (w *watched) hook(s *scripted.Session, p *memd.Packet) bool {
	w.mu.Lock()
	w.requests[p.Opcode] = append(w.requests[p.Opcode], time.Now())
	answer := w.answer
	w.mu.Unlock()
	return answer != nil && answer(s, p)
}

// answers sets what happens to requests from now on, and forgets what was noted.
func (w *watched) answers(h scripted.Hook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer, w.dials, w.requests = h, map[string][]time.Time{}, map[memd.Opcode][]time.Time{}
}

// most is how many of the moments lie in one window, at most.
func most(moments []time.Time, window time.Duration) (n int) {
	moments = slices.SortedFunc(slices.Values(moments), time.Time.Compare)
	for first, last := 0, 0; last < len(moments); last++ {
		for moments[last].Sub(moments[first]) >= window {
			first++
		}
		n = max(n, last-first+1)
	}
	return n
}

// push sends a notification to all open connections.
func (w *watched) push(rev int64, value []byte) {
	extras := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1), uint64(rev))
	for _, n := range w.s.Nodes {
		for _, s := range n.Sessions() {
			p := memd.Packet{
				Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange, Extras: extras,
				Key: []byte("default"), Value: value,
			}
			if value != nil {
				p.Datatype = memd.DatatypeJSON
			}
			s.Send(p)
		}
	}
}

// pushes sends a notification each millisecond until ctx ends.
func (w *watched) pushes(ctx context.Context, value func(rev int64) []byte) {
	for rev := int64(2); ctx.Err() == nil; rev++ {
		w.push(rev, value(rev))
		time.Sleep(time.Millisecond)
	}
}

func brief(int64) []byte { return nil }

// calls is callers who write again and again until ctx ends.
func (w *watched) calls(ctx context.Context, callers int, common kv.Common) {
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = kv.Do(ctx, w.b, kv.Upsert{
					Common: common, Key: fmt.Appendf(nil, "key %d", i),
					Value: []byte("v"),
				})
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
}

func on(op memd.Opcode, answer func(s *scripted.Session, p *memd.Packet)) scripted.Hook {
	return func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode == op {
			answer(s, p)
		}
		return p.Opcode == op
	}
}

func status(st memd.Status) func(s *scripted.Session, p *memd.Packet) {
	return func(s *scripted.Session, p *memd.Packet) { s.Reply(p, st, nil, nil) }
}

// atOnce is a strategy that retries whatever happens, without a pause.
type atOnce struct{}

func (atOnce) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.After(0)
}

// drives is a server that tries to make the client do something without end.
type drives struct {
	answer   func(w *watched) scripted.Hook
	work     func(ctx context.Context, w *watched)
	dials    int // in a second to one address, at most; 0 means dialsInASecond
	all      int // in a second to all; 0 means twice dialsInASecond
	conns    int // connections that the client keeps to a node; 0 means one
	requests map[memd.Opcode]int
}

func oneCall(ctx context.Context, w *watched) {
	_, _ = kv.Do(ctx, w.b, kv.Upsert{Common: kv.Common{Timeout: watchedTime}, Key: []byte("k"), Value: []byte("v")})
}

func oneCallAtOnce(ctx context.Context, w *watched) {
	_, _ = kv.Do(ctx, w.b, kv.Upsert{
		Common: kv.Common{Timeout: watchedTime, Retry: atOnce{}}, Key: []byte("k"),
		Value: []byte("v"),
	})
}

func manyCalls(ctx context.Context, w *watched) { w.calls(ctx, 8, kv.Common{}) }

func answered(h scripted.Hook) func(*watched) scripted.Hook {
	return func(*watched) scripted.Hook { return h }
}

var drivers = map[string]drives{
	"answers one request and hangs up": {
		answer: answered(on(memd.OpSet, func(s *scripted.Session, p *memd.Packet) {
			s.Reply(p, 0, make([]byte, 16), nil)
			_ = s.Conn.Close()
		})),
		work: manyCalls,
	},
	"hangs up in the handshake": {
		answer: func(w *watched) scripted.Hook {
			for _, s := range w.s.Nodes[0].Sessions() {
				_ = s.Conn.Close()
			}
			return on(memd.OpSelectBucket, func(s *scripted.Session, p *memd.Packet) { _ = s.Conn.Close() })
		},
		work: manyCalls,
	},
	"says that the login is stale": {
		answer: answered(on(memd.OpSet, status(memd.StatusAuthStale))),
		work:   oneCall, dials: 2, requests: map[memd.Opcode]int{memd.OpSASLAuth: 2, memd.OpSet: 200},
	},
	"says that the login is stale, to many calls": {
		answer: answered(on(memd.OpSet, status(memd.StatusAuthStale))),
		work:   manyCalls, dials: 2, requests: map[memd.Opcode]int{memd.OpSASLAuth: 2},
	},
	"says that the login is stale, over several connections": {
		answer: answered(on(memd.OpSet, status(memd.StatusAuthStale))),
		work:   manyCalls, conns: 3, dials: 6, requests: map[memd.Opcode]int{memd.OpSASLAuth: 6},
	},
	"says that the connection has no bucket": {
		answer: answered(on(memd.OpSet, status(memd.StatusNoBucket))),
		work:   manyCalls,
	},
	"is busy, and the strategy does not wait": {
		answer: answered(on(memd.OpSet, status(memd.StatusTmpFail))),
		work:   oneCallAtOnce, requests: map[memd.Opcode]int{memd.OpSet: requestsInASecondMax},
	},
	"refuses, and wakes what waits by new maps": {
		answer: answered(on(memd.OpSet, status(memd.StatusAuthStale))),
		work: func(ctx context.Context, w *watched) {
			go oneCallAtOnce(ctx, w)
			for rev := int64(2); ctx.Err() == nil; rev++ {
				w.push(rev, w.s.Render(scripted.Spec{Bucket: "default", Rev: rev}))
				time.Sleep(100 * time.Microsecond)
			}
		},
		dials: 2, requests: map[memd.Opcode]int{memd.OpSet: requestsInASecondMax},
	},
	"tells of newer maps that it does not have": {
		work:     func(ctx context.Context, w *watched) { w.pushes(ctx, brief) },
		requests: map[memd.Opcode]int{memd.OpGetClusterConfig: 21},
	},
	"says that the vbucket is another's": {
		answer:   answered(on(memd.OpSet, status(memd.StatusNotMyVBucket))),
		work:     oneCall,
		requests: map[memd.Opcode]int{memd.OpSet: 10, memd.OpGetClusterConfig: 21},
	},
	"says that the vbucket is another's, with a newer map each time": {
		answer: func(w *watched) scripted.Hook {
			rev := int64(1)
			return on(memd.OpSet, func(s *scripted.Session, p *memd.Packet) {
				rev++
				s.Reply(p, memd.StatusNotMyVBucket, nil, w.s.Render(scripted.Spec{Bucket: "default", Rev: rev}))
			})
		},
		work:     oneCall,
		requests: map[memd.Opcode]int{memd.OpSet: 10},
	},
	"does not know the collection that it has named": {
		answer: answered(on(memd.OpSet, status(memd.StatusUnknownCollection))),
		work: func(ctx context.Context, w *watched) {
			common := kv.Common{Scope: "s", Collection: "c", Timeout: watchedTime}
			_, _ = kv.Do(ctx, w.b, kv.Upsert{Common: common, Key: []byte("k"), Value: []byte("v")})
		},
		requests: map[memd.Opcode]int{memd.OpSet: 10, memd.OpCollectionsGetID: 10},
	},
	"does not answer which id a collection has": {
		answer: answered(on(memd.OpCollectionsGetID, func(*scripted.Session, *memd.Packet) {})),
		work: func(ctx context.Context, w *watched) {
			_, _ = kv.Do(ctx, w.b, kv.Get{
				Common: kv.Common{Scope: "s", Collection: "c", Timeout: watchedTime},
				Key:    []byte("k"),
			})
		},
		requests: map[memd.Opcode]int{memd.OpCollectionsGetID: 4},
	},
	"never has the mutation on disk": {
		answer: func(*watched) scripted.Hook {
			return func(s *scripted.Session, p *memd.Packet) bool {
				switch p.Opcode {
				case memd.OpSet: // the token: history 7, number 9
					s.Reply(p, 0, []byte{0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9}, nil)
				case memd.OpObserveSeqno: // not on disk: number 0; in memory: number 9
					s.Reply(p, 0, nil, append(binary.BigEndian.AppendUint16([]byte{0}, p.VBucket),
						0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9))
				default:
					return false
				}
				return true
			}
		},
		work: func(ctx context.Context, w *watched) {
			_, _ = kv.DoPolled(ctx, w.b, kv.Upsert{Key: []byte("k")}, kv.PollDurability{
				PersistTo: 1,
				Timeout:   watchedTime,
			})
		},
		requests: map[memd.Opcode]int{memd.OpObserveSeqno: 18},
	},
	"answers what its error map says ends the connection": {
		answer: func(w *watched) scripted.Hook {
			for _, s := range w.s.Nodes[0].Sessions() { // the next one brings the map
				_ = s.Conn.Close()
			}
			w.s.ErrorMap = `{"version":2,"revision":2,"errors":{"7ff0":{"name":"ODD","desc":"odd","attrs":["conn-state-invalidated","retry-now"]}}}`
			return on(memd.OpSet, status(0x7ff0))
		},
		work: manyCalls,
	},
	"names other nodes in each map": {
		work: func(ctx context.Context, w *watched) {
			w.pushes(ctx, func(rev int64) []byte {
				m := string(w.s.Render(scripted.Spec{Bucket: "default", Rev: rev}))
				m = strings.Replace(m, `],"nodes":[`, fmt.Sprintf(`,{"services":{"kv":%d},"hostname":"127.0.0.2"}],"nodes":[`, 1000+rev), 1)
				return []byte(strings.Replace(m, `],"vBucketServerMap"`, `,{"hostname":"127.0.0.2:8091"}],"vBucketServerMap"`, 1))
			})
		},
		// 256 at once, as of a large cluster's first map, and then eight a second; each is tried again until it leaves
		all: 400,
	},
	"is another bucket in each map": {
		work: func(ctx context.Context, w *watched) {
			w.pushes(ctx, func(rev int64) []byte {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.newest.Rev, w.newest.UUID = rev, fmt.Sprintf("%032d", rev)
				return w.s.Render(w.newest)
			})
		},
	},
}

// No server makes the client open more than a few connections a second, or send more than a few identical
// requests a millisecond, whatever it answers.
func TestWhatAServerDrivesIsPaced_D133_D140(t *testing.T) {
	for name, d := range drivers {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { driven(t, d) }) })
	}
}

func driven(t *testing.T, d drives) {
	network := mock.NewNetwork(mock.NetworkOptions{Latency: watchedLatency})
	w := &watched{dials: map[string][]time.Time{}, requests: map[memd.Opcode][]time.Time{}}
	w.s = &scripted.Cluster{Features: scripted.AllFeatures(), Listen: network.Listen}
	w.newest.Bucket = "default"
	w.s.Map = func(*scripted.Node, string) []byte {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.s.Render(w.newest)
	}
	w.s.Features[memd.FeatureClustermapChange] = true
	w.s.Add(t, "127.0.0.1:0").SetHook(w.hook)
	w.b = ready(t, w.s, func(c *core.Config) {
		c.Net.Dial, c.Auth.Username, c.Auth.Password = w.dial(network), "user", core.NewSecret("password")
		c.Auth.Mechanisms, c.Auth.AllowPlain, c.KV.Connections = []string{"PLAIN"}, true, max(d.conns, 1)
	})
	time.Sleep(5 * time.Second) // whatever may be done at once is not used up
	if w.answers(nil); d.answer != nil {
		w.answers(d.answer(w))
	}
	ctx, cancel := context.WithTimeout(t.Context(), watchedTime)
	defer cancel()
	d.work(ctx, w)
	<-ctx.Done()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Time
	for addr, dials := range w.dials {
		all = append(all, dials...)
		require.LessOrEqual(t, most(dials, time.Second), cmp.Or(d.dials, dialsInASecond),
			"connections to %s in a second", addr)
	}
	require.LessOrEqual(t, most(all, time.Second), cmp.Or(d.all, 2*dialsInASecond), "connections in a second")
	for op, limit := range d.requests {
		require.LessOrEqual(t, most(w.requests[op], time.Second), limit, "%v in a second", op)
		require.LessOrEqual(t, most(w.requests[op], time.Millisecond), requestsInAMillisec, "%v in a millisecond", op)
		require.NotEmpty(t, w.requests[op])
	}
}

// Cluster maps over HTTP come in a stream. One that ends at once is begun again with pauses that grow.
func TestAMapStreamThatEndsAtOnceIsPaced_D133(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := mock.NewNetwork(mock.NetworkOptions{Latency: watchedLatency})
		w := &watched{dials: map[string][]time.Time{}, requests: map[memd.Opcode][]time.Time{}}
		w.s = &scripted.Cluster{Features: scripted.AllFeatures(), Listen: network.Listen}
		w.s.Add(t, "127.0.0.1:0")
		listener, err := network.Listen("127.0.0.1:8091")
		require.NoError(t, err)
		var mu sync.Mutex
		var asked []time.Time
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			asked = append(asked, time.Now())
			mu.Unlock()
			_, _ = rw.Write(append(w.s.Render(scripted.Spec{Bucket: "default"}), "\n\n\n\n"...))
		})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		c := openConfig(t, core.Config{
			Seeds: core.SeedConfig{HTTPHosts: []string{"127.0.0.1:8091"}},
			Net:   core.NetConfig{NodeFilter: core.AnyNode, Dial: w.dial(network)},
			Maps:  core.MapConfig{Bootstrap: core.BootstrapHTTP},
		})
		require.NoError(t, c.Bucket("default").WaitReady(within(t, 5*time.Second)))
		time.Sleep(watchedTime)
		require.NoError(t, c.Close())
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(t, asked)
		require.LessOrEqual(t, most(asked, time.Second), 12)
		require.LessOrEqual(t, most(asked[len(asked)/2:], time.Second), 3)
	})
}
