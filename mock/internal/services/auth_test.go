package services_test

import (
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

var pings = map[mock.Service]string{
	mock.QueryService: "/admin/ping", mock.AnalyticsService: "/admin/ping", mock.SearchService: "/api/ping",
	mock.ViewsService: "/",
}

func TestAuthenticationOfTheServices(t *testing.T) {
	c := mock.Start(t, mock.User("Administrator", "password"), mock.User("app", "pw", "default"),
		mock.ExternalUser("ldap", "pw", "default"), mock.Token("t0", "app"))
	a := newAsker(t, c)
	paths := map[mock.Service]string{
		mock.QueryService:     "/query/service?statement=SELECT+1",
		mock.AnalyticsService: "/query/service?statement=SELECT+1",
		mock.SearchService:    "/api/index", mock.ViewsService: "/default/_design/d", mock.ManagementService: "/whoami",
		mock.EventingService: "/api/v1/functions",
	}
	for s, path := range paths {
		ask := func(change func(*http.Request)) (int, string) {
			t.Helper()
			got, err := a.try(0, s, "GET", path, "", func(r *http.Request) {
				r.Header.Del("Authorization")
				change(r)
			})
			require.NoError(t, err)
			return got.status, string(got.body)
		}
		fine := http.StatusOK
		if s == mock.ViewsService {
			fine = http.StatusNotFound
		}
		status, _ := ask(func(*http.Request) {})
		require.Equal(t, 401, status, s)
		status, _ = ask(func(r *http.Request) { r.SetBasicAuth("app", "wrong") })
		require.Equal(t, 401, status, s)
		status, _ = ask(func(r *http.Request) { r.SetBasicAuth("nobody", "") })
		require.Equal(t, 401, status, s)
		status, _ = ask(func(r *http.Request) { r.SetBasicAuth("app", "pw") })
		require.Equal(t, fine, status, s)
		status, _ = ask(func(r *http.Request) { r.Header.Set("Authorization", "Bearer t0") })
		require.Equal(t, fine, status, s)
		status, _ = ask(func(r *http.Request) { r.Header.Set("Authorization", "Bearer t1") })
		require.Equal(t, 401, status, s)
		actFor := func(login, password, header string) int {
			status, _ := ask(func(r *http.Request) {
				r.SetBasicAuth(login, password)
				r.Header.Set("cb-on-behalf-of", header)
			})
			return status
		}
		encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
		require.Equal(t, fine, actFor("Administrator", "password", encoded("app:local")), s)
		log := c.ServiceLog(s)
		require.Equal(t, "app", log[len(log)-1].User)
		require.Equal(t, "Administrator", log[len(log)-1].Login)
		require.Equal(t, fine, actFor("Administrator", "password", encoded("ldap:external")), s)
		for _, header := range []string{"stranger:local", "app:external", "app:elsewhere", "ldap:local"} {
			require.Equal(t, 403, actFor("Administrator", "password", encoded(header)), "%v %s", s, header)
		}
		require.Equal(t, 403, actFor("app", "pw", encoded("Administrator:local")), s)
		for _, header := range []string{"app", encoded("app"), "app:local"} {
			require.Equal(t, 401, actFor("Administrator", "password", header), "%v %s", s, header)
		}
	}
	for s, path := range pings {
		got, err := a.try(0, s, "GET", path, "", func(r *http.Request) { r.Header.Del("Authorization") })
		require.NoError(t, err)
		require.Equal(t, 200, got.status, s)
	}
}

func TestClientCertificates(t *testing.T) {
	c := mock.Start(t, mock.TLS(), mock.User("Administrator", "password"), mock.User("app", "pw", "default"))
	a := newAsker(t, c)
	a.tls = true
	cert, err := c.ClientCertificate("app")
	require.NoError(t, err)
	transport, _ := a.http.Transport.(*http.Transport)
	transport.TLSClientConfig.Certificates = []tls.Certificate{cert}
	got, err := a.try(0, mock.QueryService, "GET", "/query/service?statement=SELECT+1", "",
		func(r *http.Request) { r.Header.Del("Authorization") })
	require.NoError(t, err)
	require.Equal(t, 200, got.status)
	log := c.ServiceLog()
	require.Equal(t, "app", log[0].User)

	nc, err := net.Dial("tcp", c.Node(0).TLSAddr())
	require.NoError(t, err)
	conn := tls.Client(nc, &tls.Config{
		RootCAs: transport.TLSClientConfig.RootCAs, ServerName: "127.0.0.1",
		Certificates: []tls.Certificate{cert},
	})
	defer conn.Close()
	p := memd.Packet{Magic: memd.MagicReq, Opcode: memd.OpSelectBucket, Key: []byte("default")}
	b, err := p.AppendTo(nil)
	require.NoError(t, err)
	_, err = conn.Write(b)
	require.NoError(t, err)
	head := make([]byte, memd.HeaderLen)
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0}, head[6:8], "the bucket is selected without SASL")

	_, err = mock.Start(t).ClientCertificate("app")
	require.Error(t, err)
	stranger, err := mock.Start(t, mock.TLS()).ClientCertificate("app")
	require.NoError(t, err)
	transport.CloseIdleConnections()
	transport.TLSClientConfig.Certificates = []tls.Certificate{stranger}
	_, err = a.try(0, mock.QueryService, "GET", "/admin/ping", "", nil)
	require.Error(t, err)
}

func TestHTTP2(t *testing.T) {
	c := mock.Start(t, mock.TLS(), mock.HTTP2())
	a := newAsker(t, c)
	a.tls = true
	transport, _ := a.http.Transport.(*http.Transport)
	transport.ForceAttemptHTTP2 = true
	c.ScriptQuery("cut", mock.Answer{Rows: []string{"1", "2", "3"}, CutRows: 2})
	c.ScriptQuery("closed", mock.Answer{Close: true})
	require.Len(t, a.query(`{"statement":"SELECT 1"}`).query(t).Results, 1)
	got := a.query(`{"statement":"SELECT cut"}`)
	require.Error(t, got.err)
	require.True(t, strings.HasSuffix(string(got.body), "[1,2"), "%s", got.body)
	_, err := a.try(0, mock.QueryService, "POST", "/query/service", `{"statement":"SELECT closed"}`, nil)
	require.Error(t, err)
	for _, rq := range c.ServiceLog() {
		require.Equal(t, "HTTP/2.0", rq.Proto)
	}
}

// A handler that waits ends with its client and with the cluster.
func TestAnswersThatNeverCome(t *testing.T) {
	c, err := mock.New()
	require.NoError(t, err)
	a := newAsker(t, c)
	a.http.Timeout = patience
	s := c.ScriptQuery("never", mock.Answer{Never: true})
	h := c.ScriptQuery("stall", mock.Answer{Rows: []string{"1", "2"}, StallRows: 1},
		mock.Answer{Rows: []string{"1", "2"}, StallBytes: 5}, mock.Answer{StallBytes: -1})
	done := make(chan error, 4)
	ask := func(statement string) {
		got, err := a.try(0, mock.QueryService, "POST", "/query/service", `{"statement":"`+statement+`"}`, nil)
		if err == nil {
			err = got.err
		}
		done <- err
	}
	go ask("SELECT never")
	for range 3 {
		go ask("SELECT stall")
	}
	require.NoError(t, s.WaitFired(t.Context(), 1))
	require.NoError(t, h.WaitFired(t.Context(), 3))
	require.NoError(t, c.Close())
	for range 4 {
		require.Error(t, <-done)
	}
}

// The rows before a stall are there while it lasts.
func TestRowsBeforeAStallArrive(t *testing.T) {
	c := mock.Start(t)
	a := newAsker(t, c)
	a.http.Timeout = patience
	s := c.ScriptQuery("stall", mock.Answer{Rows: []string{`"before"`, `"behind"`}, StallRows: 1})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+c.Node(0).ServiceAddr(mock.QueryService)+"/query/service", strings.NewReader(`{"statement":"SELECT stall"}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(a.user, a.password)
	res, err := a.http.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	got, b := "", make([]byte, 512)
	for !strings.Contains(got, "before") {
		n, err := res.Body.Read(b)
		require.NoError(t, err)
		got += string(b[:n])
	}
	require.NotContains(t, got, "behind")
	s.Release()
	tail, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(tail), "behind")
}

func TestStalledAnswersGoOn(t *testing.T) {
	c := mock.Start(t)
	a := newAsker(t, c)
	for _, answer := range []mock.Answer{
		{Rows: []string{"1", "2"}, StallRows: 1},
		{Rows: []string{"1", "2"}, StallBytes: 5},
		{Rows: []string{"1", "2"}, StallBytes: -1},
		{Rows: []string{"1", "2"}, Hold: true},
	} {
		s := c.ScriptQuery("stall", answer)
		go func() {
			_ = s.WaitFired(t.Context(), 1) // the test's end ends it
			s.Release()
		}()
		require.Len(t, a.query(`{"statement":"SELECT stall"}`).query(t).Results, 2)
	}
}
