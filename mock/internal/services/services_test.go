package services_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// asker sends raw requests to the services of a cluster.
type asker struct {
	t              testing.TB
	c              *mock.Cluster
	http           *http.Client
	user, password string
	tls            bool
}

func newAsker(t testing.TB, c *mock.Cluster) *asker {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA())
	tr := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return c.Dial(ctx, network,
				addr)
		},
		TLSClientConfig: &tls.Config{RootCAs: roots},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &asker{
		t: t, c: c, user: mock.DefaultUser, password: mock.DefaultPassword,
		http: &http.Client{Transport: tr, CheckRedirect: func(*http.Request,
			[]*http.Request,
		) error {
			return http.ErrUseLastResponse
		}},
	}
}

// answered is an answer that was read as far as it went.
type answered struct {
	status int
	header http.Header
	body   []byte
	err    error // what ended the body early
}

func (a *asker) try(node int, s mock.Service, method, path, body string, change func(*http.Request)) (answered, error) {
	a.t.Helper()
	addr := "http://" + a.c.Node(node).ServiceAddr(s)
	if a.tls {
		addr = "https://" + a.c.Node(node).ServiceTLSAddr(s)
	}
	req, err := http.NewRequestWithContext(a.t.Context(), method, addr+path, strings.NewReader(body))
	require.NoError(a.t, err)
	req.Header.Set("Content-Type", "application/json")
	if a.user != "" {
		req.SetBasicAuth(a.user, a.password)
	}
	if change != nil {
		change(req)
	}
	res, err := a.http.Do(req)
	if err != nil {
		return answered{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answered{res.StatusCode, res.Header, b, err}, nil
}

func (a *asker) do(s mock.Service, method, path, body string) answered {
	a.t.Helper()
	got, err := a.try(0, s, method, path, body, nil)
	require.NoError(a.t, err)
	return got
}

func (a *asker) query(body string) answered {
	a.t.Helper()
	return a.do(mock.QueryService, "POST", "/query/service", body)
}

// queryAnswer is what query and analytics answer.
type queryAnswer struct {
	RequestID       string            `json:"requestID"`
	ClientContextID string            `json:"clientContextID"`
	Prepared        string            `json:"prepared"`
	Results         []json.RawMessage `json:"results"`
	Errors          []struct {
		Code  int    `json:"code"`
		Msg   string `json:"msg"`
		Retry bool   `json:"retry"`
	} `json:"errors"`
	Status  string         `json:"status"`
	Metrics map[string]any `json:"metrics"`
}

func (g answered) query(t testing.TB) queryAnswer {
	t.Helper()
	var q queryAnswer
	require.NoError(t, g.err)
	require.NoError(t, json.Unmarshal(g.body, &q), "%s", g.body)
	return q
}

func TestScriptedRowsOnEveryTransport(t *testing.T) {
	check := func(t *testing.T, secure bool, opts ...mock.Option) {
		c := mock.Start(t, append(opts, mock.Nodes(2))...)
		a := newAsker(t, c)
		a.tls = secure
		s := c.ScriptQuery("FROM airports", mock.Answer{Rows: []string{`{"a":1}`, `{"a":2}`}})
		got := a.query(`{"statement":"SELECT * FROM airports","client_context_id":"c7"}`)
		require.Equal(t, 200, got.status)
		q := got.query(t)
		require.Equal(t, "c7", q.ClientContextID)
		require.Equal(t, "success", q.Status)
		require.Len(t, q.Results, 2)
		require.EqualValues(t, 2, q.Metrics["resultCount"])
		require.Equal(t, 1, s.Fired())
		log := c.ServiceLog(mock.QueryService)
		require.Len(t, log, 1)
		require.Equal(t, "SELECT * FROM airports", log[0].Statement)
		require.Equal(t, "Administrator", log[0].User)
		require.Equal(t, secure, log[0].TLS)
	}
	t.Run("tcp", func(t *testing.T) { check(t, false) })
	t.Run("tls", func(t *testing.T) { check(t, true, mock.TLS()) })
	t.Run("virtual", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { check(t, false, mock.Virtual()) })
	})
	t.Run("virtual tls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { check(t, true, mock.Virtual(), mock.TLS()) })
	})
}

func TestScriptedDelaysAndCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual())
		a := newAsker(t, c)
		rows := []string{`{"a":1}`, `{"a":2}`, `{"a":3}`}
		at := time.Now()
		c.ScriptQuery("slow", mock.Answer{Rows: rows, Delay: time.Second, RowDelay: time.Minute})
		require.Len(t, a.query(`{"statement":"SELECT slow"}`).query(t).Results, 3)
		require.Equal(t, 3*time.Minute+time.Second, time.Since(at))

		c.ScriptQuery("late", mock.Answer{Rows: rows, RowDelay: time.Minute, Deadline: true})
		q := a.query(`{"statement":"SELECT late","timeout":"90s"}`).query(t)
		require.Len(t, q.Results, 1)
		require.Equal(t, 1080, q.Errors[0].Code)
		require.True(t, q.Errors[0].Retry, "the engine says so of its own timeout")
		require.Equal(t, "timeout", q.Status)

		c.ScriptQuery("half", mock.Answer{Mutated: 3, Delay: time.Minute, Deadline: true})
		got := a.query(`{"statement":"INSERT half","timeout":"1s"}`)
		require.Equal(t, 200, got.status)
		q = got.query(t)
		require.Equal(t, 1080, q.Errors[0].Code)
		require.EqualValues(t, 3, q.Metrics["mutationCount"])

		c.ScriptQuery("cut", mock.Answer{Rows: rows, CutRows: 2})
		got = a.query(`{"statement":"SELECT cut"}`)
		require.ErrorIs(t, got.err, io.ErrUnexpectedEOF)
		require.True(t, bytes.HasSuffix(got.body, []byte(`[{"a":1},{"a":2}`)), "%s", got.body)

		c.ScriptQuery("bytes", mock.Answer{Rows: rows, CutBytes: 10})
		got = a.query(`{"statement":"SELECT bytes"}`)
		require.ErrorIs(t, got.err, io.ErrUnexpectedEOF)
		require.Len(t, got.body, 10)

		c.ScriptQuery("header", mock.Answer{Rows: rows, CutBytes: -1})
		got = a.query(`{"statement":"SELECT header"}`)
		require.ErrorIs(t, got.err, io.ErrUnexpectedEOF)
		require.Empty(t, got.body)

		c.ScriptQuery("closed", mock.Answer{Close: true})
		_, err := a.try(0, mock.QueryService, "POST", "/query/service", `{"statement":"SELECT closed"}`, nil)
		require.Error(t, err)

		at = time.Now()
		c.ScriptQuery("pieces", mock.Answer{Body: []byte("0123456789"), Chunk: 3, Trickle: time.Second})
		require.Equal(t, "0123456789", string(a.query(`{"statement":"SELECT pieces"}`).body))
		require.Equal(t, 4*time.Second, time.Since(at))
	})
}
