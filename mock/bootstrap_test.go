package mock_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/xdg-go/scram"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestOnlyTheBootstrapWorksBeforeTheLogin(t *testing.T) {
	c := mock.Start(t)
	r := dial(t, c, c.Node(0).Addr())
	for op := range 256 {
		op := memd.Opcode(op)
		want := memd.StatusAccess
		switch op {
		case memd.OpHello, memd.OpSASLListMechs:
			want = memd.StatusSuccess
		case memd.OpSASLAuth, memd.OpSASLStep, memd.OpGetErrorMap:
			want = memd.StatusInvalid // the request lacks what they need
		}
		require.Equal(t, want, r.call(memd.Packet{Opcode: op}).Status, "%v", op)
	}
}

func TestLogins(t *testing.T) {
	rows := []struct {
		name string
		auth memd.Packet
		want memd.Status
	}{
		{"good", saslPlainPacket("Administrator", "password"), memd.StatusSuccess},
		{"wrong password", saslPlainPacket("Administrator", "Password"), memd.StatusAuthError},
		{"empty password", saslPlainPacket("Administrator", ""), memd.StatusAuthError},
		{"wrong user", saslPlainPacket("nobody", "password"), memd.StatusAuthError},
		{
			"malformed",
			memd.Packet{Opcode: memd.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("x")},
			memd.StatusInvalid,
		},
		{"unknown mechanism", memd.Packet{Opcode: memd.OpSASLAuth, Key: []byte("CRAM-MD5")}, memd.StatusAuthError},
		{
			"malformed SCRAM",
			memd.Packet{Opcode: memd.OpSASLAuth, Key: []byte("SCRAM-SHA1"), Value: []byte("?")},
			memd.StatusAuthError,
		},
		{"step alone", memd.Packet{Opcode: memd.OpSASLStep, Key: []byte("SCRAM-SHA1")}, memd.StatusInvalid},
	}
	c := mock.Start(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := dial(t, c, c.Node(0).Addr())
			require.Equal(t, row.want, r.call(row.auth).Status)
			want := memd.StatusAccess
			if row.want == memd.StatusSuccess {
				want = memd.StatusSuccess
			}
			require.Equal(t, want, r.call(memd.Packet{Opcode: memd.OpNoop}).Status)
		})
	}
}

func TestScramLogins(t *testing.T) {
	for name, hash := range map[string]scram.HashGeneratorFcn{
		"SCRAM-SHA512": scram.SHA512, "SCRAM-SHA256": scram.SHA256, "SCRAM-SHA1": scram.SHA1,
	} {
		for _, password := range []string{"password", "wrong"} {
			t.Run(name+" "+password, func(t *testing.T) {
				c := mock.Start(t, mock.Mechanisms(name))
				r := dial(t, c, c.Node(0).Addr())
				require.Equal(t, name, string(r.call(memd.Packet{Opcode: memd.OpSASLListMechs}).Value))
				require.Equal(t, memd.StatusAuthError, r.call(saslPlainPacket("Administrator", "password")).Status,
					"not offered")
				cl, err := hash.NewClient("Administrator", password, "")
				require.NoError(t, err)
				conv := cl.NewConversation()
				first, err := conv.Step("")
				require.NoError(t, err)
				p := r.call(memd.Packet{Opcode: memd.OpSASLAuth, Key: []byte(name), Value: []byte(first)})
				require.Equal(t, memd.StatusAuthContinue, p.Status)
				final, err := conv.Step(string(p.Value))
				require.NoError(t, err)
				p = r.call(memd.Packet{Opcode: memd.OpSASLStep, Key: []byte(name), Value: []byte(final)})
				if password == "wrong" {
					require.Equal(t, memd.StatusAuthError, p.Status)
					require.Equal(t, memd.StatusAccess, r.call(memd.Packet{Opcode: memd.OpNoop}).Status)
					return
				}
				require.Equal(t, memd.StatusSuccess, p.Status)
				_, err = conv.Step(string(p.Value))
				require.NoError(t, err)
				require.True(t, conv.Valid())
				require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpNoop}).Status)
			})
		}
	}
}

// TestScramIsNotOvertaken: the bucket selected behind the final step has to wait for it, however long its hash takes.
func TestScramIsNotOvertaken(t *testing.T) {
	c := mock.Start(t)
	r := dial(t, c, c.Node(0).Addr())
	conv := scramClient(t, scram.SHA512)
	first, err := conv.Step("")
	require.NoError(t, err)
	mech := []byte("SCRAM-SHA512")
	r.send(helloPacket(append(baseFeatures, memd.FeatureUnorderedExecution)...),
		memd.Packet{Opcode: memd.OpSASLAuth, Key: mech, Value: []byte(first)})
	r.next(memd.OpHello, 1)
	final, err := conv.Step(string(r.next(memd.OpSASLAuth, 2).Value))
	require.NoError(t, err)
	r.send(memd.Packet{Opcode: memd.OpSASLStep, Key: mech, Value: []byte(final)}, selectPacket("default"),
		memd.Packet{Opcode: memd.OpGetClusterConfig}, getPacket("k"))
	require.Equal(t, memd.StatusSuccess, r.next(memd.OpSASLStep, 3).Status)
	require.Equal(t, memd.StatusSuccess, r.next(memd.OpSelectBucket, 4).Status)
	require.Equal(t, memd.StatusSuccess, r.next(memd.OpGetClusterConfig, 5).Status)
	require.Equal(t, memd.StatusKeyNotFound, r.next(memd.OpGet, 6).Status)
}

func TestSetPasswordCountsForNewLogins(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	require.NoError(t, c.SetPassword("Administrator", "next"))
	require.Error(t, c.SetPassword("nobody", "x"))
	r.silent()
	n := dial(t, c, c.Node(0).Addr())
	require.Equal(t, memd.StatusAuthError, n.call(saslPlainPacket("Administrator", "password")).Status)
	require.Equal(t, memd.StatusSuccess, n.call(saslPlainPacket("Administrator", "next")).Status)
}

func TestHello(t *testing.T) {
	c := mock.Start(t, mock.WithoutFeatures(memd.FeatureTracing))
	r := dial(t, c, c.Node(0).Addr())
	grants := func(fs ...memd.Feature) memd.Features {
		p := r.call(helloPacket(fs...))
		require.Equal(t, memd.StatusSuccess, p.Status)
		got, err := memd.ParseFeatures(p.Value)
		require.NoError(t, err)
		return got
	}
	require.Zero(t, grants())
	require.Zero(t, grants(memd.FeatureTracing, memd.FeatureTLS, memd.FeaturePiTR, 0x7777),
		"refused, never granted, unknown")
	require.Equal(t, memd.Features(0).With(memd.FeatureJSON), grants(memd.FeatureJSON, memd.FeatureJSON))
	require.False(t, grants(memd.FeatureXError).Has(memd.FeatureJSON), "a second HELLO starts afresh")
	both := grants(memd.FeatureDuplex, memd.FeatureClustermapChange, memd.FeatureClustermapChangeBrief)
	require.False(t, both.Has(memd.FeatureClustermapChange))
	require.True(t, both.Has(memd.FeatureClustermapChangeBrief))
	require.Equal(t, memd.StatusInvalid, r.call(helloPacket(memd.FeatureClustermapChange)).Status, "needs duplex")
	require.Equal(t, memd.StatusInvalid, r.call(memd.Packet{Opcode: memd.OpHello, Value: []byte{0}}).Status)
}

func TestErrorMap(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	type entry struct {
		Name  string
		Attrs []string
		Retry map[string]any
	}
	type errorMap struct {
		Version, Revision int
		Errors            map[string]entry
	}
	fetch := func(version byte) errorMap {
		p := r.call(memd.Packet{Opcode: memd.OpGetErrorMap, Value: []byte{0, version}})
		require.Equal(t, memd.StatusSuccess, p.Status)
		require.Equal(t, memd.DatatypeJSON, p.Datatype)
		var m errorMap
		require.NoError(t, json.Unmarshal(p.Value, &m))
		return m
	}
	v2, v1 := fetch(2), fetch(1)
	require.Equal(t, 2, v2.Version)
	require.Equal(t, 2, fetch(9).Version)
	require.Equal(t, 1, v1.Version)
	for s := range 0x10000 {
		// two are newer than the newest release
		if s := memd.Status(s); s.Known() && s != memd.StatusExpiryOverflow && s != memd.StatusLockExpiryOverflow {
			require.NotEmpty(t, v2.Errors[hex(s)].Name, "%v", s)
			require.NotEmpty(t, v2.Errors[hex(s)].Attrs, "%v", s)
		}
	}
	require.Contains(t, v2.Errors["33"].Attrs, "rate-limit")
	require.NotContains(t, v1.Errors["33"].Attrs, "rate-limit")
	require.Contains(t, v1.Errors["33"].Attrs, "retry-later")
	require.Equal(t, memd.StatusKeyNotFound, r.call(memd.Packet{
		Opcode: memd.OpGetErrorMap,
		Value:  []byte{0, 0},
	}).Status)
	require.Equal(t, memd.StatusInvalid, r.call(memd.Packet{Opcode: memd.OpGetErrorMap, Value: []byte{2}}).Status)

	require.NoError(t, c.AddErrorCode(0x7ff0, "FAKE", []string{"temp", "auto-retry"}, []byte(`{"strategy":"constant"}`)))
	m := fetch(2)
	require.Equal(t, "constant", m.Errors["7ff0"].Retry["strategy"])
	require.Equal(t, v2.Revision+1, m.Revision)
	require.Error(t, c.AddErrorCode(0x7ff1, "FAKE", nil, []byte(`{`)))
	c.SetErrorMap([]byte("no map"))
	require.Equal(t, "no map", string(r.call(memd.Packet{Opcode: memd.OpGetErrorMap, Value: []byte{0, 1}}).Value))
	require.Error(t, c.AddErrorCode(0x7ff0, "FAKE", nil, nil))
}

func hex(s memd.Status) string {
	const digits = "0123456789abcdef"
	var out []byte
	for shift := 12; shift >= 0; shift -= 4 {
		if d := s >> shift & 15; d != 0 || len(out) > 0 || shift == 0 {
			out = append(out, digits[d])
		}
	}
	return string(out)
}

func TestClusterConfigWithoutABucket(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	r := dial(t, c, c.Node(0).Addr())
	r.call(helloPacket(baseFeatures...))
	r.call(saslPlainPacket("Administrator", "password"))
	p := r.call(memd.Packet{Opcode: memd.OpGetClusterConfig})
	require.Equal(t, memd.StatusSuccess, p.Status)
	var all map[string]any
	require.NoError(t, json.Unmarshal(p.Value, &all))
	require.Len(t, all["nodesExt"], 2)
	require.NotContains(t, all, "name")
	require.NotContains(t, all, "vBucketServerMap")
	require.JSONEq(t, string(c.ConfigJSON("")), string(p.Value))
	for _, bad := range []memd.Packet{
		{Opcode: memd.OpGetClusterConfig, Extras: make([]byte, 16)}, // revision 0
		{Opcode: memd.OpGetClusterConfig, Extras: make([]byte, 4)},
	} {
		require.Equal(t, memd.StatusInvalid, r.call(bad).Status)
	}
	require.Equal(t, memd.StatusNoBucket, r.call(getPacket("k")).Status)
	require.Equal(t, memd.StatusSuccess, r.call(selectPacket("default")).Status)
	require.Equal(t, memd.StatusKeyNotFound, r.call(getPacket("k")).Status)
	require.Equal(t, memd.StatusSuccess, r.call(selectPacket("@no bucket@")).Status)
	require.Equal(t, memd.StatusNoBucket, r.call(getPacket("k")).Status)
}

func TestTLS(t *testing.T) {
	c := mock.Start(t, mock.TLS())
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(c.CA()))
	r := dial(t, c, c.Node(0).TLSAddr())
	r.nc = tls.Client(r.nc, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	require.Equal(t, memd.StatusSuccess, r.call(helloPacket(baseFeatures...)).Status)
	require.Equal(t, memd.StatusSuccess, r.call(saslPlainPacket("Administrator", "password")).Status)
	require.Equal(t, "couchbases://"+c.Node(0).TLSAddr(), c.TLSConnString())
	require.Contains(t, configOf(t, c).NodesExt[0].Services, "kvSSL")

	r = dial(t, c, c.Node(0).TLSAddr())
	require.Error(t, tls.Client(r.nc, &tls.Config{ServerName: "127.0.0.1"}).HandshakeContext(t.Context()), "untrusted")

	none := mock.Start(t)
	require.Nil(t, none.CA())
	require.Empty(t, none.TLSConnString())
	require.Empty(t, none.Node(0).TLSAddr())
}

func TestVirtualClusterInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const latency = 5 * time.Millisecond
		c := mock.Start(t, mock.Virtual(), mock.TLS(), mock.Nodes(2), mock.Latency(latency))
		require.Equal(t, "couchbase://10.0.0.1:11210,10.0.0.2:11210", c.ConnString())
		r := login(t, c, baseFeatures...)
		begin := time.Now()
		require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", "v")).Status)
		require.Equal(t, 2*latency, time.Since(begin))

		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(c.CA()))
		s := dial(t, c, c.Node(1).TLSAddr())
		s.nc = tls.Client(s.nc, &tls.Config{RootCAs: roots, ServerName: "10.0.0.2"})
		require.Equal(t, memd.StatusSuccess, s.call(helloPacket(baseFeatures...)).Status)

		require.NoError(t, c.Kill(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Dial(ctx, "tcp", c.Node(1).Addr())
		require.Error(t, err)
		require.NoError(t, c.Respawn(1))
		loginAt(t, c, 1, baseFeatures...)
	})
}

func TestMalformedPacketsEndTheConnection(t *testing.T) {
	c := mock.Start(t)
	for name, b := range map[string][]byte{
		"magic":     append([]byte{0x42}, make([]byte, 23)...),
		"response":  append([]byte{0x81}, make([]byte, 23)...),
		"huge body": {0x80, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"parts":     {0x80, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := dial(t, c, c.Node(0).Addr())
			_, err := r.nc.Write(b)
			require.NoError(t, err)
			r.closed()
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]mock.Option{
		"nodes": mock.Nodes(0), "many nodes": mock.Nodes(65), "vbuckets": mock.VBuckets(1025),
		"replicas": mock.Replicas(4),
		"name":     mock.Bucket("a/b", 1), "no name": mock.Bucket("", 1), "collection": mock.Bucket("b", 1,
			mock.WithCollection("_x", "y")),
	} {
		_, err := mock.New(o)
		require.Error(t, err, name)
	}
	_, err := mock.New(mock.Bucket("a", 1), mock.Bucket("a", 2))
	require.Error(t, err)
	c := mock.Start(t, mock.NoBuckets())
	require.Nil(t, c.ConfigJSON("default"))
}

// recorder stands in for a test that Start fails.
type recorder struct {
	testing.TB
	failed   bool
	cleanups []func()
}

func (r *recorder) Helper()               {}
func (r *recorder) Fatalf(string, ...any) { r.failed = true }
func (r *recorder) Cleanup(f func())      { r.cleanups = append(r.cleanups, f) }

func TestStartFailsItsTest(t *testing.T) {
	r := &recorder{TB: t}
	require.Nil(t, mock.Start(r, mock.Nodes(-1)))
	require.True(t, r.failed)
	require.Empty(t, r.cleanups)
}
