package packets

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// segment is one TCP segment of a capture.
type segment struct {
	fromNode bool
	syn      bool
	seq      uint32
	data     []byte
}

// captured is a capture of segments between a client and a node, a millisecond apart.
func captured(t testing.TB, ng bool, segments ...segment) []byte {
	t.Helper()
	var file bytes.Buffer
	var write func(gopacket.CaptureInfo, []byte) error
	if ng {
		w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeEthernet)
		require.NoError(t, err)
		write = func(ci gopacket.CaptureInfo, b []byte) error {
			return errors.Join(w.WritePacket(ci, b), w.Flush())
		}
	} else {
		w := pcapgo.NewWriter(&file)
		require.NoError(t, w.WriteFileHeader(65536, layers.LinkTypeEthernet))
		write = w.WritePacket
	}
	for i, s := range segments {
		eth := layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4}
		ip := layers.IPv4{
			Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP,
			SrcIP: net.IPv4(10, 0, 0, 1), DstIP: net.IPv4(10, 0, 0, 9),
		}
		tcp := layers.TCP{
			SrcPort: 41000, DstPort: 11210, Seq: s.seq, SYN: s.syn, ACK: !s.syn || s.fromNode, Window: 512,
		}
		if s.fromNode {
			ip.SrcIP, ip.DstIP, tcp.SrcPort, tcp.DstPort = ip.DstIP, ip.SrcIP, tcp.DstPort, tcp.SrcPort
		}
		require.NoError(t, tcp.SetNetworkLayerForChecksum(&ip))
		b := gopacket.NewSerializeBuffer()
		filled := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
		require.NoError(t, gopacket.SerializeLayers(b, filled, &eth, &ip, &tcp, gopacket.Payload(s.data)))
		require.NoError(t, write(gopacket.CaptureInfo{
			Timestamp:     start.Add(time.Duration(i) * time.Millisecond),
			CaptureLength: len(b.Bytes()), Length: len(b.Bytes()),
		}, b.Bytes()))
	}
	return file.Bytes()
}

func read(t testing.TB, file []byte, ports ...int) []Record {
	t.Helper()
	if len(ports) == 0 {
		ports = DefaultPorts()
	}
	var all []Record
	require.NoError(t, ReadCapture(bytes.NewReader(file), ports, func(r Record) error {
		all = append(all, r)
		return nil
	}))
	return all
}

func TestCapturesAreRead(t *testing.T) {
	get, reply := request(t, memd.OpGet, 1, "doc"), answer(t, memd.OpGet, 1, memd.StatusSuccess, "value")
	first := segment{seq: 101, data: get[:10]}
	second := segment{seq: 111, data: get[10:]}
	both := []segment{
		{syn: true, seq: 100},
		{syn: true, seq: 500, fromNode: true},
		first, second,
		{seq: 501, data: reply, fromNode: true},
	}
	disordered := []segment{both[0], both[1], second, first, first, both[4]}
	late := both[2:] // the capture began when the connection was there
	for name, segments := range map[string][]segment{
		"in order": both, "disordered and twice": disordered, "late": late,
	} {
		for _, ng := range []bool{false, true} {
			all := read(t, captured(t, ng, segments...))
			require.Equal(t, []string{"request GET 1", "answer GET 1"}, kinds(all), "%s, pcapng %v", name, ng)
			require.Equal(t, "10.0.0.1:41000", all[0].Client)
			require.Equal(t, "10.0.0.9:11210", all[1].Node)
			require.Equal(t, 1, all[0].Conn)
			require.True(t, all[1].Answered)
			require.Positive(t, all[1].Took)
		}
	}
	require.Empty(t, read(t, captured(t, false, both...), 9999), "other ports are left out")
}

func TestAMissingSegmentIsSaidAndPassedOver(t *testing.T) {
	one, two, three := request(t, memd.OpGet, 1, "a"), request(t, memd.OpGet, 2, "b"), request(t, memd.OpGet, 3, "c")
	all := read(t, captured(t, false,
		segment{syn: true, seq: 100}, segment{seq: 101, data: one},
		segment{seq: 101 + uint32(len(one)+len(two)), data: three}))
	require.Equal(t, []string{
		"request GET 1", "note: 25 bytes of the client are missing in the capture",
		"note: packets can be read again", "request GET 3",
	}, kinds(all))
}

func TestWhatIsNoCapture(t *testing.T) {
	whole := captured(t, false, segment{syn: true, seq: 100}, segment{seq: 101, data: request(t, memd.OpGet, 1, "a")})
	for name, file := range map[string][]byte{
		"nothing": nil, "text": []byte("this is a text"), "cut": whole[:len(whole)-3], "short": whole[:2],
	} {
		err := ReadCapture(bytes.NewReader(file), DefaultPorts(), func(Record) error { return nil })
		var wrong *CaptureError
		require.ErrorAs(t, err, &wrong, name)
	}
	enough := errors.New("enough")
	err := ReadCapture(bytes.NewReader(whole), DefaultPorts(), func(Record) error { return enough })
	require.ErrorIs(t, err, enough)
}

func FuzzCapture(f *testing.F) {
	get := request(f, memd.OpGet, 1, "doc")
	segments := []segment{{syn: true, seq: 100}, {seq: 101, data: get[:9]}, {seq: 110, data: get[9:]}}
	f.Add(captured(f, false, segments...))
	f.Add(captured(f, true, segments...))
	f.Fuzz(func(t *testing.T, file []byte) {
		n := 0
		_ = ReadCapture(bytes.NewReader(file), DefaultPorts(), func(Record) error {
			if n++; n > 1000 {
				return errors.New("enough")
			}
			return nil
		})
	})
}
