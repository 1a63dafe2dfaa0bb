package couchbasemock_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/couchbasemock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// attach makes a cluster take control commands.
func attach(t testing.TB, c *mock.Cluster) *couchbasemock.Control {
	t.Helper()
	x, err := couchbasemock.Attach(c)
	require.NoError(t, err)
	return x
}

// raw is a client that sends exactly what a test says.
type raw struct {
	t  testing.TB
	nc net.Conn
}

func dial(t testing.TB, c *mock.Cluster, node int) *raw {
	t.Helper()
	nc, err := c.Dial(t.Context(), "tcp", c.Node(node).Addr())
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	return &raw{t, nc}
}

// login is a connection to a node that is ready for operations on the bucket "default".
func login(t testing.TB, c *mock.Cluster, node int, more ...memd.Feature) *raw {
	t.Helper()
	r := dial(t, c, node)
	fs := append([]memd.Feature{
		memd.FeatureMutationSeqno, memd.FeatureXError, memd.FeatureJSON,
		memd.FeatureCollections,
	}, more...)
	for _, p := range []memd.Packet{
		{Opcode: memd.OpHello, Value: memd.AppendFeatures(nil, fs...)},
		{Opcode: memd.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00Administrator\x00password")},
		{Opcode: memd.OpSelectBucket, Key: []byte("default")},
	} {
		require.Equal(t, memd.StatusSuccess, r.call(p).Status, "%v", p.Opcode)
	}
	return r
}

func (r *raw) send(p memd.Packet) {
	r.t.Helper()
	p.Magic = memd.MagicReq
	b, err := p.AppendTo(nil)
	require.NoError(r.t, err)
	_, err = r.nc.Write(b)
	require.NoError(r.t, err)
}

func (r *raw) read() (p memd.Packet, err error) {
	head := make([]byte, memd.HeaderLen)
	if _, err := io.ReadFull(r.nc, head); err != nil {
		return p, err
	}
	h, err := memd.ParseHeader(head, 0)
	if err != nil {
		return p, err
	}
	body := make([]byte, h.BodyLen)
	if _, err := io.ReadFull(r.nc, body); err != nil {
		return p, err
	}
	p.SetBody(&h, body)
	return p, nil
}

// call sends one request and reads its answer.
func (r *raw) call(p memd.Packet) memd.Packet {
	r.t.Helper()
	r.send(p)
	answer, err := r.read()
	require.NoError(r.t, err)
	require.Equal(r.t, p.Opcode, answer.Opcode)
	return answer
}

// silent checks that nothing arrives before a NOOP's answer does.
func (r *raw) silent() {
	r.t.Helper()
	require.Equal(r.t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpNoop}).Status)
}

func docKey(key string) []byte { return append([]byte{0}, key...) }

func getPacket(key string) memd.Packet { return memd.Packet{Opcode: memd.OpGet, Key: docKey(key)} }

func setPacket(key, value string, expiry byte) memd.Packet {
	return memd.Packet{Opcode: memd.OpSet, Key: docKey(key), Value: []byte(value), Extras: []byte{
		0, 0, 0, 0, 0, 0, 0,
		expiry,
	}}
}

func (r *raw) set(key, value string) memd.Packet {
	r.t.Helper()
	p := r.call(setPacket(key, value, 0))
	require.Equal(r.t, memd.StatusSuccess, p.Status)
	return p
}

func (r *raw) body(key string) string {
	r.t.Helper()
	p := r.call(getPacket(key))
	require.Equal(r.t, memd.StatusSuccess, p.Status)
	return string(p.Value)
}
