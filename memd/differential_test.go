package memd_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	gmemd "github.com/couchbase/gocbcore/v10/memd"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// theirFeatures are those that change what gocbcore's codec lets through.
var theirFeatures = []gmemd.HelloFeature{
	gmemd.FeatureAltRequests, gmemd.FeatureSyncReplication, gmemd.FeatureDurations, gmemd.FeaturePreserveExpiry,
	gmemd.FeatureOpenTracing,
}

func theirConn(stream io.ReadWriter, more ...gmemd.HelloFeature) *gmemd.Conn {
	c := gmemd.NewConn(stream)
	for _, f := range append(more, theirFeatures...) {
		c.EnableFeature(f)
	}
	return c
}

// theirRead reads one packet with gocbcore's codec, which may panic on framing extras.
func theirRead(wire []byte, more ...gmemd.HelloFeature) (p *gmemd.Packet, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	p, n, err := theirConn(bytes.NewBuffer(bytes.Clone(wire)), more...).ReadPacket()
	if err == nil && n != len(wire) {
		err = fmt.Errorf("took %d of %d bytes", n, len(wire))
	}
	return p, err
}

// framesValid reports whether all framing extras can be taken apart.
func framesValid(frames []byte) bool {
	for len(frames) > 0 {
		_, _, tail, err := memd.NextFrame(frames)
		if err != nil {
			return false
		}
		frames = tail
	}
	return true
}

// requireAgreement reads a packet of ours with gocbcore's codec: it is refused only for what that codec does not know
// (a client's answer to a server, framing extras that overrun), and otherwise read as the same packet.
func requireAgreement(tb testing.TB, p *memd.Packet, wire []byte) {
	tb.Helper()
	theirs, err := theirRead(wire)
	if p.Magic == memd.MagicServerRes || !framesValid(p.Frames) {
		return
	}
	require.NoError(tb, err)
	requireFields(tb, p, theirs)
	require.Equal(tb, theirFrames(theirs), ourFrames(p))
	require.True(tb, bytes.Equal(theirs.Key, p.Key))
}

func requireFields(tb testing.TB, p *memd.Packet, theirs *gmemd.Packet) {
	tb.Helper()
	require.EqualValues(tb, theirs.Command, p.Opcode)
	require.Equal(tb, theirs.Datatype, uint8(p.Datatype))
	require.Equal(tb, theirs.Opaque, p.Opaque)
	require.Equal(tb, theirs.Cas, p.CAS)
	require.True(tb, bytes.Equal(theirs.Extras, p.Extras))
	require.True(tb, bytes.Equal(theirs.Value, p.Value))
	switch p.Magic {
	case memd.MagicReq, memd.MagicReqExt:
		require.Equal(tb, gmemd.CmdMagicReq, theirs.Magic)
		require.Equal(tb, theirs.Vbucket, p.VBucket)
	case memd.MagicRes, memd.MagicResExt:
		require.Equal(tb, gmemd.CmdMagicRes, theirs.Magic)
		require.EqualValues(tb, theirs.Status, p.Status)
	default:
		require.Equal(tb, gmemd.CmdMagicServerReq, theirs.Magic)
	}
}

// seen is what both codecs say about framing extras, as text. Theirs keeps ids in eight bits, and the last of a kind.
type seen struct {
	barrier, durability, stream, tracing, user, preserve, duration, read, write string
	fields                                                                      []string
}

func ourFrames(p *memd.Packet) seen {
	var s seen
	for tail := p.Frames; len(tail) > 0; {
		id, data, next, err := memd.NextFrame(tail)
		if err != nil {
			return s
		}
		tail = next
		kind := id & 0xff
		request, n := p.Magic == memd.MagicReqExt, len(data)
		switch {
		case request && kind == memd.FrameBarrier && n == 0:
			s.barrier = "set"
		case request && kind == memd.FrameDurability && (n == 1 || n == 3):
			level, ms, _ := memd.ParseDurability(data)
			s.durability = fmt.Sprint(uint8(level))
			if n == 3 {
				s.durability += fmt.Sprint(" ", ms)
			}
		case request && kind == memd.FrameDCPStreamID && n == 2:
			s.stream = fmt.Sprintf("%x", data)
		case request && kind == memd.FrameOpenTracing:
			s.tracing = fmt.Sprintf("set %x", data)
		case request && kind == memd.FramePreserveTTL:
			s.preserve = "set"
		case request && kind == memd.FrameImpersonateUser:
			s.user = fmt.Sprintf("set %x", data)
		case !request && kind == memd.FrameServerDuration && n == 2:
			s.duration = fmt.Sprint(math.Round(memd.DecodeServerDuration(binary.BigEndian.Uint16(data))))
		case !request && kind == memd.FrameReadUnits && n == 2:
			s.read = fmt.Sprint(binary.BigEndian.Uint16(data))
		case !request && kind == memd.FrameWriteUnits && n == 2:
			s.write = fmt.Sprint(binary.BigEndian.Uint16(data))
		default:
			s.fields = append(s.fields, fmt.Sprintf("%d %x", kind, data))
		}
	}
	return s
}

func theirFrames(p *gmemd.Packet) seen {
	var s seen
	if p.BarrierFrame != nil {
		s.barrier = "set"
	}
	if p.DurabilityLevelFrame != nil {
		s.durability = fmt.Sprint(uint8(p.DurabilityLevelFrame.DurabilityLevel))
		if p.DurabilityTimeoutFrame != nil {
			s.durability += fmt.Sprint(" ", p.DurabilityTimeoutFrame.DurabilityTimeout.Milliseconds())
		}
	}
	if p.StreamIDFrame != nil {
		s.stream = fmt.Sprintf("%04x", p.StreamIDFrame.StreamID)
	}
	if p.OpenTracingFrame != nil {
		s.tracing = fmt.Sprintf("set %x", p.OpenTracingFrame.TraceContext)
	}
	if p.PreserveExpiryFrame != nil {
		s.preserve = "set"
	}
	if p.UserImpersonationFrame != nil {
		s.user = fmt.Sprintf("set %x", p.UserImpersonationFrame.User)
	}
	if p.ServerDurationFrame != nil {
		s.duration = fmt.Sprint(float64(p.ServerDurationFrame.ServerDuration.Microseconds()))
	}
	if p.ReadUnitsFrame != nil {
		s.read = fmt.Sprint(p.ReadUnitsFrame.ReadUnits)
	}
	if p.WriteUnitsFrame != nil {
		s.write = fmt.Sprint(p.WriteUnitsFrame.WriteUnits)
	}
	for _, f := range p.UnsupportedFrames {
		s.fields = append(s.fields, fmt.Sprintf("%d %x", uint8(f.Type), f.Data))
	}
	return s
}

func randomBytes(r *rand.Rand, most int) []byte {
	b := make([]byte, r.IntN(most+1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// randomPacket is any packet that can be encoded: framing extras of every id, lengths on both sides of the escapes.
func randomPacket(r *rand.Rand) memd.Packet {
	magics := []memd.Magic{memd.MagicReq, memd.MagicRes, memd.MagicServerReq, memd.MagicServerRes}
	p := memd.Packet{
		Magic: magics[r.IntN(len(magics))], Opcode: memd.Opcode(r.Uint32()), Datatype: memd.Datatype(r.Uint32()),
		Opaque: r.Uint32(), CAS: r.Uint64(), Extras: randomBytes(r, 40), Key: randomBytes(r, 250),
		Value: randomBytes(r, 600),
	}
	if p.Magic.IsRequest() {
		p.VBucket = uint16(r.Uint32())
	} else {
		p.Status = memd.Status(r.Uint32())
	}
	if p.Magic != memd.MagicReq && p.Magic != memd.MagicRes {
		return p
	}
	for range r.IntN(4) {
		id := memd.FrameID(r.IntN(9))
		if r.IntN(4) == 0 {
			id = memd.FrameID(r.IntN(271))
		}
		data := randomBytes(r, 20)
		switch r.IntN(3) {
		case 0:
			data = data[:min(len(data), 3)]
		case 1:
			data = data[:min(len(data), 1)]
		}
		next, err := memd.AppendFrame(bytes.Clone(p.Frames), id, data)
		if err == nil && len(next) <= 255 {
			p.Frames = next
		}
	}
	return p
}

// TestGocbcoreReadsOurPackets encodes packets of every kind here and reads them there.
func TestGocbcoreReadsOurPackets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		p := randomPacket(r)
		wire, err := p.AppendTo(nil)
		require.NoError(t, err)
		p = canonical(p)
		requireAgreement(t, &p, wire)
	}
	for _, g := range goldens() {
		p := canonical(g.p)
		requireAgreement(t, &p, readHex(t, goldenFile(g.name)))
	}
}

// TestGocbcoreReadsOurCollectionIDs does so with collections on: the prefix is part of the key here.
func TestGocbcoreReadsOurCollectionIDs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		id := r.Uint32() >> r.IntN(32)
		key := randomBytes(r, 246)
		p := memd.Packet{Magic: memd.MagicReq, Opcode: memd.OpSet, Key: append(memd.AppendLEB128(nil, id), key...)}
		wire, err := p.AppendTo(nil)
		require.NoError(t, err)
		theirs, err := theirRead(wire, gmemd.FeatureCollections)
		require.NoError(t, err)
		require.Equal(t, id, theirs.CollectionID)
		require.True(t, bytes.Equal(key, theirs.Key))
	}
}

// theirPacket is any packet that gocbcore's encoder writes rightly: ids stay below 15, it has no escape for them.
func theirPacket(r *rand.Rand) *gmemd.Packet {
	p := &gmemd.Packet{
		Magic: gmemd.CmdMagicReq, Command: gmemd.CmdCode(r.Uint32()), Datatype: uint8(r.Uint32()), Opaque: r.Uint32(),
		Cas: r.Uint64(), Key: randomBytes(r, 240), Extras: randomBytes(r, 40), Value: randomBytes(r, 600),
	}
	if r.IntN(2) == 0 {
		p.Magic, p.Status = gmemd.CmdMagicRes, gmemd.StatusCode(r.Uint32())
		if r.IntN(2) == 0 {
			p.ServerDurationFrame = &gmemd.ServerDurationFrame{ServerDuration: time.Duration(r.IntN(120e6)) *
				time.Microsecond}
		}
	} else {
		p.Vbucket = uint16(r.Uint32())
		if r.IntN(4) == 0 {
			p.BarrierFrame = &gmemd.BarrierFrame{}
		}
		if r.IntN(4) == 0 {
			p.DurabilityLevelFrame = &gmemd.DurabilityLevelFrame{DurabilityLevel: gmemd.DurabilityLevel(r.IntN(4))}
			if r.IntN(2) == 0 {
				ms := time.Duration(r.IntN(70000)) * time.Millisecond
				p.DurabilityTimeoutFrame = &gmemd.DurabilityTimeoutFrame{DurabilityTimeout: ms}
			}
		}
		if r.IntN(4) == 0 {
			p.StreamIDFrame = &gmemd.StreamIDFrame{StreamID: uint16(r.Uint32())}
		}
		if r.IntN(4) == 0 {
			p.UserImpersonationFrame = &gmemd.UserImpersonationFrame{User: randomBytes(r, 60)}
		}
		if r.IntN(4) == 0 {
			p.PreserveExpiryFrame = &gmemd.PreserveExpiryFrame{}
		}
	}
	for range r.IntN(8) - 5 {
		f := gmemd.UnsupportedFrame{Type: 8, Data: randomBytes(r, 40)} // ids that neither codec has a meaning for
		if r.IntN(2) == 0 {
			f.Type = 14
		}
		p.UnsupportedFrames = append(p.UnsupportedFrames, f)
	}
	return p
}

// TestOurCodecReadsGocbcoresPackets encodes there and reads here.
func TestOurCodecReadsGocbcoresPackets(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	kinds := map[memd.Magic]int{}
	for range 20000 {
		theirs := theirPacket(r)
		var wire bytes.Buffer
		require.NoError(t, theirConn(&wire).WritePacket(theirs))

		var p memd.Packet
		n, err := p.Parse(wire.Bytes(), 0)
		require.NoError(t, err)
		require.Equal(t, wire.Len(), n)
		kinds[p.Magic]++
		requireFields(t, &p, theirs)
		require.True(t, bytes.Equal(theirs.Key, p.Key))

		// Their encoder rounds a server duration down, so compare with what they read back themselves.
		back, err := theirRead(wire.Bytes())
		require.NoError(t, err)
		require.Equal(t, theirFrames(back), ourFrames(&p))

		again, err := p.AppendTo(nil)
		require.NoError(t, err)
		require.True(t, bytes.Equal(wire.Bytes(), again))
	}
	for _, m := range []memd.Magic{memd.MagicReq, memd.MagicReqExt, memd.MagicRes, memd.MagicResExt} {
		require.Greater(t, kinds[m], 1000, m.String())
	}
}

// TestGocbcoreNamesTheSameNumbers compares opcodes and statuses by what gocbcore calls them, where it has a name.
func TestGocbcoreNamesTheSameNumbers(t *testing.T) {
	for theirs, ours := range map[gmemd.CmdCode]memd.Opcode{
		gmemd.CmdGet: memd.OpGet, gmemd.CmdSet: memd.OpSet, gmemd.CmdAdd: memd.OpAdd, gmemd.CmdReplace: memd.OpReplace,
		gmemd.CmdDelete: memd.OpDelete, gmemd.CmdIncrement: memd.OpIncrement, gmemd.CmdDecrement: memd.OpDecrement,
		gmemd.CmdAppend: memd.OpAppend, gmemd.CmdPrepend: memd.OpPrepend, gmemd.CmdTouch: memd.OpTouch,
		gmemd.CmdGAT: memd.OpGAT, gmemd.CmdGetLocked: memd.OpGetLocked, gmemd.CmdUnlockKey: memd.OpUnlockKey,
		gmemd.CmdGetReplica: memd.OpGetReplica, gmemd.CmdGetMeta: memd.OpGetMeta, gmemd.CmdNoop: memd.OpNoop,
		gmemd.CmdHello: memd.OpHello, gmemd.CmdGetErrorMap: memd.OpGetErrorMap, gmemd.CmdSASLAuth: memd.OpSASLAuth,
		gmemd.CmdSASLStep: memd.OpSASLStep, gmemd.CmdSASLListMechs: memd.OpSASLListMechs,
		gmemd.CmdSelectBucket: memd.OpSelectBucket, gmemd.CmdGetClusterConfig: memd.OpGetClusterConfig,
		gmemd.CmdCollectionsGetID:       memd.OpCollectionsGetID,
		gmemd.CmdCollectionsGetManifest: memd.OpCollectionsGetManifest,
	} {
		require.EqualValues(t, theirs, ours, ours.String())
	}
}
