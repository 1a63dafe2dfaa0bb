package mock_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// manager talks to a node's management service.
type manager struct {
	t    testing.TB
	c    *mock.Cluster
	http *http.Client
	user string
}

func newManager(t testing.TB, c *mock.Cluster) *manager {
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return c.Dial(ctx, network, addr)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &manager{t, c, &http.Client{Transport: tr, Timeout: patience}, "Administrator"}
}

func (m *manager) do(method, path string, form url.Values) (int, []byte) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), method, "http://"+m.c.Node(0).ManagementAddr()+path,
		strings.NewReader(form.Encode()))
	require.NoError(m.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(m.user, "password")
	res, err := m.http.Do(req)
	require.NoError(m.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(m.t, err)
	return res.StatusCode, b
}

func TestManagementService(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.User("Administrator", "password"), mock.User("app", "password", "other"))
	m := newManager(t, c)
	for _, path := range []string{"/whoami", "/pools", "/pools/default/terseClusterInfo"} {
		code, body := m.do("GET", path, nil)
		require.Equal(t, 200, code, path)
		require.True(t, json.Valid(body), path)
	}
	code, body := m.do("GET", "/pools/default/b/default", nil)
	require.Equal(t, 200, code)
	require.JSONEq(t, string(c.ConfigJSON("default")), string(body))
	code, body = m.do("GET", "/pools/default/nodeServices", nil)
	require.Equal(t, 200, code)
	require.JSONEq(t, string(c.ConfigJSON("")), string(body))
	code, _ = m.do("POST", "/pools/default", url.Values{"clusterName": {"lab"}})
	require.Equal(t, 200, code)
	require.Contains(t, string(c.ConfigJSON("default")), `"clusterName":"lab"`)
	code, _ = m.do("GET", "/pools/default/b/absent", nil)
	require.Equal(t, 404, code)
	code, _ = m.do("GET", "/nothing/here", nil)
	require.Equal(t, 404, code)
	m.user = "app"
	code, _ = m.do("GET", "/pools/default/b/default", nil)
	require.Equal(t, 403, code)
	m.user = "nobody"
	code, _ = m.do("GET", "/whoami", nil)
	require.Equal(t, 401, code)
}

func TestCollectionsMadeOverHTTPReachKV(t *testing.T) {
	c := mock.Start(t)
	m := newManager(t, c)
	r := login(t, c, baseFeatures...)
	const scopes = "/pools/default/buckets/default/scopes"
	code, body := m.do("POST", scopes, url.Values{"name": {"s"}})
	require.Equal(t, 200, code)
	require.JSONEq(t, `{"uid":"1"}`, string(body))
	code, _ = m.do("POST", scopes, url.Values{"name": {"s"}})
	require.Equal(t, 400, code)
	code, _ = m.do("POST", scopes+"/s/collections", url.Values{"name": {"c"}, "maxTTL": {"5"}})
	require.Equal(t, 200, code)
	lookup := memd.Packet{Opcode: memd.OpCollectionsGetID, Value: []byte("s.c")}
	require.Equal(t, memd.StatusSuccess, r.call(lookup).Status)
	code, body = m.do("GET", scopes, nil)
	require.Equal(t, 200, code)
	require.Contains(t, string(body), `{"name":"c","uid":"8","maxTTL":5}`)
	require.Equal(t, string(r.call(memd.Packet{Opcode: memd.OpCollectionsGetManifest}).Value), string(body))
	code, _ = m.do("DELETE", scopes+"/s/collections/c", nil)
	require.Equal(t, 200, code)
	require.Equal(t, memd.StatusUnknownCollection, r.call(lookup).Status)
	code, _ = m.do("DELETE", scopes+"/s", nil)
	require.Equal(t, 200, code)
	require.Equal(t, memd.StatusUnknownScope, r.call(lookup).Status)
}

func TestManagementServiceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code, _ := newManager(t, mock.Start(t, mock.Virtual())).do("GET", "/whoami", nil)
		require.Equal(t, 200, code)
	})
}
