package memd_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/memd"
)

// TestD1LengthsAreCheckedBeforeSlicing has every way in which frames, extras and key can claim more than the body.
func TestD1LengthsAreCheckedBeforeSlicing(t *testing.T) {
	cases := 0
	for _, m := range []memd.Magic{0x80, 0x08, 0x81, 0x18, 0x82, 0x83} {
		ext := m == memd.MagicReqExt || m == memd.MagicResExt
		for _, frames := range []int{0, 1, 255} {
			if frames > 0 && !ext {
				continue
			}
			for _, extras := range []int{0, 1, 255} {
				for _, key := range []int{0, 1, 255, 65535} {
					if key > 255 && ext {
						continue
					}
					parts := frames + extras + key
					for _, body := range []int{0, parts - 1, parts, parts + 1} {
						if body < 0 {
							continue
						}
						cases++
						b := memd.AppendHeader(nil, memd.Header{
							Magic: m, FramesLen: frames, ExtrasLen: extras, KeyLen: key, BodyLen: body,
						})
						b = append(b, make([]byte, body)...)
						var p memd.Packet
						n, err := p.Parse(b, 0)
						name := fmt.Sprintf("%v frames %d extras %d key %d body %d", m, frames, extras, key, body)
						if body < parts {
							require.ErrorIs(t, err, memd.ErrLengths, name)
							var pe *memd.ParseError
							require.ErrorAs(t, err, &pe)
							require.EqualValues(t, parts, pe.Value)
							require.EqualValues(t, body, pe.Limit)
							continue
						}
						require.NoError(t, err, name)
						require.Equal(t, len(b), n)
						require.Len(t, p.Frames, frames)
						require.Len(t, p.Extras, extras)
						require.Len(t, p.Key, key)
						require.Len(t, p.Value, body-parts)
					}
				}
			}
		}
	}
	require.Greater(t, cases, 200)
}

// TestD2BodyLengthIsRefusedBeforeAllocation gives headers that announce up to 4 GiB.
func TestD2BodyLengthIsRefusedBeforeAllocation(t *testing.T) {
	header := func(body uint32) []byte {
		h := memd.AppendHeader(nil, memd.Header{Magic: memd.MagicRes})
		copy(h[8:], u32(body))
		return h
	}
	for _, c := range []struct {
		body  uint32
		limit int
		want  error
	}{
		{memd.DefaultLimit, 0, memd.ErrShort},
		{memd.DefaultLimit + 1, 0, memd.ErrTooLarge},
		{memd.DefaultLimit + 1, -1, memd.ErrTooLarge},
		{1 << 31, 0, memd.ErrTooLarge},
		{math.MaxUint32, 0, memd.ErrTooLarge},
		{1000, 1000, memd.ErrShort},
		{1001, 1000, memd.ErrTooLarge},
		{memd.DefaultLimit + 1, memd.DefaultLimit + 1, memd.ErrShort},
	} {
		b := header(c.body)
		var before, after runtime.MemStats
		var p memd.Packet
		runtime.ReadMemStats(&before)
		n, err := p.Parse(b, c.limit)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, c.want, c)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<10))
		if c.want == memd.ErrShort {
			require.Equal(t, memd.HeaderLen+int(c.body), n)
			continue
		}
		var pe *memd.ParseError
		require.ErrorAs(t, err, &pe)
		require.EqualValues(t, c.body, pe.Value)
		require.Contains(t, err.Error(), "body length")
	}
}

// TestD3LengthsThatDoNotFitAreRefused: encode then parse is the identity, or a local error that leaves no byte.
func TestD3LengthsThatDoNotFitAreRefused(t *testing.T) {
	dst := []byte("before")
	for _, frames := range [][]byte{nil, frame(memd.FramePreserveTTL, nil)} {
		for _, m := range []memd.Magic{memd.MagicReq, memd.MagicRes} {
			for keyLen := 0; keyLen <= 400; keyLen++ {
				p := memd.Packet{
					Magic: m, Opcode: memd.OpSet, Frames: frames, Key: bytes.Repeat([]byte{'k'}, keyLen),
					Value: []byte("v"),
				}
				out, err := p.AppendTo(dst)
				if keyLen > 255 && frames != nil {
					require.ErrorIs(t, err, memd.ErrEncode)
					var ee *memd.EncodeError
					require.ErrorAs(t, err, &ee)
					require.Equal(t, memd.EncodeError{Field: "key length", Len: keyLen, Limit: 255}, *ee)
					require.Equal(t, "before", string(out))
					continue
				}
				require.NoError(t, err)
				var got memd.Packet
				n, err := got.Parse(out[len(dst):], 0)
				require.NoError(t, err)
				require.Equal(t, len(out)-len(dst), n)
				requireSame(t, canonical(p), got)
			}
		}
	}
}

// TestEncodeRefusesEveryFieldThatDoesNotFit names the field and the limit, and leaves dst as it was.
func TestEncodeRefusesEveryFieldThatDoesNotFit(t *testing.T) {
	big := func(n int) []byte { return make([]byte, n) }
	for _, c := range []struct {
		p     memd.Packet
		field string
		limit int
	}{
		{memd.Packet{Magic: memd.MagicReq, Key: big(65536)}, "key length", 65535},
		{memd.Packet{Magic: memd.MagicReq, Extras: big(256)}, "extras length", 255},
		{memd.Packet{Magic: memd.MagicReq, Frames: big(256)}, "framing extras length", 255},
		{memd.Packet{Magic: memd.MagicServerReq, Frames: big(1)}, "length of framing extras in a server packet", 0},
		{memd.Packet{Magic: memd.MagicServerRes, Frames: big(1)}, "length of framing extras in a server packet", 0},
		{memd.Packet{Magic: 0x7f}, "magic (unknown)", 0},
		{memd.Packet{}, "magic (unknown)", 0},
	} {
		out, err := c.p.AppendTo([]byte("x"))
		require.Equal(t, "x", string(out))
		var ee *memd.EncodeError
		require.ErrorAs(t, err, &ee)
		require.Equal(t, c.field, ee.Field)
		require.Equal(t, c.limit, ee.Limit)
		require.ErrorContains(t, err, fmt.Sprintf("%s is %d, limit %d", c.field, ee.Len, c.limit))
	}
	for _, p := range []memd.Packet{
		{Magic: memd.MagicReq, Key: big(65535), Extras: big(255)},
		{Magic: memd.MagicRes, Key: big(255), Extras: big(255), Frames: big(255)},
	} {
		_, err := p.AppendTo(nil)
		require.NoError(t, err)
	}
}

// TestD4FrameLengthsAreAddedUpInFull crosses ids and lengths on both sides of every escape boundary.
func TestD4FrameLengthsAreAddedUpInFull(t *testing.T) {
	edges := []int{0, 1, 2, 13, 14, 15, 16, 17, 239, 240, 241, 254, 255, 256, 257, 269, 270}
	for _, id := range edges {
		for _, n := range edges {
			data := bytes.Repeat([]byte{0xf5}, n)
			wire, err := memd.AppendFrame([]byte{0xee}, memd.FrameID(id), data)
			require.NoError(t, err)
			wire = append(wire[1:], 0x02, 0x00, 0x06) // the frame behind it must be found

			gotID, gotData, tail, err := memd.NextFrame(wire)
			require.NoError(t, err)
			require.EqualValues(t, id, gotID)
			require.Equal(t, data, append([]byte{}, gotData...))
			nextID, nextData, tail, err := memd.NextFrame(tail)
			require.NoError(t, err)
			require.Equal(t, memd.FrameServerDuration, nextID)
			require.Equal(t, []byte{0x00, 0x06}, nextData)
			require.Empty(t, tail)

			// Cut anywhere, the first frame is either refused or whole.
			for cut := range len(wire) - 3 {
				_, _, _, err := memd.NextFrame(wire[:cut])
				require.ErrorIs(t, err, memd.ErrFrames)
			}
		}
	}
	for _, c := range []struct{ id, n int }{{271, 0}, {0, 271}, {65535, 0}, {0, 65536}} {
		out, err := memd.AppendFrame([]byte("x"), memd.FrameID(c.id), make([]byte, c.n))
		require.ErrorIs(t, err, memd.ErrEncode)
		require.Equal(t, "x", string(out))
	}
	_, _, _, err := memd.NextFrame(nil)
	require.ErrorIs(t, err, memd.ErrFrames)
}

// TestD4UnknownFramesAreSkipped finds the server duration among unknown frames.
func TestD4UnknownFramesAreSkipped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire []byte
		total := rapid.IntRange(0, 6).Draw(t, "frames")
		for range total {
			id := memd.FrameID(rapid.IntRange(4, 270).Draw(t, "id"))
			wire, _ = memd.AppendFrame(wire, id, make([]byte, rapid.IntRange(0, 270).Draw(t, "len")))
		}
		wire, err := memd.AppendFrame(wire, memd.FrameServerDuration, []byte{0x12, 0x34})
		require.NoError(t, err)
		seen := 0
		for len(wire) > 0 {
			id, data, tail, err := memd.NextFrame(wire)
			require.NoError(t, err)
			require.Less(t, len(tail), len(wire))
			wire = tail
			if seen++; id == memd.FrameServerDuration {
				require.Equal(t, []byte{0x12, 0x34}, data)
				require.Empty(t, wire)
			}
		}
		require.Equal(t, total+1, seen)
	})
}

// TestD5HeaderFollowsTheContent: nil, empty and filled framing extras, for both spellings of the magic.
func TestD5HeaderFollowsTheContent(t *testing.T) {
	for _, c := range []struct {
		magic  memd.Magic
		frames []byte
		want   string
	}{
		{memd.MagicReq, nil, "80000001"},
		{memd.MagicReq, []byte{}, "80000001"},
		{memd.MagicReq, []byte{0x50}, "08000101"},
		{memd.MagicReqExt, nil, "80000001"},
		{memd.MagicReqExt, []byte{}, "80000001"},
		{memd.MagicReqExt, []byte{0x50}, "08000101"},
		{memd.MagicRes, nil, "81000001"},
		{memd.MagicRes, []byte{}, "81000001"},
		{memd.MagicRes, []byte{0x50}, "18000101"},
		{memd.MagicResExt, nil, "81000001"},
		{memd.MagicResExt, []byte{}, "81000001"},
		{memd.MagicResExt, []byte{0x50}, "18000101"},
	} {
		p := memd.Packet{Magic: c.magic, Frames: c.frames, Key: []byte("k")}
		wire, err := p.AppendTo(nil)
		require.NoError(t, err)
		require.Equal(t, c.want, hex.EncodeToString(wire[:4]))
	}
	// An extended header without framing extras is read as what it is.
	var p memd.Packet
	_, err := p.Parse(append(memd.AppendHeader(nil, memd.Header{Magic: memd.MagicResExt, KeyLen: 1, BodyLen: 1}), 'k'),
		0)
	require.NoError(t, err)
	require.Equal(t, memd.MagicResExt, p.Magic)
	require.Equal(t, "k", string(p.Key))
}

// TestD6AllSixMagicsParse reads a stream in which a server's requests stand between responses.
func TestD6AllSixMagicsParse(t *testing.T) {
	var stream []byte
	var sent []memd.Packet
	for i, name := range []string{
		"get_res", "notification_full", "get_res_traced", "notification_brief", "set_res",
		"server_request_refused", "get_req", "set_preserve_ttl_req", "notification_old", "get_missing_res",
	} {
		wire := readHex(t, goldenFile(name))
		var p memd.Packet
		n, err := p.Parse(wire, 0)
		require.NoError(t, err, i)
		require.Equal(t, len(wire), n)
		stream, sent = append(stream, wire...), append(sent, p)
	}
	magics := map[memd.Magic]bool{}
	for _, want := range sent {
		var p memd.Packet
		n, err := p.Parse(stream, 0)
		require.NoError(t, err)
		requireSame(t, want, p)
		magics[p.Magic] = true
		stream = stream[n:]
	}
	require.Empty(t, stream)
	require.Len(t, magics, 6)

	for m := 0; m <= 0xff; m++ {
		_, err := memd.ParseHeader(append([]byte{byte(m)}, make([]byte, 23)...), 0)
		if memd.Magic(m).Valid() {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, memd.ErrMagic)
		_, err = memd.ParseHeader([]byte{byte(m)}, 0)
		require.ErrorIs(t, err, memd.ErrMagic, "one byte is enough to refuse it")
	}
}

// TestParseKeepsVBucketAndStatusApart: the two share their place in the header.
func TestParseKeepsVBucketAndStatusApart(t *testing.T) {
	for _, m := range []memd.Magic{0x80, 0x08, 0x81, 0x18, 0x82, 0x83} {
		p := memd.Packet{VBucket: 1, Status: 2, Frames: []byte{9}, Extras: []byte{9}, Key: []byte{9}, Value: []byte{9}}
		_, err := p.Parse(memd.AppendHeader(nil, memd.Header{Magic: m, VBucketOrStatus: 0x0388}), 0)
		require.NoError(t, err)
		if m.IsResponse() {
			require.Equal(t, memd.StatusUnknownCollection|0x300, p.Status)
			require.Zero(t, p.VBucket)
		} else {
			require.EqualValues(t, 0x388, p.VBucket)
			require.Zero(t, p.Status)
		}
		require.Empty(t, p.Frames)
		require.Empty(t, p.Extras)
		require.Empty(t, p.Key)
		require.Empty(t, p.Value)
	}
}
