package minisdk_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/examples/minisdk"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

type airline struct {
	Name string `json:"name"`
	IATA string `json:"iata,omitempty"`
}

// with runs f with a mock cluster and a client of it.
func with(f func(ctx context.Context, server *mock.Cluster, cluster *minisdk.Cluster, docs *minisdk.Collection)) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := must(mock.New(mock.Nodes(2), mock.VBuckets(16)))
	cluster := must(minisdk.Connect(ctx, server.ConnString(), minisdk.Options{
		Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword),
	}))
	f(ctx, server, cluster, cluster.Collection("default", "_default", "_default"))
	if err := errors.Join(cluster.Close(ctx), server.Close()); err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleCollection() {
	with(func(ctx context.Context, _ *mock.Cluster, _ *minisdk.Cluster, docs *minisdk.Collection) {
		first := airline{Name: "40-Mile Air"}
		written, err := docs.Insert(ctx, "airline_10", first, minisdk.WriteOptions{Durable: true})
		fmt.Println(err, written.Retries)

		doc, err := docs.Get(ctx, "airline_10", minisdk.GetOptions{Timeout: time.Second})
		var found airline
		fmt.Println(err, doc.Decode(&found), found.Name)

		found.IATA = "Q5"
		_, err = docs.Replace(ctx, "airline_10", found, minisdk.WriteOptions{CAS: doc.CAS})
		fmt.Println(err)
		_, err = docs.Remove(ctx, "airline_10", minisdk.WriteOptions{})
		fmt.Println(err)
	})
	// Output:
	// <nil> 0
	// <nil> <nil> 40-Mile Air
	// <nil>
	// <nil>
}

func ExampleError() {
	with(func(ctx context.Context, server *mock.Cluster, _ *minisdk.Cluster, docs *minisdk.Collection) {
		_, err := docs.Get(ctx, "absent", minisdk.GetOptions{})
		fmt.Println(errors.Is(err, minisdk.ErrNotFound))

		_, err = docs.Upsert(ctx, "airline_10", airline{}, minisdk.WriteOptions{CAS: 7})
		fmt.Println(errors.Is(err, minisdk.ErrNotFound))

		server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.DropReply())
		_, err = docs.Upsert(ctx, "airline_10", airline{}, minisdk.WriteOptions{Timeout: 50 * time.Millisecond})
		var failed *minisdk.Error
		fmt.Println(errors.As(err, &failed), errors.Is(err, minisdk.ErrTimeout), failed.MayBeApplied)
	})
	// Output:
	// true
	// true
	// true true true
}

func ExampleGetOptions_retry() {
	with(func(ctx context.Context, server *mock.Cluster, _ *minisdk.Cluster, docs *minisdk.Collection) {
		must(docs.Upsert(ctx, "airline_10", airline{}, minisdk.WriteOptions{}))
		server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 3}, mock.Status(memd.StatusTmpFail))
		once := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
		_, err := docs.Get(ctx, "airline_10", minisdk.GetOptions{Retry: once})
		var failed *minisdk.Error
		fmt.Println(errors.As(err, &failed), failed.Retries, failed.Reasons)

		doc, err := docs.Get(ctx, "airline_10", minisdk.GetOptions{})
		fmt.Println(err, doc.Retries)
	})
	// Output:
	// true 0 [KV_TEMPORARY_FAILURE]
	// <nil> 2
}

// packed is a transcoder of a program's own: documents are packed.
type packed struct{ minisdk.Transcoder }

func (p packed) Encode(v any) ([]byte, uint32, error) {
	doc, _, err := p.Transcoder.Encode(v)
	if err != nil {
		return nil, 0, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(doc)
	err = errors.Join(err, w.Close())
	return out.Bytes(), kv.FormatPrivate.Flags(), err
}

func (p packed) Decode(doc []byte, _ uint32, v any) error {
	r, err := gzip.NewReader(bytes.NewReader(doc))
	if err != nil {
		return err
	}
	doc, err = io.ReadAll(r)
	return errors.Join(err, p.Transcoder.Decode(doc, kv.FormatJSON.Flags(), v))
}

func ExampleTranscoder() {
	with(func(ctx context.Context, _ *mock.Cluster, _ *minisdk.Cluster, docs *minisdk.Collection) {
		small := packed{minisdk.JSON{}}
		must(docs.Upsert(ctx, "airline_10", airline{Name: "40-Mile Air"}, minisdk.WriteOptions{Transcoder: small}))
		doc := must(docs.Get(ctx, "airline_10", minisdk.GetOptions{Transcoder: small}))
		var found airline
		fmt.Println(doc.Decode(&found), found.Name)

		must(docs.Upsert(ctx, "raw", []byte{1, 2}, minisdk.WriteOptions{Transcoder: minisdk.Binary{}}))
		doc = must(docs.Get(ctx, "raw", minisdk.GetOptions{})) // as JSON
		fmt.Println(doc.Decode(&found))
	})
	// Output:
	// <nil> 40-Mile Air
	// the document is binary, and this transcoder reads JSON
}

func ExampleCluster_Query() {
	with(func(ctx context.Context, _ *mock.Cluster, cluster *minisdk.Cluster, _ *minisdk.Collection) {
		options := minisdk.QueryOptions{Positional: []any{20}, Readonly: true}
		err := cluster.Query(ctx, "SELECT $1 + 1 AS n", options, func(row interface{ Scan(any) error }) error {
			var r struct{ N int }
			err := row.Scan(&r)
			fmt.Println(r.N)
			return err
		})
		fmt.Println(err)
	})
	// Output:
	// 21
	// <nil>
}

func ExampleCluster_Close() {
	with(func(ctx context.Context, server *mock.Cluster, cluster *minisdk.Cluster, docs *minisdk.Collection) {
		slow := server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Hold())
		written := make(chan error)
		go func() {
			_, err := docs.Upsert(ctx, "airline_10", airline{}, minisdk.WriteOptions{})
			written <- err
		}()
		_ = slow.WaitFired(ctx, 1)

		closed := make(chan error)
		go func() { closed <- cluster.Close(ctx) }()
		for {
			if _, err := docs.Get(ctx, "airline_10", minisdk.GetOptions{}); errors.Is(err, minisdk.ErrClosed) {
				break // new calls are refused from now on
			}
		}
		slow.Release()
		fmt.Println("the call that was under way:", <-written)
		fmt.Println("closed:", <-closed)
	})
	// Output:
	// the call that was under way: <nil>
	// closed: <nil>
}
