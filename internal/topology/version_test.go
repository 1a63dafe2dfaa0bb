package topology_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/topology"
)

func TestB69EpochAndRevisionDecideWhichMapIsNewer(t *testing.T) {
	const bucket, global = `"uuid":"u",`, ``
	at := func(kind string, epoch int64, rev uint64) *topology.Snapshot {
		return parse(t, fmt.Sprintf(`{%s"rev":%d,"revEpoch":%d,"nodes":[{}],"nodesExt":[{"services":{"kv":1}}]}`, kind, rev, epoch))
	}
	for _, tc := range []struct {
		a, b         *topology.Snapshot
		aWins, bWins bool // which replaces the other
	}{
		{at(bucket, 1, 2), at(bucket, 1, 3), false, true},
		{at(bucket, 1, 3), at(bucket, 1, 3), false, false},
		{at(bucket, 1, 900), at(bucket, 2, 1), false, true},
		{at(bucket, 0, 900), at(bucket, 1, 1), false, true},
		{at(bucket, 2, 0), at(bucket, 1, 5), true, false},
		{at(bucket, 1, 0), at(bucket, 1, 5), true, true}, // one without a revision replaces any, and is older than any
		{at(bucket, 1, 0), at(bucket, 1, 0), true, true},
		{at(bucket, 1, 5), at(global, 1, 5), true, false},
		{at(global, 1, 6), at(bucket, 1, 5), true, false},
		{at(global, 1, 5), at(global, 1, 5), false, false},
		{at(bucket, 0, math.MaxUint64), at(bucket, 0, math.MaxInt64), true, false},
	} {
		require.Equal(t, tc.aWins, tc.a.Newer(tc.b), "%+v after %+v", tc.a, tc.b)
		require.Equal(t, tc.bWins, tc.b.Newer(tc.a), "%+v after %+v", tc.b, tc.a)
	}
	require.True(t, at(bucket, 0, 0).Newer(nil))
	require.Zero(t, parse(t, `{"rev":1,"uuid":"u","nodesExt":[{}]}`).Epoch)
}

func TestScanVersionIsRightOrSilent(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tc := range []struct {
		raw   string
		epoch int64
		rev   uint64
		ok    bool
	}{
		{`{"rev":12,"revEpoch":3}`, 3, 12, true},
		{`{"revEpoch":3,"rev":12}`, 3, 12, true},
		{" {\n\t\"rev\" : 12 ,\r\n \"revEpoch\" :3 }", 3, 12, true},
		{`{"rev":12}`, 0, 12, true},
		{`{"rev":12,"name":"` + long + `"}`, 0, 12, true},
		{`{"name":"a","rev":12,"revEpoch":3,"x":"` + long + `"}`, 3, 12, true},
		{`{"name":"a\"\\","n":[{"rev":1},"]"],"rev":12,"revEpoch":3}`, 3, 12, true},
		{`{"rev":12,"name":"a","revEpoch":3}`, 3, 12, true},
		{`{"x":null,"y":-1.5e3,"z":{},"rev":2}`, 0, 2, true},
		{`{"rev":12,"x":"` + long + `","revEpoch":3}`, 0, 0, false}, // beyond the window: parse it
		{`{"x":"` + long + `","rev":12}`, 0, 0, false},
		{`{"x":{"rev":12}}`, 0, 0, false},
		{`{"X":"rev","y":"12"}`, 0, 0, false},
		{`{"rev":"12"}`, 0, 0, false},
		{`{"rev":-1}`, 0, 0, false},
		{`{"rev":1.5}`, 0, 0, false},
		{`{"rev":1e3}`, 0, 0, false},
		{`{"rev":12`, 0, 0, false},
		{`{"rev":1234567890123456789}`, 0, 0, false},
		{`{"rev":12,"revEpoch":-1}`, 0, 0, false},
		{`{"y":"` + strings.Repeat("x", 244) + `","rev":12}`, 0, 0, false},
		{``, 0, 0, false},
		{`[]`, 0, 0, false},
		{`{`, 0, 0, false},
		{`{}`, 0, 0, false},
		{`{"`, 0, 0, false},
		{`{"rev"`, 0, 0, false},
		{`{"rev":`, 0, 0, false},
		{`{"a":"`, 0, 0, false},
		{`{"a\`, 0, 0, false},
		{"\x00", 0, 0, false},
	} {
		epoch, rev, ok := topology.ScanVersion([]byte(tc.raw))
		require.Equal(t, []any{tc.epoch, tc.rev, tc.ok}, []any{epoch, rev, ok}, tc.raw)
	}
	// Wherever the window cuts a number, it is not taken for a shorter one.
	for pad := range 260 {
		raw := `{"x":"` + strings.Repeat("x", pad) + `","rev":123456,"revEpoch":77}`
		epoch, rev, ok := topology.ScanVersion([]byte(raw))
		require.True(t, !ok || epoch == 77 && rev == 123456, pad)
	}
}
