package field_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
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

// onToken is a client that has logged in with token t0, of a mock that takes t0 and t1.
func onToken(t *testing.T, f func(t *testing.T, m *mock.Cluster, c *core.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual(), mock.TLS(), mock.User("app", "pw",
			"default"),
			mock.Token("t0", "app"), mock.Token("t1", "app"))
		c := onMock(t, m, func(cfg *core.Config) {
			for i, h := range cfg.Seeds.Hosts {
				cfg.Seeds.Hosts[i] = strings.Replace(h, ":11210", ":11207", 1)
			}
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(m.CA())
			cfg.TLS.Config = &tls.Config{RootCAs: pool}
			cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Token = "", core.Secret{}, core.NewSecret("t0")
		})
		require.NoError(t, c.Bucket("default").WaitReady(within(t, time.Second)))
		f(t, m, c)
	})
}

// writes requires that keys of every node can be written at once.
func writes(t *testing.T, c *core.Cluster) {
	t.Helper()
	for i := range 16 {
		_, err := kv.Do(within(t, 100*time.Millisecond), c.Bucket("default"), kv.Upsert{Key: []byte{byte(i)}})
		require.NoError(t, err)
	}
}

// A node that cannot judge a new login now, because its authentication provider is away, keeps its connection: the
// client tries again later. Nothing is lost meanwhile, however long it takes.
func TestALoginThatCannotBeJudgedKeepsTheConnection(t *testing.T) {
	for _, status := range []memd.Status{memd.StatusTmpFail, memd.StatusBusy, memd.StatusNotSupported} {
		t.Run(status.String(), func(t *testing.T) {
			onToken(t, func(t *testing.T, m *mock.Cluster, c *core.Cluster) {
				hellos, logins := m.Frames(memd.OpHello), m.Frames(memd.OpSASLAuth)
				away := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSASLAuth}}, mock.Status(status))
				require.NoError(t, c.SetCredentials(core.Credentials{Token: core.NewSecret("t1")}))
				for range 60 {
					time.Sleep(500 * time.Millisecond)
					writes(t, c)
				}
				require.Equal(t, hellos, m.Frames(memd.OpHello), "no new connection")
				require.LessOrEqual(t, m.Frames(memd.OpSASLAuth)-logins, 2*31, "once a second")
				for range 120 {
					time.Sleep(2 * time.Second)
					writes(t, c)
				}
				require.LessOrEqual(t, m.Frames(memd.OpHello)-hellos, 2*5, "once a minute a new one is tried")
				away.Remove()
				time.Sleep(2 * time.Second)
				logins = m.Frames(memd.OpSASLAuth)
				time.Sleep(time.Minute)
				writes(t, c)
				require.Equal(t, logins, m.Frames(memd.OpSASLAuth), "it has been taken")
			})
		})
	}
}

// A token that a node refuses for good ends the connection, and calls say why.
func TestALoginThatIsRefusedEndsTheConnection(t *testing.T) {
	onToken(t, func(t *testing.T, _ *mock.Cluster, c *core.Cluster) {
		require.NoError(t, c.SetCredentials(core.Credentials{Token: core.NewSecret("forged")}))
		time.Sleep(100 * time.Millisecond)
		_, err := kv.Do(context.Background(), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
	})
}
