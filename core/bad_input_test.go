package core_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Bad input is refused before anything is sent, and says which field and which limit.
func TestBadInputNamesFieldAndLimit(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		long := bytes.Repeat([]byte("k"), 251)
		named := kv.Common{Scope: "s", Collection: "c"}
		total := func() (n int) {
			for op := range 256 {
				if memd.Opcode(op) != memd.OpGetClusterConfig {
					n += m.Frames(memd.Opcode(op))
				}
			}
			return n
		}
		before := total()
		do := func(op kv.Upsert) error { _, err := kv.Do(ctx(t), b, op); return err }
		for _, tc := range []struct {
			err   error
			field string
			limit int64
			kind  *cberr.Kind
		}{
			{do(kv.Upsert{}), "key", 250, cberr.InvalidArgument},
			{do(kv.Upsert{Key: long}), "key length", 250, cberr.InvalidArgument},
			{do(kv.Upsert{Key: long[:247], Common: named}), "key length", 246, cberr.InvalidArgument},
			{
				do(kv.Upsert{Key: long[:1], Value: make([]byte, 20<<20+1)}), "value length", 20 << 20,
				cberr.ValueTooLarge,
			},
			{do(kv.Upsert{Key: long[:1], Durability: 9}), "durability level", 3, cberr.InvalidArgument},
			{do(kv.Upsert{Key: long[:1], Common: kv.Common{Timeout: -1}}), "timeout", 0, cberr.InvalidArgument},
			{do(kv.Upsert{Key: long[:1], Common: kv.Common{Scope: "a.b"}}), "scope name", 0, cberr.InvalidArgument},
			{do(kv.Upsert{Key: long[:1], Expiry: kv.ExpireAfter(-1)}), "expiry", 0, cberr.InvalidArgument},
		} {
			var a *kv.ArgumentError
			require.ErrorAs(t, tc.err, &a)
			require.Equal(t, tc.field, a.Field)
			require.Equal(t, tc.limit, a.Limit)
			require.ErrorIs(t, tc.err, tc.kind)
			var e *kv.Error
			require.ErrorAs(t, tc.err, &e)
			require.False(t, e.Ambiguous())
		}
		require.Equal(t, before, total())
		require.NoError(t, do(kv.Upsert{Key: long[:250]}))
		require.NoError(t, do(kv.Upsert{Key: long[:1], Value: make([]byte, 20<<20)}))
	})
}

// A malformed cluster map or error map is refused; the connection and the calls on it stay.
func TestMalformedMapsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
		m.Inject(only(memd.OpGetErrorMap, 0), mock.Rewrite(func(_, rep *memd.Packet) { rep.Value = []byte(`{"version":9}`) }))
		b := open(t, m).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		m.Inject(only(memd.OpSet, 1), mock.NotMyVBucket(true, []byte(`{"rev":99999,"nodes":`)))
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		m.BumpRevision()
		_, rev := m.Revision()
		time.Sleep(6 * time.Second) // a good map is still taken
		synctest.Wait()
		mp, _ := b.Map()
		require.Equal(t, rev, mp.Rev)
		require.Equal(t, 2, m.Frames(memd.OpHello))
	})
}
