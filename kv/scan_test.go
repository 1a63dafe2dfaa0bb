package kv_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// B64: everything once, keys alone or documents, whatever the sizes of the answers.
func TestAScanFindsEverythingOnce_B64(t *testing.T) {
	for _, op := range []kv.Scan{
		{},
		{KeysOnly: true},
		{KeysOnly: true, BatchItems: 1},
		{BatchItems: 7, Concurrency: 1},
		{Concurrency: 64},
		{KeysOnly: true, Sorted: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScanServer(t, 32, 3, 1000)
			keys, err := found(t, s, op)
			require.NoError(t, err)
			require.Equal(t, s.all(), sorted(keys))
			if op.Sorted {
				require.Equal(t, s.all(), keys)
			}
			want := op.Concurrency
			if want == 0 {
				want = 3
			}
			require.LessOrEqual(t, s.most, want, "vbuckets at a time")
			require.Empty(t, s.scans, "none is left on the server")
			require.Zero(t, s.cancels)
			require.Len(t, s.creates, 32)
		})
	}
}

func TestAScanOfARange(t *testing.T) {
	for name, c := range map[string]struct {
		r    *kv.ScanRange
		from string
		n    int
	}{
		"prefix":      {kv.PrefixRange([]byte("k01")), "k0100", 100},
		"both ends":   {&kv.ScanRange{Start: []byte("k0010"), End: []byte("k0019")}, "k0010", 10},
		"no start":    {&kv.ScanRange{Start: []byte("k0010"), ExcludeStart: true, End: []byte("k0019")}, "k0011", 9},
		"no end":      {&kv.ScanRange{Start: []byte("k0010"), End: []byte("k0019"), ExcludeEnd: true}, "k0010", 9},
		"open end":    {&kv.ScanRange{Start: []byte("k0990")}, "k0990", 10},
		"open start":  {&kv.ScanRange{End: []byte("k0009")}, "k0000", 10},
		"nothing":     {kv.PrefixRange([]byte("x")), "", 0},
		"a long term": {&kv.ScanRange{Start: bytes.Repeat([]byte("z"), 250)}, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScanServer(t, 8, 2, 1000)
			keys, err := found(t, s, kv.Scan{Range: c.r, KeysOnly: true, Sorted: true})
			require.NoError(t, err, name)
			require.Len(t, keys, c.n, name)
			if c.n > 0 {
				require.Equal(t, c.from, keys[0], name)
			}
		})
	}
}

// K31: a vbucket that moves or a connection that is lost is scanned on from the last key: nothing twice, nothing left
// out.
func TestAScanResumesAfterTheLastKey_K31(t *testing.T) {
	for name, fault := range map[string]func(n int) (memd.Status, bool){
		"moved": func(n int) (memd.Status, bool) {
			return map[bool]memd.Status{true: memd.StatusNotMyVBucket}[n%3 == 0], false
		},
		"lost connections": func(n int) (memd.Status, bool) { return 0, n%4 == 0 },
		"forgotten": func(n int) (memd.Status, bool) {
			return map[bool]memd.Status{true: memd.StatusKeyNotFound}[n%5 == 0], false
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScanServer(t, 8, 2, 400)
			s.onContinue = func(_ uint16, n int) (memd.Status, bool) { return fault(n) }
			keys, err := found(t, s, kv.Scan{KeysOnly: true, BatchItems: 5})
			require.NoError(t, err, name)
			require.Equal(t, s.all(), sorted(keys), name)
			require.Greater(t, len(s.creates), 8)
			// of all keys, k0000 to k0399: which of them depends on what is scanned when
			behindAKey := []byte(`"excl_start":"azA`)
			resumed := slices.ContainsFunc(s.creates, func(j string) bool {
				return bytes.Contains([]byte(j),
					behindAKey)
			})
			require.True(t, resumed, "%s: behind the last key", name)
		})
	}
}

func TestAScanGivesUpWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 2, 1, 10)
		s.onContinue = func(uint16, int) (memd.Status, bool) { return memd.StatusNotMyVBucket, false }
		began := time.Now()
		_, err := found(t, s, kv.Scan{Common: kv.Common{Timeout: 5 * time.Second}})
		require.Equal(t, memd.StatusNotMyVBucket, kvError(t, err).Status)
		require.InDelta(t, 5*time.Second, time.Since(began), float64(time.Second))
	})
}

// With as many scans as nodes each node has one, whatever the order of the vbuckets.
func TestScansAreSpreadOverTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 64, 4, 500)
		s.slow = time.Millisecond
		perNode := map[int]int{}
		s.onCreate = func(vb uint16, _ int) memd.Status {
			perNode[int(vb)%4]++
			if len(perNode) == 4 { // all began at the same moment
				for node, n := range perNode {
					require.Equal(t, 1, n, "node %d", node)
				}
				clear(perNode)
			}
			return 0
		}
		_, err := found(t, s, kv.Scan{KeysOnly: true, Concurrency: 4})
		require.NoError(t, err)
	})
}

// A node with too many scans gets fewer of them, and the vbucket its turn later.
func TestAScanOfBusyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 32, 4, 500)
		s.limit, s.slow = 2, time.Millisecond
		keys, err := found(t, s, kv.Scan{KeysOnly: true, Concurrency: 8})
		require.NoError(t, err)
		require.Equal(t, s.all(), sorted(keys))
		require.Equal(t, 2, s.most)
		require.LessOrEqual(t, len(s.creates), 32+8, "each refusal ends one worker")

		s = newScanServer(t, 4, 1, 50)
		s.onCreate = func(_ uint16, n int) memd.Status {
			if n < 20 {
				return memd.StatusBusy
			}
			return 0
		}
		keys, err = found(t, s, kv.Scan{KeysOnly: true, Concurrency: 4})
		require.NoError(t, err, "the last worker waits")
		require.Equal(t, s.all(), sorted(keys))
	})
}

func TestFatalFailuresEndAScan(t *testing.T) {
	for st, kind := range map[memd.Status]*cberr.Kind{
		memd.StatusAccess: cberr.AuthenticationFailure, memd.StatusInvalid: cberr.InvalidArgument,
		memd.StatusVBUUIDNotEqual: cberr.Couchbase,
		memd.StatusNotStored:      cberr.Couchbase, memd.StatusInternal: cberr.InternalServerFailure,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScanServer(t, 8, 2, 100)
			s.onCreate = func(uint16, int) memd.Status { return st }
			_, err := found(t, s, kv.Scan{})
			require.ErrorIs(t, err, kind)
			require.Equal(t, st, kvError(t, err).Status)

			s = newScanServer(t, 8, 2, 100)
			s.onContinue = func(uint16, int) (memd.Status, bool) { return st, false }
			_, err = found(t, s, kv.Scan{})
			require.ErrorIs(t, err, kind)
			require.Empty(t, s.scans)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 8, 2, 100)
		s.onContinue = func(uint16, int) (memd.Status, bool) { return memd.StatusRangeScanCancelled, false }
		_, err := found(t, s, kv.Scan{})
		require.ErrorIs(t, err, cberr.RequestCanceled, "it was cancelled on the server")
	})
}

// K30: who stops early leaves nothing behind on the servers.
func TestAScanThatStopsIsCancelledOnTheServer_K30(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 8, 2, 2000)
		n := 0
		run, err := kv.Scan{BatchItems: 10}.Run(testContext(t), s.topo)
		require.NoError(t, err)
		for _, err := range run.All(testContext(t)) {
			require.NoError(t, err)
			if n++; n == 15 {
				break
			}
		}
		require.NoError(t, run.Err())
		require.Empty(t, s.scans)
		require.Positive(t, s.cancels)
		run.Close()
		require.False(t, run.Next(t.Context()))
	})
}

func TestAScanEndsWithItsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 8, 2, 100)
		s.hold = make(chan struct{})
		defer close(s.hold)
		ctx, cancel := context.WithCancel(testContext(t))
		run, err := kv.Scan{}.Run(ctx, s.topo)
		require.NoError(t, err)
		time.AfterFunc(time.Second, cancel)
		require.False(t, run.Next(testContext(t)))
		require.ErrorIs(t, run.Err(), cberr.RequestCanceled)
		require.Empty(t, s.scans, "cancelled on the server")

		run, err = kv.Scan{}.Run(testContext(t), s.topo)
		require.NoError(t, err)
		next, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.False(t, run.Next(next))
		require.ErrorIs(t, run.Err(), cberr.UnambiguousTimeout)
		require.Empty(t, s.scans)
	})
}

func TestASamplingScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before []string
		for range 2 {
			s := newScanServer(t, 16, 2, 500)
			keys, err := found(t, s, kv.Scan{
				Samples: 25, Seed: 7, KeysOnly: true,
				Concurrency: 1,
			})
			require.NoError(t, err)
			require.Len(t, keys, 25)
			require.Empty(t, s.scans)
			require.True(t, before == nil || slices.Equal(before, keys), "the same seed, the same vbuckets")
			before = keys
		}
		s := newScanServer(t, 16, 2, 40)
		s.onCreate = func(vb uint16, _ int) memd.Status {
			if vb%2 == 0 {
				return memd.StatusRange
			}
			return 0
		}
		interrupted := map[uint16]bool{}
		s.onContinue = func(vb uint16, _ int) (memd.Status, bool) {
			first := !interrupted[vb]
			interrupted[vb] = true
			return map[bool]memd.Status{true: memd.StatusNotMyVBucket}[first && vb%3 == 0], false
		}
		keys, err := found(t, s, kv.Scan{Samples: 1000, KeysOnly: true, BatchItems: 1})
		require.NoError(t, err, "vbuckets with too few documents are left out")
		require.Len(t, slices.Compact(sorted(keys)), len(keys), "nothing twice, though scans begin anew")
		require.NotEmpty(t, keys)
	})
}

func TestAScanIsConsistentWithMutations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanServer(t, 4, 1, 40)
		_, err := found(t, s, kv.Scan{Common: kv.Common{Timeout: 10 * time.Second}, ConsistentWith: []kv.MutationToken{
			{VBucket: 2, UUID: 7, Seqno: 5}, {VBucket: 2, UUID: 7, Seqno: 9}, {VBucket: 2, UUID: 7, Seqno: 8},
		}})
		require.NoError(t, err)
		n := 0
		for _, j := range s.creates {
			if bytes.Contains([]byte(j), []byte(`"snapshot_requirements":{"vb_uuid":"7","seqno":9}`)) {
				n++
			}
		}
		require.Equal(t, 1, n, "%v", s.creates)
	})
}

// inBucket is a dispatcher that has a name.
type inBucket struct {
	*topo
	name string
}

// Runner implements kv.Dispatcher.
func (x inBucket) Runner() call.Runner { return x }

func (b inBucket) Name() string { return b.name }

// The longest prefix is a whole key; a server takes no longer terms.
func TestThePrefixOfAWholeKey(t *testing.T) {
	key := bytesOf('k', kv.MaxKeyLen)
	require.Equal(t, &kv.ScanRange{Start: key, End: key}, kv.PrefixRange(key))
	require.Equal(t, &kv.ScanRange{Start: []byte("k"), End: []byte("k\xff")}, kv.PrefixRange([]byte("k")))
	_, err := on("", kv.RangeScanCreate{Range: kv.PrefixRange(key)}).encoded(common)
	require.NoError(t, err)
}

func TestScansThatNeverBegin(t *testing.T) {
	s := newScanServer(t, 4, 1, 40)
	for _, op := range []kv.Scan{
		{Range: &kv.ScanRange{}, Samples: 1},
		{Seed: 1},
		{Samples: 1 << 63},
		{KeysOnly: true, WithXattrs: true},
		{Range: &kv.ScanRange{Start: make([]byte, 300)}},
		{Common: kv.Common{Collection: "a.b"}},
		{Common: kv.Common{Timeout: -1}},
	} {
		_, err := op.Run(testContext(t), s.topo)
		require.ErrorIs(t, kvError(t, err), cberr.InvalidArgument, "%+v", op)
	}
	for _, tokens := range [][]kv.MutationToken{
		{{VBucket: 3, UUID: 1}, {VBucket: 4, UUID: 1}},
		{{Bucket: "travel", VBucket: 1}, {Bucket: "other", VBucket: 1}},
	} {
		_, err := kv.Scan{ConsistentWith: tokens}.Run(testContext(t), inBucket{s.topo, "travel"})
		require.ErrorIs(t, kvError(t, err), cberr.InvalidArgument, "%+v", tokens)
		require.ErrorContains(t, err, "mutation 1")
	}
	s.layout = func(call.MapWait) (call.Layout, error) { return &fakeLayout{caps: map[string]bool{}}, nil }
	_, err := kv.Scan{}.Run(testContext(t), s.topo)
	require.ErrorIs(t, err, cberr.FeatureNotAvailable)
	s.layout = func(call.MapWait) (call.Layout, error) { return nil, errSeen }
	_, err = kv.Scan{}.Run(testContext(t), s.topo)
	require.ErrorIs(t, err, errSeen)
	require.Zero(t, s.dispatched.Load())
}

// The limits of one answer are those of the scan, or the usual ones.
func TestTheBatchesOfAScan(t *testing.T) {
	for want, op := range map[string]kv.Scan{
		"00000032" + "00000000" + "00003a98": {}, "00000007" + "00000000" + "00000064": {
			BatchItems: 7,
			BatchBytes: 100,
		},
	} {
		s := newScanServer(t, 2, 1, 10)
		_, err := found(t, s, op)
		require.NoError(t, err)
		require.NotEmpty(t, s.limits)
		for _, limits := range s.limits {
			require.Equal(t, want, fmt.Sprintf("%x", limits))
		}
	}
}
