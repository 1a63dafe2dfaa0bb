package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseXattrs: what is accepted comes back from Section with the same body.
func FuzzParseXattrs(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0d\x00\x00\x00\x09a\x00{\"b\":1}\x00body"))
	f.Add([]byte("\x00\x00\x00\x00x"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, value []byte) {
		x, body, ok := ParseXattrs(value)
		if !ok {
			return
		}
		again, tail, ok := ParseXattrs(x.Section(body))
		require.True(t, ok)
		require.Equal(t, x, again)
		require.Equal(t, string(body), string(tail))
	})
}
