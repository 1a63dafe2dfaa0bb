package field_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// The client works with every version of the server, and with a cluster in the middle of an upgrade: what all versions
// have works on all of them, and what a version does not have is refused as such.
func TestTheClientOnEveryVersion_D149(t *testing.T) {
	for name, options := range map[string][]mock.Option{
		"6.6": {mock.Version("6.6")}, "7.0": {mock.Version("7.0")}, "7.1": {mock.Version("7.1")},
		"7.2": {mock.Version("7.2")}, "7.6": {mock.Version("7.6")}, "8.0": {mock.Version("8.0")},
		"upgrade": {mock.Version("7.2"), mock.NodeVersion(0, "8.0"), mock.NodeVersion(1, "7.6")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				options = append(options, mock.Virtual(), mock.Nodes(3), mock.Replicas(1),
					mock.Bucket("default", 16, mock.WithCollection("s", "c")))
				onVersion(t, openMock(t, mock.Start(t, options...)), name)
			})
		})
	}
}

func onVersion(t *testing.T, b *core.Bucket, version string) {
	t.Helper()
	for i := range byte(48) { // on every node
		key := []byte{'k', i}
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: key, Value: []byte(`{"a":1}`), Durability: memd.DurabilityMajority})
		require.NoError(t, err)
		_, err = kv.Do(fresh(t), b, kv.MutateIn{Key: key, Specs: []kv.MutateSpec{kv.UpsertPath("b", []byte("2"))}})
		require.NoError(t, err)
		got, err := kv.Do(fresh(t), b, kv.Get{Key: key})
		require.NoError(t, err)
		require.Equal(t, `{"a":1,"b":2}`, string(got.Value))
		_, err = kv.Do(fresh(t), b, kv.Upsert{
			Common: kv.Common{Scope: "s", Collection: "c"}, Key: key, Value: []byte("{}"), PreserveExpiry: true,
		})
		if version == "6.6" {
			require.Equal(t, cberr.FeatureNotAvailable, cberr.KindOf(err), "%v", err)
			continue
		}
		require.NoError(t, err)
	}
}

// A server 8.0 refuses a HELLO that asks for random documents with attributes and not for compression.
func TestCompressionOffOnServersOfEveryVersion_D171(t *testing.T) {
	for _, version := range []string{"6.6", "7.0", "7.1", "7.2", "7.6", "8.0"} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := openMock(t, mock.Start(t, mock.Version(version), mock.Virtual()), func(c *core.Config) {
					c.KV.Compression.Off, c.Maps.NoNotifications = true, true
				})
				require.NoError(t, upsert(t, b))
			})
		})
	}
}
