package field_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// The client takes what kv_engine takes: several paths may set the document's flags, as a whole and by paths, with an
// expiry or without.
func TestSeveralPathsSetTheDocumentsFlags_D125(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		five, six := uint32(5), uint32(6)
		whole := kv.MutateIn{
			Common: recCommon, Key: []byte("k"), Store: kv.StoreInsert, Flags: &five, Expiry: kv.ExpireAfter(time.Hour),
			Specs: []kv.MutateSpec{kv.ReplacePath("", []byte(`{"a":1}`))},
		}
		require.Equal(t, "ok", recTold(r, whole))
		require.Equal(t, `{"a":1} flags=5 dt=json`, r.get("k"))
		require.Equal(t, "document_exists 0x02", recTold(r, whole), "a whole document is added")
		m, err := recDo(r, kv.GetMeta{Common: recCommon, Key: whole.Key})
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Until(m.Expiry).Round(time.Minute))

		paths := kv.MutateIn{Common: recCommon, Key: whole.Key, Specs: []kv.MutateSpec{kv.UpsertPath("a", []byte("2"))}}
		require.Equal(t, "ok", recTold(r, paths))
		require.Equal(t, `{"a":2} flags=5 dt=json`, r.get("k"), "they are kept")
		paths.Flags = &six
		require.Equal(t, "ok", recTold(r, paths))
		require.Equal(t, `{"a":2} flags=6 dt=json`, r.get("k"))
		paths.Key, paths.Store, paths.Flags = []byte("new"), kv.StoreUpsert, &five
		require.Equal(t, "ok", recTold(r, paths))
		require.Equal(t, `{"a":2} flags=5 dt=json`, r.get("new"))
	})
}

// An upsert may keep the expiry that the document has, and name one for a document that is not there yet.
func TestAnUpsertKeepsAnExpiryAndNamesOne_D125(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		key := []byte("k")
		expiry := func() time.Duration {
			m, err := recDo(r, kv.GetMeta{Common: recCommon, Key: key})
			require.NoError(t, err)
			return time.Until(m.Expiry).Round(time.Minute)
		}
		put := kv.Upsert{
			Common: recCommon, Key: key, Value: []byte("{}"), Expiry: kv.ExpireAfter(time.Hour), PreserveExpiry: true,
		}
		require.Equal(t, "ok", recTold(r, put))
		require.Equal(t, time.Hour, expiry())
		put.Expiry = kv.ExpireAfter(2 * time.Hour)
		require.Equal(t, "ok", recTold(r, put))
		require.Equal(t, time.Hour, expiry())
		paths := kv.MutateIn{
			Common: recCommon, Key: key, Store: kv.StoreUpsert, Expiry: put.Expiry, PreserveExpiry: true,
			Specs: []kv.MutateSpec{kv.UpsertPath("a", []byte("1"))},
		}
		require.Equal(t, "ok", recTold(r, paths))
		require.Equal(t, time.Hour, expiry())
		key = []byte("new")
		paths.Key = key
		require.Equal(t, "ok", recTold(r, paths))
		require.Equal(t, 2*time.Hour, expiry())
		paths.Store = kv.StoreReplace
		require.Equal(t, "invalid_argument", recTold(r, paths), "a document that must be there has an expiry to keep")
	})
}

// Create-as-deleted wants upsert or insert semantics, and no path in the body, in commands with one path only.
func TestCreateAsDeletedWithSeveralPaths_D125(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		attr, body := recSpec(dictUp, "x", "1", "x"), recSpec(dictUp, "a", "1", "")
		made := func(key string, store kv.StoreSemantics, specs ...kv.MutateSpec) string {
			return recTold(r, kv.MutateIn{
				Common: recCommon, Key: []byte(key), Store: store, CreateAsDeleted: true, AccessDeleted: true,
				Specs: specs,
			})
		}
		require.Equal(t, "document_not_found 0x01", made("none", kv.StoreReplace, attr))
		require.Equal(t, "ok", made("gone", kv.StoreUpsert, attr))
		require.Equal(t, "ok", made("gone", kv.StoreReplace, attr), "a tombstone stays one")
		require.Equal(t, "document_not_json 0xcc path=0a", made("none", kv.StoreUpsert, body))
		r.put("there", "{}")
		require.Equal(t, "ok", made("there", kv.StoreUpsert, attr, body), "a document that is there stays alive")
		require.Contains(t, r.get("there"), `{"a":1}`)

		one := kv.MutatePath{
			Common: recCommon, Key: []byte("none"), CreateAsDeleted: true, AccessDeleted: true,
			Spec: attr,
		}
		_, err := recDo(r, one)
		require.ErrorIs(t, err, cberr.InvalidArgument)
		one.Store = kv.StoreInsert
		require.Equal(t, "ok", recTold(r, one))
		one.Spec = kv.MutateSpec{Op: memd.OpSubdocDictUpsert, Path: "a", Value: []byte("1")}
		_, err = recDo(r, one)
		require.ErrorIs(t, err, cberr.InvalidArgument)
	})
}
