package kv_test

import (
	"context"
	"fmt"

	"github.com/couchcore/couchcore/kv"
)

func ExampleLookupIn() {
	bucket, _, done := openExample()
	defer done()
	ctx, key := context.Background(), []byte("airline_10")
	if _, err := kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte(`{"name":"40-Mile Air","routes":[1,2,3]}`)}); err != nil {
		fmt.Println(err)
		return
	}
	res, err := kv.Do(ctx, bucket, kv.LookupIn{Key: key, Specs: []kv.LookupSpec{
		kv.GetPath("name"), kv.CountPath("routes"), kv.ExistsPath("closed"),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	closed, err := res.Paths[2].Exists()
	fmt.Println(string(res.Paths[0].Value), string(res.Paths[1].Value), closed, err)
	// Output: "40-Mile Air" 3 false <nil>
}

func ExampleMutateIn() {
	bucket, _, done := openExample()
	defer done()
	ctx, key := context.Background(), []byte("airline_10")
	res, err := kv.Do(ctx, bucket, kv.MutateIn{Key: key, Store: kv.StoreUpsert, Specs: []kv.MutateSpec{
		kv.UpsertPath("name", []byte(`"40-Mile Air"`)), kv.IncrementPath("visits", 1), kv.ArrayAppend("log", []byte(`"opened"`)),
	}})
	if err != nil {
		fmt.Println(err) // it says which of the paths has failed; nothing was changed then
		return
	}
	fmt.Println("visits:", string(res.Paths[1].Value))
	// Output: visits: 1
}

// A projection reads parts of a document.
func ExampleGet_paths() {
	bucket, _, done := openExample()
	defer done()
	ctx, key := context.Background(), []byte("hotel_1")
	if _, err := kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte(`{"name":"Inn","geo":{"lat":51.4,"lon":0.5},"rooms":20}`)}); err != nil {
		fmt.Println(err)
		return
	}
	res, err := kv.Do(ctx, bucket, kv.Get{Key: key, Paths: []string{"name", "geo.lat"}})
	fmt.Println(string(res.Value), err)
	// Output: {"name":"Inn","geo":{"lat":51.4}} <nil>
}

// A batch has many operations in flight, and their outcomes in order.
func ExampleBatch() {
	bucket, _, done := openExample()
	defer done()
	ctx := context.Background()
	var docs []kv.Upsert
	for i := range 1000 {
		docs = append(docs, kv.Upsert{Key: fmt.Appendf(nil, "k%d", i), Value: []byte("1")})
	}
	failed := 0
	for _, o := range kv.Batch(ctx, bucket, docs, 100) {
		if o.Err != nil {
			failed++
		}
	}
	fmt.Println(len(docs), "documents,", failed, "failures")
	// Output: 1000 documents, 0 failures
}

// A scan finds all documents whose keys begin alike.
func ExampleScan() {
	bucket, _, done := openExample()
	defer done()
	ctx := context.Background()
	for _, key := range []string{"airline_1", "airline_2", "hotel_1"} {
		if _, err := kv.Do(ctx, bucket, kv.Upsert{Key: []byte(key), Value: []byte("1")}); err != nil {
			fmt.Println(err)
			return
		}
	}
	scan, err := kv.Scan{Range: kv.PrefixRange([]byte("airline_")), KeysOnly: true, Sorted: true}.Run(ctx, bucket)
	if err != nil {
		fmt.Println(err)
		return
	}
	for item, err := range scan.All(ctx) {
		fmt.Println(string(item.Key), err)
	}
	// Output:
	// airline_1 <nil>
	// airline_2 <nil>
}

// The first copy of a document that answers is good enough.
func ExampleGetAnyReplica() {
	bucket, _, done := openExample()
	defer done()
	ctx, key := context.Background(), []byte("airline_10")
	if _, err := kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte("1")}); err != nil {
		fmt.Println(err)
		return
	}
	res, err := kv.GetAnyReplica(ctx, bucket, kv.GetReplica{Key: key})
	fmt.Println(string(res.Value), err)
	// Output: 1 <nil>
}
