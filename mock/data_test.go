package mock_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func long(n int) []byte { return bytes.Repeat([]byte("k"), n) }

func inCollection(id uint32, key []byte) []byte { return append(memd.AppendLEB128(nil, id), key...) }

func TestMalformedRequestsAreRefusedAndServedOn(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 4, mock.WithCollection("s", "c")))
	r := login(t, c, baseFeatures...)
	ext := func(frames ...byte) memd.Packet {
		p := storePacket(memd.OpSet, "k", "v")
		p.Magic, p.Frames = memd.MagicReqExt, frames
		return p
	}
	get := func(key []byte) memd.Packet { return memd.Packet{Opcode: memd.OpGet, Key: key} }
	getExt := getPacket("k")
	getExt.Magic, getExt.Frames = memd.MagicReqExt, []byte{0x11, 1}
	preserveAdd := storePacket(memd.OpAdd, "k", "v")
	preserveAdd.Magic, preserveAdd.Frames = memd.MagicReqExt, []byte{0x50}
	rows := []struct {
		name string
		p    memd.Packet
		want memd.Status
	}{
		{"no key", get(nil), memd.StatusInvalid},
		{"collection id alone", get([]byte{0}), memd.StatusInvalid},
		{"longest key", get(inCollection(0, long(250))), memd.StatusKeyNotFound},
		{"key too long", get(inCollection(0, long(251))), memd.StatusInvalid},
		{"longest key in a collection", get(inCollection(8, long(246))), memd.StatusKeyNotFound},
		{"key too long in a collection", get(inCollection(8, long(247))), memd.StatusInvalid},
		{"id not in shortest form", get([]byte{0x80, 0x00, 'k'}), memd.StatusInvalid},
		{"endless id", get([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 'k'}), memd.StatusInvalid},
		{"reserved id", get(inCollection(7, []byte("k"))), memd.StatusInvalid},
		{"unknown collection", get(inCollection(9, []byte("k"))), memd.StatusUnknownCollection},
		{"extras on GET", memd.Packet{Opcode: memd.OpGet, Key: docKey("k"), Extras: []byte{0}}, memd.StatusInvalid},
		{"value on GET", memd.Packet{Opcode: memd.OpGet, Key: docKey("k"), Value: []byte{0}}, memd.StatusInvalid},
		{"CAS on GET", memd.Packet{Opcode: memd.OpGet, Key: docKey("k"), CAS: 1}, memd.StatusInvalid},
		{"no extras on SET", memd.Packet{Opcode: memd.OpSet, Key: docKey("k")}, memd.StatusInvalid},
		{"no CAS on UNLOCK", memd.Packet{Opcode: memd.OpUnlockKey, Key: docKey("k")}, memd.StatusInvalid},
		{"key on NOOP", memd.Packet{Opcode: memd.OpNoop, Key: []byte("k")}, memd.StatusInvalid},
		{
			"CAS on ADD",
			memd.Packet{Opcode: memd.OpAdd, Key: docKey("k"), Extras: make([]byte, 8), CAS: 1},
			memd.StatusInvalid,
		},
		{
			"snappy",
			memd.Packet{Opcode: memd.OpSet, Key: docKey("k"), Extras: make([]byte, 8), Datatype: 2},
			memd.StatusInvalid,
		},
		{
			"xattr",
			memd.Packet{Opcode: memd.OpSet, Key: docKey("k"), Extras: make([]byte, 8), Datatype: 4},
			memd.StatusInvalid,
		},
		{"datatype on GET", memd.Packet{Opcode: memd.OpGet, Key: docKey("k"), Datatype: 1}, memd.StatusInvalid},
		{"unknown opcode", memd.Packet{Opcode: 0x68}, memd.StatusUnknownCommand},
		{"retired opcode", memd.Packet{Opcode: 0x97}, memd.StatusNotSupported},
		{"opcode left out", memd.Packet{Opcode: memd.OpDCPOpen}, memd.StatusNotSupported},
		{"unknown frame", ext(0xa1, 0), memd.StatusUnknownFrameInfo},
		{"prototype frame", ext(0x31, 0), memd.StatusUnknownFrameInfo},
		{"frame overrun", ext(0x13, 1), memd.StatusInvalid},
		{"barrier", ext(0x00), memd.StatusSuccess},
		{"barrier with data", ext(0x01, 0), memd.StatusInvalid},
		{"durability", ext(0x11, 1), memd.StatusSuccess},
		{"durability with timeout", ext(0x13, 1, 0x0e, 0x10), memd.StatusSuccess},
		{"durability of two bytes", ext(0x12, 1, 0), memd.StatusInvalid},
		{"durability level 0", ext(0x11, 0), memd.StatusDurabilityInvalidLevel},
		{"durability level 4", ext(0x11, 4), memd.StatusDurabilityInvalidLevel},
		{"durability timeout 0", ext(0x13, 1, 0, 0), memd.StatusDurabilityInvalidLevel},
		{"durability timeout 65535", ext(0x13, 1, 0xff, 0xff), memd.StatusDurabilityInvalidLevel},
		{"durability on GET", getExt, memd.StatusInvalid},
		{"preserve expiry", ext(0x50), memd.StatusSuccess},
		{"preserve expiry with data", ext(0x51, 0), memd.StatusInvalid},
		{"preserve expiry on ADD", preserveAdd, memd.StatusNotSupported},
		{"impersonate nobody", ext(0x43, 'x', 'y', 'z'), memd.StatusAccess},
		{"impersonate with a long name", ext(append([]byte{0x4f, 0}, "a user of 15 by"...)...), memd.StatusAccess},
		{"impersonate empty", ext(0x40), memd.StatusInvalid},
		{"bad path", memd.Packet{Opcode: memd.OpCollectionsGetID, Value: []byte("a.b.c")}, memd.StatusInvalid},
		{"observe", memd.Packet{Opcode: memd.OpObserveSeqno, Value: []byte{1}}, memd.StatusInvalid},
		{"meta version", memd.Packet{Opcode: memd.OpGetMeta, Key: docKey("k"), Extras: []byte{3}}, memd.StatusInvalid},
		{"stat group", memd.Packet{Opcode: memd.OpStat, Key: []byte("nope")}, memd.StatusKeyNotFound},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p := r.call(row.p)
			require.Equal(t, row.want, p.Status, "%s", p.Value)
			if row.name == "bad path" {
				require.Empty(t, p.Value, "without a context, as a server refuses it")
			} else if row.want == memd.StatusInvalid {
				var body struct {
					Error struct{ Context, Ref string }
				}
				require.NoError(t, json.Unmarshal(p.Value, &body))
				require.NotEmpty(t, body.Error.Context)
				require.NotEmpty(t, body.Error.Ref)
				require.Equal(t, memd.DatatypeJSON, p.Datatype)
			}
		})
	}
}

func TestFeaturesNotGrantedAreNotServed(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c) // nothing at all
	set := memd.Packet{Opcode: memd.OpSet, Key: []byte("k"), Value: []byte(`{"a":1}`), Extras: make([]byte, 8)}
	p := r.call(set)
	require.Equal(t, memd.StatusSuccess, p.Status, "a plain key")
	require.Equal(t, memd.MagicRes, p.Magic)
	require.Empty(t, p.Extras, "no token")
	p = r.call(memd.Packet{Opcode: memd.OpGet, Key: []byte("k")})
	require.Equal(t, `{"a":1}`, string(p.Value))
	require.Zero(t, p.Datatype)
	set.Magic, set.Frames = memd.MagicReqExt, []byte{0x50, 0x11, 1}
	require.Equal(t, memd.StatusSuccess, r.call(set).Status, "a server reads frames without a feature")
	set.Magic, set.Frames, set.Datatype = memd.MagicReq, nil, memd.DatatypeJSON
	p = r.call(set)
	require.Equal(t, memd.StatusInvalid, p.Status)
	require.Empty(t, p.Value, "no error body without XERROR")
	require.Equal(t, memd.StatusInvalid, r.call(memd.Packet{Opcode: memd.OpGet, Key: long(251)}).Status)
	extras := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1), 1)
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpGetClusterConfig, Extras: extras}).Status,
		"nor does it need one for the version that a client knows")
}

func TestJSONIsFoundByTheNode(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	for value, want := range map[string]memd.Datatype{`{"a":1}`: memd.DatatypeJSON, `plain`: 0} {
		require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", value)).Status)
		require.Equal(t, want, r.call(getPacket("k")).Datatype, value)
	}
}

func TestValueTooLarge(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	require.Equal(t, memd.StatusTooBig, r.call(storePacket(memd.OpSet, "k", strings.Repeat("x", 20<<20+1))).Status)
	require.Empty(t, c.ApplyLog("default"))
}

func TestDurableWrites(t *testing.T) {
	durable := func(key string, level byte) memd.Packet {
		p := storePacket(memd.OpSet, key, "v")
		p.Magic, p.Frames = memd.MagicReqExt, []byte{0x13, level, 0, 50}
		return p
	}
	t.Run("conflict", func(t *testing.T) {
		c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
		r := login(t, c, append(baseFeatures, memd.FeatureUnorderedExecution)...)
		r.send(durable("k", 1), storePacket(memd.OpSet, "k", "w"), durable("k", 1), storePacket(memd.OpSet, "other",
			"w"))
		want := map[uint32]memd.Status{
			1: memd.StatusSuccess, 2: memd.StatusSyncWriteInProgress, 3: memd.StatusSyncWriteInProgress,
			4: memd.StatusSuccess, // another document
		}
		got := map[uint32]memd.Status{}
		for range 4 {
			p, err := r.read()
			require.NoError(t, err)
			got[p.Opaque-r.opaque+4] = p.Status
		}
		require.Equal(t, want, got)
	})
	t.Run("impossible", func(t *testing.T) {
		c := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 1, mock.WithReplicas(1)))
		r := login(t, c, baseFeatures...)
		require.Equal(t, memd.StatusDurabilityImpossible, r.call(durable("k", 1)).Status)
		require.Empty(t, c.ApplyLog("default"))
	})
	t.Run("ambiguous", func(t *testing.T) {
		c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
		r := login(t, c, baseFeatures...)
		require.NoError(t, c.Kill(1))
		require.Equal(t, memd.StatusSyncWriteAmbiguous, r.call(durable("k", 3)).Status)
		require.Empty(t, c.ApplyLog("default"))
		require.NoError(t, c.Respawn(1))
		require.Equal(t, memd.StatusSuccess, r.call(durable("k", 3)).Status)
	})
	t.Run("bucket's own level", func(t *testing.T) {
		c := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 1, mock.WithReplicas(1),
			mock.WithDurability(memd.DurabilityMajority)))
		r := login(t, c, baseFeatures...)
		require.Equal(t, memd.StatusDurabilityImpossible, r.call(storePacket(memd.OpSet, "k", "v")).Status)
	})
}

func TestReplicaReads(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 2))
	active, replica := loginAt(t, c, 0, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
	require.Equal(t, memd.StatusSuccess, active.call(storePacket(memd.OpSet, "k", "v")).Status)
	read := memd.Packet{Opcode: memd.OpGetReplica, Key: docKey("k")}
	p := replica.call(read)
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Equal(t, "v", string(p.Value))
	require.Equal(t, memd.StatusNotMyVBucket, active.call(read).Status)
	require.Equal(t, memd.StatusNotMyVBucket, replica.call(getPacket("k")).Status)
}

func TestObserveSeqnoKnowsTheToken(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 2))
	r, replica := loginAt(t, c, 0, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
	token := r.call(storePacket(memd.OpSet, "k", "v")).Extras
	require.Len(t, token, 16)
	for _, node := range []*raw{r, replica} {
		p := node.call(memd.Packet{Opcode: memd.OpObserveSeqno, Value: token[:8]})
		require.Equal(t, memd.StatusSuccess, p.Status)
		require.Len(t, p.Value, 27)
		require.Equal(t, token[:8], p.Value[3:11])
		require.Equal(t, token[8:], p.Value[11:19])
		require.Equal(t, token[8:], p.Value[19:27])
	}
	p := r.call(memd.Packet{Opcode: memd.OpObserveSeqno, Value: make([]byte, 8)})
	require.Equal(t, memd.StatusKeyNotFound, p.Status)
	p = r.call(memd.Packet{Opcode: memd.OpGetFailoverLog})
	require.Equal(t, token[:8], p.Value[:8])
	p = r.call(at(memd.Packet{Opcode: memd.OpObserveSeqno, Value: token[:8]}, 7))
	require.Equal(t, memd.StatusNotMyVBucket, p.Status)

	require.NoError(t, c.FailoverHard(0))
	p = replica.call(memd.Packet{Opcode: memd.OpObserveSeqno, Value: token[:8]})
	require.Equal(t, memd.StatusSuccess, p.Status)
	require.Len(t, p.Value, 43)
	require.EqualValues(t, 1, p.Value[0])
	require.NotEqual(t, token[:8], p.Value[3:11], "a new history")
	require.Equal(t, token[:8], p.Value[27:35])
	require.Equal(t, token[8:], p.Value[35:43], "the write is part of the old one")
	require.Len(t, replica.call(memd.Packet{Opcode: memd.OpGetFailoverLog}).Value, 32)
}

// As a server does: kv_engine refuses everything of DCP there.
func TestAFailoverLogIsRefusedUnderUnorderedExecution(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, memd.FeatureXError, memd.FeatureJSON, memd.FeatureUnorderedExecution)
	p := r.call(memd.Packet{Opcode: memd.OpGetFailoverLog})
	require.Equal(t, memd.StatusNotSupported, p.Status)
	require.Contains(t, string(p.Value), "unordered execution")
}

func TestMiscellaneous(t *testing.T) {
	c := mock.Start(t, mock.RecordFrames())
	r := login(t, c, baseFeatures...)
	require.NotEmpty(t, r.call(memd.Packet{Opcode: memd.OpVersion}).Value)
	r.send(memd.Packet{Opcode: memd.OpStat})
	n := 0
	for {
		p := r.next(memd.OpStat, r.opaque)
		require.Equal(t, memd.StatusSuccess, p.Status)
		if len(p.Key) == 0 && len(p.Value) == 0 {
			break
		}
		n++
	}
	require.Positive(t, n)
	log := c.FrameLog()
	require.Equal(t, memd.OpStat, log[len(log)-1].Opcode)
	require.Equal(t, r.opaque, log[len(log)-1].Opaque)
	require.Equal(t, 1, c.Frames(memd.OpStat))
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpQuit}).Status)
	r.closed()
}

func TestImpersonation(t *testing.T) {
	c := mock.Start(t, mock.User("Administrator", "password"), mock.User("app", "secret", "default"),
		mock.User("other", "secret", "elsewhere"))
	as := func(user string) memd.Packet {
		p := getPacket("k")
		p.Magic = memd.MagicReqExt
		var err error
		p.Frames, err = memd.AppendFrame(nil, memd.FrameImpersonateUser, []byte(user))
		require.NoError(t, err)
		return p
	}
	r := login(t, c, baseFeatures...)
	require.Equal(t, memd.StatusKeyNotFound, r.call(as("app")).Status)
	require.Equal(t, memd.StatusAccess, r.call(as("other")).Status)
	require.Equal(t, memd.StatusAccess, r.call(as("nobody")).Status)
	app := dial(t, c, c.Node(0).Addr())
	app.send(helloPacket(baseFeatures...), saslPlainPacket("app", "secret"), selectPacket("default"))
	for i, op := range []memd.Opcode{memd.OpHello, memd.OpSASLAuth, memd.OpSelectBucket} {
		app.next(op, uint32(i+1))
	}
	require.Equal(t, memd.StatusAccess, app.call(as("Administrator")).Status, "no right to do so")
}
