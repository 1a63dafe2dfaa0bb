package mock_test

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

const patience = 10 * time.Second

// agent is gocbcore as a client of the cluster's bucket "default". It is closed at the test's end.
func agent(t *testing.T, c *mock.Cluster, change func(*gocbcore.AgentConfig)) *gocbcore.Agent {
	t.Helper()
	cfg := gocbcore.AgentConfig{BucketName: "default", UserAgent: "mock-test"}
	require.NoError(t, cfg.FromConnStr(c.ConnString()))
	cfg.BucketName = "default"
	cfg.SecurityConfig.Auth = gocbcore.PasswordAuthProvider{Username: "Administrator", Password: "password"}
	cfg.IoConfig.UseCollections = true
	cfg.IoConfig.UseMutationTokens = true
	cfg.IoConfig.UseDurations = true
	if change != nil {
		change(&cfg)
	}
	a, err := gocbcore.CreateAgent(&cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// outcome waits for one of gocbcore's callbacks.
func outcome[R any](t *testing.T, start func(done func(R, error)) (gocbcore.PendingOp, error)) (R, error) {
	t.Helper()
	type result struct {
		r   R
		err error
	}
	ch := make(chan result, 1)
	_, err := start(func(r R, err error) { ch <- result{r, err} })
	require.NoError(t, err)
	select {
	case x := <-ch:
		return x.r, x.err
	case <-time.After(patience):
		require.FailNow(t, "no answer")
	}
	panic("unreachable")
}

func ready(t *testing.T, a *gocbcore.Agent) error {
	t.Helper()
	_, err := outcome(t, func(done func(*gocbcore.WaitUntilReadyResult, error)) (gocbcore.PendingOp, error) {
		return a.WaitUntilReady(time.Now().Add(5*time.Second), gocbcore.WaitUntilReadyOptions{
			RetryStrategy: gocbcore.NewBestEffortRetryStrategy(nil),
		}, done)
	})
	return err
}

func set(t *testing.T, a *gocbcore.Agent, key, value string) (*gocbcore.StoreResult, error) {
	t.Helper()
	return outcome(t, func(done func(*gocbcore.StoreResult, error)) (gocbcore.PendingOp, error) {
		return a.Set(gocbcore.SetOptions{Key: []byte(key), Value: []byte(value), Deadline: time.Now().Add(patience)},
			done)
	})
}

func get(t *testing.T, a *gocbcore.Agent, key string) (*gocbcore.GetResult, error) {
	t.Helper()
	return outcome(t, func(done func(*gocbcore.GetResult, error)) (gocbcore.PendingOp, error) {
		return a.Get(gocbcore.GetOptions{Key: []byte(key), Deadline: time.Now().Add(patience)}, done)
	})
}

func TestGocbcoreBootstrapsAndStores(t *testing.T) {
	for _, mech := range []gocbcore.AuthMechanism{
		gocbcore.PlainAuthMechanism, gocbcore.ScramSha1AuthMechanism, gocbcore.ScramSha256AuthMechanism,
		gocbcore.ScramSha512AuthMechanism,
	} {
		t.Run(string(mech), func(t *testing.T) {
			c := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64))
			a := agent(t, c, func(cfg *gocbcore.AgentConfig) {
				cfg.SecurityConfig.AuthMechanisms = []gocbcore.AuthMechanism{mech}
			})
			require.NoError(t, ready(t, a))
			for i := range 20 {
				key, value := fmt.Sprintf("key-%d", i), fmt.Sprintf(`{"n":%d}`, i)
				stored, err := set(t, a, key, value)
				require.NoError(t, err)
				require.NotZero(t, stored.Cas)
				require.NotZero(t, stored.MutationToken.SeqNo)
				got, err := get(t, a, key)
				require.NoError(t, err)
				require.Equal(t, value, string(got.Value))
				require.Equal(t, stored.Cas, got.Cas)
			}
			require.Len(t, c.ApplyLog("default"), 20)
			require.Equal(t, 20, c.Frames(memd.OpSet))
			_, err := get(t, a, "missing")
			require.ErrorIs(t, err, gocbcore.ErrDocumentNotFound)
		})
	}
}

// TestGocbcoreOperations runs each operation once in the default collection and once in a named one.
func TestGocbcoreOperations(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64, mock.WithCollection("s", "c")))
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	for _, scope := range []string{"_default", "s"} {
		coll := map[string]string{"_default": "_default", "s": "c"}[scope]
		t.Run(scope, func(t *testing.T) { gocbcoreOperations(t, a, scope, coll) })
	}
}

func gocbcoreOperations(t *testing.T, a *gocbcore.Agent, scope, coll string) {
	type op = gocbcore.PendingOp
	by := time.Now().Add(patience)
	key := []byte("doc")
	added, err := outcome(t, func(done func(*gocbcore.StoreResult, error)) (op, error) {
		return a.Add(gocbcore.AddOptions{
			Key: key, Value: []byte("b"), Flags: 7, ScopeName: scope, CollectionName: coll,
			DurabilityLevel: 1, DurabilityLevelTimeout: 2 * time.Second, Deadline: by,
		}, done)
	})
	require.NoError(t, err)
	_, err = outcome(t, func(done func(*gocbcore.StoreResult, error)) (op, error) {
		return a.Add(gocbcore.AddOptions{Key: key, ScopeName: scope, CollectionName: coll, Deadline: by}, done)
	})
	require.ErrorIs(t, err, gocbcore.ErrDocumentExists)
	_, err = outcome(t, func(done func(*gocbcore.StoreResult, error)) (op, error) {
		return a.Replace(gocbcore.ReplaceOptions{
			Key: key, Value: []byte("x"), Cas: added.Cas + 1, ScopeName: scope,
			CollectionName: coll, Deadline: by,
		}, done)
	})
	require.ErrorIs(t, err, gocbcore.ErrCasMismatch)
	join := gocbcore.AdjoinOptions{Key: key, Value: []byte("c"), ScopeName: scope, CollectionName: coll, Deadline: by}
	_, err = outcome(t, func(done func(*gocbcore.AdjoinResult, error)) (op, error) { return a.Append(join, done) })
	require.NoError(t, err)
	join.Value = []byte("a")
	_, err = outcome(t, func(done func(*gocbcore.AdjoinResult, error)) (op, error) { return a.Prepend(join, done) })
	require.NoError(t, err)
	got, err := outcome(t, func(done func(*gocbcore.GetAndTouchResult, error)) (op, error) {
		return a.GetAndTouch(gocbcore.GetAndTouchOptions{
			Key: key, Expiry: 100, ScopeName: scope, CollectionName: coll,
			Deadline: by,
		}, done)
	})
	require.NoError(t, err)
	require.Equal(t, "abc", string(got.Value))
	require.EqualValues(t, 7, got.Flags)
	meta, err := outcome(t, func(done func(*gocbcore.GetMetaResult, error)) (op, error) {
		return a.GetMeta(gocbcore.GetMetaOptions{Key: key, ScopeName: scope, CollectionName: coll, Deadline: by}, done)
	})
	require.NoError(t, err)
	require.InDelta(t, time.Now().Unix()+100, meta.Expiry, 2)
	require.Empty(t, meta.Value)
	locked, err := outcome(t, func(done func(*gocbcore.GetAndLockResult, error)) (op, error) {
		return a.GetAndLock(gocbcore.GetAndLockOptions{
			Key: key, LockTime: 10, ScopeName: scope, CollectionName: coll,
			Deadline: by,
		}, done)
	})
	require.NoError(t, err)
	_, err = outcome(t, func(done func(*gocbcore.UnlockResult, error)) (op, error) {
		return a.Unlock(gocbcore.UnlockOptions{
			Key: key, Cas: locked.Cas, ScopeName: scope, CollectionName: coll,
			Deadline: by,
		}, done)
	})
	require.NoError(t, err)
	replica, err := outcome(t, func(done func(*gocbcore.GetReplicaResult, error)) (op, error) {
		return a.GetOneReplica(gocbcore.GetOneReplicaOptions{
			Key: key, ReplicaIdx: 1, ScopeName: scope,
			CollectionName: coll, Deadline: by,
		}, done)
	})
	require.NoError(t, err)
	require.Equal(t, "abc", string(replica.Value))
	counter, err := outcome(t, func(done func(*gocbcore.CounterResult, error)) (op, error) {
		return a.Increment(gocbcore.CounterOptions{
			Key: []byte("n"), Delta: 2, Initial: 40, ScopeName: scope,
			CollectionName: coll, Deadline: by,
		}, done)
	})
	require.NoError(t, err)
	require.EqualValues(t, 40, counter.Value)
	_, err = outcome(t, func(done func(*gocbcore.TouchResult, error)) (op, error) {
		return a.Touch(gocbcore.TouchOptions{Key: key, ScopeName: scope, CollectionName: coll, Deadline: by}, done)
	})
	require.NoError(t, err)
	removed, err := outcome(t, func(done func(*gocbcore.DeleteResult, error)) (op, error) {
		return a.Delete(gocbcore.DeleteOptions{Key: key, ScopeName: scope, CollectionName: coll, Deadline: by}, done)
	})
	require.NoError(t, err)
	seen, err := outcome(t, func(done func(*gocbcore.ObserveVbResult, error)) (op, error) {
		return a.ObserveVb(gocbcore.ObserveVbOptions{
			VbID: removed.MutationToken.VbID, VbUUID: removed.MutationToken.VbUUID,
			ReplicaIdx: 1, Deadline: by,
		}, done)
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, seen.CurrentSeqNo, removed.MutationToken.SeqNo)
}

func TestGocbcoreFollowsAMovedVBucket(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 1))
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	_, err := set(t, a, "k", "v")
	require.NoError(t, err)
	require.NoError(t, c.MoveVBucket("default", 0, 1))
	got, err := get(t, a, "k")
	require.NoError(t, err)
	require.Equal(t, "v", string(got.Value))
	require.Equal(t, 2, c.Frames(memd.OpGet), "the answer's configuration is enough")
}

func TestGocbcoreRepairsACollectionThatIsBack(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 8, mock.WithCollection("s", "c")))
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	put := func() error {
		_, err := outcome(t, func(done func(*gocbcore.StoreResult, error)) (gocbcore.PendingOp, error) {
			return a.Set(gocbcore.SetOptions{
				Key: []byte("k"), Value: []byte("v"), ScopeName: "s", CollectionName: "c",
				RetryStrategy: gocbcore.NewBestEffortRetryStrategy(nil), Deadline: time.Now().Add(patience),
			}, done)
		})
		return err
	}
	require.NoError(t, put())
	require.NoError(t, c.DropCollection("default", "s", "c"))
	id, err := c.CreateCollection("default", "s", "c")
	require.NoError(t, err)
	require.NoError(t, put())
	log := c.ApplyLog("default")
	require.Len(t, log, 2)
	require.NotEqual(t, log[0].Collection, id)
	require.Equal(t, log[1].Collection, id)
}

func TestGocbcoreReadsTheErrorMap(t *testing.T) {
	c := mock.Start(t)
	retry := []byte(`{"strategy":"constant","interval":1,"after":1,"max-duration":500}`)
	require.NoError(t, c.AddErrorCode(0x7ff0, "FAKE", []string{"temp", "auto-retry"}, retry))
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	_, err := set(t, a, "k", "v")
	require.NoError(t, err)
	in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 3}, mock.Status(0x7ff0))
	got, err := outcome(t, func(done func(*gocbcore.GetResult, error)) (gocbcore.PendingOp, error) {
		return a.Get(gocbcore.GetOptions{
			Key: []byte("k"), Deadline: time.Now().Add(patience),
			RetryStrategy: gocbcore.NewBestEffortRetryStrategy(nil),
		}, done)
	})
	require.NoError(t, err)
	require.Equal(t, "v", string(got.Value))
	require.Equal(t, 3, in.Fired())
}

func TestGocbcoreReportsAWrongPassword(t *testing.T) {
	for _, mech := range []gocbcore.AuthMechanism{gocbcore.PlainAuthMechanism, gocbcore.ScramSha512AuthMechanism} {
		t.Run(string(mech), func(t *testing.T) {
			c := mock.Start(t)
			a := agent(t, c, func(cfg *gocbcore.AgentConfig) {
				cfg.SecurityConfig.Auth = gocbcore.PasswordAuthProvider{Username: "Administrator", Password: "wrong"}
				cfg.SecurityConfig.AuthMechanisms = []gocbcore.AuthMechanism{mech}
			})
			_, err := outcome(t, func(done func(*gocbcore.WaitUntilReadyResult, error)) (gocbcore.PendingOp, error) {
				return a.WaitUntilReady(time.Now().Add(5*time.Second), gocbcore.WaitUntilReadyOptions{
					RetryStrategy: failFast{},
				}, done)
			})
			require.ErrorIs(t, err, gocbcore.ErrAuthenticationFailure)
		})
	}
}

// failFast never retries.
type failFast struct{}

func (failFast) RetryAfter(gocbcore.RetryRequest, gocbcore.RetryReason) gocbcore.RetryAction {
	return &gocbcore.NoRetryRetryAction{}
}

func TestGocbcoreOverTLS(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.TLS())
	cfg := gocbcore.AgentConfig{}
	require.NoError(t, cfg.FromConnStr(c.TLSConnString()))
	cfg.BucketName = "default"
	cfg.SecurityConfig.Auth = gocbcore.PasswordAuthProvider{Username: "Administrator", Password: "password"}
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(c.CA()))
	cfg.SecurityConfig.TLSRootCAProvider = func() *x509.CertPool { return roots }
	a, err := gocbcore.CreateAgent(&cfg)
	require.NoError(t, err)
	defer a.Close()
	require.NoError(t, ready(t, a))
	_, err = set(t, a, "k", "v")
	require.NoError(t, err)
}

// TestGocbcoreClusterLevel uses connections without a bucket, and the management service that readiness asks.
func TestGocbcoreClusterLevel(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	cfg := gocbcore.AgentGroupConfig{}
	require.NoError(t, cfg.FromConnStr(c.ConnString()))
	cfg.SecurityConfig.Auth = gocbcore.PasswordAuthProvider{Username: "Administrator", Password: "password"}
	cfg.ConfigPollerConfig.CccpPollPeriod = 50 * time.Millisecond
	g, err := gocbcore.CreateAgentGroup(&cfg)
	require.NoError(t, err)
	defer g.Close()
	// gocbcore's HTTP side now and then misses the first configuration, and then waits for a newer one.
	newer := time.AfterFunc(200*time.Millisecond, c.BumpRevision)
	defer newer.Stop()
	_, err = outcome(t, func(done func(*gocbcore.WaitUntilReadyResult, error)) (gocbcore.PendingOp, error) {
		return g.WaitUntilReady(time.Now().Add(5*time.Second), gocbcore.WaitUntilReadyOptions{
			ServiceTypes: []gocbcore.ServiceType{gocbcore.MgmtService},
		}, done)
	})
	require.NoError(t, err)
	require.NoError(t, g.OpenBucket("default"))
	require.NoError(t, ready(t, g.GetAgent("default")))
}
