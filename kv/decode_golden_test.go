package kv_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	gmemd "github.com/couchbase/gocbcore/v10/memd"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// decoding is an operation, the packets that answer it, and what they become; testdata/decode has the bytes.
type decoding struct {
	file string
	op   subject
	with []memd.Packet
	want any
}

// answerOf is one packet with a CAS.
func answerOf(extras []byte, value string) []memd.Packet {
	return []memd.Packet{{CAS: cas, Extras: extras, Value: []byte(value)}}
}

func jsonOf(extras []byte, value string) []memd.Packet {
	p := answerOf(extras, value)
	p[0].Datatype = memd.DatatypeJSON
	return p
}

func baseDecodings() []decoding {
	key := []byte("abc")
	result := kv.ResultVia(fakeVia, cas, 0)
	token := kv.MutationToken{Bucket: "travel", VBucket: 115, UUID: 0xabcd, Seqno: 9}
	get := kv.GetResult{Result: result, Value: []byte("doc"), Flags: 0x02000006, Datatype: memd.DatatypeJSON}
	replica := get
	replica.FromReplica = true
	mutation := kv.MutationResult{Result: result, Token: token}
	noToken := kv.MutationResult{Result: result}
	counter := kv.CounterResult{MutationResult: mutation, Value: 12}
	none := []memd.Packet{{CAS: cas}}
	there := kv.MetaResult{
		Result: result, Exists: true, Flags: 0x02000006, RevSeqno: 3, Datatype: memd.DatatypeJSON, HasDatatype: true,
	}
	return []decoding{
		{"get", on("", kv.Get{Key: key}), jsonOf(be32, "doc"), get},
		{"get_or_null", on("", kv.GetOrNull{Key: key}), jsonOf(be32, "doc"), get},
		{"get_and_lock", on("", kv.GetAndLock{Key: key}), jsonOf(be32, "doc"), get},
		{"get_and_touch", on("", kv.GetAndTouch{Key: key}), jsonOf(be32, "doc"), get},
		{"get_replica", on("", kv.GetReplica{Key: key, Replica: 1}), jsonOf(be32, "doc"), replica},
		{"exists", on("", kv.Exists{Key: key}), answerOf(meta, ""), there},
		{"exists_v1", on("", kv.Exists{Key: key}), answerOf(meta[:20], ""), kv.MetaResult{
			Result: result, Exists: true, Flags: 0x02000006, RevSeqno: 3,
		}},
		{"exists_tombstone", on("", kv.Exists{Key: key}), answerOf(deleted, ""), kv.MetaResult{
			Result: kv.ResultVia(fakeVia, 0, 0), Deleted: true, Flags: 0x02000006, RevSeqno: 3,
			Datatype: memd.DatatypeJSON, HasDatatype: true,
		}},
		{"upsert", on("", kv.Upsert{Key: key}), answerOf(tokenOf, ""), mutation},
		{"upsert_no_token", on("", kv.Upsert{Key: key}), none, noToken},
		{"insert", on("", kv.Insert{Key: key}), answerOf(tokenOf, ""), mutation},
		{"replace", on("", kv.Replace{Key: key}), answerOf(tokenOf, ""), mutation},
		{"remove", on("", kv.Remove{Key: key}), answerOf(tokenOf, ""), mutation},
		{"append", on("", kv.Append{Key: key}), answerOf(tokenOf, ""), mutation},
		{"prepend", on("", kv.Prepend{Key: key}), answerOf(tokenOf, ""), mutation},
		{"touch", on("", kv.Touch{Key: key}), none, noToken},
		{"touch_token", on("", kv.Touch{Key: key}), answerOf(tokenOf, ""), mutation},
		{"unlock", on("", kv.Unlock{Key: key, CAS: 1}), none, result},
		{"increment", on("", kv.Increment{Key: key}), answerOf(tokenOf, string(eight)), counter},
		{"decrement", on("", kv.Decrement{Key: key}), answerOf(tokenOf, string(eight)), counter},
		{"noop", on("", kv.Noop{}), none, result},
		{
			"get_collection_id", on("", kv.GetCollectionID{Path: "a.b"}), answerOf(idOf, ""),
			kv.IDResult{Result: result, ManifestUID: 0x1f, ID: 10},
		},
		{"get_scope_id", on("", kv.GetScopeID{Name: "a"}), answerOf(idOf, ""), kv.IDResult{
			Result:      result,
			ManifestUID: 0x1f, ID: 10,
		}},
		{"get_cluster_config", on("", kv.GetClusterConfig{}), jsonOf(nil, "{}"), kv.GetResult{
			Result: result, Value: []byte("{}"),
		}},
		{"get_cluster_config_current", on("", kv.GetClusterConfig{}), none, kv.GetResult{Result: result}},
		{"version", on("", kv.GetVersion{}), answerOf(nil, "7.6.2-3721-enterprise"), kv.GetResult{
			Result: result, Value: []byte("7.6.2-3721-enterprise"),
		}},
	}
}

func metaDecodings() []decoding {
	key := []byte("abc")
	result := kv.ResultVia(fakeVia, cas, 0)
	token := kv.MutationToken{Bucket: "travel", VBucket: 115, UUID: 0xabcd, Seqno: 9}
	mutation := kv.MutationResult{Result: result, Token: token}
	live := kv.MetaResult{
		Result: result, Exists: true, Flags: 0x02000006, Expiry: time.Unix(0x60000000, 0), RevSeqno: 3,
		Datatype: memd.DatatypeJSON, HasDatatype: true,
	}
	dead := live
	dead.Exists = false
	dead.Deleted, dead.Datatype, dead.HasDatatype = true, 0, false
	expiring := append([]byte{0, 0, 0, 0, 0x02, 0, 0, 6, 0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 1)
	gone := append([]byte{0, 0, 0, 1}, expiring[4:20]...)
	xattrs, _ := memd.AppendXattr(nil, "_sync", []byte(`{"rev":1}`))
	xattrs, _ = memd.AppendXattr(xattrs, "n", []byte("7"))
	withXattrs := []memd.Packet{{
		CAS: cas, Datatype: memd.DatatypeJSON | memd.DatatypeXattr, Extras: be32,
		Value: memd.JoinXattrs(xattrs, []byte(doc)),
	}}
	ex := kv.GetExResult{
		Result: result, Value: []byte(doc), Xattrs: xattrs, Flags: 0x02000006,
		Datatype: memd.DatatypeJSON | memd.DatatypeXattr,
	}
	random := answerOf(be32, "doc")
	random[0].Key = []byte("some key")
	return []decoding{
		{"get_meta", on("", kv.GetMeta{Key: key}), answerOf(expiring, ""), live},
		{"get_meta_v1_tombstone", on("", kv.GetMeta{Key: key, V1: true}), answerOf(gone, ""), dead},
		{"set_with_meta", on("", kv.SetWithMeta{Key: key}), answerOf(tokenOf, ""), mutation},
		{"add_with_meta", on("", kv.AddWithMeta{Key: key}), answerOf(tokenOf, ""), mutation},
		{"delete_with_meta", on("", kv.DeleteWithMeta{Key: key}), answerOf(tokenOf, ""), mutation},
		{"get_ex", on("", kv.GetEx{Key: key}), withXattrs, ex},
		{
			"get_ex_replica", on("", kv.GetEx{Key: key, Replica: 1}), jsonOf(be32, "doc"),
			kv.GetExResult{Result: result, Value: []byte("doc"), Flags: 0x02000006, Datatype: memd.DatatypeJSON},
		},
		{"get_random", on("", kv.GetRandom{}), random, kv.RandomResult{
			Result: result, Key: []byte("some key"),
			Value: []byte("doc"), Flags: 0x02000006,
		}},
		{
			"observe", on("", kv.Observe{Key: key}),
			[]memd.Packet{{
				CAS:   0x0000000500000000,
				Value: []byte("\x00\x73\x00\x04\x08abc\x01\x11\x22\x33\x44\x55\x66\x77\x88"),
			}},
			kv.ObserveResult{Result: result, State: kv.ObservePersisted, PersistHint: 5 * time.Millisecond},
		},
		{
			"observe_seqno", on("", kv.ObserveSeqno{VBucket: 115, UUID: 7}),
			answerOf(nil,
				"\x00\x00\x73\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00"+
					"\x00\x09"),
			kv.SeqnoResult{Result: result, VBucket: 115, UUID: 7, Persisted: 8, Current: 9},
		},
		{
			"observe_seqno_failover", on("", kv.ObserveSeqno{VBucket: 115, UUID: 7}),
			answerOf(nil,
				"\x01\x00\x73\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00"+
					"\x00\x09\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x06"),
			kv.SeqnoResult{
				Result: result, VBucket: 115, UUID: 10, Persisted: 8, Current: 9, FailedOver: true,
				OldUUID: 7, OldSeqno: 6,
			},
		},
		{
			"failover_log", on("", kv.GetFailoverLog{VBucket: 115}),
			answerOf(nil,
				"\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x07\x00"+
					"\x00\x00\x00\x00\x00\x00\x00"),
			kv.FailoverLog{Result: result, Entries: []kv.MutationToken{
				{Bucket: "travel", VBucket: 115, UUID: 10, Seqno: 6}, {Bucket: "travel", VBucket: 115, UUID: 7},
			}},
		},
		{"stat", on("", kv.Stat{}), []memd.Packet{
			{Key: []byte("pid"), Value: []byte("17")},
			{Key: []byte("empty")},
			{CAS: cas},
		}, kv.StatResult{Result: result, Stats: []struct{ Name, Value string }{{"pid", "17"}, {"empty", ""}}}},
		{"get_manifest", on("", kv.GetManifest{}), jsonOf(nil, manifest), kv.Manifest{
			Result: result, UID: 0x1c,
			JSON: []byte(manifest), Scopes: []kv.ManifestScope{
				{Name: "_default", Collections: []kv.ManifestCollection{{Name: "_default"}, {
					Name: "carts", ID: 9,
					MaxExpiry: time.Hour,
				}}},
				{Name: "eu", ID: 8, Collections: []kv.ManifestCollection{{
					Name: "users", ID: 10, History: true,
					MaxExpiry: -time.Second,
				}}},
			},
		}},
	}
}

const manifest = `{"uid":"1c","scopes":[{"name":"_default","uid":"0","collections":[{"name":"_default","uid":"0"},{"name":"carts","uid":"9","maxTTL":3600}]},` +
	`{"name":"eu","uid":"8","collections":[{"name":"users","uid":"a","history":true,"maxTTL":-1}]}]}`

func subdocDecodings() []decoding {
	key, v := []byte("abc"), []byte("1")
	result := kv.ResultVia(fakeVia, cas, 0)
	mutation := kv.MutationResult{Result: result, Token: kv.MutationToken{
		Bucket: "travel", VBucket: 115, UUID: 0xabcd,
		Seqno: 9,
	}}
	of := func(st memd.Status, extras []byte, value string) []memd.Packet {
		p := answerOf(extras, value)
		p[0].Status = st
		return p
	}
	lookup := kv.LookupIn{Key: key, Specs: []kv.LookupSpec{
		kv.GetPath("a"), kv.GetXattr("$document.exptime"),
		kv.ExistsPath("b"), kv.CountPath(""),
	}}
	looked := func(deleted bool, st memd.Status) kv.LookupInResult {
		r := kv.LookupInResult{Result: result, Deleted: deleted, Paths: make([]kv.PathResult, 4)}
		for i, s := range lookup.Specs {
			r.Paths[i] = kv.NewPathResult(i, s.Path, 0, nil)
		}
		r.Paths[0] = kv.NewPathResult(0, "a", 0, []byte(`"x"`))
		r.Paths[1] = kv.NewPathResult(1, "$document.exptime", 0, []byte("0"))
		r.Paths[2] = kv.NewPathResult(2, "b", st, nil)
		r.Paths[3] = kv.NewPathResult(3, "", 0, []byte("12"))
		return r
	}
	body := func(st string) string {
		return "\x00\x00\x00\x00\x00\x010" + "\x00\x00\x00\x00\x00\x03\"x\"" + st + "\x00\x00\x00\x00" +
			"\x00\x00\x00\x00\x00\x0212"
	}
	mutate := kv.MutateIn{Key: key, Specs: []kv.MutateSpec{kv.IncrementPath("n", 1), {
		Op:   memd.OpSubdocDictUpsert,
		Path: "x", Value: v, Xattr: true,
	}, kv.IncrementPath("m", 1)}}
	mutated := kv.MutateInResult{MutationResult: mutation, Paths: []kv.PathResult{
		kv.NewPathResult(0, "n", 0, []byte("5")), kv.NewPathResult(1, "x", 0, nil), kv.NewPathResult(2, "m", 0,
			[]byte("-1")),
	}}
	silent := mutated
	silent.Deleted, silent.Paths = true, []kv.PathResult{kv.NewPathResult(0, "n", 0, nil), kv.NewPathResult(1, "x", 0,
		nil), kv.NewPathResult(2, "m", 0, nil)}
	all := []decoding{
		{"lookup_in", on("", lookup), of(0, nil, body("\x00\x00")), looked(false, 0)},
		{
			"lookup_in_missing", on("", lookup), of(memd.StatusSubdocMultiPathFailure, nil, body("\x00\xc0")),
			looked(false, memd.StatusSubdocPathNotFound),
		},
		{
			"lookup_in_deleted", on("", lookup), of(memd.StatusSubdocSuccessDeleted, nil, body("\x00\x00")),
			looked(true, 0),
		},
		{"lookup_in_deleted_missing", on("", lookup), of(memd.StatusSubdocMultiPathFailureDeleted, nil,
			body("\x00\xc1")), looked(true, memd.StatusSubdocPathMismatch)},
		{
			"mutate_in", on("", mutate),
			of(0, tokenOf, "\x01\x00\x00\x00\x00\x00\x015"+"\x02\x00\x00\x00\x00\x00\x02-1"),
			mutated,
		},
		{"mutate_in_deleted", on("", mutate), of(memd.StatusSubdocSuccessDeleted, tokenOf, ""), silent},
		{
			"path_get_deleted", on("", kv.LookupPath{Key: key, Spec: kv.GetXattr("x"), AccessDeleted: true}),
			of(memd.StatusSubdocSuccessDeleted, nil, "7"),
			kv.LookupInResult{Result: result, Paths: []kv.PathResult{{Path: "x", Value: []byte("7")}}, Deleted: true},
		},
	}
	for _, s := range []kv.LookupSpec{kv.GetPath("a"), kv.ExistsPath("a"), kv.CountPath("a")} {
		value, want := "7", kv.LookupInResult{Result: result, Paths: []kv.PathResult{{Path: "a", Value: []byte("7")}}}
		if s.Op == memd.OpSubdocExists {
			value, want.Paths[0].Value = "", nil
		}
		all = append(all, decoding{
			"path_" + strings.ToLower(strings.TrimPrefix(s.Op.String(), "SUBDOC_")),
			on("", kv.LookupPath{Key: key, Spec: s}), of(0, nil, value), want,
		})
	}
	for _, s := range []kv.MutateSpec{
		kv.InsertPath("a", v), kv.UpsertPath("a", v), kv.ReplacePath("a", v), kv.RemovePath("a"),
		kv.ArrayAppend("a", v), kv.ArrayPrepend("a", v),
		kv.ArrayInsert("a[0]", v), kv.ArrayAddUnique("a", v), kv.IncrementPath("a", 1), kv.ReplaceBody("a"),
	} {
		value, want := "", kv.MutateInResult{MutationResult: mutation, Paths: []kv.PathResult{{Path: s.Path}}}
		if s.Op == memd.OpSubdocCounter {
			value, want.Paths[0].Value = "8", []byte("8")
		}
		all = append(all, decoding{
			"path_" + strings.ToLower(strings.TrimPrefix(s.Op.String(), "SUBDOC_")),
			on("", kv.MutatePath{Key: key, Spec: s}), of(0, tokenOf, value), want,
		})
	}
	return all
}

func scanDecodings() []decoding {
	scan := kv.RangeScan{VBucket: 115, ID: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
	result := kv.ResultVia(fakeVia, cas, 0)
	created := scan
	created.Result = result
	next := on("", kv.RangeScanContinue{Scan: scan})
	head := "\x02\x00\x00\x06" + "\x60\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x09" +
		"\x11\x22\x33\x44\x55\x66\x77\x88"
	packed := "\x0a\x24aaaaaaaaaa"
	item := kv.ScanItem{Flags: 0x02000006, Expiry: time.Unix(0x60000000, 0), Seqno: 9, CAS: cas}
	stored, inflated := item, item
	stored.Key, stored.Value, stored.Datatype = []byte("k1"), []byte(doc), memd.DatatypeJSON
	inflated.Key, inflated.Value = []byte("k2"), []byte("aaaaaaaaaa")
	zero, one := []byte{0, 0, 0, 0}, []byte{0, 0, 0, 1}
	return []decoding{
		{
			"range_scan_create", on("", kv.RangeScanCreate{VBucket: 115, Range: &kv.ScanRange{}}),
			answerOf(nil, string(scan.ID[:])), created,
		},
		{
			"range_scan_continue_keys", next,
			[]memd.Packet{
				{Extras: zero, Value: []byte("\x02k1\x02k2")},
				{CAS: cas, Extras: zero, Status: memd.StatusRangeScanMore, Value: []byte("\x02k3")},
			},
			kv.ScanItems{Result: result, Items: []kv.ScanItem{
				{Key: []byte("k1")}, {Key: []byte("k2")}, {Key: []byte("k3")},
			}},
		},
		{"range_scan_continue", next, []memd.Packet{
			{Extras: one, Value: []byte(head + "\x01\x02k1\x07" + doc)},
			{CAS: cas, Extras: one, Status: memd.StatusRangeScanComplete, Value: []byte(head + "\x02\x02k2" +
				string(rune(len(packed))) + packed)},
		}, kv.ScanItems{
			Result: result, Complete: true,
			Items: []kv.ScanItem{stored, inflated},
		}},
		{"range_scan_cancel", on("", kv.RangeScanCancel{Scan: scan}), []memd.Packet{{CAS: cas}}, result},
	}
}

func decodings() []decoding {
	return append(append(append(baseDecodings(), metaDecodings()...), subdocDecodings()...), scanDecodings()...)
}

// A successful answer becomes these results; every row of the table has one.
func TestDecodeGolden(t *testing.T) {
	seen, files := map[memd.Opcode]bool{}, map[string]bool{}
	for _, c := range decodings() {
		t.Run(c.file, func(t *testing.T) {
			request, err := c.op.encoded(common)
			require.NoError(t, err)
			op := memd.Opcode(request[1])
			var wire []byte
			for _, p := range c.with {
				p.Magic, p.Opcode, p.Opaque = memd.MagicRes, op, 0x2a
				wire, err = p.AppendTo(wire)
				require.NoError(t, err)
			}
			path := filepath.Join("testdata", "decode", c.file+".hex")
			testkit.Golden(t, path, []byte(answersLaidOut(t, op, wire)), *update)
			d := replying(t, testkit.Hex(t, path))
			got, err := c.op.do(testContext(t), d)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.EqualValues(t, 1, d.dispatched.Load())
			require.EqualValues(t, 1, d.released.Load())
			requireTheirsReads(t, wire)
			seen[op] = true
		})
		require.False(t, files[c.file], c.file)
		files[c.file] = true
	}
	for _, r := range rowsOf() {
		require.True(t, seen[r.Opcode], "%s has no golden answer", r.Name)
	}
	all, err := os.ReadDir("testdata/decode")
	require.NoError(t, err)
	for _, f := range all {
		require.True(t, files[strings.TrimSuffix(f.Name(), ".hex")], "%s belongs to no operation", f.Name())
	}
}

// Durations and units are read from the answer of every operation.
func TestFramesOfEveryAnswer(t *testing.T) {
	frames := append(append([]byte{}, duration...), 0x12, 0, 3, 0x22, 0, 4)
	for _, c := range decodings() {
		request, err := c.op.encoded(common)
		require.NoError(t, err)
		var wire []byte
		for i, p := range c.with {
			p.Magic, p.Opcode = memd.MagicRes, memd.Opcode(request[1])
			if i == len(c.with)-1 {
				p.Frames = frames
			}
			wire, err = p.AppendTo(wire)
			require.NoError(t, err)
		}
		res, err := c.op.do(testContext(t), replying(t, wire))
		require.NoError(t, err, c.file)
		r, ok := reflect.ValueOf(res).Interface().(kv.Result)
		if !ok {
			r = reflect.ValueOf(res).FieldByName("Result").Interface().(kv.Result)
		}
		_, ok = r.ServerDuration()
		require.True(t, ok, c.file)
		reads, writes := r.Units()
		require.EqualValues(t, 3, reads, c.file)
		require.EqualValues(t, 4, writes, c.file)
	}
}

// replying is a server that gives every call the packets of wire.
func replying(t testing.TB, wire []byte) *fake {
	return newFake(func(c *call.Call) {
		send(c)
		for tail := wire; len(tail) > 0; {
			var p memd.Packet
			n, err := p.Parse(tail, 0)
			require.NoError(t, err)
			tail = tail[n:]
			give(c, &p)
		}
	})
}

// give hands one packet to the call as a connection and its dispatcher do.
func give(c *call.Call, p *memd.Packet) {
	d := call.Classify(p.Opcode, p.Status, c.Req.CAS != 0)
	switch {
	case call.Continues(p):
		c.TakePart(p, 1)
	case d.Class == call.ClassSuccess:
		c.Succeed(p, false)
	default:
		c.Fail(c.StatusError(p, d))
	}
}

// answersLaidOut writes the packets of an answer as hex with a comment above each part.
func answersLaidOut(t *testing.T, op memd.Opcode, wire []byte) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# %v\n", op)
	for len(wire) > 0 {
		var p memd.Packet
		n, err := p.Parse(wire, 0)
		require.NoError(t, err)
		text := laidOut(t, p.Status.String(), wire[:n])
		b.WriteString(strings.Replace(text, "datatype, vbucket", "datatype, status", 1))
		wire = wire[n:]
	}
	return b.String()
}

// requireTheirsReads reads answers with gocbcore's codec and compares them field by field.
func requireTheirsReads(t testing.TB, wire []byte) {
	t.Helper()
	c := gmemd.NewConn(&readOnly{bytes.NewReader(wire)})
	for len(wire) > 0 {
		var p memd.Packet
		n, err := p.Parse(wire, 0)
		require.NoError(t, err)
		theirs, taken, err := c.ReadPacket()
		require.NoError(t, err)
		require.Equal(t, n, taken)
		require.EqualValues(t, p.Opcode, theirs.Command)
		require.EqualValues(t, p.Status, theirs.Status)
		require.EqualValues(t, p.Datatype, theirs.Datatype)
		require.Equal(t, p.CAS, theirs.Cas)
		require.Equal(t, string(p.Key), string(theirs.Key))
		require.Equal(t, string(p.Extras), string(theirs.Extras))
		require.Equal(t, string(p.Value), string(theirs.Value))
		wire = wire[n:]
	}
}
