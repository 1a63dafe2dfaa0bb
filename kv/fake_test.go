package kv_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

const fakeEndpoint = "10.0.0.1:11210"

var fakeVia = &call.Via{Endpoint: fakeEndpoint, Bucket: "travel"}

// send appends the call's request to nothing, as if to a connection.
func send(c *call.Call) {
	c.Route.VBucket = 115
	if _, _, err := c.AppendTo(nil, &call.Wire{Features: allFeatures, DurabilityMS: 1, Via: fakeVia}); err != nil {
		panic(err)
	}
}

// fake is a dispatcher without sockets: answer does to a call what a server would have.
type fake struct {
	home       call.Home
	answer     func(c *call.Call)
	orch       *retry.Orchestrator // nil: made by the first that needs it
	dispatched atomic.Int32
	released   atomic.Int32
}

var (
	_ kv.Dispatcher = (*fake)(nil)
	_ call.Owner    = (*fake)(nil)
)

func newFake(answer func(c *call.Call)) *fake {
	f := &fake{answer: answer, orch: retry.New(retry.Options{})}
	f.home = call.Home{Owner: f, Bucket: "travel", Base: time.Now()}
	return f
}

// answering is a server that gives every call the same packet.
func answering(p memd.Packet) *fake {
	return newFake(func(c *call.Call) {
		send(c)
		p.Opcode = c.Req.Opcode
		c.Succeed(&p, false)
	})
}

// refusing is a server that gives every call the same status and error body.
func refusing(st memd.Status, dt memd.Datatype, body string) *fake {
	return newFake(func(c *call.Call) {
		c.SetVia(fakeVia)
		c.Route.Opaque = 0x2a
		p := &memd.Packet{Magic: memd.MagicRes, Opcode: c.Req.Opcode, Status: st, Datatype: dt, Value: []byte(body)}
		c.Fail(c.StatusError(p, call.Classify(c.Req.Opcode, st, c.Req.CAS != 0)))
	})
}

// silent is a server that never answers: the call waits on the wire for its end.
func silent() *fake {
	return newFake(func(c *call.Call) {
		c.Share()
		c.State.Sent()
		c.Watch()
	})
}

func (f *fake) Runner() call.Runner { return f }
func (f *fake) NewCall() *call.Call { return call.NewCall() }

func (f *fake) Dispatch(c *call.Call) {
	f.dispatched.Add(1)
	now := time.Now()
	c.Bind(&f.home)
	c.Started = int64(now.Sub(f.home.Base))
	c.State.Deadline = now.Add(time.Minute)
	f.answer(c)
}

func (f *fake) Release(*call.Call)      { f.released.Add(1) }
func (f *fake) Redispatch(c *call.Call) { f.answer(c) }
func (f *fake) Complete(finish func())  { finish() }

func (f *fake) Cancel(c *call.Call, cause error) bool {
	if errors.Is(cause, context.DeadlineExceeded) {
		return f.orch.Expire(c)
	}
	return f.orch.Cancel(c, cause)
}

// outcomes is a watcher of outcomes alone.
type outcomes func(err error)

func (outcomes) Sent(*call.Via, uint32)                   {}
func (outcomes) Unsent()                                  {}
func (outcomes) Retried(int, retry.Reason, time.Duration) {}
func (outcomes) Failed(error)                             {}
func (f outcomes) Done(err error)                         { f(err) }

// wireOf gives the request's bytes as a connection with w would send them.
func wireOf(c *call.Call, w call.Wire) ([]byte, error) {
	c.Route.VBucket, c.Route.CollectionID, c.Req.Own().DurabilityMS = w.VBucket, w.CollectionID, w.DurabilityMS
	out, ended, err := c.AppendTo(nil, &w)
	if err == nil && ended {
		err = errors.New("the call has ended")
	}
	head, value, _, headErr := c.AppendHead([]byte("before"), &w)
	if whole := c.Copy(head, value); string(whole) != "before"+string(out) || (err == nil) != (headErr == nil) {
		err = errors.Join(err, headErr, errors.New("a request that is appended in two steps is another one"))
	}
	return out, err
}

// subject is an operation whose type does not matter.
type subject struct {
	name string
	do   func(ctx context.Context, d kv.Dispatcher) (any, error)
}

func on[R any, O kv.Op[R]](name string, op O) subject {
	return subject{name, func(ctx context.Context, d kv.Dispatcher) (any, error) { return kv.Do(ctx, d, op) }}
}

// encoded gives the operation's wire form, or its error.
func (s subject) encoded(w call.Wire) (wire []byte, err error) {
	f := newFake(nil)
	f.answer = func(c *call.Call) {
		if wire, err = wireOf(c, w); err != nil {
			c.Fail(err)
			return
		}
		c.Fail(errSeen)
	}
	if _, got := s.do(context.Background(), f); !errors.Is(got, errSeen) {
		return nil, got
	}
	return wire, nil
}

var errSeen = errors.New("the request has been seen")

// subjects is one plain value of every operation of the package.
func subjects() []subject {
	key, value, initial := []byte("abc"), []byte(`{"a":1}`), uint64(10)
	reads := []kv.LookupSpec{kv.GetPath("a"), kv.GetXattr("$document.exptime")}
	writes := []kv.MutateSpec{kv.UpsertPath("a", []byte("2")), kv.IncrementPath("n", 1)}
	scan := kv.RangeScan{VBucket: 115, ID: [16]byte{1, 2, 3}}
	return []subject{
		on("add-with-meta", kv.AddWithMeta{Key: key, Value: value}),
		on("append", kv.Append{Key: key, Value: value}),
		on("decrement", kv.Decrement{Key: key, Delta: 2, Initial: &initial}),
		on("delete-with-meta", kv.DeleteWithMeta{Key: key}),
		on("exists", kv.Exists{Key: key}),
		on("failover-log", kv.GetFailoverLog{VBucket: 115}),
		on("get", kv.Get{Key: key}),
		on("get-and-lock", kv.GetAndLock{Key: key}),
		on("get-and-touch", kv.GetAndTouch{Key: key}),
		on("get-cluster-config", kv.GetClusterConfig{}),
		on("get-collection-id", kv.GetCollectionID{Path: "inventory.hotel"}),
		on("get-ex", kv.GetEx{Key: key}),
		on("get-ex-replica", kv.GetEx{Key: key, Replica: 1}),
		on("get-manifest", kv.GetManifest{}),
		on("get-meta", kv.GetMeta{Key: key}),
		on("get-or-null", kv.GetOrNull{Key: key}),
		on("get-random", kv.GetRandom{}),
		on("get-replica", kv.GetReplica{Key: key, Replica: 1}),
		on("get-scope-id", kv.GetScopeID{Name: "inventory"}),
		on("increment", kv.Increment{Key: key, Delta: 2, Initial: &initial}),
		on("insert", kv.Insert{Key: key, Value: value}),
		on("lookup-in", kv.LookupIn{Key: key, Specs: reads}),
		on("mutate-in", kv.MutateIn{Key: key, Specs: writes}),
		on("noop", kv.Noop{}),
		on("observe", kv.Observe{Key: key}),
		on("observe-seqno", kv.ObserveSeqno{VBucket: 115, UUID: 7}),
		on("path-get", kv.LookupPath{Key: key, Spec: kv.GetPath("a")}),
		on("path-upsert", kv.MutatePath{Key: key, Spec: kv.UpsertPath("a", []byte("2"))}),
		on("prepend", kv.Prepend{Key: key, Value: value}),
		on("range-scan-cancel", kv.RangeScanCancel{Scan: scan}),
		on("range-scan-continue", kv.RangeScanContinue{Scan: scan}),
		on("range-scan-create", kv.RangeScanCreate{VBucket: 115, Range: &kv.ScanRange{}}),
		on("remove", kv.Remove{Key: key}),
		on("replace", kv.Replace{Key: key, Value: value}),
		on("set-with-meta", kv.SetWithMeta{Key: key, Value: value}),
		on("stat", kv.Stat{}),
		on("touch", kv.Touch{Key: key}),
		on("unlock", kv.Unlock{Key: key, CAS: 7}),
		on("upsert", kv.Upsert{Key: key, Value: value}),
		on("version", kv.GetVersion{}),
	}
}

// onePath is an operation for each of the sub-document commands that are requests of their own.
func onePath() []subject {
	key, one := []byte("abc"), []byte("1")
	var all []subject
	for _, s := range []kv.LookupSpec{kv.GetPath("a"), kv.ExistsPath("a"), kv.CountPath("a")} {
		all = append(all, on("", kv.LookupPath{Key: key, Spec: s}))
	}
	for _, s := range []kv.MutateSpec{
		kv.InsertPath("a", one), kv.UpsertPath("a", one), kv.ReplacePath("a", one), kv.RemovePath("a"),
		kv.ArrayAppend("a", one),
		kv.ArrayPrepend("a", one), kv.ArrayInsert("a[0]", one), kv.ArrayAddUnique("a", one), kv.IncrementPath("a", 1),
		kv.ReplaceBody("a"),
	} {
		all = append(all, on("", kv.MutatePath{Key: key, Spec: s}))
	}
	return all
}

// allFeatures is a connection that grants everything.
const allFeatures = ^memd.Features(0)

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// kvError asserts that err is the one form in which calls fail.
func kvError(t testing.TB, err error) *kv.Error {
	t.Helper()
	require.Error(t, err)
	e, ok := err.(*kv.Error) //nolint:errorlint // the error itself must be one
	require.True(t, ok, "%T is no *kv.Error", err)
	return e
}
