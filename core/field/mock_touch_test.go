package field_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// kv_engine changes a document's CAS with its expiry, and not where a touch changes nothing.
func TestATouchThatChangesNothingKeepsTheCAS_D191(t *testing.T) {
	b := openMock(t, mock.Start(t))
	ctx, key := within(t, 10*time.Second), []byte("k")
	made, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("{}")})
	require.NoError(t, err)
	until := kv.ExpireAt(time.Now().Add(time.Hour))
	for name, touch := range map[string]func(context.Context, kv.Expiry) uint64{
		"touch": func(ctx context.Context, e kv.Expiry) uint64 {
			res, err := kv.Do(ctx, b, kv.Touch{Key: key, Expiry: e})
			require.NoError(t, err)
			return res.CAS
		},
		"get and touch": func(ctx context.Context, e kv.Expiry) uint64 {
			res, err := kv.Do(ctx, b, kv.GetAndTouch{Key: key, Expiry: e})
			require.NoError(t, err)
			return res.CAS
		},
	} {
		require.Equal(t, made.CAS, touch(ctx, kv.Expiry{}), "%s: it had no expiry before", name)
		changed := touch(ctx, until)
		require.NotEqual(t, made.CAS, changed, name)
		require.Equal(t, changed, touch(ctx, until), name)
		made.CAS = touch(ctx, kv.Expiry{})
		require.NotEqual(t, changed, made.CAS, name)
	}
}
