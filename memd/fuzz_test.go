package memd_test

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"unsafe"

	gmemd "github.com/couchbase/gocbcore/v10/memd"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

const fuzzLimit = 1 << 20

// within reports whether part lies inside whole and cannot grow into what follows it.
func within(part, whole []byte) bool {
	if cap(part) == 0 {
		return true
	}
	if cap(part) != len(part) {
		return false
	}
	start, base := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return start >= base && start+uintptr(len(part)) <= base+uintptr(len(whole))
}

// FuzzParse (F1) reads a stream of packets, whole and with its end cut off at a point. Nothing that is parsed is
// copied, every step consumes or fails, and a cut changes no verdict but "incomplete".
func FuzzParse(f *testing.F) {
	var all []byte
	for _, g := range goldens() {
		wire := readHex(f, goldenFile(g.name))
		f.Add(wire, uint16(len(wire)/2))
		all = append(all, wire...)
	}
	f.Add(all, uint16(1000))
	f.Add([]byte{0x81, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, uint16(8))
	f.Fuzz(func(t *testing.T, data []byte, split uint16) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tail := data
		var p memd.Packet
		for len(tail) > 0 {
			n, err := p.Parse(tail, fuzzLimit)
			requireSuccessAgrees(t, tail, p, n, err)
			if err != nil {
				break
			}
			if n < memd.HeaderLen || n > len(tail) {
				t.Fatalf("took %d of %d bytes", n, len(tail))
			}
			for _, part := range [][]byte{p.Frames, p.Extras, p.Key, p.Value} {
				if !within(part, tail[:n]) {
					t.Fatal("a part lies outside of its packet")
				}
			}
			for frames := p.Frames; len(frames) > 0; {
				_, body, next, err := memd.NextFrame(frames)
				if err != nil {
					break
				}
				if len(next) >= len(frames) || !within(body, p.Frames) {
					t.Fatal("a frame lies outside of the framing extras")
				}
				frames = next
			}
			tail = tail[n:]
		}
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(4*len(data)+64<<10); got > most {
			t.Fatalf("allocated %d bytes for %d", got, len(data))
		}

		cut := int(split) % (len(data) + 1)
		var whole, part memd.Packet
		nWhole, errWhole := whole.Parse(data, fuzzLimit)
		nPart, errPart := part.Parse(data[:cut:cut], fuzzLimit)
		switch {
		case errPart == nil:
			require.NoError(t, errWhole)
			require.Equal(t, nWhole, nPart)
			requireSame(t, whole, part)
		case errors.Is(errPart, memd.ErrShort):
			require.Greater(t, nPart, cut, "more bytes are needed than there are")
			require.LessOrEqual(t, nPart, nWhole)
		default:
			require.ErrorIs(t, errWhole, errors.Unwrap(errPart), "a refused beginning is refused in full")
		}
	})
}

// requireSuccessAgrees wants of ParseSuccess what Parse has said of the same bytes, whatever the packet held before.
func requireSuccessAgrees(t *testing.T, b []byte, p memd.Packet, n int, err error) {
	used := memd.Packet{
		VBucket: 7, Status: memd.StatusBusy, Key: []byte("old"), Value: []byte("old"),
		Frames: []byte("old"),
	}
	got := used.ParseSuccess(b, fuzzLimit)
	response := p.Magic == memd.MagicRes || p.Magic == memd.MagicResExt
	if err != nil || !response || p.Status != memd.StatusSuccess || len(p.Key) > 0 {
		require.Zero(t, got)
		return
	}
	require.Equal(t, n, got)
	requireSame(t, p, used)
	require.Equal(t, n, used.ParseSuccess(b, 0), "no limit of the caller's own")
	if below := n - memd.HeaderLen - 1; below > 0 {
		require.Zero(t, used.ParseSuccess(b, below), "a body that is over the limit")
	}
	require.Empty(t, used.Key)
	for _, part := range [][]byte{used.Frames, used.Extras, used.Value} {
		require.Equal(t, len(part), cap(part), "an append to one part would change the next")
	}
}

// FuzzRoundTrip (F2) encodes what it parsed: the bytes come back, unless the header was an extended one without
// framing extras, and gocbcore's codec reads the same packet from them.
func FuzzRoundTrip(f *testing.F) {
	for _, g := range goldens() {
		f.Add(readHex(f, goldenFile(g.name)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p memd.Packet
		n, err := p.Parse(data, fuzzLimit)
		if err != nil {
			return
		}
		wire, err := p.AppendTo(nil)
		require.NoError(t, err)
		if p.Magic == canonical(p).Magic {
			require.Equal(t, data[:n], wire)
		}
		var again memd.Packet
		m, err := again.Parse(wire, fuzzLimit)
		require.NoError(t, err)
		require.Equal(t, len(wire), m)
		requireSame(t, canonical(p), again)
		requireAgreement(t, &again, wire)
	})
}

// FuzzFrames (F3) takes framing extras apart and puts them together again, and the other way round.
func FuzzFrames(f *testing.F) {
	for _, g := range goldens() {
		f.Add(g.p.Frames, uint16(len(g.p.Frames)), g.p.Extras)
	}
	for _, edge := range []int{14, 15, 16, 255, 270, 271} {
		f.Add([]byte{0xff, byte(edge), byte(edge)}, uint16(edge), make([]byte, edge))
	}
	f.Fuzz(func(t *testing.T, wire []byte, id uint16, data []byte) {
		for tail := wire; len(tail) > 0; {
			got, body, next, err := memd.NextFrame(tail)
			if err != nil {
				require.ErrorIs(t, err, memd.ErrFrames)
				break
			}
			require.Less(t, len(next), len(tail))
			again, err := memd.AppendFrame(nil, got, body)
			require.NoError(t, err)
			require.True(t, bytes.Equal(tail[:len(tail)-len(next)], again))
			if level, ms, ok := memd.ParseDurability(body); ok && got == memd.FrameDurability && ms != 0xffff {
				if len(body) == 1 || ms != 0 {
					require.True(t, bytes.Equal(again, memd.AppendDurability(nil, level, uint32(ms))))
				}
			}
			tail = next
		}

		out, err := memd.AppendFrame(nil, memd.FrameID(id), data)
		if id > 270 || len(data) > 270 {
			require.ErrorIs(t, err, memd.ErrEncode)
			require.Empty(t, out)
			return
		}
		require.NoError(t, err)
		got, body, tail, err := memd.NextFrame(append(out, wire...))
		require.NoError(t, err)
		require.Equal(t, memd.FrameID(id), got)
		require.True(t, bytes.Equal(data, body))
		require.True(t, bytes.Equal(wire, tail))
	})
}

// FuzzLEB128 (F4): what is accepted is canonical and at most five bytes long, and gocbcore's codec reads the same.
func FuzzLEB128(f *testing.F) {
	for _, g := range goldens() {
		f.Add(g.p.Key, g.p.Opaque)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, uint32(0xffffffff))
	f.Add([]byte{0x81, 0x00}, uint32(1))
	f.Fuzz(func(t *testing.T, wire []byte, v uint32) {
		if got, tail, err := memd.ParseLEB128(wire); err == nil {
			n := len(wire) - len(tail)
			require.LessOrEqual(t, n, 5)
			require.True(t, bytes.Equal(wire[:n], memd.AppendLEB128(nil, got)))
			theirs, m, err := gmemd.DecodeULEB128_32(wire)
			require.NoError(t, err)
			require.Equal(t, n, m)
			require.Equal(t, theirs, got)
		}
		out := memd.AppendLEB128(nil, v)
		require.Equal(t, gmemd.AppendULEB128_32(nil, v), out)
		got, tail, err := memd.ParseLEB128(append(out, wire...))
		require.NoError(t, err)
		require.Equal(t, v, got)
		require.True(t, bytes.Equal(wire, tail))
	})
}
