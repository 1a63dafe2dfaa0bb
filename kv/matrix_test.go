package kv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10"
	gmemd "github.com/couchbase/gocbcore/v10/memd"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// cell is one place of the matrix: a document in a state, and how an operation addresses it.
type cell struct {
	common kv.Common
	key    []byte
	cas    uint64
	level  memd.DurabilityLevel

	revision uint64 // of a version from another cluster: higher than any before it
}

// theirNever retries nothing of gocbcore's.
type theirNever struct{}

func (theirNever) RetryAfter(gocbcore.RetryRequest, gocbcore.RetryReason) gocbcore.RetryAction {
	return &gocbcore.NoRetryRetryAction{}
}

// errNoSuchForm says that gocbcore has the operation, but not with what the cell asks for.
var errNoSuchForm = errors.New("no such form")

// matrixOp is an operation as both clients offer it; theirs is nil where gocbcore has none.
type matrixOp struct {
	name    string
	cas     bool // it can name a CAS
	durable bool
	object  bool // it wants a JSON object, not a number
	ours    func(ctx context.Context, b *core.Bucket, c cell) error
	theirs  func(a *gocbcore.Agent, c cell, done func(error)) (gocbcore.PendingOp, error)
}

func discard[R any](_ R, err error) error { return err }

func told[R any](done func(error)) func(R, error) { return func(_ R, err error) { done(err) } }

func scopeOf(c cell) (scope, collection string) {
	if c.common.Scope == "" {
		return "_default", "_default"
	}
	return c.common.Scope, c.common.Collection
}

// fastest is the deadline of each of their operations.
func fastest() time.Time { return time.Now().Add(10 * time.Second) }

func matrixOps() []matrixOp {
	type op = gocbcore.PendingOp
	five := uint64(5)
	one := []byte("1")
	specs := []kv.MutateSpec{kv.UpsertPath("a", one)}
	return append([]matrixOp{
		{"get", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Get{Common: c.common, Key: c.key}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.Get(gocbcore.GetOptions{
				Key: c.key, ScopeName: s, CollectionName: n, RetryStrategy: theirNever{},
				Deadline: fastest(),
			}, told[*gocbcore.GetResult](done))
		}},
		{"exists", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			res, err := kv.Do(ctx, b, kv.Exists{Common: c.common, Key: c.key})
			if err == nil && !res.Exists {
				err = cberr.DocumentNotFound
			}
			return err
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.GetMeta(gocbcore.GetMetaOptions{
				Key: c.key, ScopeName: s, CollectionName: n,
				RetryStrategy: theirNever{}, Deadline: fastest(),
			}, func(r *gocbcore.GetMetaResult, err error) {
				if err == nil && r.Deleted != 0 {
					err = gocbcore.ErrDocumentNotFound
				}
				done(err)
			})
		}},
		{"get-and-touch", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.GetAndTouch{Common: c.common, Key: c.key}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.GetAndTouch(gocbcore.GetAndTouchOptions{
				Key: c.key, ScopeName: s, CollectionName: n,
				RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.GetAndTouchResult](done))
		}},
		{"get-and-lock", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.GetAndLock{Common: c.common, Key: c.key}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.GetAndLock(gocbcore.GetAndLockOptions{
				Key: c.key, ScopeName: s, CollectionName: n,
				RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.GetAndLockResult](done))
		}},
		{"unlock", true, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Unlock{Common: c.common, Key: c.key, CAS: c.cas}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.Unlock(gocbcore.UnlockOptions{
				Key: c.key, Cas: gocbcore.Cas(c.cas), ScopeName: s,
				CollectionName: n, RetryStrategy: theirNever{}, Deadline: fastest(),
			},
				told[*gocbcore.UnlockResult](done))
		}},
		{"touch", false, false, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Touch{Common: c.common, Key: c.key}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.Touch(gocbcore.TouchOptions{
				Key: c.key, ScopeName: s, CollectionName: n,
				RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.TouchResult](done))
		}},
		{"lookup-in", false, false, true, func(ctx context.Context, b *core.Bucket, c cell) error {
			res, err := kv.Do(ctx, b, kv.LookupIn{
				Common: c.common, Key: c.key,
				Specs: []kv.LookupSpec{kv.GetPath("n")},
			})
			if err == nil {
				err = res.Paths[0].Err()
			}
			return err
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.LookupIn(gocbcore.LookupInOptions{
				Key: c.key, Ops: []gocbcore.SubDocOp{{Op: gmemd.SubDocOpGet, Path: "n"}}, ScopeName: s,
				CollectionName: n, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, func(r *gocbcore.LookupInResult, err error) {
				if err == nil {
					err = r.Ops[0].Err
				}
				done(err)
			})
		}},
		{"mutate-in", true, true, true, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.MutateIn{
				Common: c.common, Key: c.key, CAS: c.cas, Durability: c.level,
				Specs: specs,
			}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.MutateIn(gocbcore.MutateInOptions{
				Key: c.key, Ops: []gocbcore.SubDocOp{{Op: gmemd.SubDocOpDictSet, Path: "a", Value: one}},
				Cas: gocbcore.Cas(c.cas), ScopeName: s, CollectionName: n,
				DurabilityLevel: gmemd.DurabilityLevel(c.level), DurabilityLevelTimeout: 5 * time.Second,
				RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.MutateInResult](done))
		}},
	}, append(matrixWrites(one, &five), matrixMore(one)...)...)
}

func matrixWrites(one []byte, five *uint64) []matrixOp {
	type op = gocbcore.PendingOp
	return []matrixOp{
		{"upsert", true, true, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Upsert{
				Common: c.common, Key: c.key, Value: one, CAS: c.cas,
				Durability: c.level,
			}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			if c.cas != 0 {
				return nil, errNoSuchForm
			}
			s, n := scopeOf(c)
			return a.Set(gocbcore.SetOptions{
				Key: c.key, Value: one, ScopeName: s, CollectionName: n,
				DurabilityLevel:        gmemd.DurabilityLevel(c.level),
				DurabilityLevelTimeout: 5 * time.Second, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.StoreResult](done))
		}},
		{"insert", false, true, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Insert{Common: c.common, Key: c.key, Value: one, Durability: c.level}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.Add(gocbcore.AddOptions{
				Key: c.key, Value: one, ScopeName: s, CollectionName: n,
				DurabilityLevel:        gmemd.DurabilityLevel(c.level),
				DurabilityLevelTimeout: 5 * time.Second, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.StoreResult](done))
		}},
		{"replace", true, true, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Replace{
				Common: c.common, Key: c.key, Value: one, CAS: c.cas,
				Durability: c.level,
			}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.Replace(gocbcore.ReplaceOptions{
				Key: c.key, Value: one, Cas: gocbcore.Cas(c.cas), ScopeName: s, CollectionName: n,
				DurabilityLevel:        gmemd.DurabilityLevel(c.level),
				DurabilityLevelTimeout: 5 * time.Second, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.StoreResult](done))
		}},
		{"remove", true, true, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Remove{Common: c.common, Key: c.key, CAS: c.cas, Durability: c.level}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.Delete(gocbcore.DeleteOptions{
				Key: c.key, Cas: gocbcore.Cas(c.cas), ScopeName: s, CollectionName: n,
				DurabilityLevel:        gmemd.DurabilityLevel(c.level),
				DurabilityLevelTimeout: 5 * time.Second, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.DeleteResult](done))
		}},
		{"append", true, true, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Append{
				Common: c.common, Key: c.key, Value: one, CAS: c.cas,
				Durability: c.level,
			}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.Append(gocbcore.AdjoinOptions{
				Key: c.key, Value: one, Cas: gocbcore.Cas(c.cas), ScopeName: s, CollectionName: n,
				DurabilityLevel:        gmemd.DurabilityLevel(c.level),
				DurabilityLevelTimeout: 5 * time.Second, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.AdjoinResult](done))
		}},
		{"increment", false, true, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Increment{Common: c.common, Key: c.key, Delta: 1, Durability: c.level}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.Increment(gocbcore.CounterOptions{
				Key: c.key, Delta: 1, Initial: 0xffffffffffffffff, ScopeName: s, CollectionName: n,
				DurabilityLevel:        gmemd.DurabilityLevel(c.level),
				DurabilityLevelTimeout: 5 * time.Second, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.CounterResult](done))
		}},
		{"decrement", false, true, false, func(ctx context.Context, b *core.Bucket, c cell) error {
			return discard(kv.Do(ctx, b, kv.Decrement{
				Common: c.common, Key: c.key, Delta: 1, Initial: five,
				Durability: c.level,
			}))
		}, func(a *gocbcore.Agent, c cell, done func(error)) (op, error) {
			s, n := scopeOf(c)
			return a.Decrement(gocbcore.CounterOptions{
				Key: c.key, Delta: 1, Initial: *five, ScopeName: s, CollectionName: n,
				DurabilityLevel:        gmemd.DurabilityLevel(c.level),
				DurabilityLevelTimeout: 5 * time.Second, RetryStrategy: theirNever{}, Deadline: fastest(),
			}, told[*gocbcore.CounterResult](done))
		}},
	}
}

// theirKinds are gocbcore's errors and the kinds that they are with us.
var theirKinds = []struct {
	err  error
	kind *cberr.Kind
}{
	{gocbcore.ErrDocumentNotFound, cberr.DocumentNotFound},
	{gocbcore.ErrDocumentExists, cberr.DocumentExists},
	{gocbcore.ErrDocumentLocked, cberr.DocumentLocked},
	{gocbcore.ErrCasMismatch, cberr.CASMismatch},
	{gocbcore.ErrNotStored, cberr.DocumentNotFound}, // append to nothing: ours is the name of the RFC
	{gocbcore.ErrDeltaInvalid, cberr.DeltaInvalid},
	{gocbcore.ErrPathNotFound, cberr.PathNotFound},
	{gocbcore.ErrMemdTmpFail, cberr.TemporaryFailure},
	{gocbcore.ErrInvalidArgument, cberr.InvalidArgument},
}

func theirName(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "ok"
	}
	for _, k := range theirKinds {
		if errors.Is(err, k.err) {
			return k.kind.Name()
		}
	}
	var ke *gocbcore.KeyValueError
	require.ErrorAs(t, err, &ke)
	if memd.Status(ke.StatusCode) == memd.StatusNotLocked { // which has no name with them
		return cberr.DocumentNotLocked.Name()
	}
	return "status " + fmt.Sprintf("0x%02x", uint16(ke.StatusCode))
}

func ourName(err error) string {
	if err == nil {
		return "ok"
	}
	return cberr.KindOf(err).Name()
}

var docStates = []string{"absent", "present", "locked", "deleted"}

// in brings a document into a state and gives the CAS that an operation has to name.
func in(t *testing.T, b *core.Bucket, c kv.Common, key []byte, state, doc string) uint64 {
	t.Helper()
	if state == "absent" {
		return 1234
	}
	res, err := kv.Do(testContext(t), b, kv.Upsert{Common: c, Key: key, Value: []byte(doc)})
	require.NoError(t, err)
	switch state {
	case "locked":
		lock, err := kv.Do(testContext(t), b, kv.GetAndLock{Common: c, Key: key, LockTime: kv.MaxLockTime})
		require.NoError(t, err)
		return lock.CAS
	case "deleted":
		_, err := kv.Do(testContext(t), b, kv.Remove{Common: c, Key: key})
		require.NoError(t, err)
	}
	return res.CAS
}

// Each operation on a document in each state, with each CAS, without and with durability, in each collection: what it
// comes to is in a golden file, and gocbcore comes to the same on the same cluster.
func TestTheMatrixOfOperations(t *testing.T) {
	m := mock.Start(t, mock.Nodes(2), mock.Replicas(1), mock.Bucket("default", 16, mock.WithCollection("s", "c")))
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"),
		(&net.Dialer{}).DialContext
	cl, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, cl.Close()) }()
	b := cl.Bucket("default")
	require.NoError(t, b.WaitReady(testContext(t)))
	a := theirAgent(t, m)

	var table strings.Builder
	n, compared := 0, 0
	for _, op := range matrixOps() {
		for _, state := range docStates {
			for _, casOf := range []string{"no CAS", "its CAS", "another CAS"} {
				if casOf != "no CAS" && !op.cas || casOf == "no CAS" && op.name == "unlock" {
					continue
				}
				outcomes := map[string]bool{}
				for _, level := range []memd.DurabilityLevel{0, 1, 2, 3} {
					if level > 0 && !op.durable {
						continue
					}
					for _, place := range places {
						run := func(do func(c cell) string) string {
							n++
							c := cell{
								common: place, key: fmt.Appendf(nil, "m-%d", n), level: level,
								revision: uint64(n) * 1000,
							}
							doc := "5"
							if op.object {
								doc = `{"n":5}`
							}
							switch has := in(t, b, place, c.key, state, doc); casOf {
							case "its CAS":
								c.cas = has
							case "another CAS":
								c.cas = has + 1000 // no version of the document has it
							}
							return do(c)
						}
						ours := run(func(c cell) string {
							c.common.Retry = never{}
							return ourName(op.ours(testContext(t), b, c))
						})
						outcomes[ours] = true
						if op.theirs == nil {
							continue
						}
						theirs := run(func(c cell) string {
							ch := make(chan error, 1)
							_, err := op.theirs(a, c, func(err error) { ch <- err })
							if errors.Is(err, errNoSuchForm) {
								return ours
							}
							compared++
							if err != nil {
								return theirName(t, err)
							}
							return theirName(t, <-ch)
						})
						if ours == cberr.DocumentNotFoundOnReplica.Name() {
							ours = cberr.DocumentNotFound.Name() // its parent, which is all that they have
						}
						require.Equal(t, ours, theirs, "%s, %s, %s, %v, %v: gocbcore", op.name, state, casOf, level,
							place)
					}
				}
				require.Len(t, outcomes, 1, "%s, %s, %s: durability and collections change nothing: %v", op.name, state,
					casOf, outcomes)
				for o := range outcomes {
					fmt.Fprintf(&table, "%-21s %-8s %-12s %s\n", op.name, state, casOf, o)
				}
			}
		}
	}
	require.Greater(t, compared, 400)
	testkit.Golden(t, "testdata/matrix.golden", []byte(table.String()), *update)
}

func theirAgent(t *testing.T, m *mock.Cluster) *gocbcore.Agent {
	t.Helper()
	cfg := gocbcore.AgentConfig{UserAgent: "matrix"}
	require.NoError(t, cfg.FromConnStr(m.ConnString()))
	cfg.BucketName = "default"
	cfg.SecurityConfig.Auth = gocbcore.PasswordAuthProvider{Username: "Administrator", Password: "password"}
	cfg.IoConfig.UseCollections, cfg.IoConfig.UseMutationTokens = true, true
	a, err := gocbcore.CreateAgent(&cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	ready := make(chan error, 1)
	_, err = a.WaitUntilReady(fastest(), gocbcore.WaitUntilReadyOptions{}, func(_ *gocbcore.WaitUntilReadyResult,
		err error,
	) {
		ready <- err
	})
	require.NoError(t, err)
	require.NoError(t, <-ready)
	return a
}

// notInTheMatrix are operations on a key that the matrix leaves out, and why.
var notInTheMatrix = map[string]string{
	"get-ex-replica": "it is get-replica with attributes; TestGetExOnACluster has it",
}

func TestTheMatrixHasEveryOperationOnAKey(t *testing.T) {
	have := map[string]bool{}
	for _, op := range matrixOps() {
		require.False(t, have[op.name], op.name)
		have[op.name] = true
	}
	for _, name := range keyed() {
		require.NotEqual(t, have[name], notInTheMatrix[name] != "", "%s is in the matrix, or has a reason", name)
	}
}
