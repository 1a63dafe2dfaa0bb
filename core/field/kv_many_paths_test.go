package field_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// manyPaths runs f on a client that sends so many paths a request, to a server that takes so many. 0 is the default.
func manyPaths(t *testing.T, client, server int, f func(t *testing.T, m *mock.Cluster, b *core.Bucket)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opts := []mock.Option{mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual()}
		if server != 0 {
			opts = append(opts, mock.SubdocMaxPaths(server))
		}
		m := mock.Start(t, opts...)
		c := onMock(t, m, func(cfg *core.Config) { cfg.KV.MaxPaths = client })
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(fresh(t)))
		f(t, m, b)
	})
}

// fields are n counters, of which every third is an extended attribute, and reads of the same.
func fields(n int) (writes []kv.MutateSpec, reads []kv.LookupSpec) {
	for i := range n {
		path := fmt.Sprint("p", i)
		w, r := kv.IncrementPath(path, int64(i+1)), kv.GetPath(path)
		if i%3 == 2 {
			path = "x." + path
			w, r = kv.IncrementPath(path, int64(i+1)), kv.GetXattr(path)
			w.Xattr, w.CreateParents = true, true
		}
		writes, reads = append(writes, w), append(reads, r)
	}
	return writes, reads
}

// As many paths as server and client are set for go in one request, and results and errors name each by the caller's
// index, also the last that an answer can name.
func TestMorePathsThanSixteen_D148(t *testing.T) {
	for _, n := range []int{17, 64, 256} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			manyPaths(t, n, n, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
				writes, reads := fields(n)
				key := []byte("k")
				written, err := kv.Do(fresh(t), b, kv.MutateIn{Key: key, Store: kv.StoreUpsert, Specs: writes})
				require.NoError(t, err)
				read, err := kv.Do(fresh(t), b, kv.LookupIn{Key: key, Specs: reads})
				require.NoError(t, err)
				for i := range n {
					require.Equal(t, strconv.Itoa(i+1), string(written.Paths[i].Value), i)
					require.Equal(t, strconv.Itoa(i+1), string(read.Paths[i].Value), i)
				}
				for _, i := range []int{0, n / 2, n - 1} {
					bad := append([]kv.MutateSpec(nil), writes...)
					bad[i] = kv.ReplacePath("missing", []byte("1"))
					_, err = kv.Do(fresh(t), b, kv.MutateIn{Key: key, Specs: bad})
					var at *kv.PathError
					require.ErrorAs(t, err, &at)
					require.Equal(t, i, at.Index)
					require.Equal(t, "missing", at.Path)
					require.ErrorIs(t, err, cberr.PathNotFound)
				}
				reads[n-1] = kv.GetPath("missing")
				read, err = kv.Do(fresh(t), b, kv.LookupIn{Key: key, Specs: reads})
				require.NoError(t, err)
				var at *kv.PathError
				require.ErrorAs(t, read.Paths[n-1].Err(), &at)
				require.Equal(t, n-1, at.Index)
			})
		})
	}
}

// More than the client's limit is refused before anything is sent, by name and limit.
func TestTheLimitOfPathsIsTheClients_D148(t *testing.T) {
	for client, limit := range map[int]int{0: 16, 16: 16, 40: 40} {
		manyPaths(t, client, 1000, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			writes, reads := fields(limit + 1)
			before := m.Frames(memd.OpSubdocMultiLookup) + m.Frames(memd.OpSubdocMultiMutation)
			_, wrote := kv.Do(fresh(t), b, kv.MutateIn{Key: []byte("k"), Specs: writes})
			_, read := kv.Do(fresh(t), b, kv.LookupIn{Key: []byte("k"), Specs: reads})
			for _, err := range []error{wrote, read} {
				var arg *kv.ArgumentError
				require.ErrorAs(t, err, &arg)
				require.Equal(t, "number of paths", arg.Field)
				require.EqualValues(t, limit, arg.Limit)
				require.ErrorIs(t, err, cberr.InvalidArgument)
			}
			require.Equal(t, before, m.Frames(memd.OpSubdocMultiLookup)+m.Frames(memd.OpSubdocMultiMutation))
		})
	}
}

// A server that takes fewer paths than the client sends refuses the request, and that is an invalid argument.
func TestAServerThatTakesFewerPaths_D148(t *testing.T) {
	manyPaths(t, 64, 0, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		writes, reads := fields(17)
		_, wrote := kv.Do(fresh(t), b, kv.MutateIn{Key: []byte("k"), Store: kv.StoreUpsert, Specs: writes})
		_, read := kv.Do(fresh(t), b, kv.LookupIn{Key: []byte("k"), Specs: reads})
		for _, err := range []error{wrote, read} {
			require.ErrorIs(t, err, cberr.InvalidArgument)
			require.ErrorContains(t, err, "SUBDOC_INVALID_COMBO")
		}
		_, err := kv.Do(fresh(t), b, kv.MutateIn{Key: []byte("k"), Store: kv.StoreUpsert, Specs: writes[:16]})
		require.NoError(t, err)
	})
}

func TestTheLimitOfPathsIsBounded_D148(t *testing.T) {
	for _, n := range []int{-1, 15, 257, 1 << 20} {
		_, err := core.Open(context.Background(), core.Config{KV: core.KVConfig{MaxPaths: n}})
		var bad *core.ConfigError
		require.ErrorAs(t, err, &bad)
		require.ErrorContains(t, err, "KV.MaxPaths")
		require.ErrorContains(t, err, "16 and 256")
	}
}
