package field_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// An empty value is nil, and is not where the program has given a slice for it, as SDKs that tell the two apart want.
func TestAnEmptyValueIsNotNilWhereAsked(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		b := onMock(t, m, func(*core.Config) {}).Bucket("default")
		_, err := kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		for _, into := range [][]byte{nil, {}} {
			got, err := kv.Do(within(t, time.Second), b, kv.Get{Key: []byte("k"), Into: into})
			require.NoError(t, err)
			require.Equal(t, into, got.Value)
		}
	})
}
