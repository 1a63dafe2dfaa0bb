package kv_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gmemd "github.com/couchbase/gocbcore/v10/memd"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// encoding is an operation on a connection, and what its request must hold; testdata/encode has the bytes.
type encoding struct {
	file   string
	note   string
	op     subject
	wire   call.Wire
	key    string // with its collection id
	value  string
	extras string // as hex
	frames string // as hex
	cas    uint64
	json   bool
}

const (
	doc      = `{"a":1}`
	key8     = "\x08abc"
	goldCAS  = 0x17f0010203040506
	hexUser  = "757365722d6f662d74776f2d68756e647265642d6f722d736f"
	longUser = "user-of-two-hundred-or-so"
)

// common is a connection on which everything is granted, to collection 8.
var common = call.Wire{Features: allFeatures, Opaque: 0x2a, VBucket: 115, CollectionID: 8}

func withDurability(ms uint32) call.Wire {
	w := common
	w.DurabilityMS = ms
	return w
}

func inCollection(id uint32) call.Wire {
	w := common
	w.CollectionID = id
	return w
}

func withoutFeature(f memd.Feature) call.Wire {
	w := common
	w.Features = w.Features.Without(f)
	return w
}

func baseEncodings() []encoding {
	key, value, initial := []byte("abc"), []byte(doc), uint64(10)
	const (
		flags   = 0x02000006
		stored  = "02000006" + "00000000"
		counter = "0000000000000002" + "000000000000000a" + "00000000"
		missing = "0000000000000002" + "0000000000000000" + "ffffffff"
	)
	return []encoding{
		{file: "get", note: "GET", op: on("", kv.Get{Key: key}), key: key8},
		{file: "get_by_pointer", note: "GET, the operation given by pointer", op: on("", &kv.Get{Key: key}), key: key8},
		{file: "get_replica", note: "GET_REPLICA", op: on("", kv.GetReplica{Key: key, Replica: 2}), key: key8},
		{file: "exists", note: "GET_META: version 2", op: on("", kv.Exists{Key: key}), key: key8, extras: "02"},
		{file: "upsert", note: "SET: JSON", op: on("", kv.Upsert{
			Key: key, Value: value, Flags: flags,
			Datatype: memd.DatatypeJSON,
		}), key: key8, value: doc, extras: stored, json: true},
		{file: "upsert_cas", note: "SET with a CAS", op: on("", kv.Upsert{
			Key: key, Value: value, Flags: flags,
			CAS: goldCAS,
		}), key: key8, value: doc, extras: stored, cas: goldCAS},
		{
			file: "upsert_empty", note: "SET of an empty document", op: on("", kv.Upsert{Key: key, Flags: flags}),
			key: key8, extras: stored,
		},
		{file: "upsert_expiry", note: "SET that expires in 60 s", op: on("", kv.Upsert{
			Key: key, Value: value,
			Expiry: kv.ExpireAfter(60e9),
		}), key: key8, value: doc, extras: "00000000" + "0000003c"},
		{
			file: "insert", note: "ADD", op: on("", kv.Insert{Key: key, Value: value, Flags: flags}), key: key8,
			value: doc, extras: stored,
		},
		{file: "replace", note: "REPLACE with a CAS", op: on("", kv.Replace{
			Key: key, Value: value, Flags: flags,
			CAS: goldCAS,
		}), key: key8, value: doc, extras: stored, cas: goldCAS},
		{
			file: "remove", note: "DELETE with a CAS", op: on("", kv.Remove{Key: key, CAS: goldCAS}), key: key8,
			cas: goldCAS,
		},
		{
			file: "touch", note: "TOUCH: expires in 60 s", op: on("", kv.Touch{Key: key, Expiry: kv.ExpireAfter(60e9)}),
			key: key8, extras: "0000003c",
		},
		{
			file: "get_and_touch", note: "GAT: expires in 60 s",
			op: on("", kv.GetAndTouch{Key: key, Expiry: kv.ExpireAfter(60e9)}), key: key8, extras: "0000003c",
		},
		{
			file: "get_and_lock", note: "GET_LOCKED for 14.5 s, rounded up",
			op: on("", kv.GetAndLock{Key: key, LockTime: 14500e6}), key: key8, extras: "0000000f",
		},
		{
			file: "get_and_lock_default", note: "GET_LOCKED for the server's default",
			op:  on("", kv.GetAndLock{Key: key}),
			key: key8, extras: "00000000",
		},
		{
			file: "get_and_lock_max", note: "GET_LOCKED for 30 s, the most",
			op: on("", kv.GetAndLock{Key: key, LockTime: kv.MaxLockTime}), key: key8, extras: "0000001e",
		},
		{
			file: "unlock", note: "UNLOCK_KEY with the lock's CAS", op: on("", kv.Unlock{Key: key, CAS: goldCAS}),
			key: key8, cas: goldCAS,
		},
		{
			file: "increment", note: "INCREMENT by 2, created as 10",
			op: on("", kv.Increment{Key: key, Delta: 2, Initial: &initial}), key: key8, extras: counter,
		},
		{
			file: "increment_no_initial", note: "INCREMENT by 2, not created",
			op: on("", kv.Increment{Key: key, Delta: 2}), key: key8, extras: missing,
		},
		{
			file: "decrement", note: "DECREMENT by 2, created as 10",
			op: on("", kv.Decrement{Key: key, Delta: 2, Initial: &initial}), key: key8, extras: counter,
		},
		{
			file: "decrement_no_initial", note: "DECREMENT by 2, not created, whatever the expiry",
			op: on("", kv.Decrement{Key: key, Delta: 2, Expiry: kv.ExpireAfter(60e9)}), key: key8, extras: missing,
		},
		{
			file: "append", note: "APPEND", op: on("", kv.Append{Key: key, Value: []byte("tail")}), key: key8,
			value: "tail",
		},
		{file: "prepend", note: "PREPEND with a CAS", op: on("", kv.Prepend{
			Key: key, Value: []byte("head"),
			CAS: goldCAS,
		}), key: key8, value: "head", cas: goldCAS},
		{file: "noop", note: "NOOP", op: on("", kv.Noop{})},
		{
			file: "get_collection_id", note: "COLLECTIONS_GET_ID: the path is the value",
			op: on("", kv.GetCollectionID{Path: "inventory.hotel"}), value: "inventory.hotel",
		},
		{file: "get_cluster_config", note: "GET_CLUSTER_CONFIG, no map known", op: on("", kv.GetClusterConfig{})},
		{
			file: "get_cluster_config_known", note: "GET_CLUSTER_CONFIG: epoch 1, revision 9 is known",
			op: on("", kv.GetClusterConfig{KnownEpoch: 1, KnownRev: 9}), extras: "0000000000000001" +
				"0000000000000009",
		},
	}
}

func variantEncodings() []encoding {
	key, value := []byte("abc"), []byte("v")
	const none = "0000000000000000"
	durable := func(l memd.DurabilityLevel) subject { return on("", kv.Upsert{Key: key, Value: value, Durability: l}) }
	user := func(n int) subject {
		return on("", kv.Get{Common: kv.Common{OnBehalfOf: strings.Repeat(longUser, 4)[:n]}, Key: key})
	}
	userHex := func(n int) string { return strings.Repeat(hexUser, 4)[:2*n] }
	keep := on("", kv.Upsert{Key: key, Value: value, PreserveExpiry: true})
	json := on("", kv.Upsert{Key: key, Value: value, Datatype: memd.DatatypeJSON})
	return []encoding{
		{
			file: "durable_majority", note: "SET, majority, the server's timeout", op: durable(1), key: key8,
			value:  "v",
			extras: none, frames: "1101",
		},
		{
			file: "durable_persist_active", note: "SET, majority and persist to active, 12201 ms", op: durable(2),
			wire: withDurability(12201), key: key8, value: "v", extras: none, frames: "13022fa9",
		},
		{
			file: "durable_persist", note: "SET, persist to majority, 1 ms", op: durable(3), wire: withDurability(1),
			key: key8, value: "v", extras: none, frames: "13030001",
		},
		{
			file: "durable_clamped", note: "SET, majority, 65535 ms is reserved and becomes 65534 (D103)",
			op:   durable(1),
			wire: withDurability(65535), key: key8, value: "v", extras: none, frames: "1301fffe",
		},
		{
			file: "durable_far", note: "SET, majority, an hour becomes 65534 ms (D103)", op: durable(1),
			wire: withDurability(3600000), key: key8, value: "v", extras: none, frames: "1301fffe",
		},
		{
			file: "preserve_expiry", note: "SET that keeps the expiry", op: keep, key: key8, value: "v", extras: none,
			frames: "50",
		},
		{
			file: "preserve_expiry_counter", note: "INCREMENT that keeps the expiry",
			op: on("", kv.Increment{Key: key, Delta: 1, PreserveExpiry: true}), key: key8, extras: "0000000000000001" +
				none + "ffffffff", frames: "50",
		},
		{file: "on_behalf_14", note: "GET for a user of 14 bytes: no escape", op: user(14), key: key8, frames: "4e" +
			userHex(14)},
		{
			file: "on_behalf_15", note: "GET for a user of 15 bytes: escape byte 0", op: user(15), key: key8,
			frames: "4f00" + userHex(15),
		},
		{
			file: "on_behalf_16", note: "GET for a user of 16 bytes: escape byte 1", op: user(16), key: key8,
			frames: "4f01" + userHex(16),
		},
		{
			file: "on_behalf_100", note: "GET for a user of 100 bytes: escape byte 85", op: user(100), key: key8,
			frames: "4f55" + userHex(100),
		},
		{file: "all_frames", note: "REPLACE with every frame", wire: withDurability(2500), op: on("", kv.Replace{
			Common: kv.Common{OnBehalfOf: "jane"}, Key: key, Value: value, PreserveExpiry: true,
			Durability: memd.DurabilityMajority,
		}), key: key8, value: "v", extras: none, frames: "130109c4" + "50" + "446a616e65"},
		{
			file: "collection_0", note: "GET in the default collection: one zero byte", op: on("", kv.Get{Key: key}),
			wire: inCollection(0), key: "\x00abc",
		},
		{
			file: "collection_555", note: "GET in collection 0x555: two bytes", op: on("", kv.Get{Key: key}),
			wire: inCollection(0x555), key: "\xd5\x0aabc",
		},
		{
			file: "collection_max", note: "GET in collection 0xffffffff: five bytes", op: on("", kv.Get{Key: key}),
			wire: inCollection(0xffffffff), key: "\xff\xff\xff\xff\x0fabc",
		},
		{
			file: "no_collections", note: "GET on a connection without collections: the key alone",
			op: on("", kv.Get{Key: key}), wire: call.Wire{Opaque: 0x2a, VBucket: 115}, key: "abc",
		},
		{
			file: "no_json", note: "SET of JSON on a connection that does not know the mark", op: json,
			wire: withoutFeature(memd.FeatureJSON), key: key8, value: "v", extras: none,
		},
		{
			file: "config_no_version", note: "GET_CLUSTER_CONFIG: the node can't be told the known version",
			op:   on("", kv.GetClusterConfig{KnownEpoch: 1, KnownRev: 9}),
			wire: withoutFeature(memd.FeatureGetClusterConfigWithVersion),
		},
		{
			file: "config_rev_only", note: "GET_CLUSTER_CONFIG: an epoch of 0 is no version",
			op: on("", kv.GetClusterConfig{KnownRev: 9}),
		},
		{
			file: "key_longest", note: "GET of the longest key in the longest collection id",
			op: on("", kv.Get{Key: bytes.Repeat([]byte("k"), 250)}), wire: inCollection(0xffffffff),
			key: "\xff\xff\xff\xff\x0f" + strings.Repeat("k", 250),
		},
	}
}

func encodings() []encoding {
	all := append(baseEncodings(), variantEncodings()...)
	all = append(append(append(all, subdocEncodings()...), onePathEncodings()...), otherEncodings()...)
	for i := range all {
		if all[i].wire == (call.Wire{}) {
			all[i].wire = common
		}
	}
	return all
}

func TestEncodeGolden(t *testing.T) {
	written := map[string]bool{}
	for _, e := range encodings() {
		t.Run(e.file, func(t *testing.T) {
			wire, err := e.op.encoded(e.wire)
			require.NoError(t, err)
			path := filepath.Join("testdata", "encode", e.file+".hex")
			testkit.Golden(t, path, []byte(laidOut(t, e.note, wire)), *update)
			require.Equal(t, testkit.Hex(t, path), wire)

			var p memd.Packet
			n, err := p.Parse(wire, 0)
			require.NoError(t, err)
			require.Equal(t, len(wire), n)
			require.Equal(t, e.key, string(p.Key))
			require.Equal(t, e.value, string(p.Value))
			require.Equal(t, e.extras, fmt.Sprintf("%x", p.Extras))
			require.Equal(t, e.frames, fmt.Sprintf("%x", p.Frames))
			require.Equal(t, e.cas, p.CAS)
			require.Equal(t, e.json, p.Datatype == memd.DatatypeJSON)
			require.EqualValues(t, 0x2a, p.Opaque)
			require.EqualValues(t, 115, p.VBucket)
			requireTheirs(t, &p, wire)
		})
		require.False(t, written[e.file], e.file)
		written[e.file] = true
	}
	files, err := os.ReadDir("testdata/encode")
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, written[strings.TrimSuffix(f.Name(), ".hex")], "%s belongs to no encoding", f.Name())
	}
}

// laidOut writes a request as hex with a comment above each part.
func laidOut(t *testing.T, note string, wire []byte) string {
	t.Helper()
	var p memd.Packet
	_, err := p.Parse(wire, 0)
	require.NoError(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", note)
	for _, part := range []struct {
		label string
		bytes []byte
	}{
		{"magic, opcode, lengths of framing extras and key", wire[:4]},
		{"length of extras, datatype, vbucket", wire[4:8]},
		{"length of body, opaque", wire[8:16]},
		{"CAS", wire[16:24]},
		{"framing extras", p.Frames},
		{"extras", p.Extras},
		{"key", p.Key},
		{"value", p.Value},
	} {
		if len(part.bytes) == 0 {
			continue
		}
		fmt.Fprintf(&b, "# %s\n", part.label)
		for tail := part.bytes; len(tail) > 0; {
			n := min(len(tail), 32)
			fmt.Fprintf(&b, "% x\n", tail[:n])
			tail = tail[n:]
		}
	}
	return b.String()
}

// requireTheirs reads a request with gocbcore's codec and compares it field by field.
func requireTheirs(t testing.TB, p *memd.Packet, wire []byte) {
	t.Helper()
	c := gmemd.NewConn(&readOnly{bytes.NewReader(wire)})
	for _, f := range []gmemd.HelloFeature{
		gmemd.FeatureAltRequests, gmemd.FeatureSyncReplication, gmemd.FeatureDurations, gmemd.FeaturePreserveExpiry,
	} {
		c.EnableFeature(f)
	}
	theirs, n, err := c.ReadPacket()
	require.NoError(t, err)
	require.Equal(t, len(wire), n)
	require.Equal(t, gmemd.CmdMagicReq, theirs.Magic)
	require.EqualValues(t, p.Opcode, theirs.Command)
	require.EqualValues(t, p.Datatype, theirs.Datatype)
	require.Equal(t, p.VBucket, theirs.Vbucket)
	require.Equal(t, p.Opaque, theirs.Opaque)
	require.Equal(t, p.CAS, theirs.Cas)
	require.Equal(t, string(p.Key), string(theirs.Key))
	require.Equal(t, string(p.Extras), string(theirs.Extras))
	require.Equal(t, string(p.Value), string(theirs.Value))

	var frames []byte
	if theirs.DurabilityLevelFrame != nil {
		data := []byte{byte(theirs.DurabilityLevelFrame.DurabilityLevel)}
		if theirs.DurabilityTimeoutFrame != nil {
			data = binary.BigEndian.AppendUint16(data,
				uint16(theirs.DurabilityTimeoutFrame.DurabilityTimeout.Milliseconds()))
		}
		frames, _ = memd.AppendFrame(frames, memd.FrameDurability, data)
	}
	if theirs.PreserveExpiryFrame != nil {
		frames, _ = memd.AppendFrame(frames, memd.FramePreserveTTL, nil)
	}
	if theirs.UserImpersonationFrame != nil {
		frames, _ = memd.AppendFrame(frames, memd.FrameImpersonateUser, theirs.UserImpersonationFrame.User)
	}
	require.Empty(t, theirs.UnsupportedFrames)
	require.Equal(t, string(p.Frames), string(frames))

	// And what they make of the same fields are the same bytes.
	var out bytes.Buffer
	c = gmemd.NewConn(&out)
	for _, f := range []gmemd.HelloFeature{
		gmemd.FeatureAltRequests, gmemd.FeatureSyncReplication, gmemd.FeatureDurations, gmemd.FeaturePreserveExpiry,
	} {
		c.EnableFeature(f)
	}
	require.NoError(t, c.WritePacket(theirs))
	if theirs.PreserveExpiryFrame != nil && theirs.UserImpersonationFrame != nil {
		require.Len(t, out.Bytes(), len(wire)) // they put the two the other way round
		return
	}
	require.Equal(t, wire, out.Bytes())
}

type readOnly struct{ *bytes.Reader }

func (*readOnly) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
