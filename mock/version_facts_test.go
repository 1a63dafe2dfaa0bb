package mock_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A versionCase is a request whose answer depends on the version: each status holds from its version on.
type versionCase struct {
	name   string
	packet memd.Packet
	want   map[string]memd.Status
}

func path(op memd.Opcode, flags byte, path, value string) []byte {
	b := []byte{byte(op), flags, 0, byte(len(path))}
	if op != memd.OpSubdocGet && op != memd.OpSubdocExists {
		b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	}
	return append(append(b, path...), value...)
}

func mutation(extras []byte, specs ...[]byte) memd.Packet {
	return memd.Packet{
		Opcode: memd.OpSubdocMultiMutation, Key: []byte("k"), Extras: extras, Value: slices.Concat(specs...),
	}
}

func lookups(flags byte, specs ...[]byte) memd.Packet {
	return memd.Packet{
		Opcode: memd.OpSubdocMultiLookup, Key: []byte("k"), Extras: []byte{flags}, Value: slices.Concat(specs...),
	}
}

func withFrame(p memd.Packet, frames ...byte) memd.Packet {
	p.Magic, p.Frames = memd.MagicReqExt, frames
	return p
}

var putK = memd.Packet{Opcode: memd.OpSet, Key: []byte("k"), Extras: make([]byte, 8), Value: []byte(`{"a":1}`)}

var versionCases = []versionCase{
	{"preserve the expiry", withFrame(putK, 0x50), map[string]memd.Status{
		"6.6": memd.StatusUnknownFrameInfo, "7.0": memd.StatusSuccess,
	}},
	{"another's privilege", withFrame(putK, 0x61, 'x'), map[string]memd.Status{
		"6.6": memd.StatusUnknownFrameInfo, "7.1": memd.StatusSuccess,
	}},
	{"durability", withFrame(putK, 0x11, 1), map[string]memd.Status{"6.6": memd.StatusSuccess}},
	{"the body of an attribute", memd.Packet{
		Opcode: memd.OpSubdocReplaceBodyWithXattr, Key: []byte("k"), Extras: []byte{0, 1, 4}, Value: []byte("x"),
	}, map[string]memd.Status{"6.6": memd.StatusUnknownCommand, "7.0": memd.StatusSubdocPathNotFound}},
	{"user flags", mutation(make([]byte, 8), path(memd.OpSubdocDictUpsert, 0, "u", "1")), map[string]memd.Status{
		"6.6": memd.StatusInvalid, "7.6.0": memd.StatusInvalid, "7.6.2": memd.StatusSuccess,
	}},
	{"a binary attribute", mutation(nil, path(memd.OpSubdocDictUpsert, 0x24, "b", "x")), map[string]memd.Status{
		"6.6": memd.StatusInvalid, "7.6.2": memd.StatusSuccess,
	}},
	{
		"attributes of two names",
		lookups(0, path(memd.OpSubdocExists, 4, "x", ""), path(memd.OpSubdocExists, 4, "y", "")),
		map[string]memd.Status{
			"6.6": memd.StatusSubdocXattrInvalidKeyCombo, "7.6.0": memd.StatusSubdocMultiPathFailure,
		},
	},
	{
		"an attribute and a virtual one",
		lookups(0, path(memd.OpSubdocGet, 4, "$document.CAS", ""), path(memd.OpSubdocExists, 4, "y", "")),
		map[string]memd.Status{"6.6": memd.StatusSubdocMultiPathFailure},
	},
	{
		"a macro of the document",
		mutation(nil, path(memd.OpSubdocDictUpsert, 0x14, "m", `"${$document.CAS}"`)),
		map[string]memd.Status{"6.6": memd.StatusSubdocXattrUnknownMacro, "7.0": memd.StatusSuccess},
	},
	{"revive", mutation([]byte{0x14}, path(memd.OpSubdocDictUpsert, 4, "r", "1")), map[string]memd.Status{
		"6.6": memd.StatusInvalid, "7.0": memd.StatusSubdocCanOnlyReviveDeleted,
	}},
	{"a replica's paths", lookups(0x20, path(memd.OpSubdocGet, 0, "a", "")), map[string]memd.Status{
		"6.6": memd.StatusInvalid, "7.6.0": memd.StatusNotMyVBucket,
	}},
	{"a replica's deleted document", lookups(0x24, path(memd.OpSubdocGet, 0, "a", "")), map[string]memd.Status{
		"6.6": memd.StatusInvalid, "7.6": memd.StatusInvalid, "8.0": memd.StatusNotMyVBucket,
	}},
	{"unlock", memd.Packet{Opcode: memd.OpUnlockKey, Key: []byte("k"), CAS: 1}, map[string]memd.Status{
		"6.6": memd.StatusTmpFail, "7.6.0": memd.StatusNotLocked,
	}},
	{"the manifest", memd.Packet{Opcode: memd.OpCollectionsGetManifest}, map[string]memd.Status{
		"6.6": memd.StatusNotSupported, "7.0": memd.StatusSuccess,
	}},
	{"a range scan", memd.Packet{
		Opcode: memd.OpRangeScanCreate, Datatype: memd.DatatypeJSON, Value: []byte(`{"range":{"start":"AA==","end":"/w=="}}`),
	}, map[string]memd.Status{"6.6": memd.StatusUnknownCommand, "7.6.0": memd.StatusSuccess}},
	{"get with attributes", memd.Packet{Opcode: memd.OpGetEx, Key: []byte("k")}, map[string]memd.Status{
		"6.6": memd.StatusUnknownCommand, "8.0": memd.StatusSuccess,
	}},
	{"a known configuration", memd.Packet{
		Opcode: memd.OpGetClusterConfig, Extras: slices.Concat(make([]byte, 7), []byte{1}, make([]byte, 7), []byte{1}),
	}, map[string]memd.Status{"6.6": memd.StatusInvalid, "7.6.0": memd.StatusSuccess}},
	{"what no version knows", memd.Packet{Opcode: 0x7f}, map[string]memd.Status{"6.6": memd.StatusUnknownCommand}},
}

// TestWhatVersionsKnow sends each request to a node of each version, in its order: the newest status that is stated for
// the version or an older one is its answer.
func TestWhatVersionsKnow(t *testing.T) {
	names := []string{"6.6", "7.0", "7.1", "7.2", "7.6.0", "7.6.2", "7.6", "8.0"}
	want := make([]memd.Status, len(versionCases))
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			c := mock.Start(t, mock.Version(name), mock.Nodes(3), mock.Replicas(2), mock.VBuckets(1))
			r := login(t, c, memd.FeatureXError, memd.FeatureXattr, memd.FeatureJSON, memd.FeatureSnappyEverywhere)
			require.Equal(t, memd.StatusSuccess, r.call(putK).Status)
			for i, row := range versionCases {
				if st, ok := row.want[name]; ok {
					want[i] = st
				}
				require.Equal(t, want[i], r.call(row.packet).Status, row.name)
			}
		})
	}
}

// TestPushesOfOldVersions checks the extras of a push: four bytes of revision before 7.0, then epoch and revision.
func TestPushesOfOldVersions(t *testing.T) {
	for name, want := range map[string]int{"6.6": 4, "7.0": 16, "8.0": 16} {
		c := mock.Start(t, mock.Version(name))
		r := login(t, c, memd.FeatureDuplex, memd.FeatureClustermapChange)
		c.BumpRevision()
		p, err := r.read()
		require.NoError(t, err)
		require.Equal(t, memd.MagicServerReq, p.Magic)
		require.Len(t, p.Extras, want, name)
		require.EqualValues(t, 2, p.Extras[len(p.Extras)-1])
	}
}

// TestRandomKeysOfVersions checks which extras GET_RANDOM_KEY takes: attributes can be asked for since 8.0.
func TestRandomKeysOfVersions(t *testing.T) {
	for name, want := range map[string]memd.Status{"7.0": memd.StatusInvalid, "7.6": memd.StatusInvalid, "8.0": 0} {
		c := mock.Start(t, mock.Version(name), mock.VBuckets(1))
		r := login(t, c, memd.FeatureCollections)
		key := putK
		key.Key = []byte("\x00k")
		require.Equal(t, memd.StatusSuccess, r.call(key).Status)
		require.Equal(t, want, r.call(memd.Packet{Opcode: memd.OpGetRandomKey, Extras: make([]byte, 5)}).Status, name)
		require.Equal(t, memd.StatusSuccess,
			r.call(memd.Packet{Opcode: memd.OpGetRandomKey, Extras: make([]byte, 4)}).Status, name)
	}
}
