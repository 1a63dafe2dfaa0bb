package mock_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// metaExtras are the extras of a write with metadata.
func metaExtras(flags, expiry uint32, rev, cas uint64, options ...uint32) []byte {
	x := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, flags), expiry)
	x = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(x, rev), cas)
	for _, o := range options {
		x = binary.BigEndian.AppendUint32(x, o)
	}
	return x
}

func metaPacket(op memd.Opcode, key, value string, extras []byte) memd.Packet {
	return memd.Packet{Opcode: op, Key: docKey(key), Value: []byte(value), Extras: extras}
}

func TestWritesWithMetadata(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, subdocFeatures...)
	rows := []struct {
		name  string
		op    memd.Opcode
		x     []byte
		cas   uint64 // of the request
		value string
		want  memd.Status
	}{
		{"first", memd.OpSetWithMeta, metaExtras(7, 0, 5, 100), 0, "a", memd.StatusSuccess},
		{"older revision", memd.OpSetWithMeta, metaExtras(7, 0, 4, 900), 0, "b", memd.StatusKeyExists},
		{"the same", memd.OpSetWithMeta, metaExtras(7, 0, 5, 100), 0, "a", memd.StatusKeyExists},
		{"same revision, newer CAS", memd.OpSetWithMeta, metaExtras(7, 0, 5, 101), 0, "c", memd.StatusSuccess},
		{"same, later expiry", memd.OpSetWithMeta, metaExtras(7, 2e9, 5, 101), 0, "d", memd.StatusSuccess},
		{"same, larger flags", memd.OpSetWithMeta, metaExtras(8, 2e9, 5, 101), 0, "e", memd.StatusSuccess},
		{"add where something is", memd.OpAddWithMeta, metaExtras(0, 0, 99, 1000), 0, "f", memd.StatusKeyExists},
		{"other version wanted", memd.OpSetWithMeta, metaExtras(0, 0, 99, 1000), 77, "g", memd.StatusKeyExists},
		{"this version wanted", memd.OpSetWithMeta, metaExtras(0, 0, 6, 102), 101, "h", memd.StatusSuccess},
		{"conflict skipped", memd.OpSetWithMeta, metaExtras(0, 0, 1, 50, 1), 0, "i", memd.StatusSuccess},
		{"new CAS", memd.OpSetWithMeta, metaExtras(0, 0, 9, 0, 5), 0, "j", memd.StatusSuccess},
		{"new CAS with conflicts", memd.OpSetWithMeta, metaExtras(0, 0, 10, 0, 4), 0, "k", memd.StatusInvalid},
		{"no CAS", memd.OpSetWithMeta, metaExtras(0, 0, 10, 0), 0, "k", memd.StatusInvalid},
		{"resolved by time here", memd.OpSetWithMeta, metaExtras(0, 0, 10, 60, 2), 0, "k", memd.StatusInvalid},
		{"unknown options", memd.OpSetWithMeta, metaExtras(0, 0, 10, 60, 0x100), 0, "k", memd.StatusInvalid},
		{"older deletion", memd.OpDelWithMeta, metaExtras(0, 0, 8, 60), 0, "", memd.StatusKeyExists},
		{"deletion with a body", memd.OpDelWithMeta, metaExtras(0, 0, 10, 60), 0, "x", memd.StatusInvalid},
		{"deletion", memd.OpDelWithMeta, metaExtras(0, 1234, 10, 60), 0, "", memd.StatusSuccess},
		{"older than the tombstone", memd.OpSetWithMeta, metaExtras(0, 0, 9, 9999), 0, "l", memd.StatusKeyExists},
		{"wanted where nothing is", memd.OpSetWithMeta, metaExtras(0, 0, 11, 61), 59, "l", memd.StatusKeyNotFound},
		{
			"deletion wanted where nothing is", memd.OpDelWithMeta, metaExtras(0, 0, 11, 61), 59, "",
			memd.StatusKeyExists,
		},
		{"this tombstone wanted", memd.OpDelWithMeta, metaExtras(0, 1234, 10, 61), 60, "", memd.StatusSuccess},
		{"add over a tombstone", memd.OpAddWithMeta, metaExtras(0, 0, 11, 61), 0, "m", memd.StatusSuccess},
	}
	for _, row := range rows {
		p := metaPacket(row.op, "k", row.value, row.x)
		p.CAS = row.cas
		got := r.call(p)
		require.Equal(t, row.want, got.Status, row.name)
		if row.want == memd.StatusSuccess {
			require.Len(t, got.Extras, 16, row.name)
			if cas := binary.BigEndian.Uint64(row.x[16:]); cas != 0 {
				require.Equal(t, cas, got.CAS, row.name)
			}
		}
	}
	meta := r.call(memd.Packet{Opcode: memd.OpGetMeta, Key: docKey("k"), Extras: []byte{2}})
	require.Equal(t, uint64(11), binary.BigEndian.Uint64(meta.Extras[12:]))
	set := r.set("k", "later")
	require.Greater(t, set.CAS, uint64(61))
	meta = r.call(memd.Packet{Opcode: memd.OpGetMeta, Key: docKey("k")})
	require.Equal(t, uint64(12), binary.BigEndian.Uint64(meta.Extras[12:]))
	never := metaPacket(memd.OpDelWithMeta, "never", "", metaExtras(0, 0, 1, 5))
	never.CAS = 5
	require.Equal(t, memd.StatusKeyExists, r.call(never).Status, "a document that never was has the CAS 0")
	never.Extras = metaExtras(0, 0, 1, 5, 1)
	require.Equal(t, memd.StatusSuccess, r.call(never).Status, "without resolution it has the CAS that is wanted")

	pairs, err := memd.AppendXattr(nil, "_s", []byte(`{"a":1}`))
	require.NoError(t, err)
	x := metaPacket(memd.OpSetWithMeta, "x", string(memd.JoinXattrs(pairs, []byte("{}"))),
		append(metaExtras(0, 0, 1, 5, 0), 0, 0))
	x.Datatype = memd.DatatypeXattr | memd.DatatypeJSON
	require.Equal(t, memd.StatusSuccess, r.call(x).Status)
	require.Equal(t, "{}", r.body("x"))
	p := r.call(lookupPacket("x", 0, ps{memd.OpSubdocGet, fXattr, "_s.a", ""}))
	require.Equal(t, okPaths("1"), pathAnswers(t, p.Value))
	meta = r.call(memd.Packet{Opcode: memd.OpGetMeta, Key: docKey("x"), Extras: []byte{2}})
	require.Equal(t, byte(memd.DatatypeXattr|memd.DatatypeJSON), meta.Extras[20])
	x.Value = []byte{0, 0, 0, 9, 1}
	require.Equal(t, memd.StatusXattrInvalid, r.call(x).Status)
	nmeta := metaPacket(memd.OpSetWithMeta, "n", "bodyMETA", append(metaExtras(0, 0, 1, 5), 0, 4))
	require.Equal(t, memd.StatusSuccess, r.call(nmeta).Status)
	require.Equal(t, "body", r.body("n"))
	nmeta.Extras[25] = 9
	require.Equal(t, memd.StatusInvalid, r.call(nmeta).Status)

	for i, want := range []memd.Status{
		memd.StatusInvalid, memd.StatusSuccess, memd.StatusKeyExists, memd.StatusSuccess,
		memd.StatusInvalid,
	} {
		ret := memd.Packet{Opcode: memd.OpReturnMeta, Key: docKey("ret"), Value: []byte("v"), Extras: make([]byte, 12)}
		ret.Extras[3], ret.Extras[7] = byte(i), 9
		got := r.call(ret)
		require.Equal(t, want, got.Status, i)
		if want == memd.StatusSuccess {
			require.Len(t, got.Extras, 16)
			require.NotZero(t, binary.BigEndian.Uint64(got.Extras[8:]))
		}
	}
}

// A document that is new in its vbucket begins behind the revisions of those that were deleted there.
func TestRevisionsBeginBehindTombstones(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 1))
	r := login(t, c, baseFeatures...)
	revision := func(key string) uint64 {
		meta := r.call(memd.Packet{Opcode: memd.OpGetMeta, Key: docKey(key)})
		require.Equal(t, memd.StatusSuccess, meta.Status)
		return binary.BigEndian.Uint64(meta.Extras[12:])
	}
	for range 3 {
		r.set("a", "1")
	}
	r.set("b", "1")
	require.Equal(t, []uint64{3, 1}, []uint64{revision("a"), revision("b")})
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpDelete, Key: docKey("a")}).Status)
	r.set("c", "1")
	r.set("b", "1")
	require.Equal(t, []uint64{4, 2, 5}, []uint64{revision("a"), revision("b"), revision("c")})
}

func TestConflictsResolvedByTime(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 1, mock.ResolveByTime()))
	r := login(t, c, baseFeatures...)
	put := func(rev, cas uint64, options uint32) memd.Status {
		return r.call(metaPacket(memd.OpSetWithMeta, "k", "v", metaExtras(0, 0, rev, cas, options))).Status
	}
	require.Equal(t, memd.StatusInvalid, put(5, 100, 0))
	require.Equal(t, memd.StatusSuccess, put(5, 100, 2))
	require.Equal(t, memd.StatusSuccess, put(1, 101, 2), "a later write wins whatever its revision")
	require.Equal(t, memd.StatusKeyExists, put(99, 100, 2))
	require.Equal(t, memd.StatusSuccess, put(2, 101, 2))
}

func TestRandomDocuments(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 4, mock.WithCollection("s", "c")))
	r := loginAt(t, c, 0, append([]memd.Feature{memd.FeatureSnappyEverywhere}, subdocFeatures...)...)
	other := loginAt(t, c, 1, baseFeatures...)
	random := func(x ...byte) memd.Packet { return memd.Packet{Opcode: memd.OpGetRandomKey, Extras: x} }
	require.Equal(t, memd.StatusKeyNotFound, r.call(random(0, 0, 0, 0)).Status)
	for i := range 4 {
		r.set(fmt.Sprint("k", i), fmt.Sprint(i))
	}
	require.Equal(t, memd.StatusSuccess, r.call(mutatePacket("k0", 0, ps{
		memd.OpSubdocDictUpsert, fXattr, "x",
		"1",
	})).Status)
	in := storePacket(memd.OpSet, "", "in")
	in.Key = inCollection(8, []byte("only"))
	require.Equal(t, memd.StatusSuccess, r.call(in).Status)
	seen := map[string]bool{}
	for range 200 {
		p := r.call(random(0, 0, 0, 0))
		require.Equal(t, memd.StatusSuccess, p.Status)
		require.Len(t, p.Extras, 4)
		key := string(p.Key[1:])
		require.Equal(t, strings.TrimPrefix(key, "k"), string(p.Value))
		seen[key] = true
	}
	require.Len(t, seen, 4)
	p := r.call(random(0, 0, 0, 8))
	require.Equal(t, inCollection(8, []byte("only")), p.Key)
	require.Equal(t, memd.StatusUnknownCollection, r.call(random(0, 0, 0, 9)).Status)
	require.Equal(t, memd.StatusInvalid, r.call(random(0, 0, 0, 0, 7)).Status)
	require.Equal(t, memd.StatusInvalid, r.call(random()).Status, "with collections it names one")
	require.Equal(t, memd.StatusKeyNotFound, other.call(random(0, 0, 0, 0)).Status, "each node answers of its own")
	for p = r.call(random(0, 0, 0, 0, 0xff)); string(p.Key[1:]) != "k0"; {
		require.Zero(t, p.Datatype&memd.DatatypeXattr)
		p = r.call(random(0, 0, 0, 0, 0xff))
	}
	require.NotZero(t, p.Datatype&memd.DatatypeXattr)

	p = r.call(memd.Packet{Opcode: memd.OpGetEx, Key: docKey("k0")})
	require.Equal(t, memd.DatatypeXattr|memd.DatatypeJSON, p.Datatype)
	x, body, err := memd.SplitXattrs(p.Value)
	require.NoError(t, err)
	require.Equal(t, "0", string(body))
	value, ok := x.Get("x")
	require.True(t, ok)
	require.Equal(t, "1", string(value))
	require.Equal(t, memd.StatusNotSupported, other.call(memd.Packet{Opcode: memd.OpGetEx, Key: docKey("k0")}).Status)
	require.Equal(t, memd.StatusNotMyVBucket, r.call(memd.Packet{
		Opcode: memd.OpGetExReplica,
		Key:    docKey("k0"),
	}).Status)
	saslPlainPacket := loginAt(t, c, 0)
	p = saslPlainPacket.call(random())
	require.Len(t, p.Key, 2, "without collections there is no id before the key")
	require.Equal(t, memd.StatusInvalid, saslPlainPacket.call(random(0, 0, 0, 0)).Status)
}

func TestQuietForms(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	quiet := func(p memd.Packet, op memd.Opcode) memd.Packet {
		p.Opcode = op
		return p
	}
	noop := memd.Packet{Opcode: memd.OpNoop}
	r.send(quiet(getPacket("k"), memd.OpGetQ), quiet(storePacket(memd.OpSet, "k", "v"), memd.OpSetQ),
		quiet(getPacket("k"), memd.OpGetQ), quiet(getPacket("k"), memd.OpGetKQ),
		quiet(storePacket(memd.OpAdd, "k", "w"), memd.OpAddQ),
		quiet(getPacket("none"), memd.OpGetKQ), noop)
	require.Equal(t, "v", string(r.next(memd.OpGetQ, 6).Value))
	p := r.next(memd.OpGetKQ, 7)
	require.Equal(t, docKey("k"), p.Key)
	require.Equal(t, memd.StatusKeyExists, r.next(memd.OpAddQ, 8).Status)
	r.next(memd.OpNoop, 10)
	p = r.call(quiet(getPacket("none"), memd.OpGetK))
	require.Equal(t, memd.StatusKeyNotFound, p.Status)
	require.Equal(t, docKey("none"), p.Key)
	in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetQ}}, mock.Status(memd.StatusTmpFail))
	require.Equal(t, memd.StatusTmpFail, r.call(quiet(getPacket("none"), memd.OpGetQ)).Status)
	in.Remove()
	gat := memd.Packet{Opcode: memd.OpGATQ, Key: docKey("k"), Extras: make([]byte, 4)}
	require.Equal(t, "v", string(r.call(gat).Value))
	r.send(memd.Packet{Opcode: memd.OpDeleteQ, Key: docKey("k")}, noop)
	r.next(memd.OpNoop, r.opaque)
	require.Empty(t, c.Documents("default"))
	r.send(memd.Packet{Opcode: memd.OpQuitQ})
	r.closed()
}

func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual(), mock.Nodes(2), mock.Bucket("default", 1))
		require.NoError(t, c.SetReplicaLag("default", 60*time.Millisecond))
		require.NoError(t, c.SetPersistLag("default", 60*time.Millisecond))
		active, replica := loginAt(t, c, 0, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
		entry := func(key string) []byte {
			b := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(key)+1))
			return append(append(b, 0), key...)
		}
		look := func(r *raw, keys ...string) (states []byte, cas []uint64) {
			var v []byte
			for _, k := range keys {
				v = append(v, entry(k)...)
			}
			p := r.call(memd.Packet{Opcode: memd.OpObserve, Value: v})
			require.Equal(t, memd.StatusSuccess, p.Status)
			for _, k := range keys {
				e := entry(k)
				require.Equal(t, e, p.Value[:len(e)])
				states = append(states, p.Value[len(e)])
				cas = append(cas, binary.BigEndian.Uint64(p.Value[len(e)+1:]))
				p.Value = p.Value[len(e)+9:]
			}
			require.Empty(t, p.Value)
			require.Equal(t, uint64(60)<<32, p.CAS)
			return states, cas
		}
		set := active.set("k", "v")
		states, cas := look(active, "k", "none")
		require.Equal(t, []byte{0, 0x80}, states)
		require.Equal(t, []uint64{set.CAS, 0}, cas)
		states, _ = look(replica, "k")
		require.Equal(t, []byte{0x80}, states)
		seqno := func(r *raw) (persisted, current uint64) {
			p := r.call(memd.Packet{Opcode: memd.OpObserveSeqno, Value: set.Extras[:8]})
			require.Equal(t, memd.StatusSuccess, p.Status)
			return binary.BigEndian.Uint64(p.Value[11:]), binary.BigEndian.Uint64(p.Value[19:])
		}
		persisted, current := seqno(active)
		require.Equal(t, []uint64{0, 1}, []uint64{persisted, current})
		_, current = seqno(replica)
		require.Zero(t, current)

		begin := time.Now()
		wait := memd.Packet{Opcode: memd.OpSeqnoPersistence, Extras: set.Extras[8:]}
		require.Equal(t, memd.StatusSuccess, active.call(wait).Status)
		require.GreaterOrEqual(t, time.Since(begin), 40*time.Millisecond)
		states, _ = look(active, "k")
		require.Equal(t, []byte{1}, states)
		require.Equal(t, memd.StatusSuccess, active.call(memd.Packet{Opcode: memd.OpDelete, Key: docKey("k")}).Status)
		states, _ = look(active, "k")
		require.Equal(t, []byte{0x81}, states)
		require.NoError(t, c.SetPersistLag("default", 0))
		require.NoError(t, c.SetReplicaLag("default", 0))
		persisted, current = seqno(replica)
		require.Equal(t, []uint64{2, 2}, []uint64{persisted, current})
		for _, bad := range [][]byte{nil, {0}, {0, 0, 0, 9, 0}, {0, 0, 0, 0}, entry("")} {
			require.Equal(t, memd.StatusInvalid, active.call(memd.Packet{Opcode: memd.OpObserve, Value: bad}).Status)
		}
		require.Equal(t, memd.StatusNotMyVBucket, active.call(memd.Packet{Opcode: memd.OpObserve, Value: []byte{
			0, 9, 0,
			2, 0, 'k',
		}}).Status)
	})
}

func TestDurablePersistenceIsOnDiskAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual(), mock.Nodes(2), mock.Bucket("default", 1))
		require.NoError(t, c.SetPersistLag("default", time.Hour))
		r := login(t, c, baseFeatures...)
		p := storePacket(memd.OpSet, "k", "v")
		p.Magic, p.Frames = memd.MagicReqExt, []byte{0x11, 3}
		set := r.call(p)
		require.Equal(t, memd.StatusSuccess, set.Status)
		require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{
			Opcode: memd.OpSeqnoPersistence,
			Extras: set.Extras[8:],
		}).Status)
		ephemeral := mock.Start(t, mock.Virtual(), mock.Nodes(2), mock.Bucket("default", 1, mock.Ephemeral()))
		r = login(t, ephemeral, baseFeatures...)
		require.Equal(t, memd.StatusDurabilityInvalidLevel, r.call(p).Status)
		p.Frames = []byte{0x11, 1}
		set = r.call(p)
		require.Equal(t, memd.StatusSuccess, set.Status)
		seq := r.call(memd.Packet{Opcode: memd.OpObserveSeqno, Value: set.Extras[:8]})
		require.Zero(t, binary.BigEndian.Uint64(seq.Value[11:]))
		require.Equal(t, uint64(1), binary.BigEndian.Uint64(seq.Value[19:]))
		require.Equal(t, memd.StatusNotSupported, r.call(memd.Packet{Opcode: memd.OpObserve, Value: []byte{
			0, 0, 0, 2,
			0, 'k',
		}}).Status)
		require.Equal(t, memd.StatusNotSupported, r.call(memd.Packet{
			Opcode: memd.OpSeqnoPersistence,
			Extras: make([]byte, 8),
		}).Status)
	})
}

// stats reads the answer to a STAT.
func (r *raw) stats(group string) (map[string]string, memd.Status) {
	r.t.Helper()
	r.send(memd.Packet{Opcode: memd.OpStat, Key: []byte(group)})
	out := map[string]string{}
	for {
		p := r.next(memd.OpStat, r.opaque)
		if len(p.Key) == 0 {
			return out, p.Status
		}
		out[string(p.Key)] = string(p.Value)
	}
}

func TestStatGroups(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 2, mock.WithCollection("s", "c")))
	r := login(t, c, baseFeatures...)
	set := r.set("k", "v")
	uuid := fmt.Sprint(binary.BigEndian.Uint64(set.Extras))
	for group, want := range map[string]map[string]string{
		"":        {"curr_items": "1", "vb_active_num": "1", "vb_replica_num": "1"},
		"vbucket": {"vb_0": "active", "vb_1": "replica"},
		"vbucket-details 0": {
			"vb_0": "active", "vb_0:uuid": uuid, "vb_0:high_seqno": "1",
			"vb_0:num_items": "1",
		},
		"vbucket-seqno 0": {"vb_0:uuid": uuid, "vb_0:high_seqno": "1", "vb_0:last_persisted_seqno": "1"},
		"failovers 0":     {"vb_0:num_entries": "1", "vb_0:0:id": uuid, "vb_0:0:seq": "0"},
		"collections": {
			"manifest_uid": "0x2", "0x0:0x0:items": "1", "0x8:0x8:name": "c",
			"0x8:0x8:scope_name": "s",
		},
		"collections-byid 0x8":          {"manifest_uid": "0x2", "0x8:0x8:items": "0"},
		"collections _default._default": {"0x0:0x0:items": "1"},
		"scopes":                        {"0x0:items": "1", "0x8:name": "s", "0x8:collections": "1"},
		"scopes s":                      {"0x8:items": "0"},
		"key k 0": {
			"key_is_dirty": "false", "key_vb_state": "active",
			"key_cas": fmt.Sprint(set.CAS),
		},
		"reset":          {},
		"config":         {"ep_bucket_type": "persistent", "ep_conflict_resolution_type": "seqno"},
		"memory":         {"mem_used": "2"},
		"diskinfo":       {"ep_db_data_size": "2"},
		"hash":           {"vb_0:state": "active", "vb_0:counted": "1", "vb_1:state": "replica"},
		"dcp":            {"ep_dcp_count": "0"},
		"workload":       {"ep_workload:num_shards": "1"},
		"timings":        {"get_stats_cmd_mean": "0"},
		"kvtimings":      {"rw_0:commit_mean": "0"},
		"bucket_details": {"bucket details": `{"buckets":[{"name":"default","state":"ready"}]}`},
	} {
		got, st := r.stats(group)
		require.Equal(t, memd.StatusSuccess, st, group)
		for k, v := range want {
			require.Equal(t, v, got[k], "%s: %s", group, k)
		}
	}
	got, _ := r.stats("uuid")
	require.Len(t, got["uuid"], 32)
	for group, want := range map[string]memd.Status{
		"nonsense": memd.StatusKeyNotFound, "vbucket x": memd.StatusInvalid, "vbucket 99": memd.StatusNotMyVBucket,
		"key k": memd.StatusInvalid, "key none 0": memd.StatusKeyNotFound,
		"collections-byid 0x99": memd.StatusUnknownCollection,
		"scopes none":           memd.StatusUnknownScope,
	} {
		_, st := r.stats(group)
		require.Equal(t, want, st, group)
	}
}

func TestVBucketCommands(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 2, mock.WithCollection("s", "c")))
	r := login(t, c, baseFeatures...)
	for _, k := range []string{"b", "a", "c"} {
		r.set(k, "v")
	}
	in := storePacket(memd.OpSet, "", "in")
	in.Key = inCollection(8, []byte("z"))
	require.Equal(t, memd.StatusSuccess, r.call(in).Status)
	state := func(vb uint16) []byte { return r.call(memd.Packet{Opcode: memd.OpGetVBucket, VBucket: vb}).Value }
	require.Equal(t, []byte{0, 0, 0, 1}, state(0))
	require.Equal(t, []byte{0, 0, 0, 2}, state(1))
	require.Equal(t, memd.StatusNotMyVBucket, r.call(memd.Packet{Opcode: memd.OpGetVBucket, VBucket: 9}).Status)
	all := func(x ...byte) []byte { return r.call(memd.Packet{Opcode: memd.OpGetAllVBSeqnos, Extras: x}).Value }
	four := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 4}
	require.Equal(t, slices.Concat(four, []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}), all())
	require.Equal(t, four, all(0, 0, 0, 1))
	require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, all(0, 0, 0, 1, 0, 0, 0, 0))
	require.Equal(t, four, all(0, 0, 0, 1, 0, 0, 0, 8))
	require.Equal(t, memd.StatusInvalid, r.call(memd.Packet{Opcode: memd.OpGetAllVBSeqnos, Extras: []byte{
		0, 0, 0,
		5,
	}}).Status)
	keys := r.call(memd.Packet{Opcode: memd.OpGetKeys, Key: docKey("b"), Extras: []byte{0, 0, 0, 9}})
	require.Equal(t, []byte("\x00\x01b\x00\x01c"), keys.Value)
	keys = r.call(memd.Packet{Opcode: memd.OpGetKeys, Key: docKey("a"), Extras: []byte{0, 0, 0, 1}})
	require.Equal(t, []byte("\x00\x01a"), keys.Value)
	require.Equal(t, memd.StatusKeyNotFound, r.call(memd.Packet{Opcode: memd.OpGetKeys, Key: docKey("x")}).Status)
	require.Equal(t, "default", string(r.call(memd.Packet{Opcode: memd.OpListBuckets}).Value))
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpVerbosity, Extras: make([]byte, 4)}).Status)
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpEvictKey, Key: docKey("a")}).Status)
	require.Equal(t, memd.StatusKeyNotFound, r.call(memd.Packet{Opcode: memd.OpEvictKey, Key: docKey("none")}).Status)
}

func TestUnits(t *testing.T) {
	fs := append([]memd.Feature{memd.FeatureReportUnitUsage}, baseFeatures...)
	require.Len(t, login(t, mock.Start(t), fs...).set("k", "v").Frames, 3, "no server but a serverless one tells")
	r := login(t, mock.Start(t, mock.ReportUnits()), fs...)
	units := func(p memd.Packet) []byte {
		_, _, tail, err := memd.NextFrame(p.Frames)
		require.NoError(t, err)
		return tail
	}
	require.Equal(t, []byte{0x22, 0, 5}, units(r.set("k", strings.Repeat("x", 5000))))
	require.Equal(t, []byte{0x12, 0, 2}, units(r.call(getPacket("k"))))
	require.Empty(t, units(r.call(getPacket("none"))))
	require.Empty(t, units(r.call(memd.Packet{Opcode: memd.OpNoop})))
}
