package field_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// slowly is how long each request takes in these tests, and when Shutdown comes.
const slowly, halfway = 100 * time.Millisecond, 50 * time.Millisecond

// shutting is a cluster on which each request for a document takes slowly.
func shutting(t *testing.T, f func(t *testing.T, m *mock.Cluster, c *core.Cluster, b *core.Bucket)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		docs := map[string]any{}
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			docs[key] = 1
		}
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Bucket("default", 16), mock.Virtual(),
			mock.Documents("default", docs), mock.Documents("default.s.c", docs))
		c := onMock(t, m, func(*core.Config) {})
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(fresh(t)))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{
			memd.OpGet, memd.OpGetReplica, memd.OpSet, memd.OpStat, memd.OpObserveSeqno, memd.OpRangeScanCreate,
			memd.OpRangeScanContinue, memd.OpGetFailoverLog,
		}}, mock.Delay(slowly))
		f(t, m, c, b)
	})
}

// get reads one document.
func get(ctx context.Context, d kv.Dispatcher, key string) error {
	_, err := kv.Do(ctx, d, kv.Get{Key: []byte(key)})
	return err
}

// each is the failures of a batch.
func each[R any](outcomes []kv.Outcome[R]) error {
	var errs []error
	for _, o := range outcomes {
		errs = append(errs, o.Err)
	}
	return errors.Join(errs...)
}

// operations are of every form, and are under way for more than halfway; most of them send requests after that.
var operations = map[string]func(ctx context.Context, m *mock.Cluster, c *core.Cluster, b *core.Bucket) error{
	"a call that is waited for": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		return get(ctx, b, "a")
	},
	"a call in a collection": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		return get(ctx, b.Collection("s", "c"), "a")
	},
	"a future": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		_, err := kv.Start(ctx, b, kv.Upsert{Key: []byte("a"), Value: []byte("2")}).Wait(ctx)
		return err
	},
	"a callback": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		done := make(chan error, 1)
		kv.Go(ctx, b, kv.Get{Key: []byte("a")}, func(_ kv.GetResult, err error) { done <- err })
		return <-done
	},
	"retries": func(ctx context.Context, m *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 5}, mock.Status(memd.StatusTmpFail))
		s := retry.BestEffort{Backoff: retry.Schedule(30*time.Millisecond, 30*time.Millisecond)}
		_, err := kv.Do(ctx, b, kv.Get{Key: []byte("a"), Common: kv.Common{Retry: s}})
		return err
	},
	"a batch": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		var ops []kv.Get
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			ops = append(ops, kv.Get{Key: []byte(key)})
		}
		return each(kv.Batch[kv.GetResult](ctx, b.Collection("s", "c"), ops, 2))
	},
	"a batch of a sequence": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		ops := slices.Values([]kv.Get{{Key: []byte("a")}, {Key: []byte("b")}, {Key: []byte("c")}})
		for _, err := range kv.BatchSeq[kv.GetResult](ctx, b, ops, 1) {
			if err != nil {
				return err
			}
		}
		return nil
	},
	"statistics of all nodes": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		all, err := kv.StatAll(ctx, b, kv.Stat{})
		for _, o := range all {
			err = errors.Join(err, o.Err)
		}
		return err
	},
	"a write whose copies are polled": func(
		ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket,
	) error {
		op := kv.Upsert{Key: []byte("a"), Value: []byte("2")}
		_, err := kv.DoPolled(ctx, b, op, kv.PollDurability{ReplicateTo: 1})
		return err
	},
	"a hedged read": func(ctx context.Context, m *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		_, err := kv.Do(ctx, b, kv.Get{Key: []byte("a"), Hedge: &kv.Hedge{MaxAttempts: 2, Delay: slowly}})
		return err
	},
	"a hedged future": func(ctx context.Context, m *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		hedge := &kv.Hedge{MaxAttempts: 2, Delay: slowly}
		_, err := kv.Start(ctx, b, kv.Get{Key: []byte("a"), Hedge: hedge}).Wait(ctx)
		return err
	},
	"all copies": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		all, err := kv.GetAllReplicas(ctx, b, kv.GetReplica{Key: []byte("a")})
		if err != nil {
			return err
		}
		n := 0
		for _, ok := all.Next(ctx); ok; _, ok = all.Next(ctx) {
			n++
		}
		if n != 2 {
			return errors.Join(append(all.Errors(), all.Err(), errors.New("a copy is missing"))...)
		}
		return nil
	},
	"any copy": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		_, err := kv.GetAnyReplica(ctx, b, kv.GetReplica{Key: []byte("a")})
		return err
	},
	"a history": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		_, err := kv.DoInHistory[kv.GetResult](ctx, b, &kv.Histories{}, 1, kv.Get{Key: []byte("a")})
		if other := (*kv.HistoryError)(nil); errors.As(err, &other) {
			return nil // it has asked for it
		}
		return err
	},
	"a scan": func(ctx context.Context, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) error {
		scan, err := kv.Scan{BatchItems: 1, Concurrency: 1}.Run(ctx, b)
		if err != nil {
			return err
		}
		n := 0
		for scan.Next(ctx) {
			n++
		}
		if n != 6 {
			return errors.Join(scan.Err(), errors.New("documents are missing"))
		}
		return scan.Err()
	},
	"rows": func(ctx context.Context, m *mock.Cluster, c *core.Cluster, _ *core.Bucket) error {
		m.ScriptQuery("FROM rows", mock.Answer{Rows: []string{"1", "2", "3"}, RowDelay: slowly / 3})
		return readRows(c.Query(ctx, &query.Request{Statement: "SELECT 1 FROM rows"}))
	},
	"a statement that is prepared first": func(
		ctx context.Context, m *mock.Cluster, c *core.Cluster, _ *core.Bucket,
	) error {
		m.ScriptQuery("FROM rows", mock.Answer{Default: true, Delay: slowly})
		return readRows(c.Query(ctx, &query.Request{Statement: "SELECT 1 AS x", Prepare: true}))
	},
	"a body": func(ctx context.Context, _ *mock.Cluster, c *core.Cluster, _ *core.Bucket) error {
		resp, err := c.Do(ctx, &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools/default"})
		if err != nil {
			return err
		}
		time.Sleep(slowly) // a program may take its time
		_, err = io.ReadAll(resp.Body)
		return errors.Join(err, resp.Body.Close())
	},
}

func readRows(rows *query.Rows, err error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
		time.Sleep(slowly) // a program may take its time
	}
	return errors.Join(rows.Err(), rows.Close())
}

// Shutdown lets every operation that is under way finish with all the requests that it still needs, refuses new ones,
// and ends when the last of them does.
func TestShutdownLetsOperationsFinish_D163(t *testing.T) {
	for name, run := range operations {
		t.Run(name, func(t *testing.T) {
			shutting(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster, b *core.Bucket) {
				began := time.Now()
				outcome, ended := make(chan error, 1), time.Time{}
				go func() {
					err := run(fresh(t), m, c, b)
					ended = time.Now()
					outcome <- err
				}()
				time.Sleep(halfway)
				time.AfterFunc(time.Millisecond, func() { refused(t, c, b) })
				require.NoError(t, c.Shutdown(fresh(t)))
				closed := time.Now()
				require.NoError(t, <-outcome)
				require.GreaterOrEqual(t, ended.Sub(began), slowly, "the test is of no use")
				require.LessOrEqual(t, closed.Sub(ended), 5*time.Millisecond)
				refused(t, c, b)
			})
		})
	}
}

// refused begins operations on a client that shuts down, or is closed.
func refused(t *testing.T, c *core.Cluster, b *core.Bucket) {
	t.Helper()
	began, ctx := time.Now(), fresh(t)
	_, started := kv.Start(ctx, b, kv.Get{Key: []byte("a")}).Wait(ctx)
	called := make(chan error, 1)
	kv.Go(ctx, b, kv.Get{Key: []byte("a")}, func(_ kv.GetResult, err error) { called <- err })
	_, hedged := kv.Do(ctx, b, kv.Get{Key: []byte("a"), Hedge: &kv.Hedge{MaxAttempts: 2}})
	_, all := kv.GetAllReplicas(ctx, b, kv.GetReplica{Key: []byte("a")})
	_, scan := kv.Scan{}.Run(ctx, b)
	_, stats := kv.StatAll(ctx, b, kv.Stat{})
	_, managed := c.Buckets(ctx)
	queried := readRows(c.Query(ctx, &query.Request{Statement: "SELECT 1"}))
	for i, err := range []error{
		get(ctx, b, "a"), get(ctx, b.Collection("s", "c"), "a"), started, <-called, hedged, all, scan, stats,
		kv.GetMulti(ctx, b, kv.Common{}, [][]byte{[]byte("a")})[0].Err, managed, queried,
	} {
		if !errors.Is(err, retry.ErrClosed) || !errors.Is(err, cberr.RequestCanceled) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	if took := time.Since(began); took > 0 {
		t.Errorf("they were refused after %v", took)
	}
}

// What is under way when the context of Shutdown ends is ended as Close ends it; the error says so.
func TestShutdownEndsWithItsContext_D163(t *testing.T) {
	shutting(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster, b *core.Bucket) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		f := kv.Start(fresh(t), b, kv.Get{Key: []byte("a")})
		began := time.Now()
		err := c.Shutdown(within(t, halfway))
		require.Equal(t, halfway, time.Since(began))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, cberr.Timeout)
		require.ErrorContains(t, err, "have not finished: 1")
		_, err = f.Wait(fresh(t))
		require.ErrorIs(t, err, retry.ErrClosed)
		require.NoError(t, c.Shutdown(fresh(t)), "it is closed")
	})
}

// Close ends at once, also while a Shutdown waits, and rows that the program has forgotten hold up neither.
func TestCloseEndsAtOnce_D163(t *testing.T) {
	shutting(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster, b *core.Bucket) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		f := kv.Start(fresh(t), b, kv.Get{Key: []byte("a")})
		rows, err := c.Query(fresh(t), &query.Request{Statement: "SELECT 1 AS x"})
		require.NoError(t, err)
		waits := make(chan error, 2)
		for range cap(waits) {
			go func() { waits <- c.Shutdown(fresh(t)) }()
		}
		time.Sleep(halfway)
		began := time.Now()
		require.NoError(t, c.Close())
		for range cap(waits) {
			require.ErrorIs(t, <-waits, retry.ErrClosed)
		}
		_, err = f.Wait(fresh(t))
		require.ErrorIs(t, err, retry.ErrClosed)
		require.Zero(t, time.Since(began))
		require.NoError(t, rows.Close())
	})
}
