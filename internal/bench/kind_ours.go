package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/query"
)

// form is the way in which couchcore is called.
type form uint8

const (
	formDo form = iota
	formBulk
)

// bulkKeys is how many keys one call of the bulk form has.
const bulkKeys = 16

// callLimit is the timeout of a context that is made for one call.
const callLimit = 2500 * time.Millisecond

// ours is couchcore with its defaults, but for the login: the responder offers PLAIN alone.
type ours struct {
	cluster *core.Cluster
	bucket  *core.Bucket
	form    form
	keys    [len(sizes)][][]byte
	values  [len(sizes)][]byte
}

func oursOpener(f form) func(target) (client, error) {
	return func(t target) (client, error) { return newOurs(t, f) }
}

func newOurs(t target, f form) (*ours, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	cfg := core.Config{
		Seeds: core.SeedConfig{Hosts: t.addrs},
		Auth: core.AuthConfig{
			Username:   "bench",
			Password:   core.NewSecret("bench"),
			Mechanisms: []string{"PLAIN"},
			AllowPlain: true,
		},
	}
	if t.tls {
		cfg.TLS.Config = &tls.Config{RootCAs: roots(t.ca), MinVersion: tls.VersionTLS12}
	}
	cluster, err := core.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	bucket := cluster.Bucket(string(t.mode))
	if err := bucket.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	o := &ours{cluster: cluster, bucket: bucket, form: f}
	for class, size := range sizes {
		o.keys[class], o.values[class] = keys(class), value(size)
	}
	return o, nil
}

func roots(ca string) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(ca)) // one that is not there fails the connection
	return pool
}

func (o *ours) close() { _ = o.cluster.Close() }

func (o *ours) work(j job, caller int) func() (int, error) {
	class := classOf(j.Size)
	r := newRotation(j, caller, o.keys[class])
	do := o.get
	switch {
	case j.Op == opQuery:
		return o.query
	case o.form == formBulk:
		return o.bulk(j, &r, o.values[class])
	case j.Op == opUpsert:
		do = func(ctx context.Context, key []byte, _ int) error {
			_, err := kv.Do(ctx, o.bucket, kv.Upsert{Key: key, Value: o.values[class]})
			return err
		}
	}
	if j.Fresh {
		return func() (int, error) {
			ctx, cancel := context.WithTimeout(context.Background(), callLimit)
			err := do(ctx, r.key(), j.Size)
			cancel()
			return 1, err
		}
	}
	ctx := context.Background()
	return func() (int, error) { return 1, do(ctx, r.key(), j.Size) }
}

func (o *ours) get(ctx context.Context, key []byte, size int) error {
	res, err := kv.Do(ctx, o.bucket, kv.Get{Key: key})
	if err != nil {
		return err
	}
	return checkLen(len(res.Value), size)
}

func (o *ours) bulk(j job, r *rotation, val []byte) func() (int, error) {
	if j.Op == opUpsert {
		docs := make([]kv.Upsert, bulkKeys)
		return func() (int, error) {
			for i := range docs {
				docs[i] = kv.Upsert{Key: r.key(), Value: val}
			}
			for _, out := range kv.UpsertMulti(context.Background(), o.bucket, docs) {
				if out.Err != nil {
					return 0, out.Err
				}
			}
			return bulkKeys, nil
		}
	}
	ks := make([][]byte, bulkKeys)
	return func() (int, error) {
		for i := range ks {
			ks[i] = r.key()
		}
		outs := kv.GetMulti(context.Background(), o.bucket, kv.Common{}, ks)
		for i := range outs {
			if err := outs[i].Err; err != nil {
				return 0, err
			}
			if err := checkLen(len(outs[i].Result.Value), j.Size); err != nil {
				return 0, err
			}
		}
		return bulkKeys, nil
	}
}

// query reads all rows of a statement.
func (o *ours) query() (int, error) {
	rows, err := o.cluster.Query(context.Background(), &query.Request{
		Statement: "SELECT * FROM airlines",
		Readonly:  true,
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for rows.Next() {
		if len(rows.Row()) > 0 {
			n++
		}
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	return 1, checkLen(n, queryRows)
}
