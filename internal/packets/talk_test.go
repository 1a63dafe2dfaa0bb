package packets

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

var start = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func packet(t testing.TB, p memd.Packet) []byte {
	t.Helper()
	b, err := p.AppendTo(nil)
	require.NoError(t, err)
	return b
}

func request(t testing.TB, op memd.Opcode, opaque uint32, key string) []byte {
	return packet(t, memd.Packet{Magic: memd.MagicReq, Opcode: op, Opaque: opaque, Key: []byte(key)})
}

func answer(t testing.TB, op memd.Opcode, opaque uint32, st memd.Status, value string) []byte {
	return packet(t, memd.Packet{Magic: memd.MagicRes, Opcode: op, Opaque: opaque, Status: st, Value: []byte(value)})
}

// kinds are the records in short: what and which opaque.
func kinds(records []Record) (out []string) {
	for i := range records {
		r := &records[i]
		if r.Kind == Note {
			out = append(out, "note: "+r.Detail)
			continue
		}
		out = append(out, fmt.Sprintf("%s %s %d", r.Kind, r.Name(), r.Opaque))
	}
	return out
}

func TestPacketsAreFoundInPiecesOfAnySize(t *testing.T) {
	stream := append(request(t, memd.OpGet, 1, "a"), request(t, memd.OpDelete, 2, "b")...)
	for size := 1; size <= len(stream); size++ {
		talk := &Talk{Conn: 1, Client: "c:1", Node: "n:1"}
		var all []Record
		for left := stream; len(left) > 0; {
			n := min(size, len(left))
			all = append(all, talk.Take(FromClient, left[:n], start)...)
			left = left[n:]
		}
		require.Equal(t, []string{"request GET 1", "request DELETE 2"}, kinds(all), "pieces of %d bytes", size)
		require.Equal(t, "b", string(all[1].Key))
		require.Equal(t, "c:1", all[0].Client)
	}
}

func TestAnswersHaveTheTimeSinceTheirRequests(t *testing.T) {
	talk := &Talk{Client: "c:1", Node: "n:1"}
	talk.Take(FromClient, request(t, memd.OpGet, 7, "a"), start)
	talk.Take(FromClient, request(t, memd.OpStat, 8, ""), start)
	got := talk.Take(FromNode, packet(t, memd.Packet{
		Magic: memd.MagicResExt, Opcode: memd.OpGet, Opaque: 7, Status: memd.StatusKeyNotFound,
		Frames: []byte{0x02, 0x00, 0x64}, // 100 as the protocol writes durations
	}), start.Add(time.Millisecond))
	require.Len(t, got, 1)
	require.True(t, got[0].Answered && got[0].Failed())
	require.Equal(t, time.Millisecond, got[0].Took)
	require.InDelta(t, memd.DecodeServerDuration(100)*1e3, float64(got[0].Server), 1)
	for i, last := range []bool{false, false, true} { // an answer of several packets
		key := "k"
		if last {
			key = ""
		}
		r := talk.Take(FromNode, packet(t, memd.Packet{
			Magic: memd.MagicRes, Opcode: memd.OpStat, Opaque: 8, Key: []byte(key),
		}), start.Add(time.Second))
		require.True(t, r[0].Answered, "packet %d", i)
	}
	r := talk.Take(FromNode, answer(t, memd.OpGet, 7, memd.StatusSuccess, ""), start)
	require.False(t, r[0].Answered, "it was answered before")
	r = talk.Take(FromNode, answer(t, memd.OpStat, 8, memd.StatusSuccess, ""), start)
	require.False(t, r[0].Answered, "its last packet came before")
}

func TestKeysLoseTheirCollectionOnceHelloHasAgreed(t *testing.T) {
	talk := &Talk{}
	withID := string(append(memd.AppendLEB128(nil, 0x1234), "doc"...))
	r := talk.Take(FromClient, request(t, memd.OpGet, 1, withID), start)
	require.False(t, r[0].HasCollection)
	r = talk.Take(FromNode, answer(t, memd.OpHello, 2, memd.StatusSuccess,
		string(memd.AppendFeatures(nil, memd.FeatureCollections, memd.FeatureXError))), start)
	require.Equal(t, "Collections XError", r[0].Detail)
	r = talk.Take(FromClient, request(t, memd.OpGet, 3, withID), start)
	require.True(t, r[0].HasCollection)
	require.Equal(t, uint32(0x1234), r[0].Collection)
	require.Equal(t, "doc", string(r[0].Key))
	r = talk.Take(FromClient, request(t, memd.OpSelectBucket, 4, "travel"), start)
	require.Equal(t, "travel", string(r[0].Key), "a bucket's name has no collection")
}

func TestWhatProvesAPasswordIsNotLookedAt(t *testing.T) {
	talk := &Talk{}
	for _, op := range []memd.Opcode{memd.OpSASLAuth, memd.OpSASLStep} {
		r := talk.Take(FromClient, packet(t, memd.Packet{
			Magic: memd.MagicReq, Opcode: op, Key: []byte("PLAIN"), Value: []byte("\x00user\x00hunter2"),
		}), start)
		require.NotContains(t, fmt.Sprintf("%+v", r), "hunter2")
		r = talk.Take(FromNode, packet(t, memd.Packet{
			Magic: memd.MagicRes, Opcode: op, Status: memd.StatusAuthError, Datatype: memd.DatatypeJSON,
			Value: []byte(`{"error":{"context":"hunter2"}}`),
		}), start)
		require.NotContains(t, fmt.Sprintf("%+v", r), "hunter2")
	}
}

func TestSidesAreKnownByTheFirstPacket(t *testing.T) {
	for name, first := range map[string][]byte{
		"an answer": answer(t, memd.OpGet, 1, memd.StatusSuccess, "v"),
		"a push": packet(t, memd.Packet{
			Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange,
			Extras: make([]byte, 16),
		}),
	} {
		talk := &Talk{Client: "a:1", Node: "b:2"} // a capture has taken the node for the client
		r := talk.Take(FromClient, first, start)
		require.Equal(t, "b:2", r[0].Client, name)
		require.Equal(t, "a:1", r[0].Node, name)
		r = talk.Take(FromNode, request(t, memd.OpGet, 2, "k"), start)
		require.Equal(t, Request, r[0].Kind)
	}
}

func TestStreamsThatCannotBeRead(t *testing.T) {
	talk := &Talk{}
	r := talk.Take(FromClient, []byte{0x16, 0x03, 0x01, 0x02, 0x00}, start)
	require.Equal(t, []string{"note: the connection speaks TLS: its packets cannot be read"}, kinds(r))
	require.Empty(t, talk.Take(FromNode, []byte{0x16, 0x03, 0x03, 0x00}, start))

	talk = &Talk{}
	require.Len(t, talk.Take(FromClient, request(t, memd.OpGet, 1, "k"), start), 1)
	r = talk.Take(FromClient, []byte("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"), start)
	require.Len(t, r, 1)
	require.Contains(t, r[0].Detail, "the client sends what is not the protocol")
	require.Empty(t, talk.Take(FromClient, []byte("more"), start))
	r = talk.Take(FromClient, request(t, memd.OpGet, 2, "key that is long enough"), start)
	require.Equal(t, []string{"note: packets can be read again", "request GET 2"}, kinds(r))

	gap := talk.Gap(FromClient, 10, start)
	require.Equal(t, "10 bytes of the client are missing in the capture", gap.Detail)
	require.Empty(t, talk.Take(FromClient, []byte("the end of a packet"), start))
	r = talk.Take(FromClient, request(t, memd.OpGet, 3, "key that is long enough"), start)
	require.Len(t, r, 2)
}

func TestRequestsWithoutAnswersAreForgotten(t *testing.T) {
	talk := &Talk{}
	for i := range uint32(maxPending + 10) {
		talk.Take(FromClient, request(t, memd.OpGetQ, i, "k"), start.Add(time.Duration(i)))
	}
	require.LessOrEqual(t, len(talk.pending), maxPending)
	r := talk.Take(FromNode, answer(t, memd.OpGetQ, maxPending+9, memd.StatusSuccess, ""), start.Add(time.Hour))
	require.True(t, r[0].Answered, "the newest are kept")
}

func FuzzTalk(f *testing.F) {
	f.Add(request(f, memd.OpGet, 1, "k"), answer(f, memd.OpGet, 1, memd.StatusSuccess, "v"), 5)
	f.Add([]byte{0x16, 0x03}, []byte("HTTP/1.1 400 Bad Request"), 1)
	f.Add(answer(f, memd.OpHello, 1, memd.StatusSuccess, "\x00\x12"), packet(f, memd.Packet{
		Magic: memd.MagicReqExt, Opcode: memd.OpSet, Frames: []byte{0x13, 1, 0, 0}, Key: []byte("\x80\x01k"),
	}), 7)
	f.Fuzz(func(t *testing.T, client, node []byte, size int) {
		size = max(size%64, 1)
		talk := &Talk{}
		for side, b := range [][]byte{client, node} {
			for len(b) > 0 {
				n := min(size, len(b))
				for _, r := range talk.Take(Side(side), b[:n], start) {
					_, _ = r.Name(), r.Failed()
					require.LessOrEqual(t, len(r.Key), len(client)+len(node))
				}
				b = b[n:]
			}
		}
		require.LessOrEqual(t, cap(talk.halves[0].buf)+cap(talk.halves[1].buf), 4*(len(client)+len(node))+1<<17)
	})
}
