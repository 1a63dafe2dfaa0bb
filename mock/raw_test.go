package mock_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/xdg-go/scram"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// raw is a client that sends exactly what a test says.
type raw struct {
	t      testing.TB
	nc     net.Conn
	opaque uint32
}

func dial(t testing.TB, c *mock.Cluster, addr string) *raw {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nc, err := c.Dial(ctx, "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	return &raw{t: t, nc: nc}
}

// send writes packets in one piece; opaques count up.
func (r *raw) send(ps ...memd.Packet) {
	r.t.Helper()
	var b []byte
	for i := range ps {
		if ps[i].Magic == 0 {
			ps[i].Magic = memd.MagicReq
		}
		r.opaque++
		ps[i].Opaque = r.opaque
		var err error
		b, err = ps[i].AppendTo(b)
		require.NoError(r.t, err)
	}
	_, err := r.nc.Write(b)
	require.NoError(r.t, err)
}

func (r *raw) read() (memd.Packet, error) {
	head := make([]byte, memd.HeaderLen)
	if _, err := io.ReadFull(r.nc, head); err != nil {
		return memd.Packet{}, err
	}
	h, err := memd.ParseHeader(head, 0)
	if err != nil {
		return memd.Packet{}, err
	}
	body := make([]byte, h.BodyLen)
	if _, err := io.ReadFull(r.nc, body); err != nil {
		return memd.Packet{}, err
	}
	var p memd.Packet
	p.SetBody(&h, body)
	return p, nil
}

// next reads the answer to the request with the opcode and opaque.
func (r *raw) next(op memd.Opcode, opaque uint32) memd.Packet {
	r.t.Helper()
	p, err := r.read()
	require.NoError(r.t, err)
	require.Equal(r.t, op, p.Opcode)
	require.Equal(r.t, opaque, p.Opaque)
	return p
}

// call sends one request and reads its answer.
func (r *raw) call(p memd.Packet) memd.Packet {
	r.t.Helper()
	r.send(p)
	return r.next(p.Opcode, r.opaque)
}

// closed checks that the node ends the connection without another byte.
func (r *raw) closed() {
	r.t.Helper()
	n, err := r.nc.Read(make([]byte, 1))
	require.Zero(r.t, n)
	require.Error(r.t, err)
	var te net.Error
	require.False(r.t, errors.As(err, &te) && te.Timeout(), "the connection is still open")
}

// silent checks that nothing arrives before a NOOP's answer does.
func (r *raw) silent() {
	r.t.Helper()
	require.Equal(r.t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpNoop}).Status)
}

var baseFeatures = []memd.Feature{
	memd.FeatureMutationSeqno, memd.FeatureXError, memd.FeatureJSON, memd.FeatureAltRequest, memd.FeatureTracing,
	memd.FeatureCollections, memd.FeatureSyncReplication, memd.FeaturePreserveTTL,
	memd.FeatureGetClusterConfigWithVersion,
}

func helloPacket(fs ...memd.Feature) memd.Packet {
	return memd.Packet{Opcode: memd.OpHello, Key: []byte(`{"a":"raw"}`), Value: memd.AppendFeatures(nil, fs...)}
}

func saslPlainPacket(user, password string) memd.Packet {
	return memd.Packet{Opcode: memd.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00" + user + "\x00" + password)}
}

func selectPacket(bucket string) memd.Packet {
	return memd.Packet{Opcode: memd.OpSelectBucket, Key: []byte(bucket)}
}

// login is a connection to node 0 that is ready for operations on the bucket "default".
func login(t testing.TB, c *mock.Cluster, fs ...memd.Feature) *raw {
	t.Helper()
	return loginAt(t, c, 0, fs...)
}

func loginAt(t testing.TB, c *mock.Cluster, node int, fs ...memd.Feature) *raw {
	t.Helper()
	r := dial(t, c, c.Node(node).Addr())
	r.send(helloPacket(fs...), saslPlainPacket("Administrator", "password"), selectPacket("default"))
	for i, op := range []memd.Opcode{memd.OpHello, memd.OpSASLAuth, memd.OpSelectBucket} {
		require.Equal(t, memd.StatusSuccess, r.next(op, uint32(i+1)).Status, "%v", op)
	}
	return r
}

func docKey(key string) []byte { return append([]byte{0}, key...) }

func storePacket(op memd.Opcode, key, value string) memd.Packet {
	return memd.Packet{Opcode: op, Key: docKey(key), Value: []byte(value), Extras: make([]byte, 8)}
}

func getPacket(key string) memd.Packet { return memd.Packet{Opcode: memd.OpGet, Key: docKey(key)} }

// duration is the server duration of a response.
func duration(t testing.TB, p memd.Packet) uint16 {
	t.Helper()
	id, data, tail, err := memd.NextFrame(p.Frames)
	require.NoError(t, err)
	require.Empty(t, tail)
	require.Equal(t, memd.FrameServerDuration, id)
	return binary.BigEndian.Uint16(data)
}

func scramClient(t testing.TB, hash scram.HashGeneratorFcn) *scram.ClientConversation {
	t.Helper()
	cl, err := hash.NewClient("Administrator", "password", "")
	require.NoError(t, err)
	return cl.NewConversation()
}

// TestBootstrapOfGocbcore sends what gocbcore sends when SCRAM is asked for: four requests in one segment, the final
// step, then SELECT_BUCKET with GET_CLUSTER_CONFIG behind it.
func TestBootstrapOfGocbcore(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64))
	r := dial(t, c, c.Node(0).Addr())
	conv := scramClient(t, scram.SHA512)
	first, err := conv.Step("")
	require.NoError(t, err)
	asked := []memd.Feature{2, 6, 8, 0x1e, 0x1d, 0xc, 7, 0xb, 4, 0xf, 0x12, 0xe, 0x10, 0x17, 0x19, 0x14, 0x1c, 0x11}
	mech := []byte("SCRAM-SHA512")
	r.send(
		helloPacket(asked...),
		memd.Packet{Opcode: memd.OpGetErrorMap, Value: []byte{0, 2}},
		memd.Packet{Opcode: memd.OpSASLListMechs},
		memd.Packet{Opcode: memd.OpSASLAuth, Key: mech, Value: []byte(first)},
	)
	p := r.next(memd.OpHello, 1)
	granted, err := memd.ParseFeatures(p.Value)
	require.NoError(t, err)
	for _, f := range []memd.Feature{6, 8, 0x1e, 0x1d, 0xc, 7, 0xb, 4, 0xf, 0x12, 0xe, 0x10, 0x14, 0x11} {
		require.True(t, granted.Has(f), "%v", f)
	}
	require.False(t, granted.Has(memd.FeatureTLS))
	var m struct{ Errors map[string]any }
	require.NoError(t, json.Unmarshal(r.next(memd.OpGetErrorMap, 2).Value, &m))
	require.NotEmpty(t, m.Errors)
	require.Equal(t, "SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN", string(r.next(memd.OpSASLListMechs, 3).Value))
	p = r.next(memd.OpSASLAuth, 4)
	require.Equal(t, memd.StatusAuthContinue, p.Status)
	require.NotZero(t, duration(t, p))
	final, err := conv.Step(string(p.Value))
	require.NoError(t, err)
	p = r.call(memd.Packet{Opcode: memd.OpSASLStep, Key: mech, Value: []byte(final)})
	require.Equal(t, memd.StatusSuccess, p.Status)
	_, err = conv.Step(string(p.Value))
	require.NoError(t, err)
	require.True(t, conv.Valid(), "the server's signature")
	r.send(selectPacket("default"), memd.Packet{Opcode: memd.OpGetClusterConfig})
	require.Equal(t, memd.StatusSuccess, r.next(memd.OpSelectBucket, 6).Status)
	checkBucketConfig(t, r.next(memd.OpGetClusterConfig, 7), 2, 64)
	extras := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1), 1)
	p = r.call(memd.Packet{Opcode: memd.OpGetClusterConfig, Extras: extras})
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Empty(t, p.Value, "nothing is newer")
	c.BumpRevision()
	checkBucketConfig(t, r.call(memd.Packet{Opcode: memd.OpGetClusterConfig, Extras: extras}), 2, 64)
}

// TestBootstrapOfNodeJS sends what the Node.js SDK sends on a bucket connection: a nonce with spaces, the error map,
// bucket and configuration behind the login, and the full push asked for.
func TestBootstrapOfNodeJS(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64))
	r := dial(t, c, c.Node(1).Addr())
	cl, err := scram.SHA512.NewClient("Administrator", "password", "")
	require.NoError(t, err)
	cl = cl.WithNonceGenerator(func() string { return "0x56 0xffffffd7 0x09 0x6d 0x11 0x2a 0x77 0x01" })
	conv := cl.NewConversation()
	first, err := conv.Step("")
	require.NoError(t, err)
	mech := []byte("SCRAM-SHA512")
	r.send(
		helloPacket(3, 6, 7, 8, 0xb, 0xc, 0x10, 0xf, 0x11, 0x15, 0x12, 0x17, 0x14, 0x1c, 0x21, 0xe, 0xd, 0x1e, 0xa, 4),
		memd.Packet{Opcode: memd.OpSASLListMechs},
		memd.Packet{Opcode: memd.OpSASLAuth, Key: mech, Value: []byte(first)},
	)
	granted, err := memd.ParseFeatures(r.next(memd.OpHello, 1).Value)
	require.NoError(t, err)
	require.True(t, granted.Has(memd.FeatureClustermapChange))
	require.True(t, granted.Has(memd.FeatureSnappy))
	r.next(memd.OpSASLListMechs, 2)
	p := r.next(memd.OpSASLAuth, 3)
	final, err := conv.Step(string(p.Value))
	require.NoError(t, err)
	p = r.call(memd.Packet{Opcode: memd.OpSASLStep, Key: mech, Value: []byte(final)})
	require.Equal(t, memd.StatusSuccess, p.Status)
	r.send(memd.Packet{Opcode: memd.OpGetErrorMap, Value: []byte{0, 2}}, selectPacket("default"),
		memd.Packet{Opcode: memd.OpGetClusterConfig})
	r.next(memd.OpGetErrorMap, 5)
	r.next(memd.OpSelectBucket, 6)
	checkBucketConfig(t, r.next(memd.OpGetClusterConfig, 7), 2, 64)
	c.BumpRevision()
	p, err = r.read()
	require.NoError(t, err)
	require.Equal(t, memd.MagicServerReq, p.Magic)
	require.Equal(t, memd.ServerOpClustermapChange, p.Opcode)
	require.Equal(t, "default", string(p.Key))
	epoch, rev := c.Revision()
	require.EqualValues(t, epoch, binary.BigEndian.Uint64(p.Extras))
	require.EqualValues(t, rev, binary.BigEndian.Uint64(p.Extras[8:]))
	require.NotEmpty(t, p.Value)
}

// checkBucketConfig checks that a configuration leaves out nothing that a client was seen to need.
func checkBucketConfig(t testing.TB, p memd.Packet, nodes, vbuckets int) {
	t.Helper()
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Equal(t, memd.DatatypeJSON, p.Datatype)
	var all map[string]any
	require.NoError(t, json.Unmarshal(p.Value, &all))
	for _, k := range []string{
		"rev", "revEpoch", "name", "uuid", "uri", "streamingUri", "ddocs", "nodeLocator", "bucketCapabilities",
		"bucketCapabilitiesVer", "clusterCapabilities", "clusterCapabilitiesVer", "collectionsManifestUid", "nodes",
		"nodesExt", "vBucketServerMap", "clusterUUID", "clusterName",
	} {
		require.Contains(t, all, k)
	}
	m := all["vBucketServerMap"].(map[string]any)
	require.Len(t, m["serverList"], nodes)
	require.Len(t, m["vBucketMap"], vbuckets)
	require.Equal(t, "CRC", m["hashAlgorithm"])
	require.Len(t, all["nodes"], nodes)
	this := 0
	for _, n := range all["nodesExt"].([]any) {
		e := n.(map[string]any)
		require.Contains(t, e["services"], "kv")
		require.Contains(t, e["services"], "mgmt")
		if e["thisNode"] == true {
			this++
		}
	}
	require.Equal(t, 1, this)
}
