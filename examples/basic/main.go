package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

func main() {
	ctx := context.Background()
	server := must(mock.New(mock.Nodes(3))) // stands in for a cluster

	cfg := must(core.ParseConnString(server.ConnString()))
	cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
	cluster := must(core.Open(ctx, cfg))
	bucket := cluster.Bucket("default")

	key := []byte("airline_10")
	written := must(kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte(`{"name":"40-Mile Air"}`)}))
	read := must(kv.Do(ctx, bucket, kv.Get{Key: key}))
	fmt.Printf("%s, the version that was written: %v\n", read.Value, read.CAS == written.CAS)

	_, err := kv.Do(ctx, bucket, kv.Get{Key: []byte("nobody")})
	fmt.Println("nobody was not found:", errors.Is(err, cberr.DocumentNotFound))

	fmt.Println("closed:", errors.Join(cluster.Close(), server.Close()) == nil)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
