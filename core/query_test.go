package core_test

import (
	"crypto/tls"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
)

// TestPreparedStatementsEndToEnd with the plans of the mock's query service, made in one request and in two.
func TestPreparedStatementsEndToEnd(t *testing.T) {
	for _, enhanced := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			opts := []mock.Option{mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual()}
			if !enhanced {
				opts = append(opts, mock.Capabilities("n1ql"))
			}
			m := mock.Start(t, opts...)
			c := open(t, m)
			require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
			sc := m.ScriptQuery("UPDATE", mock.Answer{Func: func(rq *mock.ServiceRequest) mock.Answer {
				return mock.Answer{Rows: []string{`1`}, Members: map[string]string{"prepared": strconv.Quote(rq.Prepared)}}
			}})
			run := func() error {
				rows, err := c.Query(ctx(t), &query.Request{Statement: "UPDATE t SET x = 1", Prepare: true})
				if err == nil && !enhanced {
					require.Equal(t, m.Prepared()["UPDATE t SET x = 1"], rows.Prepared())
				}
				_, err = all(rows, err)
				return err
			}
			for range 3 {
				require.NoError(t, run())
			}
			require.Equal(t, 3, sc.Fired())
			require.Len(t, m.Prepared(), 1)
			before := len(m.ServiceLog(mock.QueryService))
			require.Equal(t, map[bool]int{true: 3, false: 4}[enhanced], before)
			for i, rq := range m.ServiceLog(mock.QueryService) {
				require.Equal(t, i > 0, rq.Member("prepared") != "")
			}
			m.ForgetPrepared()
			require.NoError(t, run())
			require.Equal(t, 4, sc.Fired())
			for _, code := range []int{4040, 4050, 4060, 4070, 4080, 4090} {
				m.FailPrepared(code)
				require.NoError(t, run(), code)
			}
			require.Equal(t, 10, sc.Fired())
			for _, code := range []int{12003, 5000, 1080} {
				m.ScriptQuery("UPDATE", mock.Answer{Errors: []mock.ServiceError{{
					Code: code, Message: "x",
					Retry: true,
				}}})
				require.Error(t, run())
				log := m.ServiceLog(mock.QueryService)
				require.Empty(t, log[len(log)-1].Header.Get("Retry-Attempt"), code)
				require.NotEmpty(t, log[len(log)-1].Member("prepared"))
			}
		})
	}
}

// TestFeaturesOfTheCluster: what the newest map does not list is refused.
func TestFeaturesOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual(), mock.Capabilities("n1ql",
			"other"), mock.Capabilities("search", "other"))
		c := open(t, m)
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		_, err := c.Query(ctx(t), &query.Request{Statement: "x", UseReplica: query.On})
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
		_, err = c.Search(ctx(t), &search.Request{Index: "i", Bucket: "b", Scope: "s", Query: 1})
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
		require.Empty(t, m.ServiceLog(mock.QueryService, mock.SearchService))
	})
}

// TestQueryOverTLS asks the port that the map has for TLS, over HTTP/2, by name and password, token or certificate.
func TestQueryOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.TLS(), mock.HTTP2(), mock.Virtual(),
			mock.Token("abc", "Administrator"))
		m.ScriptQuery("x", rows(`1`, `2`))
		cert, err := m.ClientCertificate("Administrator")
		require.NoError(t, err)
		for name, change := range map[string]func(*core.Config){
			"Basic": func(*core.Config) {},
			"Bearer": func(cfg *core.Config) {
				cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Token = "", core.Secret{}, core.NewSecret("abc")
			},
			"": func(cfg *core.Config) {
				cfg.Auth.Username, cfg.Auth.Password, cfg.TLS.Config.Certificates = "", core.Secret{},
					[]tls.Certificate{cert}
			},
		} {
			c := open(t, m, func(cfg *core.Config) {
				tlsHosts(cfg)
				cfg.TLS.Config = trusting(m)
				change(cfg)
			})
			got, err := all(c.Query(ctx(t), &query.Request{Statement: "x"}))
			require.NoError(t, err, name)
			require.Equal(t, []string{"1", "2"}, got)
			log := m.ServiceLog(mock.QueryService)
			last := log[len(log)-1]
			require.True(t, last.TLS)
			require.Equal(t, "HTTP/2.0", last.Proto)
			require.Equal(t, "Administrator", last.User)
			scheme, _, _ := strings.Cut(last.Header.Get("Authorization"), " ")
			require.Equal(t, name, scheme)
		}
	})
}
