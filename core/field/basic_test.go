package field_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// listener is a query service that keeps the credentials that it is sent.
type listener struct {
	mu   sync.Mutex
	seen []string
	port string
}

func listen(t testing.TB, host string, encrypted bool) *listener {
	t.Helper()
	l := &listener{}
	socket, err := net.Listen("tcp", host+":0")
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.seen = append(l.seen, r.Header.Get("Authorization"))
		l.mu.Unlock()
		_, _ = io.WriteString(w, `{"results":[],"status":"success"}`)
	}))
	require.NoError(t, s.Listener.Close())
	s.Listener = socket
	if encrypted {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	l.port = u.Port()
	return l
}

func (l *listener) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// withQuery is a cluster whose maps name these query services instead of its own.
func withQuery(t testing.TB, addrs ...string) *mock.Cluster {
	t.Helper()
	m := mock.Start(t, mock.TLS(), mock.User("u", "p"))
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}}, mock.Rewrite(func(_, rep *memd.Packet) {
		own := regexp.MustCompile(`"n1ql(SSL)?":[0-9]+`).ReplaceAll(rep.Value, []byte(`"other$1":1`))
		list := `"nodesExt":[`
		for _, a := range addrs {
			host, port, _ := net.SplitHostPort(a)
			list += `{"services":{"n1ql":` + port + `,"n1qlSSL":` + port + `},"hostname":"` + host + `"},`
		}
		rep.Value = bytes.Replace(own, []byte(`"nodesExt":[`), []byte(list), 1)
	}))
	return m
}

// TestPasswordsGoToNoHostThatOnlyAMapNames_D144: a map is input from the network. Where it is not certain who has sent
// it, an attacker who changes it could have the password sent to a host of his own; the key-value service is never
// shown it.
func TestPasswordsGoToNoHostThatOnlyAMapNames_D144(t *testing.T) {
	unverified := func(c *core.Config) { c.TLS.Config = &tls.Config{InsecureSkipVerify: true} }
	for name, c := range map[string]struct {
		change             func(*core.Config)
		encrypted, refused bool
	}{
		"plaintext":        {func(*core.Config) {}, false, true},
		"any node is fine": {func(c *core.Config) { c.Net.NodeFilter = core.AnyNode }, false, true},
		"a provider":       {provided, false, true},
		"not verified":     {unverified, true, true},
		"allowed":          {func(c *core.Config) { c.Auth.AllowPlain = true }, false, false},
		"named":            {func(c *core.Config) { c.Seeds.HTTPHosts = []string{"127.0.0.9:1"} }, false, false},
		"named, not verified": {
			func(c *core.Config) { unverified(c); c.Seeds.HTTPHosts = []string{"127.0.0.9:1"} },
			true, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, "127.0.0.9", c.encrypted)
			m := withQuery(t, "127.0.0.9:"+l.port)
			s := m.ConnString()
			if c.encrypted {
				s = m.TLSConnString()
			}
			cfg, err := core.ParseConnString(s)
			require.NoError(t, err)
			cfg.Auth.Username, cfg.Auth.Password, cfg.KV.Compression.Off = "u", core.NewSecret("p"), true
			c.change(&cfg)
			cl := openConfig(t, cfg)
			require.NoError(t, cl.Bucket("default").WaitReady(within(t, 10*time.Second)))
			rows, err := cl.Query(within(t, 5*time.Second), &query.Request{Statement: "SELECT 1"})
			if !c.refused {
				require.NoError(t, err)
				require.NoError(t, rows.Close())
				require.Equal(t, []string{"Basic dTpw"}, l.seen)
				return
			}
			var refused *core.NodeRefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "127.0.0.9:"+l.port, refused.Addr)
			require.NotContains(t, err.Error(), "dTpw")
			require.Zero(t, l.requests())
		})
	}
}

func provided(c *core.Config) {
	c.Auth.Username, c.Auth.Password = "", core.Secret{}
	c.Auth.Credentials = func(context.Context) (core.Credentials, error) {
		return core.Credentials{Username: "u", Password: core.NewSecret("p")}, nil
	}
}

// TestNodesThatMayBeSentThePasswordArePreferred_D144: one node that the map alone names keeps no request from the
// others.
func TestNodesThatMayBeSentThePasswordArePreferred_D144(t *testing.T) {
	own, foreign := listen(t, "127.0.0.1", false), listen(t, "127.0.0.9", false)
	m := withQuery(t, "127.0.0.9:"+foreign.port, "127.0.0.1:"+own.port)
	cl := openConfig(t, asUser(t, m, "u", "p"))
	require.NoError(t, cl.Bucket("default").WaitReady(within(t, 10*time.Second)))
	for range 6 {
		rows, err := cl.Query(within(t, 5*time.Second), &query.Request{Statement: "SELECT 1"})
		require.NoError(t, err)
		require.NoError(t, rows.Close())
	}
	require.Zero(t, foreign.requests())
	require.Equal(t, 6, own.requests())
}
