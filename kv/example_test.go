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
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// openExample starts a mock cluster and connects to it.
func openExample() (bucket *core.Bucket, cluster *mock.Cluster, done func()) {
	m, err := mock.New(mock.Bucket("travel", 64))
	if err != nil {
		panic(err)
	}
	cfg, err := core.ParseConnString(m.ConnString())
	if err != nil {
		panic(err)
	}
	cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
	c, err := core.Open(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	return c.Bucket("travel"), m, func() {
		_ = c.Close()
		_ = m.Close()
	}
}

func ExampleDo_get() {
	bucket, _, done := openExample()
	defer done()
	ctx := context.Background()
	_, err := kv.Do(ctx, bucket, kv.Upsert{Key: []byte("airline_10"), Value: []byte(`{"name":"40-Mile Air"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := kv.Do(ctx, bucket, kv.Get{Key: []byte("airline_10")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(res.Value))

	_, err = kv.Do(ctx, bucket, kv.Get{Key: []byte("airline_11")})
	fmt.Println(errors.Is(err, cberr.DocumentNotFound))
	// Output:
	// {"name":"40-Mile Air"}
	// true
}

func ExampleDo_upsert() {
	bucket, _, done := openExample()
	defer done()
	ctx := context.Background()
	first, err := kv.Do(ctx, bucket, kv.Upsert{
		Key: []byte("session"), Value: []byte("{}"), Datatype: memd.DatatypeJSON,
		Expiry: kv.ExpireAfter(30 * time.Minute),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("seqno", first.Token.Seqno)

	// Only the version that was read may be replaced.
	_, err = kv.Do(ctx, bucket, kv.Upsert{Key: []byte("session"), Value: []byte("{}"), CAS: first.CAS + 1})
	fmt.Println(errors.Is(err, cberr.CASMismatch))
	// Output:
	// seqno 1
	// true
}

// One operation may be retried otherwise than the rest.
func ExampleDo_retry() {
	bucket, cluster, done := openExample()
	defer done()
	ctx := context.Background()
	cluster.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 2}, mock.Status(memd.StatusTmpFail))

	res, err := kv.Do(ctx, bucket, kv.Upsert{
		Key: []byte("k"), Value: []byte("1"),
		Common: kv.Common{Retry: retry.BestEffort{}},
	})
	fmt.Println(err, "after", res.RetryInfo().Retries(), "retries")

	cluster.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
	_, err = kv.Do(ctx, bucket, kv.Upsert{Key: []byte("k"), Value: []byte("2"), Common: kv.Common{Retry: never{}}})
	fmt.Println(errors.Is(err, cberr.TemporaryFailure))
	// Output:
	// <nil> after 2 retries
	// true
}

// never is a strategy that retries nothing.
type never struct{}

func (never) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.Stop()
}

// One goroutine has many operations in flight.
func ExampleStart() {
	bucket, _, done := openExample()
	defer done()
	ctx := context.Background()
	var writes []kv.Future[kv.MutationResult]
	for i := range 100 {
		writes = append(writes, kv.Start(ctx, bucket, kv.Insert{Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v")}))
	}
	written := 0
	for _, w := range writes {
		if _, err := w.Wait(ctx); err == nil {
			written++
		}
	}
	fmt.Println(written)
	// Output: 100
}

func ExampleGo() {
	bucket, _, done := openExample()
	defer done()
	finished := make(chan string)
	kv.Go(context.Background(), bucket, kv.Exists{Key: []byte("nobody")}, func(res kv.MetaResult, err error) {
		finished <- fmt.Sprint(res.Exists, " ", err)
	})
	fmt.Println(<-finished)
	// Output: false <nil>
}

func ExampleGoInline() {
	bucket, _, done := openExample()
	defer done()
	finished := make(chan string, 1) // with room: sending does not block
	kv.GoInline(context.Background(), bucket, kv.Exists{Key: []byte("absent")}, func(res kv.MetaResult, err error) {
		finished <- fmt.Sprint(res.Exists, " ", err)
	})
	fmt.Println(<-finished)
	// Output: false <nil>
}
