package packets

import (
	"bufio"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/gopacket/gopacket/reassembly"
)

// Limits of what a capture can make the reader hold: pages of about 2 KB that wait for a missing segment.
const (
	maxPages     = 1 << 15
	maxConnPages = 1 << 11
)

// CaptureError is a file that is no capture, or one that ends in the middle.
type CaptureError struct{ Err error }

func (e *CaptureError) Error() string { return "reading the capture: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *CaptureError) Unwrap() error { return e.Err }

// ReadCapture reads a capture in the form of pcap or pcapng and gives what was said on connections with one of the
// ports, in order. It fails with a *CaptureError, or with what each returns.
func ReadCapture(r io.Reader, ports []int, each func(Record) error) error {
	source, link, err := openCapture(r)
	if err != nil {
		return &CaptureError{err}
	}
	f := &flows{each: each}
	a := reassembly.NewAssembler(reassembly.NewStreamPool(f))
	a.MaxBufferedPagesTotal, a.MaxBufferedPagesPerConnection = maxPages, maxConnPages
	for f.err == nil {
		data, ci, err := source.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			a.FlushAll()
			return errors.Join(&CaptureError{err}, f.err)
		}
		f.segment(a, link, data, ci, ports)
	}
	a.FlushAll()
	return f.err
}

// openCapture finds out which form the capture has.
func openCapture(r io.Reader) (gopacket.PacketDataSource, gopacket.Decoder, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(4)
	if err != nil {
		return nil, nil, err
	}
	if string(head) == "\n\r\r\n" { // the section header of pcapng
		ng, err := pcapgo.NewNgReader(b, pcapgo.DefaultNgReaderOptions)
		if err != nil {
			return nil, nil, err
		}
		return ng, ng.LinkType(), nil
	}
	old, err := pcapgo.NewReader(b)
	if err != nil {
		return nil, nil, err
	}
	return old, old.LinkType(), nil
}

// flows gives each TCP connection a talk.
type flows struct {
	each  func(Record) error
	err   error
	conns int
}

// segment hands one captured packet to its connection.
func (f *flows) segment(a *reassembly.Assembler, link gopacket.Decoder, data []byte, ci gopacket.CaptureInfo,
	ports []int,
) {
	p := gopacket.NewPacket(data, link, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	tcp, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
	if !ok || p.NetworkLayer() == nil {
		return
	}
	if !slices.Contains(ports, int(tcp.SrcPort)) && !slices.Contains(ports, int(tcp.DstPort)) {
		return
	}
	a.AssembleWithContext(p.NetworkLayer().NetworkFlow(), tcp, moment(ci))
}

// moment is when a segment was seen.
type moment gopacket.CaptureInfo

// GetCaptureInfo implements reassembly.AssemblerContext.
func (m moment) GetCaptureInfo() gopacket.CaptureInfo { return gopacket.CaptureInfo(m) }

// New implements reassembly.StreamFactory.
func (f *flows) New(network, transport gopacket.Flow, _ *layers.TCP, _ reassembly.AssemblerContext) reassembly.Stream {
	f.conns++
	return &flow{f: f, talk: Talk{
		Conn:   f.conns,
		Client: endpoint(network.Src(), transport.Src()), Node: endpoint(network.Dst(), transport.Dst()),
	}}
}

func endpoint(host, port gopacket.Endpoint) string {
	n := 0
	if raw := port.Raw(); len(raw) == 2 {
		n = int(be(raw))
	}
	return net.JoinHostPort(host.String(), strconv.Itoa(n))
}

// flow is one TCP connection of a capture.
type flow struct {
	f     *flows
	talk  Talk
	begun [2]bool
}

// Accept implements reassembly.Stream: a connection that was there before the capture is read, too.
func (s *flow) Accept(_ *layers.TCP, _ gopacket.CaptureInfo, dir reassembly.TCPFlowDirection, _ reassembly.Sequence,
	start *bool, _ reassembly.AssemblerContext,
) bool {
	if side := sideOf(dir); !s.begun[side] {
		*start, s.begun[side] = true, true
	}
	return true
}

func sideOf(dir reassembly.TCPFlowDirection) Side {
	if dir == reassembly.TCPDirClientToServer {
		return FromClient
	}
	return FromNode
}

// ReassembledSG implements reassembly.Stream.
func (s *flow) ReassembledSG(sg reassembly.ScatterGather, ac reassembly.AssemblerContext) {
	dir, _, _, skip := sg.Info()
	at := ac.GetCaptureInfo().Timestamp
	if skip != 0 {
		s.tell(s.talk.Gap(sideOf(dir), max(skip, 0), at))
	}
	available, _ := sg.Lengths()
	for _, r := range s.talk.Take(sideOf(dir), sg.Fetch(available), at) {
		s.tell(r)
	}
}

// ReassemblyComplete implements reassembly.Stream.
func (s *flow) ReassemblyComplete(reassembly.AssemblerContext) bool { return true }

func (s *flow) tell(r Record) {
	if s.f.err == nil {
		s.f.err = s.f.each(r)
	}
}

// DefaultPorts are those that nodes listen on for key-value connections unless they were told otherwise, and the one of
// a cluster_run.
func DefaultPorts() []int { return []int{11210, 11207, 12000} }
