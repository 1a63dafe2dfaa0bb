package services_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// writer stores documents in the bucket "default", over node 0's KV port.
type writer struct {
	t  testing.TB
	nc net.Conn
}

func documents(t testing.TB, c *mock.Cluster) *writer {
	t.Helper()
	nc, err := c.Dial(t.Context(), "tcp", c.Node(0).Addr())
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	w := &writer{t, nc}
	w.call(memd.Packet{Opcode: memd.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00Administrator\x00password")})
	w.call(memd.Packet{Opcode: memd.OpSelectBucket, Key: []byte("default")})
	return w
}

func (w *writer) store(id, doc string) {
	w.t.Helper()
	w.call(memd.Packet{Opcode: memd.OpSet, Key: []byte(id), Extras: make([]byte, 8), Value: []byte(doc)})
}

func (w *writer) call(p memd.Packet) {
	w.t.Helper()
	p.Magic = memd.MagicReq
	b, err := p.AppendTo(nil)
	require.NoError(w.t, err)
	_, err = w.nc.Write(b)
	require.NoError(w.t, err)
	head := make([]byte, memd.HeaderLen)
	_, err = io.ReadFull(w.nc, head)
	require.NoError(w.t, err)
	h, err := memd.ParseHeader(head, 0)
	require.NoError(w.t, err)
	_, err = io.CopyN(io.Discard, w.nc, int64(h.BodyLen))
	require.NoError(w.t, err)
	require.Equal(w.t, memd.StatusSuccess, memd.Status(h.VBucketOrStatus), "%v", p.Opcode)
}
