package mock_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func packedPacket(op memd.Opcode, key string, value []byte) memd.Packet {
	p := storePacket(op, key, string(value))
	p.Datatype = memd.DatatypeSnappy
	if op == memd.OpAppend || op == memd.OpPrepend {
		p.Extras = nil
	}
	return p
}

func TestCompressedValues(t *testing.T) {
	text := `{"text":"` + strings.Repeat("ab", 100) + `"}`
	small := snappy.Encode(nil, []byte(text))
	packed := memd.DatatypeJSON | memd.DatatypeSnappy
	rows := []struct {
		mode          string
		ofRaw         memd.Datatype // of a document that came plain
		ofPacked      memd.Datatype // of one that came compressed
		stored, conns int
	}{
		{mode: "passive", ofRaw: memd.DatatypeJSON, ofPacked: packed},
		{mode: "off", ofRaw: memd.DatatypeJSON, ofPacked: memd.DatatypeJSON},
		{mode: "active", ofRaw: packed, ofPacked: packed},
	}
	for _, row := range rows {
		t.Run(row.mode, func(t *testing.T) {
			c := mock.Start(t, mock.Bucket("default", 4, mock.Compression(row.mode)))
			saslPlainPacket, r := login(t, c, baseFeatures...), login(t, c, append([]memd.Feature{memd.FeatureSnappy},
				baseFeatures...)...)
			require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "p", text)).Status)
			require.Equal(t, memd.StatusSuccess, r.call(packedPacket(memd.OpSet, "z", small)).Status)
			require.Equal(t, memd.StatusInvalid, saslPlainPacket.call(packedPacket(memd.OpSet, "z", small)).Status)
			for key, dt := range map[string]memd.Datatype{"p": row.ofRaw, "z": row.ofPacked} {
				p := r.call(getPacket(key))
				require.Equal(t, dt, p.Datatype, key)
				value := p.Value
				if dt&memd.DatatypeSnappy != 0 {
					var err error
					value, err = snappy.Decode(nil, value)
					require.NoError(t, err)
				}
				require.Equal(t, text, string(value))
				p = saslPlainPacket.call(getPacket(key))
				require.Equal(t, memd.DatatypeJSON, p.Datatype)
				require.Equal(t, text, string(p.Value))
			}
			for _, d := range c.Documents("default") {
				require.Equal(t, text, string(d.Value), "what tests see is inflated")
			}
			require.Equal(t, memd.StatusSuccess,
				r.call(packedPacket(memd.OpAppend, "z", snappy.Encode(nil, []byte(" ")))).Status)
			require.Equal(t, text+" ", saslPlainPacket.body("z"))
			require.Equal(t, text, c.ApplyLog("default")[1].Token+text[64:])
		})
	}
	_, err := mock.New(mock.Bucket("default", 4, mock.Compression("best")))
	require.Error(t, err)
}

func TestCompressedValuesThatAreNone(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, append([]memd.Feature{memd.FeatureSnappyEverywhere}, baseFeatures...)...)
	bomb := binary.AppendUvarint(nil, 1<<31)
	huge := snappy.Encode(nil, bytes.Repeat([]byte("x"), 21<<20))
	for name, row := range map[string]struct {
		value []byte
		want  memd.Status
	}{
		"garbage":   {[]byte("garbage that is no snappy"), memd.StatusInvalid},
		"empty":     {nil, memd.StatusInvalid},
		"bomb":      {bomb, memd.StatusInvalid},
		"cut off":   {snappy.Encode(nil, []byte(strings.Repeat("ab", 50)))[:6], memd.StatusInvalid},
		"too large": {huge, memd.StatusTooBig},
	} {
		require.Equal(t, row.want, r.call(packedPacket(memd.OpSet, "k", row.value)).Status, name)
	}
	require.Empty(t, c.Documents("default"))
	r.silent()
}

func TestActiveBucketsCompressConfigurations(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 64, mock.Compression("active")))
	saslPlainPacket := loginAt(t, c, 1, memd.FeatureXError, memd.FeatureJSON, memd.FeatureSnappy)
	r := loginAt(t, c, 1, memd.FeatureXError, memd.FeatureJSON, memd.FeatureSnappyEverywhere)
	want := saslPlainPacket.call(memd.Packet{Opcode: memd.OpGetClusterConfig})
	require.Equal(t, memd.DatatypeJSON, want.Datatype)
	for _, p := range []memd.Packet{{Opcode: memd.OpGetClusterConfig}, {Opcode: memd.OpGet, Key: []byte("k")}} {
		got := r.call(p)
		require.Equal(t, memd.DatatypeJSON|memd.DatatypeSnappy, got.Datatype, p.Opcode)
		value, err := snappy.Decode(nil, got.Value)
		require.NoError(t, err)
		require.Equal(t, string(want.Value), string(value))
	}
}
