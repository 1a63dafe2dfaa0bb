package mock_test

import (
	"testing"

	"github.com/couchbase/gocbcore/v10"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// gocbcore works with each version, and with a cluster in the middle of an upgrade.
func TestGocbcoreOnEveryVersion(t *testing.T) {
	for name, opts := range map[string][]mock.Option{
		"6.6": {mock.Version("6.6")}, "7.0": {mock.Version("7.0")}, "7.1": {mock.Version("7.1")},
		"7.2": {mock.Version("7.2")}, "7.6": {mock.Version("7.6")}, "8.0": {mock.Version("8.0")},
		"upgrade": {mock.Version("6.6"), mock.NodeVersion(0, "8.0")},
	} {
		t.Run(name, func(t *testing.T) {
			c := mock.Start(t, append(opts, mock.Nodes(3), mock.Bucket("default", 16))...)
			a := agent(t, c, nil)
			require.NoError(t, ready(t, a))
			for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
				_, err := set(t, a, key, `{"n":9007199254740993}`)
				require.NoError(t, err)
				got, err := get(t, a, key)
				require.NoError(t, err)
				require.Equal(t, `{"n":9007199254740993}`, string(got.Value))
			}
			_, err := outcome(t, func(done func(*gocbcore.UnlockResult, error)) (gocbcore.PendingOp, error) {
				return a.Unlock(gocbcore.UnlockOptions{Key: []byte("a"), Cas: 1}, done)
			})
			require.Error(t, err)
		})
	}
}
