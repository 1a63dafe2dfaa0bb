package mock_test

import (
	"errors"
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
		return a.Set(gocbcore.SetOptions{Key: []byte(key), Value: []byte(value), Deadline: time.Now().Add(patience)}, done)
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
			require.True(t, errors.Is(err, gocbcore.ErrDocumentNotFound), "%v", err)
		})
	}
}
