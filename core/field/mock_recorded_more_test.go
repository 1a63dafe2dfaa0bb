package field_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func recordTombstones(r *recorder) {
	key := []byte("x")
	r.put("x", `{"a":1}`)
	require.Equal(r.t, "ok", recTold(r, kv.MutateIn{Common: recCommon, Key: key, Specs: []kv.MutateSpec{
		recSpec(dictUp, "u1.a", "1", "xp"), recSpec(dictUp, "_s", "3", "x"),
	}}))
	look := func(name, key string, specs ...kv.LookupSpec) {
		l, err := recDo(r, kv.LookupIn{Common: recCommon, Key: []byte(key), AccessDeleted: true, Specs: specs})
		r.row(name, recSaid(err), recLooked(l))
	}
	r.row("remove with xattrs", recTold(r, kv.Remove{Common: recCommon, Key: key}))
	look("names that stay", "x", kv.GetXattr("$XTOC"))
	look("lookup tombstone", "x", kv.GetXattr("$document.deleted"), kv.GetPath("a"))
	look("lookup never existed deleted", "never", kv.GetXattr("$document.deleted"))
	deleted := func(op kv.MutateIn, specs ...kv.MutateSpec) string {
		op.Common, op.AccessDeleted, op.Specs = recCommon, true, specs
		return recTold(r, op)
	}
	r.row("mutate tombstone sys", deleted(kv.MutateIn{Key: key}, recSpec(dictUp, "_t", "1", "x")))
	r.row("mutate tombstone user", deleted(kv.MutateIn{Key: key}, recSpec(dictUp, "u", "1", "x")))
	r.row("mutate tombstone body", deleted(kv.MutateIn{Key: key}, recSpec(dictUp, "u", "1", "")))
	revive := kv.MutateIn{Key: key, Revive: true}
	r.row("revive xattr only", deleted(revive, recSpec(dictUp, "_t", "2", "x")), r.get("x"))
	r.row("revive alive", deleted(revive, recSpec(dictUp, "_t", "2", "x")), r.get("x"))
	made := kv.MutateIn{Key: []byte("cd"), CreateAsDeleted: true, Store: kv.StoreInsert}
	r.row("create as deleted", deleted(made, recSpec(dictUp, "txn", `{"op":"ins","stgd":{"z":1}}`, "x")), r.get("cd"))
	r.row("create as deleted twice", deleted(made, recSpec(dictUp, "txn", "1", "x")))
	r.row("revive with replace body", deleted(kv.MutateIn{Key: []byte("cd"), Revive: true},
		recSpec(takeBody, "txn.stgd", "", "x"), recSpec(removePath, "txn", "", "x")), r.get("cd"))
}

func recordMetadata(r *recorder) {
	key := []byte("x")
	meta := func(name string, op kv.GetMeta) {
		op.Common = recCommon
		m, err := recDo(r, op)
		r.row(name, recSaid(err), m.Deleted, m.Flags, m.Datatype, m.HasDatatype, m.Expiry.IsZero())
	}
	r.put("x2", `{"a":1}`)
	made := kv.MutateIn{Common: recCommon, Key: key, Store: kv.StoreUpsert}
	made.Specs = []kv.MutateSpec{recSpec(dictUp, "_t", "2", "x"), recSpec(memd.OpSet, "", "text", "")}
	require.Equal(r.t, "ok", recTold(r, made))
	x, err := recDo(r, kv.Exists{Common: recCommon, Key: key})
	r.row("exists", recSaid(err), x.Exists)
	meta("get-meta", kv.GetMeta{Key: key})
	require.Equal(r.t, "ok", recTold(r, kv.Remove{Common: recCommon, Key: []byte("x2")}))
	m, err := recDo(r, kv.GetMeta{Common: recCommon, Key: []byte("x2")})
	r.row("get-meta deleted", recSaid(err), m.Deleted, m.Datatype)
	r.row("get-meta never", recTold(r, kv.GetMeta{Common: recCommon, Key: []byte("never")}))
	m, err = recDo(r, kv.GetMeta{Common: recCommon, Key: key, V1: true})
	r.row("get-meta v1", recSaid(err), m.HasDatatype)
	store := kv.SetWithMeta{Common: recCommon, Key: []byte("wm"), Value: []byte(`{"a":1}`)}
	store.Meta = kv.Meta{Flags: 3, RevSeqno: 5, StoreCAS: 1 << 50}
	r.row("set-with-meta", recTold(r, store), r.get("wm"))
	store.Meta.RevSeqno = 4
	r.row("set-with-meta loses", recTold(r, store), r.get("wm"))
	r.row("add-with-meta exists", recTold(r, kv.AddWithMeta{
		Common: recCommon, Key: store.Key, Value: []byte("1"), Meta: kv.Meta{RevSeqno: 9, StoreCAS: 1 << 50},
	}))
	store.Meta.RevSeqno, store.CheckCAS = 9, 77
	r.row("set-with-meta other cas", recTold(r, store))
	r.row("delete-with-meta", recTold(r, kv.DeleteWithMeta{
		Common: recCommon, Key: store.Key, Meta: kv.Meta{RevSeqno: 10, StoreCAS: 1 << 51},
	}), r.get("wm"))
}

func recordLocks(r *recorder) {
	key, value := []byte("l"), []byte("2")
	r.put("l", `{"a":1}`)
	lock := func() uint64 {
		g, err := recDo(r, kv.GetAndLock{Common: recCommon, Key: key, LockTime: 5 * time.Second})
		require.NoError(r.t, err)
		return g.CAS
	}
	first, err := recDo(r, kv.GetAndLock{Common: recCommon, Key: key, LockTime: 5 * time.Second})
	r.row("lock", recSaid(err), string(first.Value))
	cas := first.CAS
	read, err := recDo(r, kv.Get{Common: recCommon, Key: key})
	r.row("get locked cas", recSaid(err), read.CAS == math.MaxUint64, read.CAS == cas)
	r.row("upsert locked", recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: value}))
	r.row("unlock wrong", recTold(r, kv.Unlock{Common: recCommon, Key: key, CAS: cas + 1}))
	r.row("unlock", recTold(r, kv.Unlock{Common: recCommon, Key: key, CAS: cas}))
	r.row("unlock again", recTold(r, kv.Unlock{Common: recCommon, Key: key, CAS: cas}))
	r.row("unlock absent", recTold(r, kv.Unlock{Common: recCommon, Key: []byte("nope"), CAS: cas}))
	lock()
	time.Sleep(6 * time.Second)
	r.row("upsert after lock ended", recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: value}))
	cas = lock()
	mine := kv.Upsert{Common: recCommon, Key: key, Value: value, CAS: cas}
	r.row("upsert with the lock's cas", recTold(r, mine), r.get("l"))
	r.row("lock is gone", recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: value}))
	cas = lock()
	attr := kv.MutateIn{Common: recCommon, Key: key, Specs: []kv.MutateSpec{recSpec(dictUp, "u", "1", "x")}}
	r.row("mutate-in locked", recTold(r, attr))
	attr.CAS = cas
	r.row("mutate-in with lock's cas", recTold(r, attr))
}

func recordExpiry(r *recorder) {
	key := []byte("ex")
	expires := func() string {
		m, err := recDo(r, kv.GetMeta{Common: recCommon, Key: key})
		switch {
		case err != nil:
			return recSaid(err)
		case m.Expiry.IsZero():
			return "none"
		}
		return fmt.Sprint(time.Until(m.Expiry).Round(10 * time.Second))
	}
	hundred, one := kv.ExpireAfter(100*time.Second), []byte("1")
	r.put("ex", `{"a":1}`)
	r.row("touch", recTold(r, kv.Touch{Common: recCommon, Key: key, Expiry: hundred}), expires())
	far := kv.ExpireAfter(40 * 24 * time.Hour)
	r.row("touch 40 days", recTold(r, kv.Touch{Common: recCommon, Key: key, Expiry: far}), expires())
	r.row("preserve", recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: one, PreserveExpiry: true}), expires())
	r.row("not preserved", recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: one}), expires())
	require.Equal(r.t, "ok", recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: []byte("{}"), Expiry: hundred}))
	recChange := kv.MutateIn{Common: recCommon, Key: key, Specs: []kv.MutateSpec{recSpec(dictUp, "a", "1", "")}}
	r.row("mutate-in keeps?", recTold(r, recChange), expires())
	recChange.Expiry = kv.ExpireAfter(200 * time.Second)
	r.row("mutate-in sets", recTold(r, recChange), expires())
	recChange.Expiry, recChange.PreserveExpiry = kv.Expiry{}, true
	r.row("mutate-in preserves", recTold(r, recChange), expires())
	r.row("append keeps?", recTold(r, kv.Append{Common: recCommon, Key: key, Value: []byte(" ")}), expires())
	touch := kv.GetAndTouch{Common: recCommon, Key: key, Expiry: kv.ExpireAfter(300 * time.Second)}
	r.row("get-and-touch", recTold(r, touch), expires())
	touch.Expiry = kv.Expiry{}
	r.row("get-and-touch none", recTold(r, touch), expires())
	got, err := recDo(r, kv.Get{Common: recCommon, Key: key, WithExpiry: true})
	r.row("get with expiry none", recSaid(err), got.Expiry().IsZero(), string(got.Value))
	past := kv.ExpireAt(time.Now().Add(-time.Hour))
	r.row("touch into the past", recTold(r, kv.Touch{Common: recCommon, Key: key, Expiry: past}), r.get("ex"))
	key = []byte("ex2")
	short := kv.Upsert{Common: recCommon, Key: key, Value: one, Expiry: kv.ExpireAfter(time.Second)}
	require.Equal(r.t, "ok", recTold(r, short))
	time.Sleep(2200 * time.Millisecond)
	r.row("expired", r.get("ex2"), expires())
	r.row("insert over expired", recTold(r, kv.Insert{Common: recCommon, Key: key, Value: one}))
	recordMaxTTL(r)
}

// recordMaxTTL is about a collection whose documents expire after a second at the latest.
func recordMaxTTL(r *recorder) {
	place := recCommon
	place.Scope, place.Collection = "s", "ttl"
	require.NoError(r.t, r.m.Load(mock.Fixtures{Buckets: map[string]mock.BucketFixture{
		"default": {Collections: map[string]mock.CollectionFixture{"s.ttl": {MaxTTL: 1}}},
	}}))
	put := kv.Upsert{Common: place, Key: []byte("m"), Value: []byte("1")}
	for _, name := range []string{"collection maxTTL", "maxTTL caps"} {
		told := recTold(r, put)
		m, err := recDo(r, kv.GetMeta{Common: place, Key: put.Key})
		r.row(name, told, recSaid(err), time.Until(m.Expiry).Round(time.Second))
		put.Expiry = kv.ExpireAfter(time.Hour)
	}
}

func recordDurability(r *recorder) {
	key, value := []byte("du"), []byte("{}")
	for level := memd.DurabilityMajority; level <= memd.DurabilityPersistToMajority; level++ {
		name := func(op string) string { return fmt.Sprint("durable ", op, " ", level) }
		change := kv.MutateIn{Common: recCommon, Key: key, Durability: level}
		change.Specs = []kv.MutateSpec{recSpec(dictUp, "a", "1", "")}
		r.row(name("upsert"), recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: value, Durability: level}))
		r.row(name("mutate-in"), recTold(r, change))
		counter := kv.Increment{Common: recCommon, Key: []byte("n"), Delta: 1, Initial: new(uint64), Durability: level}
		r.row(name("increment"), recTold(r, counter))
		r.row(name("append"), recTold(r, kv.Append{Common: recCommon, Key: key, Value: []byte(" "), Durability: level}))
		r.row(name("remove"), recTold(r, kv.Remove{Common: recCommon, Key: key, Durability: level}), r.get("du"))
		r.row(name("remove absent"), recTold(r, kv.Remove{Common: recCommon, Key: key, Durability: level}))
	}
	r.row("durability level 4", recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: value, Durability: 4}))
}

func recordCopies(r *recorder) {
	key := []byte("obs")
	res, err := recDo(r, kv.Upsert{Common: recCommon, Key: key, Value: []byte("{}")})
	require.NoError(r.t, err)
	observe := func(name string, op kv.Observe) {
		op.Common = recCommon
		o, err := recDo(r, op)
		r.row(name, recSaid(err), o.State, o.CAS == res.CAS)
	}
	observe("observe", kv.Observe{Key: key})
	observe("observe replica", kv.Observe{Key: key, Replica: 1})
	observe("observe absent", kv.Observe{Key: []byte("nope")})
	seqno := kv.ObserveSeqno{Common: recCommon, VBucket: res.Token.VBucket, UUID: res.Token.UUID}
	s, err := recDo(r, seqno)
	r.row("observe-seqno", recSaid(err), s.Current >= res.Token.Seqno, s.Persisted >= res.Token.Seqno, s.FailedOver)
	seqno.UUID = 12345
	r.row("observe-seqno other uuid", recTold(r, seqno))
	g, err := recDo(r, kv.GetReplica{Common: recCommon, Key: key, Replica: 1})
	r.row("get-replica", recSaid(err), string(g.Value), g.CAS == res.CAS)
	r.row("get-replica 2", recTold(r, kv.GetReplica{Common: recCommon, Key: key, Replica: 2}))
	r.row("get-replica absent", recTold(r, kv.GetReplica{Common: recCommon, Key: []byte("nope"), Replica: 1}))
	l, err := recDo(r, kv.LookupIn{Common: recCommon, Key: key, Replica: 1, Specs: []kv.LookupSpec{
		kv.GetPath("a"), kv.GetXattr("$document.deleted"),
	}})
	r.row("lookup-in replica", recSaid(err), recLooked(l))
	_, err = kv.GetAnyReplica(within(r.t, 5*time.Second), r.b, kv.GetReplica{Common: recCommon, Key: key})
	r.row("any copy", recSaid(err))
	_, err = kv.GetAnyReplica(within(r.t, 5*time.Second), r.b, kv.GetReplica{Common: recCommon, Key: []byte("nope")})
	r.row("any copy absent", cberr.KindOf(err).Name())
	for _, pd := range []kv.PollDurability{
		{PersistTo: 1},
		{ReplicateTo: 1},
		{PersistTo: 2, ReplicateTo: 1},
		{PersistTo: 1, ReplicateTo: 1, ByCAS: true},
		{ReplicateTo: 2},
		{PersistTo: 3},
	} {
		op := kv.Upsert{Common: recCommon, Key: []byte("pd"), Value: []byte("1")}
		outcome := "ok"
		if _, err := kv.DoPolled(within(r.t, 5*time.Second), r.b, op, pd); err != nil {
			outcome = cberr.KindOf(err).Name()
		}
		r.row(fmt.Sprintf("polled %+v", pd), outcome)
	}
}

func recordScans(r *recorder) {
	var tokens []kv.MutationToken
	for i := range 200 {
		key, value := fmt.Appendf(nil, "scan%03d", i), fmt.Appendf(nil, `{"i":%d}`, i)
		op := kv.Upsert{Common: recInSC, Key: key, Value: value, Datatype: memd.DatatypeJSON, Flags: uint32(i)}
		res, err := recDo(r, op)
		require.NoError(r.t, err)
		tokens = append(tokens, res.Token)
	}
	run := func(name string, s kv.Scan) {
		s.Common = recInSC
		s.Common.Retry = nil
		ctx := within(r.t, 15*time.Second)
		res, err := s.Run(ctx, r.b)
		if err != nil {
			r.row(name, recSaid(err))
			return
		}
		n := 0
		for res.Next(ctx) {
			n++
		}
		err = res.Err()
		res.Close()
		r.row(name, recSaid(err), n)
	}
	all := kv.PrefixRange([]byte("scan"))
	some := &kv.ScanRange{Start: []byte("scan010"), End: []byte("scan020")}
	run("prefix", kv.Scan{Range: all})
	run("prefix keys", kv.Scan{Range: all, KeysOnly: true})
	run("prefix none", kv.Scan{Range: kv.PrefixRange([]byte("zzz"))})
	run("range incl", kv.Scan{Range: some})
	inner := *some
	inner.ExcludeStart, inner.ExcludeEnd = true, true
	run("range excl", kv.Scan{Range: &inner})
	run("range reversed", kv.Scan{Range: &kv.ScanRange{Start: some.End, End: some.Start}})
	run("batch 1", kv.Scan{Range: all, BatchItems: 1})
	run("bytes 1", kv.Scan{Range: all, BatchBytes: 1})
	run("sorted", kv.Scan{Range: all, Sorted: true})
	run("xattrs", kv.Scan{Range: all, WithXattrs: true})
	run("sample 10", kv.Scan{Samples: 10, Seed: 3})
	run("consistent", kv.Scan{Range: all, ConsistentWith: tokens})
	strange, future := tokens[0], tokens[0]
	strange.UUID++
	future.Seqno += 1000
	ctx := within(r.t, time.Minute)
	other := kv.Scan{Common: recInSC, Range: all, ConsistentWith: []kv.MutationToken{strange}}
	other.Common.Retry = nil
	res, err := other.Run(ctx, r.b)
	require.NoError(r.t, err)
	for res.Next(ctx) { // how many come before the failure is a matter of the order of vbuckets
	}
	err = res.Err()
	res.Close()
	r.row("consistent other uuid", recSaid(err))
	// what Scan sent when the outcome was recorded
	wait := kv.RangeScanCreate{
		Common: recInSC, VBucket: future.VBucket, Range: all, Snapshot: future,
		SnapshotWait: recInSC.Timeout * 9 / 10,
	}
	wait.Common.Retry = nil
	r.row("consistent future", recTold(r, wait))
	another := kv.Upsert{Common: recInSC, Key: bytes.Repeat([]byte("k"), 246), Value: []byte("1")}
	require.Equal(r.t, "ok", recTold(r, another))
	run("sample 100000", kv.Scan{Samples: 100000, Seed: 3})
	vb, _, ok := r.b.Locate([]byte("scan000"))
	require.True(r.t, ok)
	create := kv.RangeScanCreate{Common: recInSC, VBucket: vb, Range: all}
	s, err := recDo(r, create)
	r.row("create", recSaid(err))
	part, err := recDo(r, kv.RangeScanContinue{Common: recInSC, Scan: s, MaxItems: 1})
	r.row("continue 1", recSaid(err), len(part.Items), part.Complete)
	r.row("cancel", recTold(r, kv.RangeScanCancel{Common: recInSC, Scan: s}))
	r.row("cancel again", recTold(r, kv.RangeScanCancel{Common: recInSC, Scan: s}))
	r.row("continue canceled", recTold(r, kv.RangeScanContinue{Common: recInSC, Scan: s, MaxItems: 1}))
	create.Range = kv.PrefixRange([]byte("zzz"))
	r.row("create empty", recTold(r, create))
	create.VBucket = 5000
	r.row("create vb 5000", recTold(r, create))
}

func recordStatistics(r *recorder) {
	for _, g := range []string{
		"", "vbucket", "vbucket-details", "vbucket-seqno", "failovers", "uuid", "collections", "scopes", "nope",
		"config",
		"timings", "tap", "dcp", "memory", "workload", "hash", "diskinfo", "kvtimings", "settings",
		"bucket_details", "all",
	} {
		s, err := recDo(r, kv.Stat{Common: recCommon, Group: g})
		some := ""
		if len(s.Stats) > 0 {
			some = "some"
		}
		r.row(fmt.Sprintf("stat %q", g), recSaid(err), some)
	}
	r.row("stat key a 0", recTold(r, kv.Stat{Common: recCommon, Group: "key a 0"}))
	r.row("version", recTold(r, kv.GetVersion{Common: recCommon}))
}

func recordCollections(r *recorder) {
	for _, path := range []string{
		"s.c", "s.nope", "nope.c", "nope.nope", "_default._default", "s", "", "s.c.x", ".c", "s.", "._default",
	} {
		id, err := recDo(r, kv.GetCollectionID{Common: recCommon, Path: path})
		r.row(fmt.Sprintf("collection id %q", path), recSaid(err), id.ID)
	}
	for _, name := range []string{"s", "nope", "_default", ""} {
		id, err := recDo(r, kv.GetScopeID{Common: recCommon, Name: name})
		r.row(fmt.Sprintf("scope id %q", name), recSaid(err), id.ID)
	}
	for _, c := range [][2]string{{"s", "nope"}, {"nope", "c"}} {
		place := recCommon
		place.Scope, place.Collection, place.Timeout = c[0], c[1], 500*time.Millisecond
		put := kv.Upsert{Common: place, Key: []byte("a"), Value: []byte("1")}
		r.row("upsert in "+strings.Join(c[:], "."), recTold(r, put))
	}
	place := recCommon
	place.CollectionID = 77
	r.row("upsert in collection id 77", recTold(r, kv.Upsert{Common: place, Key: []byte("a"), Value: []byte("1")}))
	manifest, err := recDo(r, kv.GetManifest{Common: recCommon})
	r.row("manifest", recSaid(err), len(manifest.Scopes))
	r.put("a", "{}")
	for i := range 6 { // one of three nodes has it
		_, err := recDo(r, kv.GetRandom{Common: recCommon, WithXattrs: i > 2})
		require.Contains(r.t, []string{"ok", "document_not_found 0x01"}, recSaid(err))
	}
}

func recordAccounts(r *recorder) {
	r.put("a", "{}")
	as := func(name string) kv.Common {
		c := recCommon
		c.OnBehalfOf = name
		return c
	}
	put := kv.Upsert{Common: as("reader"), Key: []byte("a"), Value: []byte("1")}
	r.row("on behalf of reader: upsert", recTold(r, put))
	r.row("on behalf of reader: get", recTold(r, kv.Get{Common: as("reader"), Key: []byte("a")}))
	r.row("on behalf of unknown: get", recTold(r, kv.Get{Common: as("unknown"), Key: []byte("a")}))
}

func recordValues(r *recorder) {
	key, long := []byte("comp"), bytes.Repeat([]byte(`{"abc":"def"},`), 500)
	require.Equal(r.t, "ok", recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: long}))
	got, err := recDo(r, kv.Get{Common: recCommon, Key: key})
	packed, packedErr := recDo(r, kv.Get{Common: recCommon, Key: key, KeepCompressed: true})
	r.row("compressed", recSaid(err), bytes.Equal(got.Value, long), got.Datatype, recSaid(packedErr), packed.Datatype,
		len(packed.Value) < len(long))
	r.put("d", recDocument)
	some := []string{"s", "arr[0]", "o.a.b", "nope"}
	parts, err := recDo(r, kv.Get{Common: recCommon, Key: []byte("d"), Paths: some})
	r.row("get with paths", recSaid(err), string(parts.Value))
}
