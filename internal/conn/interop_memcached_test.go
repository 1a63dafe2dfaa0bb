package conn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// What the connection does against the real memcached, a second opinion on framing that shares no code with ours: on
// every kind of socket, with packets cut anywhere, with answers that refuse, and when it hangs up. It knows no HELLO,
// no bucket and no vbucket, so these connections are bare. interop_scram_test.go is about its logins.

// outcomes finishes calls as a dispatcher without retries does, and counts what needs no call.
type outcomes struct {
	mu      sync.Mutex
	lost    int
	unsent  int
	orphans int
}

func (o *outcomes) Answered(_ *conn.Conn, c *call.Call, p *memd.Packet) {
	c.Fail(c.StatusError(p, call.Classify(c.Req.Opcode, p.Status, c.Req.CAS != 0)))
}

func (o *outcomes) Unanswered(int, error) {}

func (o *outcomes) Lost(c *call.Call, _ uint32, cause error) {
	o.count(&o.lost)
	c.Fail(cause)
}

func (o *outcomes) Unsent(c *call.Call, _ bool, cause error) {
	o.count(&o.unsent)
	c.Fail(cause)
}

func (o *outcomes) Expired(calls []*call.Call)                 { failAll(calls, context.DeadlineExceeded) }
func (o *outcomes) Silent(*conn.Conn)                          {}
func (o *outcomes) Orphan(*conn.Conn, *memd.Packet, call.Late) { o.count(&o.orphans) }
func (o *outcomes) Room(*conn.Conn)                            {}
func (o *outcomes) Push(*conn.Conn, *memd.Packet)              {}

func (o *outcomes) count(n *int) {
	o.mu.Lock()
	*n++
	o.mu.Unlock()
}

func (o *outcomes) counts() (lost, unsent, orphans int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost, o.unsent, o.orphans
}

// foreign is a connection to a memcached, with what the test wants to know of it.
type foreign struct {
	*dispatcher
	outcomes *outcomes
	ended    chan error // gets what Serve gives
}

// memcachedOptions are those for a server that knows neither HELLO nor buckets. wrap, if any, stands between the
// connection and its socket.
func memcachedOptions(wrap func(net.Conn) net.Conn) *conn.Options {
	return &conn.Options{Base: time.Now(), Options: handshake.Options{
		Memcached: true, Timeout: 5 * time.Second, Credentials: noLogin,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil || wrap == nil {
				return nc, err
			}
			return wrap(nc), nil
		},
	}}
}

// serve connects and runs the connection until the test ends.
func serve(t *testing.T, addr string, o *conn.Options) (*foreign, error) {
	t.Helper()
	f := &foreign{
		dispatcher: &dispatcher{base: o.Base, pool: make(chan *call.Call, 64)}, outcomes: &outcomes{},
		ended: make(chan error, 1),
	}
	o.Handler = f.outcomes
	cn, err := conn.Connect(t.Context(), addr, o)
	if err != nil {
		return nil, err
	}
	f.cn = cn
	done := make(chan struct{})
	go func() {
		f.ended <- cn.Serve()
		close(done)
	}()
	t.Cleanup(func() {
		cn.Close(nil)
		<-done
	})
	return f, nil
}

// memcached starts one without a login and connects to it.
func memcached(t *testing.T, wrap func(net.Conn) net.Conn) *foreign {
	t.Helper()
	f, err := serve(t, testkit.Memcached(t, false).Addr, memcachedOptions(wrap))
	require.NoError(t, err)
	return f
}

// opaqueConn hides what kind of socket it is, so that the connection flushes from a goroutine of its own, as over TLS.
type opaqueConn struct{ net.Conn }

// slowConn reads and writes single bytes.
type slowConn struct{ net.Conn }

func (s slowConn) Read(b []byte) (int, error) { return s.Conn.Read(b[:min(len(b), 1)]) }

func (s slowConn) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := s.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

func TestMemcachedAnswersPipelinedRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		n    int
		wrap func(net.Conn) net.Conn
	}{
		"a TCP socket":      {1000, nil},
		"a foreign socket":  {1000, func(nc net.Conn) net.Conn { return opaqueConn{nc} }},
		"byte after byte":   {100, func(nc net.Conn) net.Conn { return slowConn{nc} }},
		"answers in pieces": {1000, func(nc net.Conn) net.Conn { return &pieces{Conn: nc} }},
	} {
		t.Run(name, func(t *testing.T) {
			n, wrap := tc.n, tc.wrap
			f := memcached(t, wrap)
			value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i%700) }
			began := time.Now()
			sets := make([]kv.Future[kv.MutationResult], n)
			for i := range sets {
				sets[i] = kv.Start(t.Context(), f, kv.Upsert{
					Key: fmt.Appendf(nil, "key-%d", i), Value: value(i),
					Flags: uint32(i),
				})
			}
			cas := make([]uint64, n)
			for i := range sets {
				r, err := sets[i].Wait(t.Context())
				require.NoError(t, err)
				require.NotZero(t, r.CAS)
				cas[i] = r.CAS
			}
			took := time.Since(began)
			gets := make([]kv.Future[kv.GetResult], n)
			for i := range gets {
				gets[i] = kv.Start(t.Context(), f, kv.Get{Key: fmt.Appendf(nil, "key-%d", i)})
			}
			for i := range gets {
				r, err := gets[i].Wait(t.Context())
				require.NoError(t, err)
				require.True(t, bytes.Equal(value(i), r.Value), "the value of key-%d", i)
				require.EqualValues(t, i, r.Flags)
				require.Equal(t, cas[i], r.CAS)
			}
			s := &f.cn.Stats
			require.EqualValues(t, 2*n, s.Requests.Load())
			require.EqualValues(t, 2*n, s.Answers.Load())
			require.Zero(t, s.Orphans.Load())
			if wrap != nil { // a lone caller on a TCP socket writes each request itself
				require.Less(t, s.Writes.Load(), s.Requests.Load()/2, "many requests share a write")
			}
			t.Logf("%d sets in %v; %d requests in %d writes, answers in %d reads", n, took, 2*n, s.Writes.Load(),
				s.Reads.Load())
		})
	}
}

// pieces ends reads at ever other places, so that packets are cut everywhere.
type pieces struct {
	net.Conn
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	p.n = p.n%97 + 1
	return p.Conn.Read(b[:min(len(b), p.n)])
}

func TestMemcachedTakesTheOperationsItHas(t *testing.T) {
	f := memcached(t, nil)
	ctx, key := t.Context(), []byte("k")
	_, err := kv.Do(ctx, f, kv.Noop{})
	require.NoError(t, err)
	w, err := kv.Do(ctx, f, kv.Insert{Key: key, Value: []byte("b"), Flags: 0x02000006})
	require.NoError(t, err)
	_, err = kv.Do(ctx, f, kv.Insert{Key: key, Value: []byte("x")})
	answer(t, err, memd.StatusKeyExists, cberr.DocumentExists)
	_, err = kv.Do(ctx, f, kv.Replace{Key: key, Value: []byte("x"), CAS: w.CAS + 1})
	answer(t, err, memd.StatusKeyExists, cberr.CASMismatch)
	_, err = kv.Do(ctx, f, kv.Replace{Key: key, Value: []byte("b"), CAS: w.CAS, Flags: 0x02000006})
	require.NoError(t, err)
	_, err = kv.Do(ctx, f, kv.Append{Key: key, Value: []byte("c")})
	require.NoError(t, err)
	_, err = kv.Do(ctx, f, kv.Prepend{Key: key, Value: []byte("a")})
	require.NoError(t, err)
	_, err = kv.Do(ctx, f, kv.Touch{Key: key, Expiry: kv.ExpireAfter(time.Hour)})
	require.NoError(t, err)
	r, err := kv.Do(ctx, f, kv.GetAndTouch{Key: key})
	require.NoError(t, err)
	require.Equal(t, "abc", string(r.Value))
	require.EqualValues(t, 0x02000006, r.Flags)

	initial := uint64(10)
	n, err := kv.Do(ctx, f, kv.Increment{Key: []byte("n"), Delta: 5, Initial: &initial})
	require.NoError(t, err)
	require.EqualValues(t, 10, n.Value)
	n, err = kv.Do(ctx, f, kv.Increment{Key: []byte("n"), Delta: 5})
	require.NoError(t, err)
	require.EqualValues(t, 15, n.Value)
	n, err = kv.Do(ctx, f, kv.Decrement{Key: []byte("n"), Delta: 100})
	require.NoError(t, err)
	require.Zero(t, n.Value, "a counter stops at 0")

	_, err = kv.Do(ctx, f, kv.Remove{Key: key})
	require.NoError(t, err)
	_, err = kv.Do(ctx, f, kv.Get{Key: key})
	answer(t, err, memd.StatusKeyNotFound, cberr.DocumentNotFound)
}

func TestMemcachedRefusals(t *testing.T) {
	f := memcached(t, nil)
	ctx, key := t.Context(), []byte("k")
	_, err := kv.Do(ctx, f, kv.Get{Key: key})
	answer(t, err, memd.StatusKeyNotFound, cberr.DocumentNotFound)
	_, err = kv.Do(ctx, f, kv.Increment{Key: []byte("absent"), Delta: 1})
	answer(t, err, memd.StatusKeyNotFound, cberr.DocumentNotFound)
	_, err = kv.Do(ctx, f, kv.Append{Key: []byte("absent"), Value: []byte("x")})
	answer(t, err, memd.StatusNotStored, cberr.DocumentNotFound)
	_, err = kv.Do(ctx, f, kv.Increment{Key: text(t, f), Delta: 1})
	answer(t, err, memd.StatusDeltaBadVal, cberr.DeltaInvalid)
	_, err = kv.Do(ctx, f, kv.Upsert{Key: key, Value: make([]byte, 2<<20)}) // memcached's own limit is 1 MiB
	answer(t, err, memd.StatusTooBig, cberr.ValueTooLarge)
	_, err = kv.Do(ctx, f, kv.Noop{})
	require.NoError(t, err, "the connection is as good as before")
}

// answer checks a refusal: these carry a text ("Not found", "Data exists for key.") where Couchbase has JSON or
// nothing, and that must be no obstacle.
func answer(t *testing.T, err error, want memd.Status, kind *cberr.Kind) {
	t.Helper()
	var e *kv.Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, kind)
	require.True(t, e.Answered)
	require.Equal(t, want, e.Status)
	require.Empty(t, e.Context)
	require.Empty(t, e.Ref)
}

// text stores a document that is no number.
func text(t *testing.T, f *foreign) []byte {
	t.Helper()
	_, err := kv.Do(t.Context(), f, kv.Upsert{Key: []byte("text"), Value: []byte("text")})
	require.NoError(t, err)
	return []byte("text")
}

// Large values leave and arrive whole among small ones, in the order of the requests.
func TestMemcachedLargeValues(t *testing.T) {
	f := memcached(t, nil)
	var waits []func()
	for i := range 60 {
		key, value := fmt.Appendf(nil, "key-%d", i), bytes.Repeat([]byte{byte(i)}, 1+i%3*200_000)
		set := kv.Start(t.Context(), f, kv.Upsert{Key: key, Value: value})
		get := kv.Start(t.Context(), f, kv.Get{Key: key}) // one worker serves a connection in order
		waits = append(waits, func() {
			_, err := set.Wait(t.Context())
			require.NoError(t, err)
			r, err := get.Wait(t.Context())
			require.NoError(t, err)
			require.True(t, bytes.Equal(value, r.Value))
		})
	}
	for _, wait := range waits {
		wait()
	}
}

// poisoned puts a request that memcached answers by hanging up, a key of 251 bytes, before the n-th write.
type poisoned struct {
	net.Conn
	before int
}

func (p *poisoned) Write(b []byte) (int, error) {
	if p.before--; p.before == 0 {
		bad, err := (&memd.Packet{
			Magic: memd.MagicReq, Opcode: memd.OpGet,
			Key: []byte(strings.Repeat("k", 251)),
		}).AppendTo(nil)
		if err != nil {
			return 0, err
		}
		// One write: with two the server may have hung up between them, and then nothing of the second is in flight.
		n, err := p.Conn.Write(append(bad, b...))
		return max(n-len(bad), 0), err
	}
	return p.Conn.Write(b)
}

// A server that hangs up with requests in flight: each call ends once, as lost or as unsent, and none was executed.
func TestMemcachedHangsUp(t *testing.T) {
	s := testkit.Memcached(t, false)
	f, err := serve(t, s.Addr, memcachedOptions(func(nc net.Conn) net.Conn { return &poisoned{Conn: nc, before: 2} }))
	require.NoError(t, err)
	_, err = kv.Do(t.Context(), f, kv.Upsert{Key: []byte("n"), Value: []byte("1")})
	require.NoError(t, err)
	calls := make([]kv.Future[kv.CounterResult], 200)
	for i := range calls {
		calls[i] = kv.Start(t.Context(), f, kv.Increment{Key: []byte("n"), Delta: 1})
	}
	refused := 0
	for _, c := range calls {
		_, err := c.Wait(t.Context())
		require.Error(t, err)
		if errors.Is(err, conn.ErrClosed) {
			refused++ // it came after the end was noticed
		}
	}
	cause := <-f.ended // reader and writer race for it: the system tells each in its own way
	require.True(t, errors.Is(cause, io.EOF) || errors.Is(cause, syscall.ECONNRESET) || errors.Is(cause, syscall.EPIPE),
		"%v", cause)
	lost, unsent, _ := f.outcomes.counts()
	require.Positive(t, lost)
	require.Equal(t, len(calls), lost+unsent+refused)

	again, err := serve(t, s.Addr, memcachedOptions(nil))
	require.NoError(t, err)
	r, err := kv.Do(t.Context(), again, kv.Get{Key: []byte("n")})
	require.NoError(t, err)
	require.Equal(t, "1", string(r.Value), "what came behind the bad request was not executed")
}
