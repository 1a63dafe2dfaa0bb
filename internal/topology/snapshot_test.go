package topology_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/topology"
)

func load(t testing.TB, name string) *topology.Snapshot {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	s, err := topology.Parse(raw, "10.0.0.9", topology.Options{})
	require.NoError(t, err)
	return s
}

func TestB65KeysHaveTheirVBuckets(t *testing.T) {
	for _, tc := range []struct {
		key  string
		n    int
		want uint16
	}{
		{"\x00", 1024, 0x202}, {"\x00", 64, 0x02}, {"\x00", 48, 0x12}, {"\x00", 13, 0x0c},
		{"\x00\x01\x02\x03\x04\x05\x06\x07", 1024, 0xaa}, {"\x00\x01\x02\x03\x04\x05\x06\x07", 64, 0x2a},
		{"\x00\x01\x02\x03\x04\x05\x06\x07", 48, 0x0a}, {"\x00\x01\x02\x03\x04\x05\x06\x07", 13, 0x08},
		{"hello", 1024, 0x210}, {"hello", 64, 0x10}, {"hello", 48, 0x10}, {"hello", 13, 0x08},
		{"foo", 1024, 115}, {"bar", 1024, 767}, {"Hello", 1024, 977}, {"user::1", 1024, 997},
		{"airline_10", 1024, 361}, {"counter", 1024, 290}, {"", 1024, 0}, {"foo", 64, 51}, {"bar", 64, 63},
		{"foo", 0, 0}, {"foo", -1, 0},
	} {
		require.Equal(t, tc.want, topology.Hash([]byte(tc.key), tc.n), "%q of %d", tc.key, tc.n)
	}
}

func TestCapturedMapsParse(t *testing.T) {
	s := load(t, "bucket_config_with_rev_epoch.json")
	require.Equal(t, []int64{2, 2}, []int64{s.Epoch, s.Rev})
	require.Equal(t, "travel-sample", s.Bucket)
	require.Equal(t, 1024, s.NumVBuckets())
	addr, ok := s.KVAddr(s.NodeIndex(5, 0), "default", false)
	require.True(t, ok)
	require.Equal(t, "10.0.0.9:11210", addr)
	require.Equal(t, -1, s.NodeIndex(5, 1))
}
