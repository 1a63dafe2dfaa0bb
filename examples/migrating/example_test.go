package migrating_test

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
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

var key = []byte("airline_10")

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// open is what gocbcore does with FromConnStr, CreateAgentGroup, OpenBucket and WaitUntilReady.
func open(ctx context.Context, connString, username, password string) (*core.Cluster, error) {
	cfg, err := core.ParseConnString(connString)
	if err != nil {
		return nil, err
	}
	cfg.Auth.Username, cfg.Auth.Password = username, core.NewSecret(password)
	cluster, err := core.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := cluster.Bucket("default").WaitReady(ready); err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	return cluster, nil
}

// with runs f with a mock cluster and a client of it.
func with(f func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster)) {
	ctx := context.Background()
	server := must(mock.New(mock.Nodes(2), mock.VBuckets(16)))
	cluster := must(open(ctx, server.ConnString(), mock.DefaultUser, mock.DefaultPassword))
	f(ctx, server, cluster)
	if err := errors.Join(cluster.Close(), server.Close()); err != nil {
		panic(err)
	}
}

func Example_operations() {
	with(func(ctx context.Context, _ *mock.Cluster, cluster *core.Cluster) {
		airlines := cluster.Bucket("default").Collection("_default", "_default")
		written, err := kv.Do(ctx, airlines, kv.Upsert{
			Key: key, Value: []byte(`{"name":"40-Mile Air"}`), Flags: kv.FormatJSON.Flags(),
			Expiry: kv.ExpireAfter(time.Hour), Durability: memd.DurabilityMajority,
		})
		fmt.Println(err, written.CAS != 0, !written.Token.IsZero())

		done := make(chan struct{})
		kv.Go(ctx, airlines, kv.Get{Key: key}, func(doc kv.GetResult, err error) { // gocbcore's form, a callback
			fmt.Println(string(doc.Value), err)
			close(done)
		})
		<-done

		_, err = kv.Do(ctx, airlines, kv.MutateIn{Key: key, Specs: []kv.MutateSpec{
			kv.UpsertPath("iata", []byte(`"Q5"`)), kv.IncrementPath("fleet", 3),
		}})
		fmt.Println(err)
		part, err := kv.Do(ctx, airlines, kv.LookupIn{Key: key, Specs: []kv.LookupSpec{
			kv.GetPath("iata"), kv.ExistsPath("callsign"),
		}})
		fmt.Println(string(part.Paths[0].Value), errors.Is(part.Paths[1].Err(), cberr.PathNotFound), err)
	})
	// Output:
	// <nil> true true
	// {"name":"40-Mile Air"} <nil>
	// <nil>
	// "Q5" true <nil>
}

func Example_errors() {
	with(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(memd.StatusTmpFail))
		_, err := kv.Do(ctx, cluster.Bucket("default"), kv.Get{
			Key: key, Common: kv.Common{Timeout: 20 * time.Millisecond},
		})
		fmt.Println("timed out:", errors.Is(err, cberr.Timeout))
		fmt.Println("may have been applied:", errors.Is(err, cberr.AmbiguousTimeout))
		var failed *kv.Error
		if errors.As(err, &failed) {
			fmt.Println(failed.Op, failed.Status, failed.Retry.Reasons, failed.Endpoint != "", failed.InDoubt)
		}
	})
	// Output:
	// timed out: true
	// may have been applied: false
	// get ETMPFAIL KV_TEMPORARY_FAILURE true false
}

// lenient is a strategy as one of gocbcore's that has a limit of its own.
type lenient struct{ retry.FastFailOnTerminalError }

// RetryAfter implements retry.Strategy.
func (s lenient) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if why == retry.KVTemporaryFailure && r.Retries() == 2 {
		return retry.Stop()
	}
	return s.FastFailOnTerminalError.RetryAfter(ctx, r, why)
}

func Example_strategy() {
	with(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(memd.StatusTmpFail))
		_, err := kv.Do(ctx, cluster.Bucket("default"), kv.Get{Key: key, Common: kv.Common{Retry: lenient{}}})
		info, _ := retry.InfoOf(err)
		fmt.Println(errors.Is(err, cberr.TemporaryFailure), info.Retries())
	})
	// Output: true 2
}

func Example_query() {
	with(func(ctx context.Context, _ *mock.Cluster, cluster *core.Cluster) {
		must(kv.Do(ctx, cluster.Bucket("default"), kv.Upsert{
			Key: key, Value: []byte(`{"name":"40-Mile Air","country":"United States"}`), Flags: kv.FormatJSON.Flags(),
		}))
		must(cluster.Query(ctx, &query.Request{Statement: "CREATE PRIMARY INDEX ON `default`"})).Close()

		rows, err := cluster.Query(ctx, &query.Request{
			Statement: "SELECT name FROM `default` WHERE country = $1", Positional: []any{"United States"},
			Readonly: true, Consistency: query.RequestPlus, Prepare: true,
		})
		if err != nil {
			panic(err)
		}
		for rows.Next() {
			fmt.Println(string(rows.Row()))
		}
		meta, err := rows.Meta()
		fmt.Println(rows.Err(), meta.Status, err)
	})
	// Output:
	// {"name":"40-Mile Air"}
	// <nil> success <nil>
}
