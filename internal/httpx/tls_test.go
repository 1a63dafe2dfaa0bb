package httpx_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/retry"
)

// certificates are a server's side of TLS, with HTTP/2 if asked for, and a client's that trusts it.
func certificates(t *testing.T, h2 bool) (server, client *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.EnableHTTP2 = h2
	s.StartTLS()
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s.TLS.Clone(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// TestHTTP2OverTLS, and HTTP/1.1 where the server does not speak it; a request that dies on the wire is in doubt.
func TestHTTP2OverTLS(t *testing.T) {
	for h2, proto := range map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"} {
		server, client := certificates(t, h2)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/die" {
					panic(http.ErrAbortHandler)
				}
				_, _ = rw.Write([]byte(`{"results":["` + r.Proto + `",2]}`))
			}, setup{nodes: []string{"127.0.0.1:80"}, tls: server, options: func(o *httpx.Options) { o.TLS = client }})
			rows, err := httpsvc.OpenRows(t.Context(), w.client, statement(false), rawRows)
			require.NoError(t, err)
			require.True(t, rows.Next())
			require.JSONEq(t, `"`+proto+`"`, string(rows.Row()))
			require.NoError(t, rows.Close())
			_, _, err = w.do(post("/die", "x"))
			require.ErrorIs(t, err, cberr.RequestCanceled)
			var e *httpsvc.Error
			require.ErrorAs(t, err, &e)
			require.True(t, e.Ambiguous())
			r := get("/die")
			r.Timeout = 50 * time.Millisecond
			_, _, err = w.do(r)
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			info, _ := retry.InfoOf(err)
			require.NotZero(t, info.Counted)
			w.client.Close()
		})
	}
}

// TestUntrustedCertificate is a node that cannot be reached: nothing was sent.
func TestUntrustedCertificate(t *testing.T) {
	server, _ := certificates(t, false)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("200"), setup{
			nodes: []string{"127.0.0.1:80"}, tls: server,
			options: func(o *httpx.Options) {
				o.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
			},
		})
		r := post("/a", "x")
		r.Timeout = time.Second
		_, _, err := w.do(r)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorContains(t, err, "certificate")
		info, _ := retry.InfoOf(err)
		require.Equal(t, retry.SocketNotAvailable, info.Reason)
		require.Zero(t, w.count())
	})
}

// TestCredentialsOfARequest: a name and password, a token, a certificate alone, or what the request brings itself.
func TestCredentialsOfARequest(t *testing.T) {
	server, client := certificates(t, false)
	for want, cr := range map[string]httpx.Credentials{
		"Basic dTpw": {Username: "u", Password: observe.NewSecret("p")}, "Bearer abc": {
			Token:    observe.NewSecret("abc"),
			Username: "u",
		}, "": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, statuses("200"), setup{
				nodes: []string{"127.0.0.1:80"}, tls: server,
				options: func(o *httpx.Options) {
					o.TLS = client
					o.Credentials = func(context.Context, httpsvc.Service, string, bool) (httpx.Credentials, error) {
						return cr, nil
					}
				},
			})
			_, _, err := w.do(get("/a"))
			require.NoError(t, err)
			require.Equal(t, want, w.requests()[0].header.Get("Authorization"))
			r := get("/a")
			r.Header = map[string]string{"Authorization": "Own"}
			_, _, err = w.do(r)
			require.NoError(t, err)
			require.Equal(t, "Own", w.requests()[1].header.Get("Authorization"))
		})
	}
}

// TestTokensStayOffPlaintext: a token is never sent in plain text.
func TestTokensStayOffPlaintext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("200"), setup{options: func(o *httpx.Options) {
			o.Credentials = func(context.Context, httpsvc.Service, string, bool) (httpx.Credentials, error) {
				return httpx.Credentials{Token: observe.NewSecret("abc")}, nil
			}
		}})
		_, _, err := w.do(get("/a"))
		require.ErrorIs(t, err, cberr.InvalidArgument)
		require.Zero(t, w.count())
	})
}

// TestCredentialsThatCannotBeFetched are asked for again, and the failure is the timeout's cause.
func TestCredentialsThatCannotBeFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := newWorld(t, statuses("200"), setup{options: func(o *httpx.Options) {
			o.Credentials = func(context.Context, httpsvc.Service, string, bool) (httpx.Credentials, error) {
				if asked++; asked < 3 {
					return httpx.Credentials{}, context.Canceled
				}
				return httpx.Credentials{}, nil
			}
		}})
		resp, err := w.client.Do(t.Context(), get("/a"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, retry.CredentialsFetchFailed, resp.Retry.Reason)
		require.Equal(t, 3, asked)
		require.Equal(t, 1, w.count())
	})
}
