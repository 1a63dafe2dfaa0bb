package conn_test

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// verdicts records what a connection says of its calls.
type verdicts struct {
	ignores
	mu                sync.Mutex
	lost, unsent, cut map[string]bool
}

func newVerdicts() *verdicts {
	return &verdicts{lost: map[string]bool{}, unsent: map[string]bool{}, cut: map[string]bool{}}
}

func (v *verdicts) Lost(c *call.Call, epoch uint32, cause error) {
	v.mu.Lock()
	v.lost[string(c.Req.Key)] = c.State.Lost(epoch) || !c.State.Idempotent
	v.mu.Unlock()
	c.Fail(cause)
}

func (v *verdicts) Unsent(c *call.Call, cut bool, cause error) {
	v.mu.Lock()
	v.unsent[string(c.Req.Key)] = true
	if cut {
		v.cut[string(c.Req.Key)] = true
	}
	v.mu.Unlock()
	c.Fail(cause)
}

// limited accepts so many bytes of the second write, and then fails. During the first one it calls hook. What it has
// accepted it keeps, as a server would have received it.
type limited struct {
	net.Conn
	try   bool // offers TryWrite
	limit int
	hook  func()

	mu     sync.Mutex
	writes int
	got    []byte
	second int // where the second write's bytes begin
	size   int // of the second write
}

var errBroken = errors.New("broken pipe")

func (l *limited) write(b []byte) (int, error) {
	l.mu.Lock()
	l.writes++
	first := l.writes == 1
	l.mu.Unlock()
	if first && l.hook != nil {
		l.hook()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if first {
		l.got = append(l.got, b...)
		l.second = len(l.got)
		return len(b), nil
	}
	l.size = len(b)
	n := min(len(b), l.limit)
	l.got = append(l.got, b[:n]...)
	return n, errBroken
}

type limitedTry struct{ *limited }

func (l limitedTry) TryWrite(b []byte) (int, error) { return l.write(b) }
func (l limitedTry) Write(b []byte) (int, error)    { return l.write(b) }
func (l *limited) Write(b []byte) (int, error)      { return l.write(b) }

// keys are those of the whole frames among the bytes: what a server would have executed.
func keys(t *testing.T, b []byte) map[string]bool {
	ks := map[string]bool{}
	var p memd.Packet
	for len(b) > 0 {
		n, err := p.Parse(b, 0)
		if errors.Is(err, memd.ErrShort) {
			break
		}
		require.NoError(t, err)
		ks[string(p.Key)] = true
		b = b[n:]
	}
	return ks
}

// brokenBatch sends a batch of mixed requests whose write fails after limit bytes, and gives the verdicts, the peer's
// view, and the size of the batch.
func brokenBatch(t *testing.T, try bool, limit int) (*verdicts, map[string]bool, int) {
	near, far := net.Pipe()
	v := newVerdicts()
	l := &limited{Conn: near, try: try, limit: limit}
	var nc net.Conn = l
	if try {
		nc = limitedTry{l}
	}
	d := &dispatcher{base: time.Now(), pool: make(chan *call.Call, 1)}
	cn, err := conn.Connect(t.Context(), "peer:1", &conn.Options{
		Options: over(nc), Base: d.base, Handler: v,
	})
	require.NoError(t, err)
	d.cn = cn
	var fs []func()
	submit := func(i int) {
		key := fmt.Appendf(nil, "key-%02d", i)
		switch i % 4 {
		case 3:
			handed, ended := make(chan struct{}), make(chan struct{})
			r := newBatches(d)
			r.handed = handed
			go func() {
				kv.GetMulti(t.Context(), r, kv.Common{}, [][]byte{key})
				close(ended)
			}()
			<-handed
			fs = append(fs, func() { <-ended })
		default:
			fs = append(fs, begin(t, d, i%4, key, i))
		}
	}
	once := make(chan struct{})
	l.hook = func() {
		for i := range 32 {
			submit(i)
		}
		close(once)
	}
	serveUntilLost(t, d, once)
	for _, wait := range fs {
		wait()
	}
	_ = far.Close()
	return v, keys(t, l.got[l.second:]), l.size
}

// begin starts a read, a write of so many bytes or an increment, and gives what waits for its end.
func begin(t *testing.T, d *dispatcher, kind int, key []byte, size int) (wait func()) {
	var done <-chan struct{}
	switch kind {
	case 0:
		done = kv.Start(t.Context(), d, kv.Get{Key: key}).Done()
	case 1:
		done = kv.Start(t.Context(), d, kv.Upsert{Key: key, Value: make([]byte, size)}).Done()
	default:
		done = kv.Start(t.Context(), d, kv.Increment{Key: key, Delta: 1}).Done()
	}
	return func() { <-done }
}

// serveUntilLost serves the connection of d, whose first write has once closed, until it is lost.
func serveUntilLost(t *testing.T, d *dispatcher, once <-chan struct{}) {
	served := make(chan struct{})
	go func() {
		_ = d.cn.Serve()
		close(served)
	}()
	first := kv.Start(t.Context(), d, kv.Noop{})
	<-once
	<-served
	<-first.Done()
}

// Section 7 of the reliability rules: a request is in flight if its frame lies wholly inside the bytes that the write
// accepted, and provably unsent otherwise. The peer's own view must agree, for every number of bytes.
func TestD38FailedWriteIsJudgedByOffset(t *testing.T) {
	for _, try := range []bool{true, false} {
		t.Run(map[bool]string{true: "non-blocking", false: "flusher"}[try], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, size := brokenBatch(t, try, 1<<20)
				require.Positive(t, size)
				cuts := 0
				for k := range size + 1 {
					v, executed, _ := brokenBatch(t, try, k)
					for i := range 32 {
						key := fmt.Sprintf("key-%02d", i)
						if executed[key] != v.lost[key] || executed[key] == v.unsent[key] {
							t.Fatalf("%d bytes: %s executed %v, judged lost %v, unsent %v", k, key, executed[key],
								v.lost[key], v.unsent[key])
						}
					}
					require.LessOrEqual(t, len(v.cut), 1)
					cuts += len(v.cut)
				}
				require.Greater(t, cuts, size/2) // most offsets lie inside a frame
			})
		})
	}
}
