package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/control"
	"github.com/couchcore/couchcore/query"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// controlled is a cluster with its API.
type controlled struct {
	t    *testing.T
	mock *mock.Cluster
	url  string
	http *http.Client
}

func start(t *testing.T, opts ...mock.Option) *controlled {
	t.Helper()
	return startWith(t, control.Options{}, opts...)
}

func startWith(t *testing.T, o control.Options, opts ...mock.Option) *controlled {
	t.Helper()
	m := mock.Start(t, append([]mock.Option{mock.RecordFrames()}, opts...)...)
	s, err := control.Listen(m, "127.0.0.1:0", o)
	require.NoError(t, err)
	c := &controlled{t, m, s.URL(), &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		require.NoError(t, s.Close())
	})
	return c
}

// do sends a request and decodes the answer, whatever its status is.
func (c *controlled) do(method, path string, body any) (int, map[string]any) {
	c.t.Helper()
	var text []byte
	switch b := body.(type) {
	case nil:
	case string:
		text = []byte(b)
	default:
		var err error
		text, err = json.Marshal(b)
		require.NoError(c.t, err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	rq, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	require.NoError(c.t, err)
	answer, err := c.http.Do(rq)
	require.NoError(c.t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(c.t, err)
	out := map[string]any{}
	require.NoError(c.t, json.Unmarshal(b, &out), "%s %s: %s", method, path, b)
	return answer.StatusCode, out
}

// ok is do for a request that must succeed.
func (c *controlled) ok(method, path string, body any) map[string]any {
	c.t.Helper()
	status, out := c.do(method, path, body)
	require.Equal(c.t, http.StatusOK, status, "%s %s: %v", method, path, out)
	return out
}

// fails is do for a request that must fail, and returns the error.
func (c *controlled) fails(status int, method, path string, body any) map[string]any {
	c.t.Helper()
	got, out := c.do(method, path, body)
	require.Equal(c.t, status, got, "%s %s: %v", method, path, out)
	e, _ := out["error"].(map[string]any)
	require.NotEmpty(c.t, e["message"], "%v", out)
	require.NotEmpty(c.t, e["code"], "%v", out)
	return e
}

// items are the members of a list.
func (c *controlled) items(path string) (out []map[string]any) {
	c.t.Helper()
	list, ok := c.ok(http.MethodGet, path, nil)["items"].([]any)
	require.True(c.t, ok, path)
	for _, v := range list {
		out = append(out, v.(map[string]any))
	}
	return out
}

// client is a client of the cluster.
func (c *controlled) client() *core.Cluster {
	c.t.Helper()
	cfg, err := core.ParseConnString(c.mock.ConnString())
	require.NoError(c.t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cfg.Auth.AllowPlain = true // or nothing is reported without TLS
	cluster, err := core.Open(c.t.Context(), cfg)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { require.NoError(c.t, cluster.Close()) })
	return cluster
}

func (c *controlled) upsert(b *core.Bucket, key, value string) kv.MutationResult {
	c.t.Helper()
	res, err := kv.Do(c.t.Context(), b, kv.Upsert{Key: []byte(key), Value: []byte(value)})
	require.NoError(c.t, err)
	return res
}

func (c *controlled) get(b *core.Bucket, key string) string {
	c.t.Helper()
	res, err := kv.Do(c.t.Context(), b, kv.Get{Key: []byte(key)})
	require.NoError(c.t, err)
	return string(res.Value)
}

// rows are the rows of a statement.
func (c *controlled) rows(cluster *core.Cluster, statement string) (out []string) {
	c.t.Helper()
	rows, err := cluster.Query(c.t.Context(), &query.Request{Statement: statement})
	require.NoError(c.t, err)
	for rows.Next() {
		out = append(out, string(rows.Row()))
	}
	require.NoError(c.t, rows.Err())
	require.NoError(c.t, rows.Close())
	return out
}

// queryError is the error of a statement.
func (c *controlled) queryError(cluster *core.Cluster, statement string) string {
	c.t.Helper()
	rows, err := cluster.Query(c.t.Context(), &query.Request{Statement: statement})
	if err == nil {
		for rows.Next() {
			continue
		}
		err = rows.Err()
		require.NoError(c.t, rows.Close())
	}
	require.Error(c.t, err, statement)
	return err.Error()
}
