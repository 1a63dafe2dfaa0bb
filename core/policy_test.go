package core_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

func parsePolicy(t *testing.T, text string) *policy.Config {
	t.Helper()
	p, err := core.ParsePolicy([]byte(text))
	require.NoError(t, err)
	return p
}

// withPolicy runs f in a bubble with a mock of three nodes, two replicas each, and a client with the policy.
func withPolicy(t *testing.T, text string, f func(t *testing.T, m *mock.Cluster, b *core.Bucket),
	change ...func(*core.Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(2), mock.Bucket("default", 64), mock.Virtual())
		b := open(t, m, append(change, func(c *core.Config) {
			if text != "" {
				c.Retry.Policy = parsePolicy(t, text)
			}
		})...).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		f(t, m, b)
	})
}

// attempts runs an upsert that is always answered with a temporary failure and gives the number of its frames.
func attempts(t *testing.T, m *mock.Cluster, b *core.Bucket, own retry.Strategy) int {
	t.Helper()
	in := m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail))
	defer in.Remove()
	before := m.Frames(memd.OpSet)
	_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: own}})
	require.ErrorIs(t, err, cberr.TemporaryFailure)
	return m.Frames(memd.OpSet) - before
}

func stopAfter(n int) retry.Strategy {
	return policy.Limit{MaxAttempts: n, Base: retry.BestEffort{Backoff: retry.Constant(time.Millisecond)}}
}

func retryPolicy(name string, attempts string, more string) string {
	return `{"name":[` + name + `],"retryPolicy":{"maxAttempts":` + attempts + `,"initialBackoff":"0.001s","maxBackoff":"0.002s",
		"backoffMultiplier":2,"retryableReasons":["KV_TEMPORARY_FAILURE"]` + more + `}}`
}

// CB-9, CB-12, CB-25, GA6-46, GA6-52: a call's own strategy beats the policy's entry for its operation, that beats the
// one of its service, that the one for everything, that the cluster's strategy, that the built-in one. A pinned entry
// beats the call.
func TestWhichStrategyDecides(t *testing.T) {
	const upsert, service, all = `{"service":"kv","operation":"upsert"}`, `{"service":"kv"}`, `{}`
	cluster := func(c *core.Config) { c.Retry.Strategy = stopAfter(5) }
	entries := func(es ...string) string {
		s := `{"operationConfig":[`
		for i, e := range es {
			if i > 0 {
				s += ","
			}
			s += e
		}
		return s + `]}`
	}
	op, sv, any := retryPolicy(upsert, "2", ""), retryPolicy(service, "3", ""), retryPolicy(all, "4", "")
	for name, c := range map[string]struct {
		policy string
		own    retry.Strategy
		change func(*core.Config)
		want   int
	}{
		"the call's own":              {entries(op, sv, any), stopAfter(7), cluster, 7},
		"the operation's entry":       {entries(op, sv, any), nil, cluster, 2},
		"the service's entry":         {entries(sv, any), nil, cluster, 3},
		"the entry for everything":    {entries(any), nil, cluster, 4},
		"the cluster's":               {"", nil, cluster, 5},
		"the call's over the cluster": {"", stopAfter(6), cluster, 6},
		"a pinned entry":              {entries(retryPolicy(upsert, "2", `,"pinned":true`), sv), stopAfter(7), cluster, 2},
	} {
		t.Run(name, func(t *testing.T) {
			withPolicy(t, c.policy, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				require.Equal(t, c.want, attempts(t, m, b, c.own))
			}, c.change)
		})
	}
	// it waits for the document's server, and not for a scope that is missing
	t.Run("the built-in one", func(t *testing.T) {
		withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			require.Greater(t, attempts(t, m, b, nil), 8)
			_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Scope: "nowhere"}})
			require.ErrorIs(t, err, cberr.ScopeNotFound)
			require.NotErrorIs(t, err, cberr.Timeout)
		})
	})
}

func TestAPolicysTimeoutIsThatOfCallsThatNameNone(t *testing.T) {
	withPolicy(t, `{"operationConfig":[{"name":[{"service":"kv","operation":"get"}],"timeout":"0.3s"}]}`,
		func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			m.Inject(only(memd.OpGet, 0), mock.Drop())
			m.Inject(only(memd.OpSet, 0), mock.Drop())
			for _, c := range []struct {
				own, want time.Duration
			}{{0, 300 * time.Millisecond}, {time.Second, time.Second}} {
				began := time.Now()
				_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: c.own}})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.Equal(t, c.want, time.Since(began))
			}
			began := time.Now()
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
			require.ErrorIs(t, err, cberr.AmbiguousTimeout)
			require.Equal(t, 2500*time.Millisecond, time.Since(began))
		})
}

// GA6-25, GA6-21: a node whose tokens are used up gets no retries, whatever strategy asks for them, and other nodes do;
// successes give the tokens back.
func TestTheThrottleIsPerNodeAndBindsEveryStrategy(t *testing.T) {
	withPolicy(t, `{"operationConfig":[],"retryThrottling":{"maxTokens":10,"tokenRatio":0.5}}`,
		func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			sick, well := keyOn(t, b, m.Node(0).Addr()), keyOn(t, b, m.Node(1).Addr())
			in := m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail))
			frames := func(key []byte, s retry.Strategy) int {
				before := m.Frames(memd.OpSet)
				_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Retry: s}})
				require.ErrorIs(t, err, cberr.TemporaryFailure)
				require.ErrorIs(t, err, retry.ErrThrottled)
				return m.Frames(memd.OpSet) - before
			}
			require.Equal(t, 5, frames(sick, nil)) // the fifth failure leaves half of the tokens
			require.Equal(t, 1, frames(sick, retry.BestEffort{}))
			require.Equal(t, 5, frames(well, retry.BestEffort{}))
			in.Remove()
			for range 20 {
				_, err := kv.Do(ctx(t), b, kv.Upsert{Key: sick, Value: []byte("1")})
				require.NoError(t, err)
			}
			m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail))
			require.Equal(t, 5, frames(sick, nil))
			require.Equal(t, 1, frames(well, nil))
		})
}

// SM-19: the user's hook may name a reason for an answer that has none: for any idempotent operation, and for others
// only where the status says that nothing was changed, which an ambiguous one does not.
func TestTheUsersClassification(t *testing.T) {
	asked := make(chan core.Answer, 64)
	classify := func(c *core.Config) {
		c.Retry.Classify = func(a core.Answer) retry.Reason {
			asked <- a
			switch memd.Status(a.Code) {
			case 0x7e7e, memd.StatusSyncWriteAmbiguous, memd.StatusAccess, memd.StatusInternal:
				return retry.KVTemporaryFailure
			case memd.StatusTooBig:
				panic("in the user's hook")
			}
			return retry.Unknown
		}
	}
	get, set := kv.Get{Key: []byte("k")}, kv.Upsert{Key: []byte("k"), Value: []byte("v")}
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		_, err := kv.Do(ctx(t), b, set)
		require.NoError(t, err)
		for _, c := range []struct {
			name   string
			status memd.Status
			do     func() error
			op     memd.Opcode
			asked  bool
			want   *cberr.Kind // nil: it is retried and succeeds
		}{
			{
				"unknown status of a read", 0x7e7e, func() error { _, err := kv.Do(ctx(t), b, get); return err },
				memd.OpGet, true, nil,
			},
			{
				"unknown status of a write", 0x7e7e, func() error { _, err := kv.Do(ctx(t), b, set); return err },
				memd.OpSet, false, cberr.Couchbase,
			},
			{
				"refused write", memd.StatusAccess, func() error { _, err := kv.Do(ctx(t), b, set); return err },
				memd.OpSet, true, nil,
			},
			{
				"write that may have been applied", memd.StatusInternal,
				func() error { _, err := kv.Do(ctx(t), b, set); return err }, memd.OpSet, false,
				cberr.InternalServerFailure,
			},
			{
				"ambiguous write", memd.StatusSyncWriteAmbiguous,
				func() error { _, err := kv.Do(ctx(t), b, set); return err }, memd.OpSet, false,
				cberr.DurabilityAmbiguous,
			},
			{
				"hook that names none", memd.StatusInvalid,
				func() error { _, err := kv.Do(ctx(t), b, set); return err },
				memd.OpSet, true, cberr.InvalidArgument,
			},
			{
				"hook that panics", memd.StatusTooBig, func() error { _, err := kv.Do(ctx(t), b, set); return err },
				memd.OpSet, true, cberr.ValueTooLarge,
			},
		} {
			m.Inject(only(c.op, 1), mock.Status(c.status))
			before := m.Frames(c.op)
			err := c.do()
			frames := m.Frames(c.op) - before
			if c.want == nil {
				require.NoError(t, err, c.name)
				require.Equal(t, 2, frames, c.name)
			} else {
				require.ErrorIs(t, err, c.want, c.name)
				require.Equal(t, 1, frames, c.name)
			}
			if !c.asked {
				require.Empty(t, asked, c.name)
				continue
			}
			require.Len(t, asked, 1, c.name)
			a := <-asked
			require.Equal(t, retry.Service("kv"), a.Service)
			require.Equal(t, uint32(c.status), a.Code)
			require.Equal(t, "default", a.Bucket)
			require.NotEmpty(t, a.Endpoint)
			require.Error(t, a.Err)
		}
	}, classify)
}

// A hook that blocks holds up its own call and no other, and that one ends at its deadline all the same.
func TestAHookThatBlocksHoldsUpItsOwnCallOnly(t *testing.T) {
	var release chan struct{} // of the bubble, where time stands still for nothing outside
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(only(memd.OpGet, 1), mock.Status(0x7e7e))
		began := time.Now()
		f := kv.Start(ctx(t), b, kv.Get{Key: []byte("k")})
		synctest.Wait()
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		_, err = f.Wait(ctx(t))
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 2500*time.Millisecond, time.Since(began))
		close(release)
	}, func(c *core.Config) {
		release = make(chan struct{})
		c.Retry.Classify = func(core.Answer) retry.Reason { <-release; return retry.KVTemporaryFailure }
	})
}

func TestAPolicyFileThatNamesACodeWithoutAReasonIsRefused(t *testing.T) {
	for code, ok := range map[string]bool{
		`"0x86"`: true, `134`: true, `"0x85"`: true, `"0x01"`: false, `"0x7e7e"`: false, `65672`: false,
	} {
		_, err := core.ParsePolicy([]byte(`{"operationConfig":[{"name":[{"service":"kv"}],"retryPolicy":{"maxAttempts":2,
			"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1,"retryableReasons":[` + code + `]}}]}`))
		var pe *policy.ParseError
		require.Equal(t, ok, err == nil, code)
		require.Equal(t, !ok, errors.As(err, &pe), code)
	}
	for _, c := range []struct {
		service retry.Service
		code    uint32
		want    retry.Reason // Unknown: none
	}{
		{"query", 4050, retry.QueryPreparedStatementFailure},
		{"query", 5000, retry.QueryIndexNotFound},
		{"query", 1000, retry.Unknown},
		{"query", 503, retry.ServiceResponseCodeIndicated},
		{"analytics", 23000, retry.AnalyticsTemporaryFailure},
		{"analytics", 24000, retry.Unknown},
		{"search", 429, retry.SearchTooManyRequests},
		{"search", 504, retry.ServiceResponseCodeIndicated},
		{"views", 302, retry.ViewsNoActivePartition},
		{"views", 404, retry.ViewsTemporaryFailure},
		{"views", 200, retry.Unknown},
		{"management", 429, retry.ServiceResponseCodeIndicated},
		{"management", 404, retry.Unknown},
		{"kv", 0x09, retry.KVLocked},
		{"nothing", 429, retry.Unknown},
	} {
		why, ok := core.ReasonOf(c.service, c.code)
		require.Equal(t, c.want, why, "%s %d", c.service, c.code)
		require.Equal(t, c.want != retry.Unknown, ok, "%s %d", c.service, c.code)
	}
}
