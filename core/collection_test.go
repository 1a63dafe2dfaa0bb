package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

func TestACollectionIsWhereItsOperationsGo(t *testing.T) {
	m := mock.Start(t, mock.Nodes(2), mock.Replicas(1), mock.Bucket("default", 64))
	_, err := m.CreateCollection("default", "people", "users")
	require.NoError(t, err)
	id, err := m.CreateCollection("default", "people", "guests")
	require.NoError(t, err)
	b := open(t, m).Bucket("default")
	users, key := b.Collection("people", "users"), []byte("k")
	scope, name := users.Names()
	require.Equal(t, [2]string{"people", "users"}, [2]string{scope, name})
	value := func(d kv.Dispatcher, op kv.Get) string {
		r, err := kv.Do(ctx(t), d, op)
		if err != nil {
			require.ErrorIs(t, err, cberr.DocumentNotFound)
			return ""
		}
		return string(r.Value)
	}

	t.Run("every form", func(t *testing.T) {
		_, err := kv.Do(ctx(t), users, kv.Upsert{Key: key, Value: []byte("in users")})
		require.NoError(t, err)
		require.Equal(t, "in users", value(users, kv.Get{Key: key}))
		require.Empty(t, value(b, kv.Get{Key: key}))
		require.Equal(t, "in users", value(b, kv.Get{
			Common: kv.Common{Scope: "people", Collection: "users"},
			Key:    key,
		}))
		f := kv.Start(ctx(t), users, kv.Exists{Key: key})
		there, err := f.Wait(ctx(t))
		require.NoError(t, err)
		require.True(t, there.Exists)
		for _, o := range kv.Batch(ctx(t), users, []kv.Get{{Key: key}, {Key: key}}, 0) {
			require.NoError(t, o.Err)
			require.Equal(t, "in users", string(o.Result.Value))
		}
		hedged := kv.Get{Key: key, Hedge: &kv.Hedge{MaxAttempts: 2, Delay: time.Second}}
		require.Equal(t, "in users", value(users, hedged))
		copied, err := kv.GetAnyReplica(ctx(t), users, kv.GetReplica{Key: key})
		require.NoError(t, err)
		require.Equal(t, "in users", string(copied.Value))
		_, err = kv.Do(ctx(t), users, kv.Unlock{Key: key, CAS: 1})
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, [2]string{"people", "users"}, [2]string{e.Scope, e.Collection})
	})

	t.Run("an operation that names a collection goes there", func(t *testing.T) {
		for i, to := range []kv.Common{
			{Scope: "people", Collection: "guests"}, {CollectionID: id}, {Scope: "_default", Collection: "_default"},
		} {
			_, err := kv.Do(ctx(t), users, kv.Upsert{Common: to, Key: []byte("other"), Value: []byte(fmt.Sprint(i))})
			require.NoError(t, err)
			require.Empty(t, value(users, kv.Get{Key: []byte("other")}))
		}
		require.Equal(t, "1", value(b.Collection("people", "guests"), kv.Get{Key: []byte("other")}))
		require.Equal(t, "2", value(b.Collection("", ""), kv.Get{Key: []byte("other")}))
		require.Equal(t, "2", value(b, kv.Get{Key: []byte("other")}))
	})

	t.Run("names that lead nowhere", func(t *testing.T) {
		short := kv.Common{Timeout: 300 * time.Millisecond}
		_, err := kv.Do(ctx(t), b.Collection("people", "none"), kv.Get{Common: short, Key: key})
		require.ErrorIs(t, err, cberr.CollectionNotFound)
		_, err = kv.Do(ctx(t), b.Collection("people", "a b"), kv.Get{Key: key})
		require.ErrorIs(t, err, cberr.InvalidArgument)
		require.ErrorContains(t, err, "collection name")
	})

	t.Run("operations without a collection", func(t *testing.T) {
		_, err := kv.Do(ctx(t), users, kv.Noop{})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("collection %q of scope %q of %s", "users", "people", b),
			fmt.Sprintf("%+v", users))
	})

	t.Run("it costs nothing", func(t *testing.T) {
		if raceEnabled {
			t.Skip("the race detector allocates")
		}
		into := make([]byte, 0, 64)
		get := func(d kv.Dispatcher) func() {
			return func() {
				_, err := kv.Do(t.Context(), d, kv.Get{Key: key, Into: into})
				require.NoError(t, err)
			}
		}
		named := kv.Common{Scope: "people", Collection: "users"}
		by := testing.AllocsPerRun(500, func() {
			_, err := kv.Do(t.Context(), b, kv.Get{Common: named, Key: key, Into: into})
			require.NoError(t, err)
		})
		require.LessOrEqual(t, testing.AllocsPerRun(500, get(users)), by)
	})
}
