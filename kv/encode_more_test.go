package kv_test

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// look and change lay out one spec as the protocol does.
func look(op memd.Opcode, flags byte, path string) string {
	b := append([]byte{byte(op), flags}, binary.BigEndian.AppendUint16(nil, uint16(len(path)))...)
	return string(b) + path
}

func change(op memd.Opcode, flags byte, path, value string) string {
	b := append([]byte{byte(op), flags}, binary.BigEndian.AppendUint16(nil, uint16(len(path)))...)
	return string(binary.BigEndian.AppendUint32(b, uint32(len(value)))) + path + value
}

func subdocEncodings() []encoding {
	key := []byte("abc")
	v := func(s string) []byte { return []byte(s) }
	reads := func(l kv.LookupIn) subject { l.Key = key; return on("", l) }
	writes := func(m kv.MutateIn) subject { m.Key = key; return on("", m) }
	one := []kv.MutateSpec{kv.UpsertPath("a", v("1"))}
	meta := []kv.MutateSpec{{Op: memd.OpSubdocDictUpsert, Path: "x", Value: v("1"), Xattr: true}}
	single, singleMeta := change(memd.OpSubdocDictUpsert, 0, "a", "1"), change(memd.OpSubdocDictUpsert, 0x04, "x", "1")
	all := []kv.MutateSpec{
		kv.InsertPath("i", v("1")), kv.UpsertPath("u", v("2")), kv.ReplacePath("r", v("3")), kv.RemovePath("d"),
		kv.ArrayAppend("l", v("4,5")), kv.ArrayPrepend("", v("6")), kv.ArrayInsert("n[0]", v("7")),
		kv.ArrayAddUnique("q", v("8")), kv.IncrementPath("c", -9),
	}
	return []encoding{
		{file: "lookup_in", note: "SUBDOC_MULTI_LOOKUP: every command", op: reads(kv.LookupIn{Specs: []kv.LookupSpec{
			kv.GetPath("a.b"), kv.ExistsPath("c[-1]"), kv.CountPath(""), kv.WholeDocument(),
		}}), key: key8, value: look(0xc5, 0, "a.b") + look(0xc6, 0, "c[-1]") + look(0xd2, 0, "") + look(0x00, 0, "")},
		{
			file: "lookup_in_reordered", note: "SUBDOC_MULTI_LOOKUP: extended attributes go first, in their order",
			op: reads(kv.LookupIn{Specs: []kv.LookupSpec{
				kv.GetPath("a"), kv.GetXattr("$document"), kv.GetPath("b"), {
					Op: memd.OpSubdocExists, Path: "meta.x",
					Xattr: true,
				},
			}}), key: key8, value: look(0xc5, 4, "$document") + look(0xc6, 4, "meta.x") + look(0xc5, 0, "a") +
				look(0xc5, 0,
					"b"),
		},
		{
			file: "lookup_in_deleted", note: "SUBDOC_MULTI_LOOKUP of a tombstone; a binary attribute",
			op: reads(kv.LookupIn{AccessDeleted: true, Specs: []kv.LookupSpec{
				{Op: memd.OpSubdocGet, Path: "_sync", Xattr: true, Binary: true},
			}}), key: key8, value: look(0xc5, 0x24, "_sync"), extras: "04",
		},
		{
			file: "lookup_in_replica", note: "SUBDOC_MULTI_LOOKUP on a replica",
			op: reads(kv.LookupIn{Replica: 1, Specs: []kv.LookupSpec{kv.GetPath("a")}}), key: key8,
			value: look(0xc5, 0, "a"), extras: "20",
		},
		{
			file: "mutate_in", note: "SUBDOC_MULTI_MUTATION: every command on paths",
			op:  writes(kv.MutateIn{Specs: all}),
			key: key8, value: change(0xc7, 0, "i", "1") + change(0xc8, 0, "u", "2") + change(0xca, 0, "r", "3") +
				change(0xc9, 0, "d", "") +
				change(0xcb, 0, "l", "4,5") + change(0xcc, 0, "", "6") + change(0xcd, 0, "n[0]", "7") + change(0xce, 0,
				"q",
				"8") + change(0xcf, 0, "c", "-9"),
		},
		{
			file: "mutate_in_document",
			note: "SUBDOC_MULTI_MUTATION: an attribute, then the whole document; with a CAS",
			op: writes(kv.MutateIn{CAS: goldCAS, Specs: []kv.MutateSpec{
				kv.ReplacePath("", v(doc)), {
					Op: memd.OpSubdocDictUpsert, Path: "meta.cas", Value: v(kv.MacroCAS),
					Xattr: true, CreateParents: true, ExpandMacros: true,
				},
			}}), key: key8, value: change(0xc8, 0x15, "meta.cas", `"${Mutation.CAS}"`) + change(0x01, 0, "", doc), cas: goldCAS,
		},
		{
			file: "mutate_in_remove", note: "SUBDOC_MULTI_MUTATION: an attribute, then the document's removal",
			op: writes(kv.MutateIn{Specs: []kv.MutateSpec{
				kv.RemovePath(""), {Op: memd.OpSubdocDelete, Path: "meta", Xattr: true},
			}}), key: key8, value: change(0xc9, 4, "meta", "") + change(0x04, 0, "", ""),
		},
		{
			file: "mutate_in_upsert", note: "SUBDOC_MULTI_MUTATION: makes the document, which expires in 60 s",
			op: writes(kv.MutateIn{Specs: one, Store: kv.StoreUpsert, Expiry: kv.ExpireAfter(60e9)}), key: key8,
			value: single, extras: "0000003c" + "01",
		},
		{
			file: "mutate_in_insert", note: "SUBDOC_MULTI_MUTATION: the document must not exist",
			op: writes(kv.MutateIn{Specs: one, Store: kv.StoreInsert}), key: key8, value: single, extras: "02",
		},
		{
			file: "mutate_in_expiry", note: "SUBDOC_MULTI_MUTATION: expiry alone",
			op: writes(kv.MutateIn{Specs: one, Expiry: kv.ExpireAfter(60e9)}), key: key8, value: single,
			extras: "0000003c",
		},
		{
			file: "mutate_in_create_deleted", note: "SUBDOC_MULTI_MUTATION: makes a tombstone with an attribute",
			op:  writes(kv.MutateIn{Specs: meta, Store: kv.StoreInsert, AccessDeleted: true, CreateAsDeleted: true}),
			key: key8, value: singleMeta, extras: "0e",
		},
		{
			file: "mutate_in_revive", note: "SUBDOC_MULTI_MUTATION: revives a tombstone, its body from an attribute",
			op: writes(kv.MutateIn{
				Specs: []kv.MutateSpec{kv.ReplaceBody("staged")}, AccessDeleted: true,
				Revive: true,
			}), key: key8, value: change(0xd3, 4, "staged", ""), extras: "14",
		},
		{
			file: "mutate_in_frames", note: "SUBDOC_MULTI_MUTATION: majority, 2.5 s; keeps the expiry",
			wire: withDurability(2500), op: writes(kv.MutateIn{
				Specs: one, Durability: memd.DurabilityMajority,
				PreserveExpiry: true,
			}), key: key8, value: single, frames: "130109c4" + "50",
		},
	}
}

func onePathEncodings() []encoding {
	key, v := []byte("abc"), []byte("1")
	get := func(s kv.LookupSpec) subject { return on("", kv.LookupPath{Key: key, Spec: s}) }
	set := func(s kv.MutateSpec) subject { return on("", kv.MutatePath{Key: key, Spec: s}) }
	return []encoding{
		{file: "path_get", note: "SUBDOC_GET", op: get(kv.GetPath("a.b")), key: key8, value: "a.b", extras: "000300"},
		{
			file: "path_exists", note: "SUBDOC_EXISTS of an attribute of a tombstone",
			op: on("", kv.LookupPath{Key: key, AccessDeleted: true, Spec: kv.LookupSpec{
				Op:   memd.OpSubdocExists,
				Path: "x", Xattr: true,
			}}), key: key8, value: "x", extras: "00010404",
		},
		{
			file: "path_count", note: "SUBDOC_GET_COUNT of the root", op: get(kv.CountPath("")), key: key8,
			extras: "000000",
		},
		{
			file: "path_insert", note: "SUBDOC_DICT_ADD", op: set(kv.InsertPath("a", v)), key: key8, value: "a1",
			extras: "000100",
		},
		{file: "path_upsert", note: "SUBDOC_DICT_UPSERT with all that it may have", op: on("", kv.MutatePath{
			Key: key, Spec: kv.MutateSpec{
				Op: memd.OpSubdocDictUpsert, Path: "a", Value: v, Xattr: true,
				CreateParents: true,
			}, Store: kv.StoreUpsert,
			Expiry: kv.ExpireAfter(60e9), CAS: goldCAS,
		}), key: key8, value: "a1", extras: "000105" + "0000003c" + "01", cas: goldCAS},
		{
			file: "path_remove", note: "SUBDOC_DELETE", op: set(kv.RemovePath("a")), key: key8, value: "a",
			extras: "000100",
		},
		{
			file: "path_replace", note: "SUBDOC_REPLACE with an expiry",
			op: on("", kv.MutatePath{Key: key, Spec: kv.ReplacePath("a", v), Expiry: kv.ExpireAfter(60e9)}), key: key8,
			value: "a1", extras: "000100" + "0000003c",
		},
		{
			file: "path_array_append", note: "SUBDOC_ARRAY_PUSH_LAST", op: set(kv.ArrayAppend("a", v)), key: key8,
			value: "a1", extras: "000100",
		},
		{
			file: "path_array_prepend", note: "SUBDOC_ARRAY_PUSH_FIRST at the root", op: set(kv.ArrayPrepend("", v)),
			key: key8, value: "1", extras: "000000",
		},
		{
			file: "path_array_insert", note: "SUBDOC_ARRAY_INSERT", op: set(kv.ArrayInsert("a[0]", v)), key: key8,
			value: "a[0]1", extras: "000400",
		},
		{
			file: "path_array_add_unique", note: "SUBDOC_ARRAY_ADD_UNIQUE",
			op: set(kv.ArrayAddUnique("a", v)), key: key8,
			value: "a1", extras: "000100",
		},
		{
			file: "path_counter", note: "SUBDOC_COUNTER", op: set(kv.IncrementPath("a", -12)), key: key8, value: "a-12",
			extras: "000100",
		},
		{
			file: "path_replace_body", note: "SUBDOC_REPLACE_BODY_WITH_XATTR of a tombstone that it revives",
			op:  on("", kv.MutatePath{Key: key, Spec: kv.ReplaceBody("x"), AccessDeleted: true, Revive: true}),
			key: key8, value: "x", extras: "000104" + "14",
		},
	}
}

func otherEncodings() []encoding {
	key, value := []byte("abc"), []byte(doc)
	meta := kv.Meta{Flags: 0x02000006, Expiry: time.Unix(0x60000000, 0), RevSeqno: 3, StoreCAS: goldCAS}
	const metaHex = "02000006" + "60000000" + "0000000000000003" + "17f0010203040506"
	full := meta
	full.SkipConflictResolution, full.RegenerateCAS, full.Extra = true, true, []byte("ext")
	optioned, extra := meta, meta
	optioned.ForceAccept, extra.Extra = true, []byte("e")
	scan := kv.RangeScan{VBucket: 115, ID: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
	const scanHex = "000102030405060708090a0b0c0d0e0f"
	return []encoding{
		{file: "get_meta", note: "GET_META: version 2", op: on("", kv.GetMeta{Key: key}), key: key8, extras: "02"},
		{
			file: "get_meta_v1", note: "GET_META: version 1", op: on("", kv.GetMeta{Key: key, V1: true}), key: key8,
			extras: "01",
		},
		{file: "get_ex", note: "GET_EX", op: on("", kv.GetEx{Key: key}), key: key8},
		{file: "get_ex_replica", note: "GET_EX_REPLICA", op: on("", kv.GetEx{Key: key, Replica: 1}), key: key8},
		{
			file: "set_with_meta", note: "SET_WITH_META, to replace a version",
			op:  on("", kv.SetWithMeta{Key: key, Value: value, Meta: meta, CheckCAS: 7, Datatype: memd.DatatypeJSON}),
			key: key8, value: doc, extras: metaHex, cas: 7, json: true,
		},
		{
			file: "set_with_meta_full", note: "SET_WITH_META with options and extended metadata",
			op: on("", kv.SetWithMeta{Key: key, Value: value, Meta: full}), key: key8, value: doc + "ext",
			extras: metaHex + "00000005" + "0003",
		},
		{file: "add_with_meta", note: "ADD_WITH_META with options", op: on("", kv.AddWithMeta{
			Key: key, Value: value,
			Meta: optioned,
		}), key: key8, value: doc, extras: metaHex + "00000002"},
		{
			file: "delete_with_meta", note: "DEL_WITH_META with extended metadata",
			op: on("", kv.DeleteWithMeta{Key: key, Meta: extra, CheckCAS: 7}), key: key8, value: "e", extras: metaHex +
				"0001", cas: 7,
		},
		{
			file: "get_random", note: "GET_RANDOM_KEY: the collection is in the extras", op: on("", kv.GetRandom{}),
			extras: "00000008",
		},
		{
			file: "get_random_xattrs", note: "GET_RANDOM_KEY with extended attributes",
			op: on("", kv.GetRandom{WithXattrs: true}), extras: "00000008" + "ff",
		},
		{
			file: "get_random_plain", note: "GET_RANDOM_KEY on a connection without collections",
			op: on("", kv.GetRandom{}), wire: call.Wire{Opaque: 0x2a, VBucket: 115},
		},
		{
			file: "observe", note: "OBSERVE: vbucket and key are the value", op: on("", kv.Observe{Key: key}),
			value: "\x00\x73\x00\x04" + key8,
		},
		{
			file: "observe_plain", note: "OBSERVE on a connection without collections",
			op: on("", kv.Observe{Key: key, Replica: 1}), wire: call.Wire{Opaque: 0x2a, VBucket: 115},
			value: "\x00\x73\x00\x03abc",
		},
		{
			file: "observe_seqno", note: "OBSERVE_SEQNO of a history",
			op: on("", kv.ObserveSeqno{VBucket: 115, UUID: 0xabcd}), value: "\x00\x00\x00\x00\x00\x00\xab\xcd",
		},
		{file: "failover_log", note: "GET_FAILOVER_LOG", op: on("", kv.GetFailoverLog{VBucket: 115})},
		{file: "stat", note: "STAT: the general group", op: on("", kv.Stat{})},
		{
			file: "stat_group", note: "STAT: a group with arguments",
			op: on("", kv.Stat{Group: "key", Args: []byte("{}")}), key: "key", value: "{}", json: true,
		},
		{file: "version", note: "VERSION", op: on("", kv.GetVersion{})},
		{file: "get_manifest", note: "COLLECTIONS_GET_MANIFEST", op: on("", kv.GetManifest{})},
		{
			file: "get_scope_id", note: "COLLECTIONS_GET_SCOPE_ID: the name is the value",
			op: on("", kv.GetScopeID{Name: "inventory"}), value: "inventory",
		},
		{
			file: "range_scan_create", note: "RANGE_SCAN_CREATE: keys from air to air + 0xff, a snapshot",
			op: on("", kv.RangeScanCreate{
				VBucket: 115, KeysOnly: true, Range: kv.PrefixRange([]byte("air")),
				Snapshot: kv.MutationToken{UUID: 204823409283, Seqno: 4711}, SnapshotWait: 9 * time.Second,
			}), value: `{"collection":"8","key_only":true,"range":{"start":"YWly","end":"YWly/w=="},"snapshot_requirements":{"vb_uuid":"204823409283","seqno":4711,"timeout_ms":9000}}`, json: true,
		},
		{file: "range_scan_create_open", note: "RANGE_SCAN_CREATE: the whole default collection, behind a key; a " +
			"name; attributes", op: on("", kv.RangeScanCreate{
			VBucket: 115, WithXattrs: true, Name: "my \"scan\"", Range: &kv.ScanRange{
				Start:        []byte("k"),
				ExcludeStart: true, ExcludeEnd: true,
			}, Snapshot: kv.MutationToken{UUID: 1, Seqno: 2}, MustExist: true,
		}), wire: inCollection(0), value: `{"include_xattrs":true,"name":"my \"scan\"","range":{"excl_start":"aw==","excl_end":"/w=="},"snapshot_requirements":{"vb_uuid":"1","seqno":2,"seqno_exists":true}}`, json: true},
		{file: "range_scan_create_sampling", note: "RANGE_SCAN_CREATE: sampling", op: on("", kv.RangeScanCreate{VBucket: 115, Samples: 10, Seed: 5}), wire: inCollection(0xcafe), value: `{"collection":"cafe","sampling":{"samples":10,"seed":5}}`, json: true},
		{
			file: "range_scan_continue", note: "RANGE_SCAN_CONTINUE: 50 items, 1.5 ms rounded up, 15000 bytes",
			op: on("", kv.RangeScanContinue{
				Scan: scan, MaxItems: 50, MaxTime: 1500 * time.Microsecond,
				MaxBytes: 15000,
			}), extras: scanHex + "00000032" + "00000002" + "00003a98",
		},
		{
			file: "range_scan_cancel", note: "RANGE_SCAN_CANCEL", op: on("", kv.RangeScanCancel{Scan: scan}),
			extras: scanHex,
		},
		{
			file: "lookup_on_behalf", note: "SUBDOC_MULTI_LOOKUP for another user",
			op: on("", kv.LookupIn{
				Common: kv.Common{OnBehalfOf: "jane"}, Key: key,
				Specs: []kv.LookupSpec{kv.GetPath("a")},
			}), key: key8, value: look(0xc5, 0, "a"), frames: "446a616e65",
		},
		{
			file: "stat_on_behalf", note: "STAT for another user",
			op: on("", kv.Stat{Common: kv.Common{OnBehalfOf: "jane"}}), frames: "446a616e65",
		},
	}
}

// Every operation that the table calls durable, or that keeps expiries, takes the frames: each type has the fields.
func TestEveryOperationTakesItsFrames(t *testing.T) {
	w := withDurability(2500)
	for _, s := range append(subjects(), onePath()...) {
		wire, err := s.encoded(w)
		require.NoError(t, err, s.name)
		var p memd.Packet
		_, err = p.Parse(wire, 0)
		require.NoError(t, err)
		row := call.SpecOf(p.Opcode)
		frames := func(change func(r *call.Request)) (string, error) {
			d := newFake(nil)
			var out []byte
			var failed error
			d.answer = func(c *call.Call) {
				change(&c.Req)
				if out, failed = wireOf(c, w); failed != nil {
					c.Fail(failed)
					return
				}
				c.Fail(errSeen)
			}
			_, _ = s.do(testContext(t), d)
			if failed != nil {
				return "", failed
			}
			var p memd.Packet
			_, err := p.Parse(out, 0)
			return hex.EncodeToString(p.Frames), err
		}
		got, err := frames(func(r *call.Request) { r.Own().OnBehalfOf = "jane" })
		require.NoError(t, err)
		require.Equal(t, "446a616e65", got, "%s on behalf of a user", row.Name)
		if row.Has(call.Durable) {
			got, err = frames(func(r *call.Request) { r.Durability = memd.DurabilityPersistToMajority })
			require.NoError(t, err)
			require.Equal(t, "130309c4", got, row.Name)
		}
		if row.Has(call.PreservesExpiry) {
			got, err = frames(func(r *call.Request) { r.PreserveExpiry = true })
			require.NoError(t, err)
			require.Equal(t, "50", got, row.Name)
		}
	}
}

// What a connection lacks is named before anything is sent.
func TestFeaturesThatOperationsNeed(t *testing.T) {
	key, one := []byte("abc"), []byte("1")
	lookup := func(s kv.LookupSpec) subject { return on("", kv.LookupIn{Key: key, Specs: []kv.LookupSpec{s}}) }
	mutate := func(s kv.MutateSpec) subject { return on("", kv.MutateIn{Key: key, Specs: []kv.MutateSpec{s}}) }
	meta := kv.MutateSpec{Op: memd.OpSubdocDictUpsert, Path: "x", Value: one, Xattr: true}
	macro := kv.MutateSpec{Op: memd.OpSubdocDictUpsert, Path: "x", Value: []byte(`"${$document.exptime}"`), Xattr: true, ExpandMacros: true}
	binaryAttr := meta
	binaryAttr.Binary = true
	for _, c := range []struct {
		op      subject
		feature memd.Feature
	}{
		{lookup(kv.GetXattr("x")), memd.FeatureXattr},
		{
			lookup(kv.LookupSpec{Op: memd.OpSubdocGet, Path: "x", Xattr: true, Binary: true}),
			memd.FeatureSubdocBinaryXattr,
		},
		{mutate(meta), memd.FeatureXattr},
		{mutate(binaryAttr), memd.FeatureSubdocBinaryXattr},
		{mutate(macro), memd.FeatureSubdocDocumentMacro},
		{mutate(kv.ReplaceBody("x")), memd.FeatureSubdocReplaceBodyWithXattr},
		{
			on("", kv.MutateIn{Key: key, Specs: []kv.MutateSpec{meta}, Store: kv.StoreUpsert, CreateAsDeleted: true}),
			memd.FeatureSubdocCreateAsDeleted,
		},
		{on("", kv.GetEx{Key: key}), memd.FeatureSnappyEverywhere},
		{on("", kv.GetEx{Key: key}), memd.FeatureXattr},
		{on("", kv.GetRandom{WithXattrs: true}), memd.FeatureGetRandomKeyIncludeXattr},
		{on("", kv.GetRandom{}), memd.FeatureCollections},
		{on("", kv.Observe{Key: key}), memd.FeatureCollections},
		{on("", kv.RangeScanCreate{Range: &kv.ScanRange{}}), memd.FeatureCollections},
		{on("", kv.RangeScanCreate{Range: &kv.ScanRange{}}), memd.FeatureJSON},
		{on("", kv.RangeScanCreate{Range: &kv.ScanRange{}, WithXattrs: true}), memd.FeatureRangeScanIncludeXattr},
		{on("", kv.SetWithMeta{Key: key, Datatype: memd.DatatypeXattr}), memd.FeatureXattr},
	} {
		_, err := c.op.encoded(withoutFeature(c.feature))
		var fe *kv.FeatureError
		require.ErrorAs(t, err, &fe, c.feature.String())
		require.Equal(t, c.feature, fe.Feature)
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
	}
	_, err := mutate(kv.MutateSpec{
		Op: memd.OpSubdocDictUpsert, Path: "x", Value: []byte(kv.MacroCAS), Xattr: true,
		ExpandMacros: true,
	}).
		encoded(withoutFeature(memd.FeatureSubdocDocumentMacro))
	require.NoError(t, err, "the macros of a mutation need no feature")
}
