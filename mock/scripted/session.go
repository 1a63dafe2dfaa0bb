package scripted

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/couchcore/couchcore/memd"
)

// maxBody is the longest request body that a node reads.
const maxBody = 64 << 20

// Session is one connection of a client to a node.
type Session struct {
	Node *Node
	Conn net.Conn

	writing  sync.Mutex // orders whole packets on Conn; no other lock is taken under it
	mu       sync.Mutex
	bucket   string
	features memd.Features
}

// Bucket is the bucket that the client has selected, or empty.
func (s *Session) Bucket() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bucket
}

// Features are those that HELLO has granted.
func (s *Session) Features() memd.Features {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.features
}

// Raw writes bytes as they are.
func (s *Session) Raw(b []byte) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, _ = s.Conn.Write(b) // the client may have gone
}

// Send writes one packet, which may be a request of the server's own. It closes the connection if the packet cannot be
// encoded.
func (s *Session) Send(p memd.Packet) {
	b, err := p.AppendTo(nil)
	if err != nil {
		_ = s.Conn.Close()
		return
	}
	s.Raw(b)
}

// Reply answers a request.
func (s *Session) Reply(p *memd.Packet, status memd.Status, extras, value []byte) {
	s.ReplyTyped(p, status, 0, extras, value)
}

// ReplyTyped answers a request with a datatype.
func (s *Session) ReplyTyped(p *memd.Packet, status memd.Status, datatype memd.Datatype, extras, value []byte) {
	s.Send(memd.Packet{
		Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque, Status: status, Datatype: datatype, Extras: extras,
		Value: value, CAS: 1,
	})
}

// Key is a request's key without the id of its collection.
func (s *Session) Key(p *memd.Packet) string {
	key := p.Key
	if s.Features().Has(memd.FeatureCollections) && len(key) > 0 {
		if _, tail, err := memd.ParseLEB128(key); err == nil {
			key = tail
		}
	}
	return string(key)
}

// serve reads requests until the connection ends.
func (s *Session) serve() {
	defer s.Node.running.Done()
	defer func() {
		s.Node.forget(s)
		_ = s.Conn.Close()
	}()
	var pending []byte
	chunk := make([]byte, 64<<10)
	for {
		count, err := s.Conn.Read(chunk)
		if err != nil {
			return
		}
		pending = append(pending, chunk[:count]...)
		for len(pending) > 0 {
			var probe, p memd.Packet
			size, err := probe.Parse(pending, maxBody)
			if errors.Is(err, memd.ErrShort) {
				break
			}
			if err != nil {
				return
			}
			own := append([]byte(nil), pending[:size]...) // a hook may keep the packet
			if _, err := p.Parse(own, maxBody); err != nil {
				return
			}
			pending = pending[size:]
			if hook := s.Node.saw(p.Opcode); hook == nil || !hook(s, &p) {
				s.Default(&p)
			}
		}
	}
}

// Default answers a request as a minimal node does. A hook may call it after its own work.
func (s *Session) Default(p *memd.Packet) {
	c := s.Node.Cluster
	switch p.Opcode {
	case memd.OpHello:
		s.Reply(p, 0, nil, s.grant(p.Value))
	case memd.OpGetErrorMap:
		s.Reply(p, 0, nil, []byte(c.errorMap()))
	case memd.OpSASLListMechs:
		s.Reply(p, 0, nil, []byte(c.mechanisms()))
	case memd.OpSelectBucket:
		s.mu.Lock()
		s.bucket = string(p.Key)
		s.mu.Unlock()
		s.Reply(p, 0, nil, nil)
	case memd.OpGetClusterConfig:
		s.ReplyTyped(p, 0, memd.DatatypeJSON, nil, c.clusterMap(s.Node, s.Bucket()))
	case memd.OpGet:
		value, ok := c.Document(s.Key(p))
		if !ok {
			s.Reply(p, memd.StatusKeyNotFound, nil, nil)
			return
		}
		s.Reply(p, 0, make([]byte, 4), value)
	case memd.OpSet, memd.OpAdd, memd.OpReplace:
		c.SetDocument(s.Key(p), p.Value)
		s.Reply(p, 0, make([]byte, 16), nil)
	case memd.OpCollectionsGetID:
		s.Reply(p, 0, []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 8}, nil)
	default:
		s.Reply(p, 0, nil, nil)
	}
}

// grant answers HELLO's list with the features that the cluster has.
func (s *Session) grant(asked []byte) (granted []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(asked) > 1 {
		f := memd.Feature(binary.BigEndian.Uint16(asked))
		asked = asked[2:]
		if s.Node.Cluster.Features[f] {
			granted = binary.BigEndian.AppendUint16(granted, uint16(f))
			s.features = s.features.With(f)
		}
	}
	return granted
}
