package kv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
)

func TestFormats(t *testing.T) {
	for f, flags := range map[kv.Format]uint32{
		kv.FormatNone: 0, kv.FormatPrivate: 0x01000000, kv.FormatJSON: 0x02000000, kv.FormatBinary: 0x03000000,
		kv.FormatString: 0x04000000,
	} {
		require.Equal(t, flags, f.Flags())
		require.Equal(t, f, kv.FormatOf(flags))
		require.Equal(t, f, kv.FormatOf(flags|0x00ffffff), "the rest belongs to older clients")
		require.NotEqual(t, "unknown", f.String())
	}
	for _, flags := range []uint32{0x12000000, 0x22000000, 0xe2000000} {
		require.Equal(t, kv.FormatNone, kv.FormatOf(flags))
	}
	require.Equal(t, "unknown", kv.Format(9).String())
}
