package main

import (
	"errors"
	"strings"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/couchcore/couchcore/internal/bench"
)

// readyLimit is how long gocb may take until it is connected.
const readyLimit = 20 * time.Second

// documents is gocb as its users have it. The responder's documents have no flags, which stands for JSON; nothing is parsed.
type documents struct {
	cluster    *gocb.Cluster
	collection *gocb.Collection
	get        *gocb.GetOptions
	upsert     *gocb.UpsertOptions
}

func openGocb(addrs []string, bucket string) (bench.Documents, error) {
	cluster, err := gocb.Connect("couchbase://"+strings.Join(addrs, ","), gocb.ClusterOptions{
		Authenticator: gocb.PasswordAuthenticator{Username: "bench", Password: "bench"},
	})
	if err != nil {
		return nil, err
	}
	b := cluster.Bucket(bucket)
	ready := gocb.WaitUntilReadyOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}}
	if err := b.WaitUntilReady(readyLimit, &ready); err != nil {
		return nil, errors.Join(err, cluster.Close(nil))
	}
	raw := gocb.NewRawJSONTranscoder()
	return &documents{cluster, b.DefaultCollection(), &gocb.GetOptions{Transcoder: raw}, &gocb.UpsertOptions{Transcoder: raw}}, nil
}

func (d *documents) Get(key string) (value []byte, err error) {
	res, err := d.collection.Get(key, d.get)
	if err != nil {
		return nil, err
	}
	return value, res.Content(&value)
}

func (d *documents) Upsert(key string, value []byte) error {
	_, err := d.collection.Upsert(key, value, d.upsert)
	return err
}

func (d *documents) Close() error { return d.cluster.Close(nil) }
