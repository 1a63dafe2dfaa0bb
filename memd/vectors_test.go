package memd_test

import (
	"encoding/hex"
	"math"
	"testing"

	gmemd "github.com/couchbase/gocbcore/v10/memd"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

func TestLEB128Vectors(t *testing.T) {
	for _, v := range []struct {
		n    uint32
		wire string
	}{
		{0, "00"},
		{1, "01"},
		{0x7f, "7f"},
		{0x80, "8001"},
		{0x555, "d50a"},
		{0x7fff, "ffff01"},
		{0xffff, "ffff03"},
		{0xcafef00d, "8de0fbd70c"},
		{0xffffffff, "ffffffff0f"},
	} {
		wire := memd.AppendLEB128([]byte{0xee}, v.n)
		require.Equal(t, "ee"+v.wire, hex.EncodeToString(wire))

		n, tail, err := memd.ParseLEB128(append(wire[1:], "key"...))
		require.NoError(t, err)
		require.Equal(t, v.n, n)
		require.Equal(t, "key", string(tail))

		// Every prefix of it is refused: the last byte is the only one that ends a number.
		for i := range wire[1:] {
			_, _, err := memd.ParseLEB128(wire[1 : 1+i])
			require.ErrorIs(t, err, memd.ErrLEB128)
		}
	}
}

func TestLEB128RefusesOtherForms(t *testing.T) {
	for _, wire := range []string{
		"",             // nothing
		"80",           // no end
		"8100",         // 1, not in its shortest form
		"8000",         // 0, not in its shortest form
		"808080808000", // no end within five bytes
		"ffffffff10",   // 33 bits
		"ffffffff1f",   // 33 bits
		"ffffffff7f",   // 35 bits
		"ffffffff8f00", // a sixth byte
		"8080808000",   // 0 in five bytes
	} {
		b, err := hex.DecodeString(wire)
		require.NoError(t, err)
		_, tail, err := memd.ParseLEB128(b)
		require.ErrorIs(t, err, memd.ErrLEB128, wire)
		require.Nil(t, tail)
	}
}

func TestServerDurationVectors(t *testing.T) {
	for _, v := range []struct {
		micros float64
		code   uint16
	}{
		{0, 0},
		{1, 1},
		{10, 6},
		{100, 21},
		{1000, 79},
		{10000, 296},
		{100000, 1113},
		{1000000, 4181},
		{10000000, 15703},
		{120125042, 65535},
		{-1, 0},
		{math.NaN(), 0},
		{math.Inf(-1), 0},
		{math.Inf(1), 65535},
		{math.MaxFloat64, 65535},
	} {
		require.Equal(t, v.code, memd.EncodeServerDuration(v.micros), v.micros)
	}
}

// TestServerDurationB67 holds the codes of requirement B67; the last one is the clamp.
func TestServerDurationB67(t *testing.T) {
	for _, v := range []struct {
		micros float64
		code   uint16
	}{
		{0, 0},
		{1, 1},
		{9919, 0x0127},
		{89997489, 0xd8da},
		{99999149, 0xe664},
		{109999659, 0xf35d},
		{120125043, 0xffff},
		{120125044, 0xffff},
		{1e12, 0xffff},
	} {
		require.Equal(t, v.code, memd.EncodeServerDuration(v.micros), v.micros)
	}
}

// TestServerDurationRoundTrips decodes every code and encodes it again.
func TestServerDurationRoundTrips(t *testing.T) {
	last := -1.0
	for code := 0; code <= 0xffff; code++ {
		micros := memd.DecodeServerDuration(uint16(code))
		theirs := float64(gmemd.DecodeSrvDura16(uint16(code)).Microseconds())
		if micros <= last || memd.EncodeServerDuration(micros) != uint16(code) || math.Abs(theirs-micros) > 0.5 {
			t.Fatalf("code %d is %v us, gocbcore says %v us, and it encodes as %d", code, micros, theirs,
				memd.EncodeServerDuration(micros))
		}
		last = micros
	}
}

// TestDurabilityB66 holds the frame data of requirement B66. A timeout below a millisecond is rounded up by the one
// that turns a duration into milliseconds, so one is the smallest here.
func TestDurabilityB66(t *testing.T) {
	for _, v := range []struct {
		level memd.DurabilityLevel
		ms    uint32
		wire  string
	}{
		{memd.DurabilityMajority, 0, "11" + "01"},
		{memd.DurabilityMajorityAndPersistToActive, 0, "11" + "02"},
		{memd.DurabilityPersistToMajority, 0, "11" + "03"},
		{memd.DurabilityMajority, 1, "13" + "01" + "0001"},
		{memd.DurabilityMajority, 12201, "13" + "01" + "2fa9"},
		{memd.DurabilityMajority, 65534, "13" + "01" + "fffe"},
		{memd.DurabilityMajority, 65535, "13" + "01" + "fffe"},
		{memd.DurabilityMajority, 65536, "13" + "01" + "fffe"},
		{memd.DurabilityMajority, math.MaxUint32, "13" + "01" + "fffe"},
	} {
		wire := memd.AppendDurability([]byte{0xee}, v.level, v.ms)
		require.Equal(t, "ee"+v.wire, hex.EncodeToString(wire))

		id, data, tail, err := memd.NextFrame(wire[1:])
		require.NoError(t, err)
		require.Equal(t, memd.FrameDurability, id)
		require.Empty(t, tail)
		level, ms, ok := memd.ParseDurability(data)
		require.True(t, ok)
		require.Equal(t, v.level, level)
		require.EqualValues(t, min(v.ms, 65534), ms)
	}
	for _, data := range [][]byte{nil, {1, 2}, {1, 2, 3, 4}} {
		_, _, ok := memd.ParseDurability(data)
		require.False(t, ok)
	}
}
