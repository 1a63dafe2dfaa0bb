package field_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// asUser makes a configuration for one account of a mock cluster, with one mechanism if it is named.
func asUser(t testing.TB, m *mock.Cluster, name, password string, mechanisms ...string) core.Config {
	t.Helper()
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Mechanisms = name, core.NewSecret(password), mechanisms
	return cfg
}

// TestIterationsOfRealServers_D119: ns_server makes accounts with 4,000 iterations from 6.5 to 7.2, and with 15,000
// later; administrators may set other numbers.
func TestIterationsOfRealServers_D119(t *testing.T) {
	m := mock.Start(t, mock.Iterations(4000), mock.User("old", "secret"), mock.User("new", "secret"),
		mock.User("set", "secret"), mock.User("least", "secret"),
		mock.Iterations(15_000, "new"), mock.Iterations(4001, "set"), mock.Iterations(1000, "least"))
	for _, name := range []string{"old", "new", "set", "least"} {
		for _, mechanism := range []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1"} {
			c := openConfig(t, asUser(t, m, name, "secret", mechanism))
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(within(t, 20*time.Second)), "%s %s", name, mechanism)
			require.Equal(t, mechanism, b.Status()[0].Mechanism)
			wrong := openConfig(t, asUser(t, m, name, "wrong", mechanism))
			require.Error(t, wrong.Bucket("default").WaitReady(within(t, 20*time.Second)), "%s %s", name, mechanism)
		}
	}
}

// TestTooLowIterationsAreRefused_D119: a server that asks for next to no work wants to guess the password from the
// answer.
func TestTooLowIterationsAreRefused_D119(t *testing.T) {
	m := mock.Start(t, mock.User("weak", "secret"), mock.Iterations(999, "weak"))
	c := openConfig(t, asUser(t, m, "weak", "secret"))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := c.Bucket("default").WaitReady(ctx)
	require.ErrorContains(t, err, "iteration count \"999\" is outside 1000..1000000")
	_, err = kv.Do(within(t, time.Second), c.Bucket("default"), kv.Get{
		Key:    []byte("k"),
		Common: kv.Common{Timeout: 50 * time.Millisecond},
	})
	require.ErrorContains(t, err, "iteration count")
}
