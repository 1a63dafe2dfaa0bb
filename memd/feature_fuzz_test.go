package memd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// FuzzFeatures: of the value of a HELLO packet only features with a name are kept, and each that is kept stands in it.
func FuzzFeatures(f *testing.F) {
	f.Add(memd.AppendFeatures(nil, memd.FeatureXError, memd.FeatureSnappy))
	f.Add([]byte{0})
	f.Add([]byte{0xff, 0xff, 0, 0})
	f.Fuzz(func(t *testing.T, value []byte) {
		fs, err := memd.ParseFeatures(value)
		if len(value)%2 != 0 {
			require.ErrorIs(t, err, memd.ErrHello)
			return
		}
		require.NoError(t, err)
		for i := 0; i < len(value); i += 2 {
			one := memd.Feature(uint16(value[i])<<8 | uint16(value[i+1]))
			require.Equal(t, one.Known(), fs.Has(one))
		}
	})
}
