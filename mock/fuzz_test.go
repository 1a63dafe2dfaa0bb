package mock

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// FuzzRequests executes any request on a node with one document, as a client that has logged in and has every feature.
// Nothing may panic, and every answer must be one that can be encoded.
func FuzzRequests(f *testing.F) {
	f.Add(uint8(memd.OpSet), uint8(0), []byte("\x00\x00\x00\x00\x00\x00\x00\x00"), []byte("\x00k"), []byte(`{"a":1}`), uint64(0), []byte(nil))
	f.Add(uint8(memd.OpSubdocMultiLookup), uint8(0), []byte{4}, []byte("\x00k"),
		[]byte("\xc5\x00\x00\x01a\xc5\x04\x00\x09$document"), uint64(0), []byte(nil))
	f.Add(uint8(memd.OpSubdocMultiMutation), uint8(0), []byte{1}, []byte("\x00k"),
		[]byte("\xc8\x04\x00\x01\x00\x00\x00\x01x1\xcb\x01\x00\x01\x00\x00\x00\x01a1"), uint64(0), []byte{0x11, 1})
	f.Add(uint8(memd.OpSubdocArrayInsert), uint8(0), []byte{0, 3, 0}, []byte("\x00k"), []byte("[0]1"), uint64(0),
		[]byte(nil))
	f.Add(uint8(memd.OpSetWithMeta), uint8(7), make([]byte, 30), []byte("\x00k"), []byte("\x00\x00\x00\x00{}"),
		uint64(0), []byte(nil))
	f.Add(uint8(memd.OpRangeScanCreate), uint8(1), []byte(nil), []byte(nil), []byte(`{"sampling":{"samples":1}}`), uint64(0), []byte(nil))
	f.Add(uint8(memd.OpRangeScanContinue), uint8(0), make([]byte, 28), []byte(nil), []byte(nil), uint64(0), []byte(nil))
	f.Add(uint8(memd.OpObserve), uint8(0), []byte(nil), []byte(nil), []byte("\x00\x00\x00\x02\x00k"), uint64(0),
		[]byte(nil))
	f.Add(uint8(memd.OpStat), uint8(0), []byte(nil), []byte("vbucket-details 0"), []byte(nil), uint64(0), []byte(nil))
	f.Add(uint8(memd.OpGetRandomKey), uint8(0), []byte{0, 0, 0, 0, 0xff}, []byte(nil), []byte(nil), uint64(0),
		[]byte(nil))
	f.Add(uint8(memd.OpGetKeys), uint8(0), []byte(nil), []byte("\x00k"), []byte(nil), uint64(0), []byte(nil))
	f.Fuzz(func(t *testing.T, op, datatype uint8, extras, key, value []byte, cas uint64, frames []byte) {
		c, err := New(Virtual(), Nodes(1), Bucket("default", 2))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		near, far := net.Pipe()
		defer near.Close()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		k := newConn(c.Node(0), far, false)
		defer k.close()
		k.features.Store(uint64(c.Node(0).profile.hello))
		k.bucket.Store(c.buckets["default"])
		k.user.Store(c.users[DefaultUser])
		k.newRequest(&memd.Packet{
			Magic: memd.MagicReq, Opcode: memd.OpSet, Key: []byte("\x00k"), Value: []byte(`{"a":[1]}`), Extras: make([]byte, 8),
		}).execute()
		p := &memd.Packet{
			Magic: memd.MagicReq, Opcode: memd.Opcode(op), Datatype: memd.Datatype(datatype), Extras: extras, Key: key,
			Value: value, CAS: cas,
		}
		if len(frames) > 0 {
			p.Magic, p.Frames = memd.MagicReqExt, frames
		}
		switch p.Opcode {
		case memd.OpSeqnoPersistence, memd.OpRangeScanCreate: // may wait for what never happens
			if len(value) > 64 || p.Opcode == memd.OpSeqnoPersistence {
				return
			}
		}
		rq := k.newRequest(p)
		rep, wait := rq.execute()
		if wait != nil {
			rep, _ = wait()
		}
		for _, r := range append(rep.before, rep) {
			h, err := memd.ParseHeader(rq.encode(&r, &noFault), 0)
			require.NoError(t, err)
			require.Equal(t, r.status == memd.StatusInternal, memd.Status(h.VBucketOrStatus) == memd.StatusInternal)
		}
	})
}
