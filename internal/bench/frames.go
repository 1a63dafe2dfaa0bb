package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// sizes are the lengths of values, one per class; a key's first byte names its class.
var sizes = [...]int{16, 256}

const (
	keyCount   = 1024 // keys per class
	keyLen     = 18
	vbuckets   = 1024
	bucketName = "plain"
)

// operation is what a job does.
type operation string

const (
	opGet    operation = "Get"
	opUpsert operation = "Upsert"
	opQuery  operation = "query" // a statement whose rows are a mebibyte
)

// classOf is the class of a value's length, or -1.
func classOf(size int) int { return slices.Index(sizes[:], size) }

// keys are the keys of one class. Their last six bytes are their number.
func keys(class int) [][]byte {
	ks := make([][]byte, keyCount)
	for i := range ks {
		ks[i] = fmt.Appendf(nil, "%d-benchmark-%06d", class, i)
	}
	return ks
}

// keyNumber is what the last six digits of a key say.
func keyNumber(key []byte) int {
	n := 0
	for _, d := range key[len(key)-6:] {
		n = n*10 + int(d-'0')
	}
	return n
}

func vbucketOf(key []byte) uint16 {
	return uint16(crc32.ChecksumIEEE(key)>>16) & 0x7fff % vbuckets
}

// nodeOf is the node of a vbucket, the same on the responder and on the hand-written client.
func nodeOf(vb uint16, nodes int) int { return int(vb) % nodes }

// value is a document's content.
func value(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	return b
}

// appendRequest appends a Get or an Upsert as every client here sends it: with the default collection's id.
func appendRequest(dst []byte, op operation, key, val []byte, vb uint16, opaque uint32) []byte {
	h := memd.Header{
		Magic: memd.MagicReq, Opcode: memd.OpGet, VBucketOrStatus: vb, Opaque: opaque,
		KeyLen: 1 + len(key),
	}
	if op == opUpsert {
		h.Opcode, h.ExtrasLen = memd.OpSet, 8
	}
	h.BodyLen = h.ExtrasLen + h.KeyLen
	if op == opUpsert {
		h.BodyLen += len(val)
	}
	dst = memd.AppendHeader(dst, h)
	if op == opUpsert {
		dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	dst = append(dst, 0)
	dst = append(dst, key...)
	if op == opUpsert {
		dst = append(dst, val...)
	}
	return dst
}

const handshakeLimit = 10 * time.Second

// dialRaw connects as the hand-written clients do: HELLO for collections, a login, the bucket.
func dialRaw(addr, bucket string) (*net.TCPConn, error) {
	nc, err := net.DialTimeout("tcp", addr, handshakeLimit) //nolint:noctx // the limit bounds it
	if err != nil {
		return nil, err
	}
	c := nc.(*net.TCPConn)
	if err := handshake(c, bucket); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func handshake(c *net.TCPConn, bucket string) error {
	if err := c.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return err
	}
	for _, p := range []memd.Packet{
		{Opcode: memd.OpHello, Key: []byte("bench"), Value: memd.AppendFeatures(nil, granted[:]...)},
		{Opcode: memd.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00bench\x00bench")},
		{Opcode: memd.OpSelectBucket, Key: []byte(bucket)},
	} {
		p.Magic = memd.MagicReq
		out, err := p.AppendTo(nil)
		if err != nil {
			return err
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		var head [memd.HeaderLen]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		if s := memd.Status(binary.BigEndian.Uint16(head[6:])); s != memd.StatusSuccess {
			return fmt.Errorf("%v was answered with %v", p.Opcode, s)
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[8:]))); err != nil {
			return err
		}
	}
	return c.SetDeadline(time.Time{})
}

var errOutOfStep = errors.New("an answer does not belong to any request")
