package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
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

// manyReads is what reads meet, and with what they are sent.
type manyReads struct {
	name   string
	common kv.Common
	client func(*core.Config)
	meet   func(t *testing.T, m *mock.Cluster) *mock.Injection
	ctx    func(context.Context) (context.Context, context.CancelFunc)
	keys   []string // besides those of documents
	want   error    // at least one of them fails so; nil: none is to fail but those of keys
	about  time.Duration
}

const readDocs = 40

func (s *manyReads) all() (keys [][]byte) {
	for i := range readDocs {
		keys = append(keys, fmt.Appendf(nil, "doc-%d", i))
	}
	for _, k := range s.keys {
		keys = append(keys, []byte(k))
	}
	return keys
}

// inBatch reads many documents at once, and oneByOne one after the other.
func inBatch(ctx context.Context, d kv.Dispatcher, in kv.Common, keys [][]byte) []kv.Outcome[kv.GetResult] {
	return kv.GetMulti(ctx, d, in, keys)
}

func oneByOne(ctx context.Context, d kv.Dispatcher, in kv.Common, keys [][]byte) (outs []kv.Outcome[kv.GetResult]) {
	for _, k := range keys {
		synctest.Wait() // the one before may have ended when the context does: by now it has
		res, err := kv.Do(ctx, d, kv.Get{Common: in, Key: k})
		outs = append(outs, kv.Outcome[kv.GetResult]{Result: res, Err: err})
	}
	return outs
}

// run gives a line for each outcome, of what a caller can know of it.
func (s *manyReads) run(t *testing.T, get func(context.Context, kv.Dispatcher, kv.Common,
	[][]byte) []kv.Outcome[kv.GetResult],
) (lines []string, failed []error) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Virtual(), mock.Latency(time.Millisecond),
			mock.Bucket("default", 64, mock.WithCollection("s", "c"), mock.WithCollection("s", "gone")))
		c := open(t, m, func(cfg *core.Config) {
			cfg.Retry.JitterSource = func() float64 { return 0.5 }
			if s.client != nil {
				s.client(cfg)
			}
		})
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		in := kv.Common{Scope: s.common.Scope, Collection: s.common.Collection}
		if in.Scope == "nowhere" || in.Collection == "c/d" {
			in = kv.Common{}
		}
		for i := range readDocs {
			size := i * 7
			if i == 9 {
				size = 300 << 10
			}
			_, err := kv.Do(ctx(t), b, kv.Upsert{
				Common: in, Key: fmt.Appendf(nil, "doc-%d", i),
				Value: []byte(strings.Repeat("v", size)), Flags: uint32(i),
			})
			require.NoError(t, err)
		}
		var fault *mock.Injection
		if s.meet != nil {
			fault = s.meet(t, m)
		}
		time.Sleep(time.Minute)                                  // no timer of an earlier call is left
		from, end := context.WithTimeout(t.Context(), time.Hour) // reads one after the other may take their time
		defer end()
		if s.ctx != nil {
			var cancel context.CancelFunc
			from, cancel = s.ctx(from)
			defer cancel()
		}
		began, keys := time.Now(), s.all()
		for i, o := range get(from, b, s.common, keys) {
			lines = append(lines, fmt.Sprintf("%.20s: %s", keys[i], s.line(m, o)))
			failed = append(failed, o.Err)
			if o.Err != nil {
				require.Zero(t, o.Result)
			}
		}
		lines = append(lines, fmt.Sprint("took ", s.rounded(time.Since(began))))
		if fault != nil { // nothing is left behind that a later batch would meet
			fault.Remove()
			for _, o := range kv.GetMulti(ctx(t), b, in, s.all()[:readDocs]) {
				require.NoError(t, o.Err)
			}
		}
	})
	return lines, failed
}

// rounded leaves out what need not be the same: a context's end may be noticed some milliseconds later.
func (s *manyReads) rounded(d time.Duration) time.Duration {
	if s.about > 0 {
		return (d + s.about/2).Truncate(s.about)
	}
	return d
}

func (s *manyReads) line(m *mock.Cluster, o kv.Outcome[kv.GetResult]) string {
	node := func(addr string) string {
		for i := range 3 {
			if m.Node(i).Addr() == addr {
				return fmt.Sprint("node ", i)
			}
		}
		return addr
	}
	var e *kv.Error
	if errors.As(o.Err, &e) {
		return fmt.Sprintf("%v; %v, %v on %s, status %v %q, stage %v, in doubt %v, elapsed %v, opaque %v, retries %d "+
			"transparent %d %v, because %v", e.Kind(), e.Op, e.Collection,
			node(e.Endpoint), e.Status, e.Context, e.Stage, e.InDoubt, s.rounded(e.Elapsed), e.Opaque != 0,
			e.Retry.Retries(), e.Retry.Transparent, e.Retry.Reasons, causeOf(e, node))
	}
	g := o.Result
	_, timed := g.ServerDuration()
	return fmt.Sprintf("%d bytes of %.1q, flags %d, cas %v, type %v, expiry %v, replica %v, %s, connection %v, "+
		"retries %d transparent %d %v, timed %v", len(g.Value), g.Value, g.Flags,
		g.CAS != 0, g.Datatype, g.Expiry(), g.FromReplica, node(g.Endpoint()), g.Connection() != "",
		g.RetryInfo().Retries(), g.RetryInfo().Transparent, g.RetryInfo().Reasons, timed)
}

func causeOf(e *kv.Error, node func(string) string) string {
	if e.Cause == nil {
		return ""
	}
	s := e.Cause.Error()
	for _, f := range strings.Fields(s) {
		if at := strings.LastIndex(f, ":"); at > 0 {
			s = strings.ReplaceAll(s, f, node(f))
		}
	}
	return s
}

func everyGet(times int, f mock.Fault, nodes ...int) func(*testing.T, *mock.Cluster) *mock.Injection {
	if times > 0 { // the order in which nodes meet it is not the same each time
		nodes = []int{1}
	}
	return func(_ *testing.T, m *mock.Cluster) *mock.Injection {
		return m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: times, Nodes: nodes}, f)
	}
}

func manyReadsOf() []manyReads {
	within := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(c context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(c, d) }
	}
	ending := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(c context.Context) (context.Context, context.CancelFunc) {
			c, cancel := context.WithCancelCause(c)
			if d == 0 {
				cancel(errors.New("enough"))
			} else {
				time.AfterFunc(d, func() { cancel(errors.New("enough")) })
			}
			return c, func() { cancel(nil) }
		}
	}
	named := kv.Common{Scope: "s", Collection: "c"}
	some := []string{"", strings.Repeat("k", 251), "missing", strings.Repeat("k", 247), strings.Repeat("k", 250)}
	return []manyReads{
		{name: "nothing special", keys: some, want: cberr.InvalidArgument},
		{name: "a collection", common: named, keys: some, want: cberr.InvalidArgument},
		{name: "a collection that is not known yet", common: named, meet: func(t *testing.T,
			m *mock.Cluster,
		) *mock.Injection {
			require.NoError(t, m.DropCollection("default", "s", "c"))
			_, err := m.CreateCollection("default", "s", "c")
			require.NoError(t, err)
			return nil
		}, want: cberr.DocumentNotFound},
		{name: "no such collection", common: kv.Common{Scope: "nowhere", Collection: "c"}, want: cberr.ScopeNotFound},
		{name: "a wrong id", common: kv.Common{CollectionID: 0x77}, want: cberr.CollectionNotFound},
		{name: "a wrong name", common: kv.Common{Scope: "s", Collection: "c/d"}, want: cberr.InvalidArgument},
		{
			name: "an id and a wrong name", common: kv.Common{Scope: "s", Collection: "c/d", CollectionID: 8},
			want: cberr.InvalidArgument,
		},
		{name: "on behalf of a user", common: kv.Common{OnBehalfOf: "Administrator"}},
		{name: "a wrong timeout", common: kv.Common{Timeout: -1}, want: cberr.InvalidArgument},
		{
			name: "busy for a while", meet: everyGet(10, mock.Status(memd.StatusTmpFail)),
			common: kv.Common{Retry: retry.BestEffort{}},
		},
		{
			name: "busy", meet: everyGet(0, mock.Status(memd.StatusTmpFail)), want: cberr.Timeout,
			common: kv.Common{Retry: retry.BestEffort{}},
		},
		{
			name: "busy and fast failing", meet: everyGet(0, mock.Status(memd.StatusTmpFail)),
			want: cberr.TemporaryFailure,
		},
		{name: "an unknown status", meet: everyGet(3, mock.Status(0x7fff)), want: cberr.Couchbase},
		{name: "no access", meet: everyGet(5, mock.ErrorBody(memd.StatusAccess, []byte(`{"error":{"context":"no","ref":"r"}}`))), want: cberr.AuthenticationFailure},
		{name: "vbuckets that have moved", meet: func(t *testing.T, m *mock.Cluster) *mock.Injection {
			for vb := range 64 {
				require.NoError(t, m.MoveVBucket("default", vb, (vb+1)%3))
			}
			return nil
		}},
		{
			name: "not mine, for ever", meet: everyGet(0, mock.NotMyVBucket(true, nil), 1),
			want: cberr.UnambiguousTimeout,
		},
		{
			name: "no answer", meet: everyGet(0, mock.Drop(), 0), want: cberr.UnambiguousTimeout,
			common: kv.Common{Timeout: 700 * time.Millisecond},
		},
		{
			name: "no answer in time", meet: everyGet(0, mock.DelayReply(time.Second)),
			ctx: within(300 * time.Millisecond), want: cberr.UnambiguousTimeout,
		},
		{
			name: "no answer and no context", meet: everyGet(0, mock.Drop(), 0), want: cberr.UnambiguousTimeout,
			ctx: func(context.Context) (context.Context, context.CancelFunc) { return context.Background(), func() {} },
		},
		{
			name: "a context that ends soon", meet: everyGet(0, mock.Drop()), ctx: ending(2 * time.Millisecond),
			want: cberr.RequestCanceled, about: 10 * time.Millisecond,
		},
		{
			name: "a context that ends late", meet: everyGet(0, mock.Drop()), ctx: ending(400 * time.Millisecond),
			want: cberr.RequestCanceled,
		},
		{name: "a context that has ended", ctx: ending(0), want: cberr.RequestCanceled},
		{
			name: "a context that can end and does not", ctx: within(time.Minute),
			meet: everyGet(0, mock.DelayReply(30*time.Millisecond)),
		},
		{name: "a lost connection", meet: everyGet(1, mock.CloseBefore())},
		{name: "lost connections", meet: everyGet(3, mock.CloseAfter()), common: kv.Common{Retry: retry.BestEffort{}}},
		{name: "half an answer", meet: everyGet(1, mock.Truncate(20))},
		{name: "no packet", meet: everyGet(1, mock.CorruptMagic())},
		{name: "a false length", meet: everyGet(1, mock.CorruptParts())},
		{name: "an answer without a request", meet: everyGet(1, mock.CorruptOpaque()), want: cberr.UnambiguousTimeout},
		{name: "two answers", meet: everyGet(0, mock.Twice())},
		{
			name: "an answer to something else",
			meet: everyGet(1, mock.Rewrite(func(_, rep *memd.Packet) { rep.Opcode = memd.OpSet })),
		},
		{
			name: "an answer without flags",
			meet: everyGet(2, mock.Rewrite(func(_, rep *memd.Packet) { rep.Extras = nil })),
			want: cberr.DecodingFailure,
		},
		{
			name: "an answer with a key",
			meet: everyGet(2, mock.Rewrite(func(_, rep *memd.Packet) { rep.Key = []byte("k") })),
		},
		{
			name: "a packet of several",
			meet: everyGet(1, mock.Rewrite(func(_, rep *memd.Packet) { rep.Opcode = memd.OpStat })),
			want: cberr.UnambiguousTimeout,
		},
		{
			name: "false compression",
			meet: everyGet(2, mock.Rewrite(func(_, rep *memd.Packet) { rep.Datatype |= memd.DatatypeSnappy })),
			want: cberr.DecodingFailure,
		},
		{
			name: "a small limit for what is inflated", client: func(cfg *core.Config) { cfg.Limits.Inflated = 200 },
			want: cberr.DecodingFailure,
		},
		{name: "a small limit", client: func(cfg *core.Config) { cfg.Limits.InFlight = 3 }},
		{
			name: "a small limit and patience", client: func(cfg *core.Config) { cfg.Limits.InFlight = 3 },
			common: kv.Common{Block: true},
		},
		{
			name: "a strategy", meet: everyGet(10, mock.Status(memd.StatusBusy)),
			common: kv.Common{Retry: retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
				return retry.After(3 * time.Millisecond)
			})},
		},
		{name: "two connections to each", client: func(cfg *core.Config) { cfg.KV.Connections = 2 }},
		{name: "a node that is gone", meet: func(t *testing.T, m *mock.Cluster) *mock.Injection {
			require.NoError(t, m.Kill(2))
			return nil
		}, want: cberr.Timeout, common: kv.Common{Retry: retry.BestEffort{}}},
	}
}

// Whatever happens to reads, what each of them says of itself is the same however often it happens, for reads in a
// batch and for reads one after the other.
func TestWhatBecomesOfReads(t *testing.T) {
	for _, s := range manyReadsOf() {
		t.Run(s.name, func(t *testing.T) {
			for name, get := range map[string]func(context.Context, kv.Dispatcher, kv.Common,
				[][]byte) []kv.Outcome[kv.GetResult]{
				"one by one": oneByOne, "in a batch": inBatch,
			} {
				first, failed := s.run(t, get)
				again, _ := s.run(t, get)
				require.Equal(t, first, again, name)
				as := 0
				for i, err := range failed {
					switch {
					case s.want != nil && errors.Is(err, s.want):
						as++
					case i < readDocs && s.want == nil && err != nil:
						t.Fatal(name, err)
					}
				}
				require.Equal(t, s.want != nil, as > 0, "%s: %.1000v", name, failed)
			}
		})
	}
}

// A read in a batch has the outcome that it would have alone, however one differs from the next.
func TestABatchOfReadsMayBeMixed(t *testing.T) {
	hedge := &kv.Hedge{MaxAttempts: 2, Delay: time.Second}
	for name, differ := range map[string]func(*kv.Get){
		"":            func(*kv.Get) {},
		"buffer":      func(g *kv.Get) { g.Into = make([]byte, 1, 100) },
		"full buffer": func(g *kv.Get) { g.Into = make([]byte, 2) },
		"compressed":  func(g *kv.Get) { g.KeepCompressed = true },
		"paths":       func(g *kv.Get) { g.Paths = []string{"a"} },
		"expiry":      func(g *kv.Get) { g.WithExpiry = true },
		"hedge":       func(g *kv.Get) { g.Hedge = hedge },
		"strategy":    func(g *kv.Get) { g.Retry = retry.BestEffort{} },
		"scope":       func(g *kv.Get) { g.Scope = "s" },
		"collection":  func(g *kv.Get) { g.Collection = "c" },
		"id":          func(g *kv.Get) { g.CollectionID = 8 },
		"user":        func(g *kv.Get) { g.OnBehalfOf = "Administrator" },
		"timeout":     func(g *kv.Get) { g.Timeout = time.Second },
		"block":       func(g *kv.Get) { g.Block = true },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
				ops := make([]kv.Get, 10)
				for i := range ops {
					ops[i].Key = fmt.Appendf(nil, "k%d", i)
					_, err := kv.Do(ctx(t), b, kv.Upsert{Key: ops[i].Key, Value: []byte(`{"a":1}`), Flags: 7})
					require.NoError(t, err)
				}
				differ(&ops[5])
				out := kv.Batch(ctx(t), b, ops, 4)
				for i, o := range out {
					res, err := kv.Do(ctx(t), b, ops[i])
					require.Equal(t, err == nil, o.Err == nil)
					require.Equal(t, res.Value, o.Result.Value)
					require.Equal(t, res.CAS, o.Result.CAS)
					require.Equal(t, res.Flags, o.Result.Flags)
					if n := cap(ops[i].Into); n >= 1+len(res.Value) {
						require.Same(t, &ops[i].Into[0], &o.Result.Value[0])
					}
				}
			})
		})
	}
}

// Whether a value comes compressed is the server's choice.
func TestCompressedValuesInABatch(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		var ops []kv.Get
		for i, size := range []int{0, 40, 5000, 300 << 10, 5000, 5000} {
			g := kv.Get{Key: fmt.Appendf(nil, "k%d", i)}
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: g.Key, Value: []byte(strings.Repeat("abc", size)), Flags: 7})
			require.NoError(t, err)
			ops = append(ops, g)
		}
		ops[3].Into = append(make([]byte, 0, 1<<20), '>')
		ops[4].Into = []byte{'>'}
		ops[5].KeepCompressed = true
		var packed atomic.Int64
		m.Inject(only(memd.OpGet, 0), mock.Rewrite(func(_, rep *memd.Packet) {
			if rep.Datatype&memd.DatatypeSnappy != 0 {
				packed.Add(1)
			}
		}))
		for i, o := range kv.Batch(ctx(t), b, ops, 0) {
			require.NoError(t, o.Err)
			res, err := kv.Do(ctx(t), b, ops[i])
			require.NoError(t, err)
			require.Equal(t, res.Value, o.Result.Value)
			require.Equal(t, res.Datatype, o.Result.Datatype)
			require.Equal(t, i == 5, o.Result.Datatype&memd.DatatypeSnappy != 0)
			require.True(t, o.Result.Expiry().IsZero())
			if i == 3 {
				require.Same(t, &ops[i].Into[0], &o.Result.Value[0])
			}
		}
		require.EqualValues(t, 2*5, packed.Load(), "once in the batch and once alone")
	})
}

// A batch before there is a cluster map waits for it, as a single call does.
func TestABatchBeforeThereIsAMap(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		for range 10 {
			late := open(t, m).Bucket("default")
			o := kv.GetMulti(ctx(t), late, kv.Common{}, [][]byte{[]byte("k"), nil})
			require.NoError(t, o[0].Err)
			require.Equal(t, "v", string(o[0].Result.Value))
			require.ErrorIs(t, o[1].Err, cberr.InvalidArgument)
		}
	})
}
