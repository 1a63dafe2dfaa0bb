package memd_test

import (
	"github.com/couchcore/couchcore/memd"
)

const (
	jsonFlags = 0x02000006
	goldenCAS = 0x17f0010203040506
)

// key8 is the document key of the golden requests: "abc" in collection 8.
var key8 = append(memd.AppendLEB128(nil, 8), "abc"...)

// dataGoldens are the requests of the data operations, without framing extras.
func dataGoldens() []golden {
	doc := []byte(`{"a":1}`)
	store := cat(u32(jsonFlags), u32(60))
	counter := cat(u64(2), u64(10), u32(0xffffffff))
	get := func(op memd.Opcode) memd.Packet {
		return memd.Packet{Magic: memd.MagicReq, Opcode: op, VBucket: 115, Opaque: 0x2a, Key: key8}
	}
	with := func(p memd.Packet, extras, value []byte, cas uint64) memd.Packet {
		p.Extras, p.Value, p.CAS = extras, value, cas
		if len(value) > 0 && value[0] == '{' {
			p.Datatype = memd.DatatypeJSON
		}
		return p
	}
	withoutFrames := get(memd.OpGet)
	withoutFrames.Key = []byte("abc")
	def := get(memd.OpGet)
	def.Key = []byte("\x00abc")
	far := get(memd.OpGet)
	far.Key = append(memd.AppendLEB128(nil, 0xcafef00d), "abc"...)
	snappy := with(get(memd.OpSet), store, []byte("\x07\x18{\"a\":1}"), 0)
	snappy.Datatype = memd.DatatypeJSON | memd.DatatypeSnappy
	return []golden{
		{"get_req", `GET request: key "abc" in collection 8, vbucket 115, opaque 0x2a`, get(memd.OpGet)},
		{"get_no_collections_req", "GET request on a connection without collections: the key alone", withoutFrames},
		{"get_default_collection_req", "GET request: collection 0 is a prefix of one zero byte", def},
		{"get_far_collection_req", "GET request: collection 0xcafef00d is a prefix of five bytes", far},
		{"set_req", "SET request: JSON flags, expires in 60 s", with(get(memd.OpSet), store, doc, 0)},
		{"set_cas_req", "SET request with a CAS", with(get(memd.OpSet), store, doc, goldenCAS)},
		{"set_snappy_req", "SET request with a compressed value", snappy},
		{"set_empty_req", "SET request of an empty document", with(get(memd.OpSet), store, nil, 0)},
		{"add_req", "ADD request", with(get(memd.OpAdd), store, doc, 0)},
		{"replace_req", "REPLACE request with a CAS", with(get(memd.OpReplace), store, doc, goldenCAS)},
		{"delete_req", "DELETE request with a CAS", with(get(memd.OpDelete), nil, nil, goldenCAS)},
		{"touch_req", "TOUCH request: expires in 60 s", with(get(memd.OpTouch), u32(60), nil, 0)},
		{"gat_req", "GAT request: expires in 60 s", with(get(memd.OpGAT), u32(60), nil, 0)},
		{"get_locked_req", "GET_LOCKED request: for 15 s", with(get(memd.OpGetLocked), u32(15), nil, 0)},
		{"unlock_req", "UNLOCK_KEY request with the lock's CAS", with(get(memd.OpUnlockKey), nil, nil, goldenCAS)},
		{
			"increment_req", "INCREMENT request: by 2, no initial value (expiry 0xffffffff)",
			with(get(memd.OpIncrement), counter, nil, 0),
		},
		{
			"decrement_req", "DECREMENT request: by 2, initial value 10, expires in 60 s",
			with(get(memd.OpDecrement), cat(u64(2), u64(10), u32(60)), nil, 0),
		},
		{"append_req", "APPEND request", with(get(memd.OpAppend), nil, []byte("tail"), 0)},
		{"prepend_req", "PREPEND request with a CAS", with(get(memd.OpPrepend), nil, []byte("head"), goldenCAS)},
		{"get_replica_req", "GET_REPLICA request", get(memd.OpGetReplica)},
		{"get_meta_req", "GET_META request: version 2", with(get(memd.OpGetMeta), []byte{2}, nil, 0)},
	}
}

// frameGoldens are requests with framing extras.
func frameGoldens() []golden {
	set := func(frames []byte) memd.Packet {
		return memd.Packet{
			Magic: memd.MagicReq, Opcode: memd.OpSet, VBucket: 115, Opaque: 0x2a, Frames: frames,
			Extras: cat(u32(jsonFlags), u32(0)), Key: key8, Value: []byte("v"),
		}
	}
	durable := memd.AppendDurability(nil, memd.DurabilityMajority, 0)
	short := frame(memd.FrameImpersonateUser, []byte("^jane"))
	keep := frame(memd.FramePreserveTTL, nil)
	long := []byte("twenty-bytes-of-user")
	return []golden{
		{"set_majority_req", "SET request: durability majority, the server's own timeout", set(durable)},
		{
			"set_majority_timeout_req", "SET request: durability majority and persist to active, 2500 ms",
			set(memd.AppendDurability(nil, memd.DurabilityMajorityAndPersistToActive, 2500)),
		},
		{
			"set_persist_req", "SET request: durability persist to majority, the longest timeout",
			set(memd.AppendDurability(nil, memd.DurabilityPersistToMajority, 65535)),
		},
		{"set_preserve_ttl_req", "SET request: preserve the expiry", set(keep)},
		{"set_impersonate_req", "SET request on behalf of an external user", set(short)},
		{
			"set_impersonate_14_req", "SET request on behalf of a user of 14 bytes: the longest without an escape",
			set(frame(memd.FrameImpersonateUser, long[:14])),
		},
		{
			"set_impersonate_15_req", "SET request on behalf of a user of 15 bytes: the length is escaped as 15+0",
			set(frame(memd.FrameImpersonateUser, long[:15])),
		},
		{
			"set_impersonate_20_req", "SET request on behalf of a user of 20 bytes: the length is escaped as 15+5",
			set(frame(memd.FrameImpersonateUser, long)),
		},
		{
			"set_all_frames_req", "SET request: durability, preserve the expiry and on behalf of",
			set(cat(durable, keep, short)),
		},
		{"get_impersonate_req", "GET request on behalf of a user", memd.Packet{
			Magic: memd.MagicReq, Opcode: memd.OpGet, VBucket: 115, Opaque: 0x2a, Frames: short, Key: key8,
		}},
	}
}

// responseGoldens are the answers to the data operations.
func responseGoldens() []golden {
	doc := []byte(`{"a":1}`)
	token := cat(u64(0x0000a1b2c3d4e5f6), u64(4711))
	res := func(op memd.Opcode, st memd.Status) memd.Packet {
		p := memd.Packet{Magic: memd.MagicRes, Opcode: op, Status: st, Opaque: 0x2a}
		if st == memd.StatusSuccess {
			p.CAS = goldenCAS
		}
		return p
	}
	with := func(p memd.Packet, dt memd.Datatype, frames, extras, value []byte) memd.Packet {
		p.Datatype, p.Frames, p.Extras, p.Value = dt, frames, extras, value
		return p
	}
	js := memd.DatatypeJSON
	dur := frame(memd.FrameServerDuration, u16(6))
	read := func(op memd.Opcode) memd.Packet { return with(res(op, 0), js, nil, u32(jsonFlags), doc) }
	write := func(op memd.Opcode) memd.Packet { return with(res(op, 0), 0, nil, token, nil) }
	locked := read(memd.OpGet)
	locked.CAS = 0xffffffffffffffff
	meta := cat(u32(0), u32(jsonFlags), u32(60), u64(3), []byte{1})
	why := []byte(`{"error":{"context":"Locked by someone","ref":"6f1c1c1e-2f0b-4b60-8a0f-1f3a6d0f7d11"}}`)
	units := cat(dur, frame(memd.FrameReadUnits, u16(1)), frame(memd.FrameWriteUnits, u16(2)),
		frame(memd.FrameThrottleDuration, u16(79)))
	unknown := cat(frame(20, []byte("future")), frame(270, nil), dur, frame(9, []byte("fifteen or more")))
	return []golden{
		{"get_res", "GET response: JSON flags and document", read(memd.OpGet)},
		{
			"get_res_traced", "GET response with a server duration (10 us)",
			with(res(memd.OpGet, 0), js, dur, u32(jsonFlags), doc),
		},
		{"get_missing_res", "GET response: no such document", res(memd.OpGet, memd.StatusKeyNotFound)},
		{
			"get_missing_res_traced", "GET response: no such document, with a server duration",
			with(res(memd.OpGet, memd.StatusKeyNotFound), 0, dur, nil, nil),
		},
		{"get_locked_document_res", "GET response of a locked document: CAS of all ones", locked},
		{
			"get_units_res", "GET response: server duration, read units, write units, throttle duration",
			with(res(memd.OpGet, 0), js, units, u32(jsonFlags), doc),
		},
		{
			"get_unknown_frames_res", "GET response: frames with unknown ids (both escapes) around the server duration",
			with(res(memd.OpGet, 0), js, unknown, u32(jsonFlags), doc),
		},
		{
			"get_nmvb_res", "GET response: NOT_MY_VBUCKET with a config",
			with(res(memd.OpGet, memd.StatusNotMyVBucket), js, nil, nil, []byte(tinyConfig)),
		},
		{
			"get_nmvb_empty_res", "GET response: NOT_MY_VBUCKET without a config",
			res(memd.OpGet, memd.StatusNotMyVBucket),
		},
		{
			"get_unknown_collection_res", "GET response: UNKNOWN_COLLECTION with the manifest's uid",
			with(res(memd.OpGet, memd.StatusUnknownCollection), js, nil, nil,
				[]byte(`{"manifest_uid":"1f","error":{"context":"Unknown scope or collection in operation"}}`)),
		},
		{"set_res", "SET response: mutation token", write(memd.OpSet)},
		{"set_res_traced", "SET response: mutation token and a server duration", with(write(memd.OpSet), 0, dur, token,
			nil)},
		{"set_no_token_res", "SET response without a mutation token", res(memd.OpSet, 0)},
		{
			"set_locked_res", "SET response: LOCKED with an error body",
			with(res(memd.OpSet, memd.StatusLocked), js, nil, nil, why),
		},
		{"set_tmpfail_res", "SET response: ETMPFAIL", res(memd.OpSet, memd.StatusTmpFail)},
		{
			"set_sync_write_ambiguous_res", "SET response: SYNC_WRITE_AMBIGUOUS",
			res(memd.OpSet, memd.StatusSyncWriteAmbiguous),
		},
		{"add_res", "ADD response", write(memd.OpAdd)},
		{"add_exists_res", "ADD response: the document exists", res(memd.OpAdd, memd.StatusKeyExists)},
		{"replace_res", "REPLACE response", write(memd.OpReplace)},
		{"replace_cas_res", "REPLACE response: CAS mismatch", res(memd.OpReplace, memd.StatusKeyExists)},
		{"delete_res", "DELETE response", write(memd.OpDelete)},
		{"touch_res", "TOUCH response", res(memd.OpTouch, 0)},
		{"gat_res", "GAT response", read(memd.OpGAT)},
		{"get_locked_res", "GET_LOCKED response", read(memd.OpGetLocked)},
		{"unlock_res", "UNLOCK_KEY response", memd.Packet{
			Magic: memd.MagicRes, Opcode: memd.OpUnlockKey,
			Opaque: 0x2a,
		}},
		{"unlock_not_locked_res", "UNLOCK_KEY response: NOT_LOCKED", res(memd.OpUnlockKey, memd.StatusNotLocked)},
		{
			"increment_res", "INCREMENT response: mutation token and the new value 12",
			with(res(memd.OpIncrement, 0), 0, nil, token, u64(12)),
		},
		{
			"decrement_res", "DECREMENT response: mutation token and the new value 8",
			with(res(memd.OpDecrement, 0), 0, nil, token, u64(8)),
		},
		{"increment_badval_res", "INCREMENT response: DELTA_BADVAL", res(memd.OpIncrement, memd.StatusDeltaBadVal)},
		{"append_res", "APPEND response", write(memd.OpAppend)},
		{"append_not_stored_res", "APPEND response: NOT_STORED", res(memd.OpAppend, memd.StatusNotStored)},
		{"prepend_res", "PREPEND response", write(memd.OpPrepend)},
		{"get_replica_res", "GET_REPLICA response", read(memd.OpGetReplica)},
		{
			"get_meta_res", "GET_META response, version 2: alive, JSON flags, expiry 60, revision 3, datatype JSON",
			with(res(memd.OpGetMeta, 0), 0, nil, meta, nil),
		},
		{"get_meta_missing_res", "GET_META response: no such document", res(memd.OpGetMeta, memd.StatusKeyNotFound)},
		{"unknown_status_res", "GET response: a status only the error map knows (0x7ff0)", res(memd.OpGet, 0x7ff0)},
	}
}
