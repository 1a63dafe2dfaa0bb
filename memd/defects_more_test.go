package memd_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/memd"
)

// TestD9EveryParserTakesBytesOrFails: no loop over any of them can stand still.
func TestD9EveryParserTakesBytesOrFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 1, 80).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "magic") {
			b[0] = rapid.SampledFrom([]byte{0x80, 0x08, 0x81, 0x18, 0x82, 0x83}).Draw(t, "which")
		}
		for tail := b; len(tail) > 0; {
			_, _, next, err := memd.NextFrame(tail)
			if err != nil {
				break
			}
			require.Less(t, len(next), len(tail))
			tail = next
		}
		for tail := b; len(tail) > 0; {
			_, next, err := memd.ParseLEB128(tail)
			if err != nil {
				break
			}
			require.Less(t, len(next), len(tail))
			tail = next
		}
		var p memd.Packet
		if n, err := p.Parse(b, 0); err == nil {
			require.GreaterOrEqual(t, n, memd.HeaderLen)
		}
	})
}

// TestD33FeaturesAreBits: whether a feature was granted is one bit of a word, and asking scans no list.
func TestD33FeaturesAreBits(t *testing.T) {
	require.Equal(t, reflect.Uint64, reflect.TypeFor[memd.Features]().Kind())
	var all memd.Features
	for f := range memd.Feature(64) {
		require.False(t, all.Has(f))
		all = all.With(f)
		require.True(t, all.Has(f))
		require.False(t, all.Without(f).Has(f))
	}
	require.False(t, all.Has(64))
	require.False(t, all.Has(0xffff))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if !all.Has(memd.FeatureCollections) {
			t.Error("lost")
		}
	}))
}
