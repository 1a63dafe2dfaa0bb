package mock_test

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// TestRandomPacketsDoNotCrash sends packets with random fields and truthful lengths, before the login and after it, to
// nodes of the oldest and the newest version. Each is answered or ends its connection; the node goes on.
func TestRandomPacketsDoNotCrash(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, version := range []string{"6.6", "8.0"} {
		c := mock.Start(t, mock.Version(version), mock.VBuckets(2))
		for range 100 {
			r := dial(t, c, c.Node(0).Addr())
			if random.IntN(4) > 0 {
				r = login(t, c, memd.FeatureXError, memd.FeatureXattr, memd.FeatureJSON, memd.FeatureSnappy,
					memd.FeatureUnorderedExecution)
			}
			var b []byte
			for range 50 {
				b = append(b, randomPacket(random)...)
			}
			_ = r.nc.SetDeadline(time.Now().Add(patience))
			_, _ = r.nc.Write(b) // the node may have ended the connection
			_ = r.nc.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, r.nc)
		}
		require.Equal(t, memd.StatusSuccess, login(t, c).call(memd.Packet{Opcode: memd.OpNoop}).Status)
	}
}

func randomPacket(random *rand.Rand) []byte {
	bytes := func(most int) []byte {
		b := make([]byte, random.IntN(most+1))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	p := memd.Packet{
		Magic: memd.MagicReq, Opcode: memd.Opcode(random.Uint32()), VBucket: uint16(random.IntN(3)),
		Opaque: random.Uint32(), Extras: bytes(30), Key: bytes(20), Value: bytes(60),
	}
	if random.IntN(2) == 0 {
		p.Extras = make([]byte, random.IntN(32))
	}
	if random.IntN(3) == 0 {
		p.Magic, p.Frames = memd.MagicReqExt, bytes(20)
	}
	if random.IntN(4) == 0 {
		p.Datatype = memd.Datatype(random.IntN(8))
	}
	if p.Opcode == memd.OpSeqnoPersistence { // waits for what may never be
		p.Opcode = memd.OpGet
	}
	b, err := p.AppendTo(nil)
	if err != nil {
		return nil
	}
	return b
}

// TestNumbersOfSixtyFourBits checks that counters and the arithmetic of paths have all bits of their numbers.
func TestNumbersOfSixtyFourBits(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, memd.FeatureXError)
	counter := func(op memd.Opcode, delta, initial uint64) memd.Packet {
		extras := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, delta), initial)
		return r.call(memd.Packet{Opcode: op, Key: []byte("n"), Extras: append(extras, 0, 0, 0, 0)})
	}
	const big = uint64(math.MaxUint64 - 1)
	require.Equal(t, big, binary.BigEndian.Uint64(counter(memd.OpIncrement, 1, big).Value))
	require.Equal(t, big+1, binary.BigEndian.Uint64(counter(memd.OpIncrement, 1, 0).Value))
	require.Equal(t, uint64(0), binary.BigEndian.Uint64(counter(memd.OpIncrement, 1, 0).Value), "it wraps")
	require.Equal(t, uint64(0), binary.BigEndian.Uint64(counter(memd.OpDecrement, big, 0).Value), "it does not")
	for _, n := range []int64{math.MaxInt64, math.MinInt64 + 1, 9007199254740993} {
		text := strconv.FormatInt(n, 10)
		p := r.call(memd.Packet{
			Opcode: memd.OpSet, Key: []byte("d"), Extras: make([]byte, 8), Value: []byte(`{"n":` + text + `}`),
		})
		require.Equal(t, memd.StatusSuccess, p.Status)
		p = r.call(memd.Packet{
			Opcode: memd.OpSubdocCounter, Key: []byte("d"), Extras: []byte{0, 1, 0}, Value: []byte("n-1"),
		})
		require.Equal(t, strconv.FormatInt(n-1, 10), string(p.Value))
	}
}
