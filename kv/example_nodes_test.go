package kv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// The Examples of operations on several documents, copies or nodes, and of those that ask a node about itself.

// replicated is a bucket of three nodes with a replica, and with documents.
func replicated() (*core.Bucket, func()) {
	m := must(mock.New(mock.Nodes(3), mock.Replicas(1), mock.Bucket("travel", 64)))
	cfg := must(core.ParseConnString(m.ConnString()))
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	c := must(core.Open(context.Background(), cfg))
	bucket := c.Bucket("travel")
	for _, o := range kv.UpsertMulti(context.Background(), bucket, airlines) {
		must(o.Result, o.Err)
	}
	return bucket, func() { _ = errors.Join(c.Close(), m.Close()) }
}

var airlines = []kv.Upsert{
	{Key: []byte("airline_10"), Value: []byte(`{"name":"40-Mile Air"}`)},
	{Key: []byte("airline_109"), Value: []byte(`{"name":"Alaska Central Express"}`)},
	{Key: []byte("airline_137"), Value: []byte(`{"name":"Air France"}`)},
}

// atNodes runs f on it.
func atNodes(f func(ctx context.Context, bucket *core.Bucket)) {
	bucket, done := replicated()
	defer done()
	f(context.Background(), bucket)
}

func ExampleGetMulti() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		keys := [][]byte{[]byte("airline_10"), []byte("airline_11"), []byte("airline_137")}
		for i, o := range kv.GetMulti(ctx, bucket, kv.Common{}, keys) {
			fmt.Println(string(keys[i]), string(o.Result.Value), errors.Is(o.Err, cberr.DocumentNotFound))
		}
	})
	// Output:
	// airline_10 {"name":"40-Mile Air"} false
	// airline_11  true
	// airline_137 {"name":"Air France"} false
}

func ExampleUpsertMulti() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		docs := []kv.Upsert{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b"), Value: []byte("2")}}
		for _, o := range kv.UpsertMulti(ctx, bucket, docs) {
			fmt.Println(o.Err)
		}
	})
	// Output:
	// <nil>
	// <nil>
}

func ExampleBatchSeq() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		reads := func(yield func(kv.Get) bool) { // as many as you like: only inFlight of them are in memory
			for i := range 3 {
				if !yield(kv.Get{Key: airlines[i].Key}) {
					return
				}
			}
		}
		for res, err := range kv.BatchSeq[kv.GetResult](ctx, bucket, reads, 2) {
			fmt.Println(string(res.Value), err)
		}
	})
	// Output:
	// {"name":"40-Mile Air"} <nil>
	// {"name":"Alaska Central Express"} <nil>
	// {"name":"Air France"} <nil>
}

func ExampleGetAllReplicas() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		copies, err := kv.GetAllReplicas(ctx, bucket, kv.GetReplica{Key: []byte("airline_10")})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer copies.Close()
		n := 0
		for res, ok := copies.Next(ctx); ok; res, ok = copies.Next(ctx) {
			if string(res.Value) == string(airlines[0].Value) {
				n++
			}
		}
		fmt.Println(n, copies.Err())
	})
	// Output: 2 <nil>
}

func ExampleLookupInAllReplicas() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		op := kv.LookupIn{Key: []byte("airline_10"), Specs: []kv.LookupSpec{kv.GetPath("name")}}
		copies := must(kv.LookupInAllReplicas(ctx, bucket, op))
		defer copies.Close()
		for res, ok := copies.Next(ctx); ok; res, ok = copies.Next(ctx) {
			fmt.Println(string(res.Paths[0].Value))
		}
	})
	// Output:
	// "40-Mile Air"
	// "40-Mile Air"
}

func ExampleLookupInAnyReplica() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		op := kv.LookupIn{Key: []byte("airline_10"), Specs: []kv.LookupSpec{kv.GetPath("name")}}
		res, err := kv.LookupInAnyReplica(ctx, bucket, op)
		fmt.Println(string(res.Paths[0].Value), err)
	})
	// Output: "40-Mile Air" <nil>
}

func ExampleDoPolled() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		op := kv.Upsert{Key: []byte("airline_10"), Value: []byte("{}")}
		_, err := kv.DoPolled(ctx, bucket, op, kv.PollDurability{ReplicateTo: 1, PersistTo: 1})
		fmt.Println(err)
	})
	// Output: <nil>
}

func ExampleDoInHistory() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		written := must(kv.Do(ctx, bucket, kv.Upsert{Key: []byte("airline_10"), Value: []byte("{}")}))
		var histories kv.Histories
		// Not after a failover that may have lost the write.
		res, err := kv.DoInHistory[kv.GetResult](ctx, bucket, &histories, written.Token.UUID,
			kv.Get{Key: []byte("airline_10")})
		fmt.Println(string(res.Value), err)
	})
	// Output: {} <nil>
}

func ExampleStat() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		res, err := kv.Do(ctx, bucket, kv.Stat{})
		fmt.Println(len(res.Stats) > 0, err)
	})
	// Output: true <nil>
}

func ExampleStatAll() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		nodes, err := kv.StatAll(ctx, bucket, kv.Stat{})
		for _, o := range nodes {
			fmt.Println(len(o.Result.Stats) > 0, o.Err)
		}
		fmt.Println(err)
	})
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// <nil>
}

func ExampleManifestAll() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		nodes, err := kv.ManifestAll(ctx, bucket, kv.GetManifest{})
		fmt.Println(len(nodes), nodes[0].Result.Scopes[0].Name, err)
	})
	// Output: 3 _default <nil>
}

func ExampleGetManifest() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		m, err := kv.Do(ctx, bucket, kv.GetManifest{})
		fmt.Println(m.Scopes[0].Name, m.Scopes[0].Collections[0].Name, err)
	})
	// Output: _default _default <nil>
}

func ExampleGetCollectionID() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		res, err := kv.Do(ctx, bucket, kv.GetCollectionID{Path: "_default._default"})
		fmt.Println(res.ID, err)
		_, err = kv.Do(ctx, bucket, kv.GetCollectionID{Path: "_default.nosuch"})
		fmt.Println(errors.Is(err, cberr.CollectionNotFound))
	})
	// Output:
	// 0 <nil>
	// true
}

func ExampleGetScopeID() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		_, err := kv.Do(ctx, bucket, kv.GetScopeID{Name: "nosuch"})
		fmt.Println(errors.Is(err, cberr.ScopeNotFound))
	})
	// Output: true
}

func ExampleGetRandom() {
	bucket, _, done := openExample()
	defer done()
	ctx := context.Background()
	must(kv.Do(ctx, bucket, airlines[0]))
	res, err := kv.Do(ctx, bucket, kv.GetRandom{})
	fmt.Println(string(res.Key), err)
	// Output: airline_10 <nil>
}

func ExampleGetVersion() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		res, err := kv.Do(ctx, bucket, kv.GetVersion{Pinned: true, Node: 1})
		fmt.Println(len(res.Value) > 0, err)
	})
	// Output: true <nil>
}

func ExampleGetClusterConfig() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		res, err := kv.Do(ctx, bucket, kv.GetClusterConfig{})
		fmt.Println(len(res.Value) > 0, err) // JSON
	})
	// Output: true <nil>
}

func ExampleNoop() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		_, err := kv.Do(ctx, bucket, kv.Noop{Pinned: true, Node: 2})
		fmt.Println(err) // that node answers
	})
	// Output: <nil>
}

func ExampleObserve() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		res, err := kv.Do(ctx, bucket, kv.Observe{Key: []byte("airline_10"), Replica: 1})
		fmt.Println(res.State == kv.ObserveFound || res.State == kv.ObservePersisted, err)
	})
	// Output: true <nil>
}

func ExampleObserveSeqno() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		written := must(kv.Do(ctx, bucket, kv.Upsert{Key: []byte("airline_10"), Value: []byte("{}")})).Token
		res, err := kv.Do(ctx, bucket, kv.ObserveSeqno{VBucket: written.VBucket, UUID: written.UUID})
		fmt.Println(res.Current >= written.Seqno, err)
	})
	// Output: true <nil>
}

func ExampleGetFailoverLog() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		written := must(kv.Do(ctx, bucket, kv.Upsert{Key: []byte("airline_10"), Value: []byte("{}")})).Token
		log, err := kv.Do(ctx, bucket, kv.GetFailoverLog{VBucket: written.VBucket})
		fmt.Println(log.Entries[0].UUID == written.UUID, err)
	})
	// Output: true <nil>
}

// Scan does this for all vbuckets.
func ExampleRangeScanCreate() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		layout := must(bucket.Layout(ctx))
		scan, err := kv.Do(ctx, bucket, kv.RangeScanCreate{
			VBucket: layout.VBucket([]byte("airline_10")), KeysOnly: true, Range: kv.PrefixRange([]byte("airline_")),
		})
		fmt.Println(err)
		items, err := kv.Do(ctx, bucket, kv.RangeScanContinue{Scan: scan})
		fmt.Println(slices.ContainsFunc(items.Items, func(i kv.ScanItem) bool { return string(i.Key) == "airline_10" }),
			items.Complete, err)
	})
	// Output:
	// <nil>
	// true true <nil>
}

func ExampleRangeScanContinue() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		vb := must(bucket.Layout(ctx)).VBucket([]byte("airline_10"))
		scan := must(kv.Do(ctx, bucket, kv.RangeScanCreate{VBucket: vb, Range: &kv.ScanRange{}}))
		items, err := kv.Do(ctx, bucket, kv.RangeScanContinue{Scan: scan, MaxItems: 1})
		fmt.Println(len(items.Items), err)
	})
	// Output: 1 <nil>
}

func ExampleRangeScanCancel() {
	atNodes(func(ctx context.Context, bucket *core.Bucket) {
		vb := must(bucket.Layout(ctx)).VBucket([]byte("airline_10"))
		scan := must(kv.Do(ctx, bucket, kv.RangeScanCreate{VBucket: vb, Range: &kv.ScanRange{}}))
		_, err := kv.Do(ctx, bucket, kv.RangeScanCancel{Scan: scan})
		fmt.Println(err)
	})
	// Output: <nil>
}
