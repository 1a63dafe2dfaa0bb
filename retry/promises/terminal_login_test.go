package promises_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// New credentials forget what the nodes have said of the old ones, and are used at once: no call has to wait for a
// pause between two attempts to connect.
func TestNewCredentialsAreUsedAtOnce(t *testing.T) {
	for call, run := range calls {
		t.Run(call, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				_, err := m.CreateScope("default", "s")
				require.NoError(t, err)
				_, err = m.CreateCollection("default", "s", "c")
				require.NoError(t, err)
				cl := client(t, m, wrongPassword)
				cl.Bucket("default")
				time.Sleep(20 * time.Second) // the pauses are the longest by now
				failsAtOnce(t, cberr.AuthenticationFailure, atOnce, func(ctx context.Context) error {
					return run(ctx,
						cl)
				})
				require.NoError(t, cl.SetCredentials(core.Credentials{
					Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword),
				}))
				began := time.Now()
				require.NoError(t, run(within(t, time.Second), cl))
				require.NoError(t, cl.Bucket("default").WaitReady(within(t, time.Second)))
				require.Less(t, time.Since(began), atOnce)
			})
		})
	}
}

// A refusal of the old password that comes after the new one was given is not held against it.
func TestALateRefusalOfTheOldPasswordIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSASLStep}, Times: 1}, mock.DelayReply(200*time.Millisecond))
		cl := client(t, m, wrongPassword)
		b := cl.Bucket("default")
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, cl.SetCredentials(core.Credentials{
			Username: mock.DefaultUser, Password: core.NewSecret(mock.DefaultPassword),
		}))
		began := time.Now()
		require.NoError(t, b.WaitReady(within(t, time.Second)))
		require.Less(t, time.Since(began), 100*time.Millisecond+atOnce)
		require.ErrorIs(t, get(within(t, time.Second), b, "k"), cberr.DocumentNotFound)
	}, mock.Nodes(1))
}

// RenewLogins has the provider asked at once, too.
func TestRenewedCredentialsAreUsedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		password := make(chan string, 1)
		password <- "wrong"
		cl := client(t, m, func(cfg *core.Config) {
			cfg.Auth.Credentials = func(context.Context) (core.Credentials, error) {
				p := <-password
				password <- p
				return core.Credentials{Username: mock.DefaultUser, Password: core.NewSecret(p)}, nil
			}
		})
		b := cl.Bucket("default")
		time.Sleep(20 * time.Second)
		require.ErrorIs(t, get(within(t, time.Second), b, "k"), cberr.AuthenticationFailure)
		<-password
		password <- mock.DefaultPassword
		cl.RenewLogins()
		began := time.Now()
		require.NoError(t, b.WaitReady(within(t, time.Second)))
		require.Less(t, time.Since(began), atOnce)
	})
}

func TestARefusedTokenIsAnAuthenticationError(t *testing.T) {
	for token, want := range map[string]error{"good": nil, "bad": cberr.AuthenticationFailure} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual(), mock.TLS(),
				mock.Token("good", mock.DefaultUser))
			cfg, err := core.ParseConnString(m.TLSConnString())
			require.NoError(t, err)
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(m.CA())
			cfg.TLS.Config, cfg.Net.Dial, cfg.Auth.Token = &tls.Config{RootCAs: pool}, m.Dial, core.NewSecret(token)
			began := time.Now()
			_, err = kv.Do(within(t, time.Minute), openConfig(t, cfg).Bucket("default"), kv.Upsert{Key: []byte("k")})
			if want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, want)
			require.Less(t, time.Since(began), 100*ms)
		})
	}
}
