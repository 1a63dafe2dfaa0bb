package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
)

// tokens starts a cluster that takes the tokens t0 to t9, over TLS, and a client that has t0.
func tokens(t *testing.T, f func(t *testing.T, m *mock.Cluster, c *core.Cluster), change ...func(*core.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opts := []mock.Option{
			mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual(), mock.TLS(), mock.Latency(100 * time.Microsecond),
			mock.User("Administrator", "password"), mock.User("app", "pw", "default"),
		}
		for i := range 10 {
			opts = append(opts, mock.Token(fmt.Sprintf("t%d", i), "app"))
		}
		m := mock.Start(t, opts...)
		c := open(t, m, append([]func(*core.Config){tlsHosts, func(cfg *core.Config) {
			cfg.TLS.Config = trusting(m)
			cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Token = "", core.Secret{}, core.NewSecret("t0")
		}}, change...)...)
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		f(t, m, c)
	})
}

// load has workers write until the function that it gives is called, which says how many calls there were, and fails
// the test if one of them did.
func load(t *testing.T, b *core.Bucket) (stop func() int) {
	var wg sync.WaitGroup
	var calls atomic.Int64
	over := make(chan struct{})
	failed := make(chan error, 64)
	for w := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				// An increment is not idempotent: one that was lost would be in doubt.
				if _, err := kv.Do(context.Background(), b, kv.Increment{
					Key:   fmt.Appendf(nil, "%d-%d", w, i%50),
					Delta: 1, Initial: new(uint64),
				}); err != nil {
					failed <- err
					return
				}
				calls.Add(1)
			}
		})
	}
	return func() int {
		close(over)
		wg.Wait()
		close(failed)
		for err := range failed {
			require.NoError(t, err)
		}
		return int(calls.Load())
	}
}

// A new token is sent over the connections that are open; no connection is made for it and no call is lost.
func TestATokenRotatesOverLiveConnections(t *testing.T) {
	tokens(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		b := c.Bucket("default")
		hellos, logins := m.Frames(memd.OpHello), m.Frames(memd.OpSASLAuth)
		require.Equal(t, 3, logins)
		stop := load(t, b)
		for i := 1; i <= 5; i++ {
			require.NoError(t, c.SetCredentials(core.Credentials{Token: core.NewSecret(fmt.Sprintf("t%d", i))}))
			time.Sleep(20 * time.Millisecond)
		}
		require.Greater(t, stop(), 1000)
		require.Equal(t, hellos, m.Frames(memd.OpHello))
		require.Equal(t, logins+5*3, m.Frames(memd.OpSASLAuth))
		resp, err := c.Do(ctx(t), &core.HTTPRequest{
			Service: core.Management, Method: "GET",
			Path: "/pools/default/b/default",
		})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		log := m.ServiceLog(mock.ManagementService)
		require.Equal(t, "Bearer t5", log[len(log)-1].Header.Get("Authorization"))
	})
}

// Tokens are renewed when three quarters of their life are over, as often as it takes, by asking the provider once for
// each connection. One whose expiry is wrong does not make the client spin.
func TestTokensAreRenewedBeforeTheyExpire(t *testing.T) {
	for _, life := range []time.Duration{time.Minute, -time.Hour} {
		var asked atomic.Int64
		provider := func(cfg *core.Config) {
			cfg.Auth.Credentials = func(context.Context) (core.Credentials, error) {
				n := asked.Add(1)
				return core.Credentials{Token: core.NewSecret(fmt.Sprintf("t%d", n%10)), Expires: time.Now().Add(life)},
					nil
			}
		}
		tokens(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
			hellos := m.Frames(memd.OpHello)
			if life < 0 {
				time.Sleep(30 * time.Second)
				require.LessOrEqual(t, asked.Load(), int64(3+3*31))
				return
			}
			require.EqualValues(t, 3, asked.Load())
			time.Sleep(44 * time.Second)
			require.EqualValues(t, 3, asked.Load())
			time.Sleep(2 * time.Second)
			require.EqualValues(t, 6, asked.Load())
			time.Sleep(45 * time.Second)
			require.EqualValues(t, 9, asked.Load())
			require.Equal(t, 9, m.Frames(memd.OpSASLAuth))
			require.Equal(t, hellos, m.Frames(memd.OpHello))
			_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
		}, provider)
	}
}

// A token that nodes refuse is named at once; with a good one calls go on.
func TestARefusedTokenIsNamed(t *testing.T) {
	tokens(t, func(t *testing.T, _ *mock.Cluster, c *core.Cluster) {
		b := c.Bucket("default")
		require.NoError(t, c.SetCredentials(core.Credentials{Token: core.NewSecret("forged")}))
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
		require.NotContains(t, err.Error(), "forged")
		require.Less(t, time.Since(began), 50*time.Millisecond)
		require.NoError(t, c.SetCredentials(core.Credentials{Token: core.NewSecret("t7")}))
		require.NoError(t, eventually(t, b))
	})
}

func eventually(t *testing.T, b *core.Bucket) error {
	t.Helper()
	_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{
		Timeout: 8 * time.Second,
		Retry:   retry.BestEffort{},
	}})
	return err
}

// A provider that fails, or a node that does not answer a login, does not end a connection that works.
func TestAConnectionOutlivesAFailedRenewal(t *testing.T) {
	var fail atomic.Bool
	var asked atomic.Int64
	tokens(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		b := c.Bucket("default")
		hellos := m.Frames(memd.OpHello)
		fail.Store(true)
		c.RenewLogins()
		time.Sleep(20 * time.Second)
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.LessOrEqual(t, asked.Load(), int64(3+3*21), "once a second")
		fail.Store(false)
		m.Inject(only(memd.OpSASLAuth, 3), mock.Drop())
		time.Sleep(20 * time.Second)
		require.Equal(t, hellos, m.Frames(memd.OpHello))
		require.Equal(t, 3+3+3, m.Frames(memd.OpSASLAuth))
	}, func(cfg *core.Config) {
		cfg.Auth.Credentials = func(context.Context) (core.Credentials, error) {
			asked.Add(1)
			if fail.Load() {
				return core.Credentials{}, errors.New("the vault is shut")
			}
			return core.Credentials{Token: core.NewSecret("t1")}, nil
		}
	})
}

// AUTH_STALE: the call was not executed and is sent again; the connection logs in again, a token over itself, a
// password by way of a new connection. Other calls on it are not lost.
func TestAStaleLoginIsRenewed(t *testing.T) {
	stale := mock.Match{Opcodes: []memd.Opcode{memd.OpIncrement}, Times: 3}
	tokens(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
		hellos, logins := m.Frames(memd.OpHello), m.Frames(memd.OpSASLAuth)
		stop := load(t, c.Bucket("default"))
		m.Inject(stale, mock.Status(memd.StatusAuthStale))
		time.Sleep(50 * time.Millisecond)
		require.NotZero(t, stop())
		require.Equal(t, hellos, m.Frames(memd.OpHello))
		require.Greater(t, m.Frames(memd.OpSASLAuth), logins)
	})
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual(),
			mock.Latency(100*time.Microsecond))
		b := open(t, m).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		hellos := m.Frames(memd.OpHello)
		stop := load(t, b)
		m.Inject(stale, mock.Status(memd.StatusAuthStale))
		time.Sleep(200 * time.Millisecond)
		require.NotZero(t, stop())
		require.Greater(t, m.Frames(memd.OpHello), hellos)
		require.LessOrEqual(t, m.Frames(memd.OpHello), hellos+3)
	})
}

// S8, D47: a password rotates under load without a lost call: each connection is replaced by one with the new password,
// one after the other, and every node stays connected. New nodes get the new password too.
func TestAPasswordRotatesWithoutALostCall_S8_D47(t *testing.T) {
	for _, pool := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual(),
				mock.Latency(100*time.Microsecond))
			c := open(t, m, func(cfg *core.Config) { cfg.KV.Connections = pool })
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(ctx(t)))
			hellos := m.Frames(memd.OpHello)
			before := ids(b)
			stop := load(t, b)
			for i := range 3 {
				password := fmt.Sprintf("password-%d", i)
				require.NoError(t, m.SetPassword("Administrator", password))
				require.NoError(t, c.SetCredentials(core.Credentials{
					Username: "Administrator",
					Password: core.NewSecret(password),
				}))
				for range 100 {
					time.Sleep(time.Millisecond)
					for _, s := range b.Status() {
						require.True(t, s.Connected, s.Addr)
					}
				}
			}
			require.Greater(t, stop(), 1000)
			require.Equal(t, hellos+3*3*pool, m.Frames(memd.OpHello))
			for id := range ids(b) {
				require.False(t, before[id])
			}
			require.Equal(t, 3, m.AddNode())
			require.NoError(t, m.Rebalance())
			time.Sleep(4 * time.Second)
			require.NoError(t, b.WaitReady(ctx(t)))
			mp, _ := b.Map()
			require.Len(t, mp.Nodes, 4)
		})
	}
}

func ids(b *core.Bucket) map[string]bool {
	all := map[string]bool{}
	for _, s := range b.Status() {
		all[s.ID] = true
	}
	return all
}

// A wrong new password leaves the connections that are open to work, for as long as nodes let them; new ones fail by
// name.
func TestAWrongNewPasswordEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		c := open(t, m)
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		require.NoError(t, c.SetCredentials(core.Credentials{
			Username: "Administrator",
			Password: core.NewSecret("wrong"),
		}))
		for range 100 {
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		require.NoError(t, c.SetCredentials(core.Credentials{
			Username: "Administrator",
			Password: core.NewSecret("password"),
		}))
		time.Sleep(5 * time.Second)
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
	})
}

// What cannot take the place of the present credentials is refused, and changes nothing.
func TestCredentialsOfAnotherKindAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		cfg core.Config
		cr  core.Credentials
	}{
		"token for a password": {core.Config{
			Auth: core.AuthConfig{Username: "u"},
			TLS:  core.TLSConfig{Enabled: true},
		}, core.Credentials{Token: core.NewSecret("t")}},
		"password for a token": {core.Config{
			Auth: core.AuthConfig{Token: core.NewSecret("t")},
			TLS:  core.TLSConfig{Enabled: true},
		}, core.Credentials{Username: "u"}},
		"nothing": {core.Config{Auth: core.AuthConfig{Username: "u"}}, core.Credentials{}},
		"plaintext token": {
			core.Config{Auth: core.AuthConfig{Token: core.NewSecret("t")}},
			core.Credentials{Token: core.NewSecret("u")},
		},
		"provider": {core.Config{
			Auth: core.AuthConfig{Credentials: func(context.Context) (core.Credentials,
				error,
			) {
				return core.Credentials{}, nil
			}},
		}, core.Credentials{Username: "u"}},
	} {
		cl, err := core.Open(t.Context(), c.cfg)
		require.NoError(t, err)
		var e *core.ConfigError
		require.ErrorAs(t, cl.SetCredentials(c.cr), &e, name)
		require.NoError(t, cl.Close())
	}
}

// S8, D34: the provider is asked for each connection, with a time limit, outside of all locks; one that does not come
// back delays no other call, and its failure is a reason that the strategy judges.
func TestCredentialProvidersHaveATimeLimit_S8_D34(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		var asked atomic.Int64
		c := open(t, m, func(cfg *core.Config) {
			cfg.Auth.Credentials = func(context.Context) (core.Credentials, error) {
				asked.Add(1)
				return core.Credentials{Username: "Administrator", Password: core.NewSecret("password")}, nil
			}
		})
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		require.EqualValues(t, 3, asked.Load())
	})
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual())
		stuck := make(chan struct{})
		defer close(stuck)
		c := open(t, m, func(cfg *core.Config) {
			cfg.Auth.Timeout = 300 * time.Millisecond
			cfg.Auth.Credentials = func(context.Context) (core.Credentials, error) {
				<-stuck
				return core.Credentials{}, nil
			}
		})
		began := time.Now()
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k"), Common: kv.Common{Retry: never}})
		require.Equal(t, 300*time.Millisecond, time.Since(began))
		info, ok := retry.InfoOf(err)
		require.True(t, ok)
		require.Equal(t, retry.CredentialsFetchFailed, info.Reason)
		require.ErrorContains(t, err, "has not answered in time")
		began = time.Now()
		_, err = c.Do(ctx(t), &core.HTTPRequest{
			Service: core.Management, Method: "GET", Path: "/pools",
			Timeout: time.Second, Retry: never,
		})
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(began), time.Second)
		began = time.Now()
		require.NoError(t, c.Close())
		require.Zero(t, time.Since(began))
	})
}
