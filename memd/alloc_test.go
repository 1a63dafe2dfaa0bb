package memd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

func TestAppendToDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 64<<10)
	for _, g := range goldens() {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := g.p.AppendTo(buf); err != nil {
				t.Error(err)
			}
		}), g.name)
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	var p memd.Packet
	for _, g := range goldens() {
		wire := readHex(t, goldenFile(g.name))
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := p.Parse(wire, 0); err != nil {
				t.Error(err)
			}
			for tail := p.Frames; len(tail) > 0; {
				_, data, next, err := memd.NextFrame(tail)
				if err != nil {
					t.Error(err)
					break
				}
				_, _, _ = memd.ParseDurability(data)
				tail = next
			}
		}), g.name)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := p.Parse(wire[:len(wire)-1], 0); err != memd.ErrShort {
				t.Error(err)
			}
		}), g.name)
	}
}

func TestPartsDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 1024)
	user := []byte("twenty-bytes-of-user")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b := memd.AppendLEB128(buf, 0xcafef00d)
		b = memd.AppendDurability(b, memd.DurabilityMajority, 2500)
		b, _ = memd.AppendFrame(b, memd.FrameImpersonateUser, user)
		_, _, _ = memd.ParseLEB128(b)
	}))
}

func BenchmarkAppendUpsert256(b *testing.B) {
	p := memd.Packet{
		Magic: memd.MagicReq, Opcode: memd.OpSet, Extras: make([]byte, 8), Key: key8,
		Value: make([]byte, 256),
	}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.AppendTo(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseGet256(b *testing.B) {
	src := memd.Packet{Magic: memd.MagicRes, Frames: []byte{2, 0, 6}, Extras: make([]byte, 4), Value: make([]byte, 256)}
	wire, err := src.AppendTo(nil)
	require.NoError(b, err)
	var p memd.Packet
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Parse(wire, 0); err != nil {
			b.Fatal(err)
		}
	}
}
