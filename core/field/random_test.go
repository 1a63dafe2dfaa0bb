package field_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// With a seed, and in virtual time, the mock picks the same documents in each run.
func TestASeededMockPicksTheSameDocuments_D279(t *testing.T) {
	picked := func(seed uint64) (keys []string) {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual(), mock.Seed(seed))
			b := openMock(t, m)
			for i := range 50 {
				_, err := kv.Do(fresh(t), b, kv.Upsert{Key: fmt.Append(nil, "key ", i), Value: []byte("v")})
				require.NoError(t, err)
			}
			for range 20 {
				r, err := kv.Do(fresh(t), b, kv.GetRandom{})
				require.NoError(t, err)
				keys = append(keys, string(r.Key))
			}
		})
		return keys
	}
	first := picked(1)
	require.Equal(t, first, picked(1))
	require.NotEqual(t, first, picked(2))
}
