package kv_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// The Examples of operations on one document. Each has a bucket of its own, with the document "airline_10".

// travel runs f on such a bucket.
func travel(f func(ctx context.Context, bucket *core.Bucket, key []byte)) {
	bucket, _, done := openExample()
	defer done()
	ctx, key := context.Background(), []byte("airline_10")
	must(kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte(`{"name":"40-Mile Air"}`)}))
	f(ctx, bucket, key)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleGet() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		res, err := kv.Do(ctx, bucket, kv.Get{Key: key})
		fmt.Println(string(res.Value), res.CAS != 0, err)
	})
	// Output: {"name":"40-Mile Air"} true <nil>
}

func ExampleGetOrNull() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		for _, k := range []string{"airline_10", "airline_11"} {
			res, err := kv.Do(ctx, bucket, kv.GetOrNull{Key: []byte(k)})
			fmt.Println(res.Absent, err) // a missing document is no error
		}
	})
	// Output:
	// false <nil>
	// true <nil>
}

func ExampleGetAndTouch() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		res, err := kv.Do(ctx, bucket, kv.GetAndTouch{Key: key, Expiry: kv.ExpireAfter(time.Hour)})
		fmt.Println(string(res.Value), err)
		res, err = kv.Do(ctx, bucket, kv.Get{Key: key, WithExpiry: true})
		fmt.Println(time.Until(res.Expiry()) > 59*time.Minute, err)
	})
	// Output:
	// {"name":"40-Mile Air"} <nil>
	// true <nil>
}

func ExampleGetAndLock() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		locked, err := kv.Do(ctx, bucket, kv.GetAndLock{Key: key, LockTime: 10 * time.Second})
		fmt.Println(string(locked.Value), err)
		// Only the CAS of the lock changes the document now, and ends the lock.
		_, err = kv.Do(ctx, bucket, kv.Replace{Key: key, Value: []byte("{}"), CAS: locked.CAS})
		fmt.Println(err)
	})
	// Output:
	// {"name":"40-Mile Air"} <nil>
	// <nil>
}

func ExampleUnlock() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		locked := must(kv.Do(ctx, bucket, kv.GetAndLock{Key: key}))
		_, err := kv.Do(ctx, bucket, kv.Unlock{Key: key, CAS: locked.CAS})
		fmt.Println(err)
		_, err = kv.Do(ctx, bucket, kv.Unlock{Key: key, CAS: locked.CAS})
		fmt.Println(errors.Is(err, cberr.DocumentNotLocked))
	})
	// Output:
	// <nil>
	// true
}

func ExampleExists() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		res, err := kv.Do(ctx, bucket, kv.Exists{Key: key})
		fmt.Println(res.Exists, err)
		res, err = kv.Do(ctx, bucket, kv.Exists{Key: []byte("airline_11")})
		fmt.Println(res.Exists, err)
	})
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleInsert() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		_, err := kv.Do(ctx, bucket, kv.Insert{Key: key, Value: []byte("{}")})
		fmt.Println(errors.Is(err, cberr.DocumentExists))
	})
	// Output: true
}

func ExampleUpsert() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		res, err := kv.Do(ctx, bucket, kv.Upsert{
			Key: key, Value: []byte(`{"name":"Texas Wings"}`), Flags: kv.FormatJSON.Flags(),
			Expiry: kv.ExpireAfter(time.Hour),
		})
		fmt.Println(res.CAS != 0, !res.Token.IsZero(), err)
	})
	// Output: true true <nil>
}

func ExampleReplace() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		read := must(kv.Do(ctx, bucket, kv.Get{Key: key}))
		must(kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte(`{"by":"another program"}`)}))
		_, err := kv.Do(ctx, bucket, kv.Replace{Key: key, Value: []byte("{}"), CAS: read.CAS})
		fmt.Println(errors.Is(err, cberr.CASMismatch)) // the version that was read is not there any more
	})
	// Output: true
}

func ExampleRemove() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		_, err := kv.Do(ctx, bucket, kv.Remove{Key: key})
		fmt.Println(err)
		_, err = kv.Do(ctx, bucket, kv.Remove{Key: key})
		fmt.Println(errors.Is(err, cberr.DocumentNotFound))
	})
	// Output:
	// <nil>
	// true
}

func ExampleTouch() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		_, err := kv.Do(ctx, bucket, kv.Touch{Key: key, Expiry: kv.ExpireAt(time.Now().Add(time.Hour))})
		fmt.Println(err)
	})
	// Output: <nil>
}

func ExampleAppend() {
	travel(func(ctx context.Context, bucket *core.Bucket, _ []byte) {
		key := []byte("log")
		must(kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte("b")}))
		must(kv.Do(ctx, bucket, kv.Append{Key: key, Value: []byte("c")}))
		must(kv.Do(ctx, bucket, kv.Prepend{Key: key, Value: []byte("a")}))
		fmt.Println(string(must(kv.Do(ctx, bucket, kv.Get{Key: key})).Value))
	})
	// Output: abc
}

func ExamplePrepend() {
	travel(func(ctx context.Context, bucket *core.Bucket, _ []byte) {
		_, err := kv.Do(ctx, bucket, kv.Prepend{Key: []byte("missing"), Value: []byte("a")})
		fmt.Println(errors.Is(err, cberr.DocumentNotFound))
	})
	// Output: true
}

func ExampleIncrement() {
	travel(func(ctx context.Context, bucket *core.Bucket, _ []byte) {
		first := uint64(1)
		for range 3 {
			res, err := kv.Do(ctx, bucket, kv.Increment{Key: []byte("visits"), Delta: 1, Initial: &first})
			fmt.Println(res.Value, err)
		}
	})
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
}

func ExampleDecrement() {
	travel(func(ctx context.Context, bucket *core.Bucket, _ []byte) {
		key := []byte("seats")
		must(kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte("1")}))
		for range 2 {
			res, err := kv.Do(ctx, bucket, kv.Decrement{Key: key, Delta: 1})
			fmt.Println(res.Value, err) // it stops at 0
		}
	})
	// Output:
	// 0 <nil>
	// 0 <nil>
}

func ExampleLookupPath() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		res, err := kv.Do(ctx, bucket, kv.LookupPath{Key: key, Spec: kv.GetPath("name")})
		fmt.Println(string(res.Paths[0].Value), err)
	})
	// Output: "40-Mile Air" <nil>
}

func ExampleMutatePath() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		_, err := kv.Do(ctx, bucket, kv.MutatePath{Key: key, Spec: kv.UpsertPath("iata", []byte(`"Q5"`))})
		fmt.Println(string(must(kv.Do(ctx, bucket, kv.Get{Key: key})).Value), err)
	})
	// Output: {"name":"40-Mile Air","iata":"Q5"} <nil>
}

func ExampleGetEx() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		_, err := kv.Do(ctx, bucket, kv.MutateIn{Key: key, Specs: []kv.MutateSpec{{
			Op: memd.OpSubdocDictUpsert, Path: "audit", Value: []byte(`{"by":"me"}`), Xattr: true,
		}}})
		fmt.Println(err)
		res, err := kv.Do(ctx, bucket, kv.GetEx{Key: key})
		by, _ := res.Xattrs.Get("audit")
		fmt.Println(string(res.Value), string(by), err)
	})
	// Output:
	// <nil>
	// {"name":"40-Mile Air"} {"by":"me"} <nil>
}

func ExampleGetMeta() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		must(kv.Do(ctx, bucket, kv.Remove{Key: key}))
		res, err := kv.Do(ctx, bucket, kv.GetMeta{Key: key})
		fmt.Println(res.Exists, res.Deleted, res.RevSeqno, err) // it finds what is left of a removed document
	})
	// Output: false true 2 <nil>
}

func ExampleSetWithMeta() {
	travel(func(ctx context.Context, bucket *core.Bucket, _ []byte) {
		key := []byte("copied")
		_, err := kv.Do(ctx, bucket, kv.SetWithMeta{
			Key: key, Value: []byte("{}"), Meta: kv.Meta{RevSeqno: 7, StoreCAS: 1 << 40},
		})
		meta := must(kv.Do(ctx, bucket, kv.GetMeta{Key: key}))
		fmt.Println(meta.RevSeqno, meta.CAS == 1<<40, err)
	})
	// Output: 7 true <nil>
}

func ExampleAddWithMeta() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		_, err := kv.Do(ctx, bucket, kv.AddWithMeta{Key: key, Meta: kv.Meta{RevSeqno: 7, StoreCAS: 1 << 40}})
		fmt.Println(errors.Is(err, cberr.DocumentExists))
	})
	// Output: true
}

func ExampleDeleteWithMeta() {
	travel(func(ctx context.Context, bucket *core.Bucket, key []byte) {
		meta := must(kv.Do(ctx, bucket, kv.GetMeta{Key: key}))
		_, err := kv.Do(ctx, bucket, kv.DeleteWithMeta{
			Key: key, Meta: kv.Meta{RevSeqno: meta.RevSeqno + 1, StoreCAS: meta.CAS + 1},
		})
		fmt.Println(err, must(kv.Do(ctx, bucket, kv.Exists{Key: key})).Exists)
	})
	// Output: <nil> false
}

func ExampleGetReplica() {
	bucket, done := replicated()
	defer done()
	ctx := context.Background()
	res, err := kv.Do(ctx, bucket, kv.GetReplica{Key: []byte("airline_10"), Replica: 1})
	fmt.Println(string(res.Value), res.FromReplica, err)
	// Output: {"name":"40-Mile Air"} true <nil>
}
