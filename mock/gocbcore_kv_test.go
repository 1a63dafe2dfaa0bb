package mock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10"
	gocbmemd "github.com/couchbase/gocbcore/v10/memd"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

type pending = gocbcore.PendingOp

func coreLookup(t *testing.T, a *gocbcore.Agent, key string, flags gocbmemd.SubdocDocFlag,
	ops ...gocbcore.SubDocOp,
) (*gocbcore.LookupInResult, error) {
	t.Helper()
	return outcome(t, func(done func(*gocbcore.LookupInResult, error)) (pending, error) {
		return a.LookupIn(gocbcore.LookupInOptions{
			Key: []byte(key), Flags: flags, Ops: ops, Deadline: time.Now().Add(patience),
		}, done)
	})
}

func coreMutate(t *testing.T, a *gocbcore.Agent, o gocbcore.MutateInOptions,
	ops ...gocbcore.SubDocOp,
) (*gocbcore.MutateInResult, error) {
	t.Helper()
	o.Ops, o.Deadline = ops, time.Now().Add(patience)
	return outcome(t, func(done func(*gocbcore.MutateInResult, error)) (pending, error) { return a.MutateIn(o, done) })
}

func TestGocbcoreSubdoc(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8))
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	key := []byte("doc")
	_, err := coreMutate(t, a, gocbcore.MutateInOptions{Key: key}, gocbcore.SubDocOp{
		Op:   gocbmemd.SubDocOpDictSet,
		Path: "a", Value: []byte("1"),
	})
	require.ErrorIs(t, err, gocbcore.ErrDocumentNotFound)
	res, err := coreMutate(t, a, gocbcore.MutateInOptions{
		Key: key, Flags: gocbmemd.SubdocDocFlagAddDoc,
		DurabilityLevel: 1, DurabilityLevelTimeout: 2 * time.Second,
	},
		gocbcore.SubDocOp{
			Op: gocbmemd.SubDocOpDictSet, Path: "a.b", Value: []byte("1"),
			Flags: gocbmemd.SubdocFlagMkDirP,
		},
		gocbcore.SubDocOp{Op: gocbmemd.SubDocOpDictSet, Path: "x", Value: []byte(`"${Mutation.CAS}"`), Flags: gocbmemd.SubdocFlagXattrPath | gocbmemd.SubdocFlagExpandMacros},
		gocbcore.SubDocOp{Op: gocbmemd.SubDocOpCounter, Path: "n", Value: []byte("5")},
		gocbcore.SubDocOp{Op: gocbmemd.SubDocOpArrayPushLast, Path: "l", Value: []byte("1,2")})
	require.NoError(t, err)
	require.NotZero(t, res.MutationToken.SeqNo)
	require.Len(t, res.Ops, 4)
	require.Equal(t, "5", string(res.Ops[2].Value), "in the order that the caller gave")
	_, err = coreMutate(t, a, gocbcore.MutateInOptions{Key: key, Flags: gocbmemd.SubdocDocFlagAddDoc},
		gocbcore.SubDocOp{Op: gocbmemd.SubDocOpDictSet, Path: "a", Value: []byte("1")})
	require.ErrorIs(t, err, gocbcore.ErrDocumentExists)
	got, err := coreLookup(t, a, "doc", 0,
		gocbcore.SubDocOp{Op: gocbmemd.SubDocOpGet, Path: "a.b"}, gocbcore.SubDocOp{
			Op:   gocbmemd.SubDocOpExists,
			Path: "nothing",
		},
		gocbcore.SubDocOp{Op: gocbmemd.SubDocOpGetCount, Path: "l"}, gocbcore.SubDocOp{Op: gocbmemd.SubDocOpGetDoc},
		gocbcore.SubDocOp{Op: gocbmemd.SubDocOpGet, Path: "$document.CAS", Flags: gocbmemd.SubdocFlagXattrPath})
	require.NoError(t, err)
	require.Equal(t, res.Cas, got.Cas)
	require.Equal(t, "1", string(got.Ops[0].Value))
	require.ErrorIs(t, got.Ops[1].Err, gocbcore.ErrPathNotFound)
	require.Equal(t, "2", string(got.Ops[2].Value))
	require.Equal(t, `{"a":{"b":1},"n":5,"l":[1,2]}`, string(got.Ops[3].Value))
	require.Equal(t, fmt.Sprintf(`"0x%016x"`, uint64(res.Cas)), string(got.Ops[4].Value))

	add := func(path string) gocbcore.SubDocOp {
		return gocbcore.SubDocOp{Op: gocbmemd.SubDocOpDictAdd, Path: path, Value: []byte("1")}
	}
	for path, want := range map[string]error{
		"a": gocbcore.ErrPathExists, "z.z": gocbcore.ErrPathNotFound, "n.z": gocbcore.ErrPathMismatch,
		"a[":                           gocbcore.ErrPathInvalid,
		strings.Repeat("x.", 40) + "x": gocbcore.ErrPathTooBig,
	} {
		_, err = coreMutate(t, a, gocbcore.MutateInOptions{Key: key}, add("fine"), add(path))
		require.ErrorIs(t, err, want, path)
		var se gocbcore.SubDocumentError
		require.ErrorAs(t, err, &se, path)
		require.Equal(t, 1, se.Index)
	}
	_, err = coreMutate(t, a, gocbcore.MutateInOptions{Key: key, Cas: res.Cas + 1}, add("fine"))
	require.ErrorIs(t, err, gocbcore.ErrCasMismatch)
	_, err = coreMutate(t, a, gocbcore.MutateInOptions{Key: key}, gocbcore.SubDocOp{
		Op:   gocbmemd.SubDocOpDictSet,
		Path: "q", Value: []byte("nonsense"),
	})
	require.ErrorIs(t, err, gocbcore.ErrValueInvalid)
	_, err = set(t, a, "raw", "not json")
	require.NoError(t, err)
	_, err = coreMutate(t, a, gocbcore.MutateInOptions{Key: []byte("raw")}, add("fine"))
	require.ErrorIs(t, err, gocbcore.ErrValueNotJSON)
	for _, d := range c.Documents("default") {
		require.Equal(t, d.VBucket, mock.VBucketOf([]byte(d.Key), 8))
	}
}

// TestGocbcoreStagesOnTombstones does what transactions do: stage on a tombstone, see it, make it a document.
func TestGocbcoreStagesOnTombstones(t *testing.T) {
	c := mock.Start(t)
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	xattr := gocbmemd.SubdocFlagXattrPath
	stage := gocbcore.MutateInOptions{
		Key: []byte("doc"),
		Flags: gocbmemd.SubdocDocFlagAddDoc | gocbmemd.SubdocDocFlagCreateAsDeleted |
			gocbmemd.SubdocDocFlagAccessDeleted,
	}
	_, err := coreMutate(t, a, stage, gocbcore.SubDocOp{Op: gocbmemd.SubDocOpDictAdd, Path: "txn.op.stgd", Value: []byte(`{"v":1}`), Flags: xattr | gocbmemd.SubdocFlagMkDirP})
	require.NoError(t, err)
	_, err = get(t, a, "doc")
	require.ErrorIs(t, err, gocbcore.ErrDocumentNotFound)
	got, err := coreLookup(t, a, "doc", gocbmemd.SubdocDocFlagAccessDeleted, gocbcore.SubDocOp{
		Op:   gocbmemd.SubDocOpGet,
		Path: "txn.op.stgd", Flags: xattr,
	})
	require.NoError(t, err)
	require.True(t, got.Internal.IsDeleted)
	require.Equal(t, `{"v":1}`, string(got.Ops[0].Value))
	_, err = coreMutate(t, a, stage, gocbcore.SubDocOp{Op: gocbmemd.SubDocOpDictAdd, Path: "txn", Value: []byte(`1`), Flags: xattr})
	require.ErrorIs(t, err, gocbcore.ErrDocumentExists)
	_, err = coreMutate(t, a, gocbcore.MutateInOptions{
		Key: []byte("doc"), Flags: gocbmemd.SubdocDocFlagReviveDocument | gocbmemd.SubdocDocFlagAccessDeleted,
		Cas: got.Cas,
	}, gocbcore.SubDocOp{Op: gocbmemd.SubDocOpReplaceBodyWithXattr, Path: "txn.op.stgd", Flags: xattr},
		gocbcore.SubDocOp{Op: gocbmemd.SubDocOpDelete, Path: "txn", Flags: xattr})
	require.NoError(t, err)
	doc, err := get(t, a, "doc")
	require.NoError(t, err)
	require.Equal(t, `{"v":1}`, string(doc.Value))
}

func TestGocbcoreMetadataAndObserve(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8))
	a := agent(t, c, func(cfg *gocbcore.AgentConfig) { cfg.IoConfig.UseCollections = false })
	require.NoError(t, ready(t, a))
	by := time.Now().Add(patience)
	stored, err := outcome(t, func(done func(*gocbcore.SetMetaResult, error)) (pending, error) {
		return a.SetMeta(gocbcore.SetMetaOptions{
			Key: []byte("m"), Value: []byte("{}"), Flags: 7, RevNo: 9, Cas: 1234,
			Deadline: by,
		}, done)
	})
	require.NoError(t, err)
	require.EqualValues(t, 1234, stored.Cas)
	meta, err := outcome(t, func(done func(*gocbcore.GetMetaResult, error)) (pending, error) {
		return a.GetMeta(gocbcore.GetMetaOptions{Key: []byte("m"), Deadline: by}, done)
	})
	require.NoError(t, err)
	require.EqualValues(t, 9, meta.SeqNo)
	require.EqualValues(t, 7, meta.Flags)
	_, err = outcome(t, func(done func(*gocbcore.SetMetaResult, error)) (pending, error) {
		return a.SetMeta(gocbcore.SetMetaOptions{
			Key: []byte("m"), Value: []byte("{}"), RevNo: 8, Cas: 9999,
			Deadline: by,
		}, done)
	})
	require.ErrorIs(t, err, gocbcore.ErrDocumentExists)
	observe := func(replica int) *gocbcore.ObserveResult {
		res, err := outcome(t, func(done func(*gocbcore.ObserveResult, error)) (pending, error) {
			return a.Observe(gocbcore.ObserveOptions{Key: []byte("m"), ReplicaIdx: replica, Deadline: by}, done)
		})
		require.NoError(t, err)
		return res
	}
	for i := range 2 {
		require.Equal(t, gocbmemd.KeyStatePersisted, observe(i).KeyState)
		require.EqualValues(t, 1234, observe(i).Cas)
	}
	require.NoError(t, c.SetPersistLag("default", time.Hour))
	_, err = set(t, a, "m", "later")
	require.NoError(t, err)
	require.Equal(t, gocbmemd.KeyStateNotPersisted, observe(0).KeyState)
	_, err = outcome(t, func(done func(*gocbcore.DeleteMetaResult, error)) (pending, error) {
		return a.DeleteMeta(gocbcore.DeleteMetaOptions{Key: []byte("m"), RevNo: 99, Cas: 5, Deadline: by}, done)
	})
	require.NoError(t, err)
	require.Equal(t, gocbmemd.KeyStateDeleted, observe(0).KeyState)
	random, err := outcome(t, func(done func(*gocbcore.GetRandomResult, error)) (pending, error) {
		return a.GetRandom(gocbcore.GetRandomOptions{Deadline: by}, done)
	})
	require.ErrorIs(t, err, gocbcore.ErrDocumentNotFound)
	require.Nil(t, random)
	for i := range 50 {
		_, err = set(t, a, fmt.Sprint("r", i), "{}")
		require.NoError(t, err)
	}
	random, err = outcome(t, func(done func(*gocbcore.GetRandomResult, error)) (pending, error) {
		return a.GetRandom(gocbcore.GetRandomOptions{Deadline: by}, done)
	})
	require.NoError(t, err)
	require.Regexp(t, `^r\d+$`, string(random.Key))
	stats, err := outcome(t, func(done func(*gocbcore.StatsResult, error)) (pending, error) {
		return a.Stats(gocbcore.StatsOptions{
			Key: "vbucket-details 0", Target: gocbcore.VBucketIDStatsTarget{VbID: 0},
			Deadline: by,
		}, done)
	})
	require.NoError(t, err)
	require.Len(t, stats.Servers, 1)
	for _, s := range stats.Servers {
		require.NoError(t, s.Error)
		require.Equal(t, "active", s.Stats["vb_0"])
	}
}

func TestGocbcoreRangeScan(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1, mock.WithCollection("s", "c")))
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	var token gocbcore.MutationToken
	for i := range 30 {
		res, err := outcome(t, func(done func(*gocbcore.StoreResult, error)) (pending, error) {
			return a.Set(gocbcore.SetOptions{
				Key: fmt.Appendf(nil, "k%02d", i), Value: []byte(strings.Repeat("v", 500)), ScopeName: "s",
				CollectionName: "c",
				Deadline:       time.Now().Add(patience),
			}, done)
		})
		require.NoError(t, err)
		token = res.MutationToken
	}
	create := func(o gocbcore.RangeScanCreateOptions) (gocbcore.RangeScanCreateResult, error) {
		o.ScopeName, o.CollectionName, o.Deadline = "s", "c", time.Now().Add(patience)
		return outcome(t, func(done func(gocbcore.RangeScanCreateResult, error)) (pending, error) {
			return a.RangeScanCreate(0, o, done)
		})
	}
	whole := &gocbcore.RangeScanCreateRangeScanConfig{Start: []byte("k"), End: []byte("l")}
	for _, keys := range []bool{false, true} {
		scan, err := create(gocbcore.RangeScanCreateOptions{
			KeysOnly: keys, Range: whole,
			Snapshot: &gocbcore.RangeScanCreateSnapshotRequirements{VbUUID: token.VbUUID, SeqNo: token.SeqNo},
		})
		require.NoError(t, err)
		var found []string
		for more := true; more; {
			res, err := outcome(t, func(done func(*gocbcore.RangeScanContinueResult, error)) (pending, error) {
				return scan.RangeScanContinue(gocbcore.RangeScanContinueOptions{
					MaxCount: 20,
					Deadline: time.Now().Add(patience),
				}, func(items []gocbcore.RangeScanItem) {
					for _, it := range items {
						found = append(found, string(it.Key))
						if !keys && len(it.Value) != 500 {
							found = append(found, "wrong value")
						}
					}
				}, done)
			})
			require.NoError(t, err)
			more = res.More
			require.NotEqual(t, res.More, res.Complete)
		}
		require.Len(t, found, 30)
		require.Equal(t, "k00", found[0])
	}
	scan, err := create(gocbcore.RangeScanCreateOptions{Sampling: &gocbcore.RangeScanCreateRandomSamplingConfig{
		Samples: 3,
		Seed:    5,
	}})
	require.NoError(t, err)
	_, err = outcome(t, func(done func(*gocbcore.RangeScanCancelResult, error)) (pending, error) {
		return scan.RangeScanCancel(gocbcore.RangeScanCancelOptions{Deadline: time.Now().Add(patience)}, done)
	})
	require.NoError(t, err)
	require.Zero(t, c.Scans("default"))
	_, err = create(gocbcore.RangeScanCreateOptions{Range: &gocbcore.RangeScanCreateRangeScanConfig{
		Start: []byte("x"),
		End:   []byte("y"),
	}})
	require.ErrorIs(t, err, gocbcore.ErrDocumentNotFound)
}

func TestGocbcoreCompresses(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 1))
	a := agent(t, c, func(cfg *gocbcore.AgentConfig) { cfg.CompressionConfig.Enabled = true })
	require.NoError(t, ready(t, a))
	text := `{"text":"` + strings.Repeat("ab", 500) + `"}`
	_, err := set(t, a, "k", text)
	require.NoError(t, err)
	got, err := get(t, a, "k")
	require.NoError(t, err)
	require.Equal(t, text, string(got.Value))
	r := login(t, c, append([]memd.Feature{memd.FeatureSnappy}, baseFeatures...)...)
	require.NotZero(t, r.call(getPacket("k")).Datatype&memd.DatatypeSnappy, "it came compressed")
}

func TestGocbcoreUsesAMemcachedBucket(t *testing.T) {
	c := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 0, mock.Memcached()))
	a := agent(t, c, func(cfg *gocbcore.AgentConfig) { cfg.IoConfig.UseCollections = false })
	require.NoError(t, ready(t, a))
	for i := range 60 {
		key := fmt.Sprint("key-", i)
		_, err := set(t, a, key, key)
		require.NoError(t, err)
		got, err := get(t, a, key)
		require.NoError(t, err)
		require.Equal(t, key, string(got.Value))
	}
	held := map[int]int{}
	for _, d := range c.Documents("default") {
		held[d.Node]++
	}
	require.Len(t, held, 3, "the keys are spread over the nodes")
}
