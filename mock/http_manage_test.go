package mock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

const bucketsPath = "/pools/default/buckets"

func TestBucketsOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	m := newManager(t, c)
	for _, row := range []struct {
		form   url.Values
		status int
		text   string
	}{
		{url.Values{"ramQuotaMB": {"100"}}, 400, `"name"`},
		{url.Values{"name": {"b"}}, 400, "ramQuota"},
		{url.Values{"name": {"b"}, "ramQuotaMB": {"99"}}, 400, "ramQuota"},
		{url.Values{"name": {"b"}, "ramQuotaMB": {"100"}, "bucketType": {"x"}}, 400, "bucketType"},
		{url.Values{"name": {"b"}, "ramQuotaMB": {"100"}, "replicaNumber": {"4"}}, 400, "replicaNumber"},
		{url.Values{"name": {"b"}, "ramQuotaMB": {"100"}, "durabilityMinLevel": {"x"}}, 400, "durability_min_level"},
		{url.Values{"name": {"a b"}, "ramQuotaMB": {"100"}}, 400, "Bucket name can only contain"},
		{url.Values{"name": {"default"}, "ramQuotaMB": {"100"}}, 400, "Bucket with given name already exists"},
		{url.Values{"name": {"b"}, "ramQuotaMB": {"100"}, "replicaNumber": {"0"}, "flushEnabled": {"0"}}, 202, ""},
		{url.Values{
			"name": {"e"}, "ramQuotaMB": {"100"}, "bucketType": {"ephemeral"},
			"durabilityMinLevel": {"majority"},
		}, 202, ""},
	} {
		status, body := m.do("POST", bucketsPath, row.form)
		require.Equal(t, row.status, status, "%v", row.form)
		require.Contains(t, string(body), row.text)
	}
	require.Contains(t, string(c.ConfigJSON("b")), `"numReplicas":0`)
	status, body := m.do("POST", bucketsPath+"/b/controller/doFlush", nil)
	require.Equal(t, 400, status)
	require.JSONEq(t, `{"_":"Flush is disabled for the bucket"}`, string(body))
	status, _ = m.do("POST", bucketsPath+"/b", url.Values{"flushEnabled": {"1"}})
	require.Equal(t, 200, status)
	status, _ = m.do("POST", bucketsPath+"/b/controller/doFlush", nil)
	require.Equal(t, 200, status)
	login(t, c, baseFeatures...).set("k", "1")
	status, _ = m.do("POST", bucketsPath+"/default/controller/doFlush", nil)
	require.Equal(t, 200, status)
	require.Empty(t, c.Documents("default"))
	status, _ = m.do("DELETE", bucketsPath+"/b", nil)
	require.Equal(t, 200, status)
	status, _ = m.do("DELETE", bucketsPath+"/b", nil)
	require.Equal(t, 404, status)
	require.Nil(t, c.ConfigJSON("b"))
}

func TestManifestsOverHTTP(t *testing.T) {
	m := newManager(t, mock.Start(t))
	const scopes = bucketsPath + "/default/scopes"
	status, _ := m.do("POST", scopes+"/@ensureManifest/1", nil)
	require.Equal(t, 504, status)
	status, _ = m.do("POST", scopes+"/_default/collections", url.Values{"name": {"c"}})
	require.Equal(t, 200, status)
	status, _ = m.do("POST", scopes+"/@ensureManifest/1", nil)
	require.Equal(t, 200, status)
	status, _ = m.do("PATCH", scopes+"/_default/collections/c", url.Values{"maxTTL": {"77"}})
	require.Equal(t, 200, status)
	_, body := m.do("GET", scopes, nil)
	require.Contains(t, string(body), `"maxTTL":77`)
	require.Contains(t, string(body), `"uid":"2"`)
	status, body = m.do("PATCH", scopes+"/_default/collections/d", url.Values{"maxTTL": {"77"}})
	require.Equal(t, 404, status)
	require.JSONEq(t, `{"errors":{"_":"Collection with name \"d\" in scope \"_default\" is not found"}}`, string(body))
	status, _ = m.do("PATCH", scopes+"/_default/collections/c", url.Values{"maxTTL": {"x"}})
	require.Equal(t, 400, status)
	status, _ = m.do("POST", scopes+"/_default/nothing", nil)
	require.Equal(t, 404, status)
}

func TestUsersOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 8, mock.WithCollection("s", "c")), mock.Bucket("other", 8))
	m := newManager(t, c)
	const ann = "/settings/rbac/users/local/ann"
	status, _ := m.do("GET", ann, nil)
	require.Equal(t, 404, status)
	status, _ = m.do("PUT", ann, url.Values{"roles": {"admin"}})
	require.Equal(t, 400, status)
	status, _ = m.do("PUT", ann, url.Values{
		"name": {"Ann"}, "password": {"password"},
		"roles": {"data_reader[default:s:c], data_writer[default]"},
	})
	require.Equal(t, 200, status)
	_, body := m.do("GET", ann, nil)
	var u struct {
		Name  string
		Roles []map[string]any
	}
	require.NoError(t, json.Unmarshal(body, &u))
	require.Equal(t, "Ann", u.Name)
	require.Len(t, u.Roles, 2)
	require.Equal(t, "c", u.Roles[0]["collection_name"])
	_, body = m.do("GET", "/settings/rbac/users", nil)
	require.Contains(t, string(body), `"id":"ann"`)
	require.NotContains(t, string(body), `"Administrator"`, "it is of no domain that is listed")
	m.user = "ann"
	status, _ = m.do("GET", "/pools/default/b/default", nil)
	require.Equal(t, 200, status)
	status, _ = m.do("GET", "/pools/default/b/other", nil)
	require.Equal(t, 403, status)
	for _, call := range [][2]string{
		{"GET", "/settings/rbac/users"},
		{"GET", ann},
		{"PUT", ann},
		{"DELETE", ann},
		{"POST", bucketsPath},
		{"DELETE", bucketsPath + "/default"},
		{"POST", bucketsPath + "/default"},
	} {
		status, _ = m.do(call[0], call[1], nil)
		require.Equal(t, 403, status, call)
	}
	status, _ = m.do("POST", "/controller/changePassword", url.Values{})
	require.Equal(t, 400, status)
	status, _ = m.do("POST", "/controller/changePassword", url.Values{"password": {"new"}})
	require.Equal(t, 400, status)
	status, _ = m.do("POST", "/controller/changePassword", url.Values{"password": {"newest"}})
	require.Equal(t, 200, status)
	status, _ = m.do("GET", "/whoami", nil)
	require.Equal(t, 401, status)
	m.user = "Administrator"
	status, _ = m.do("PUT", ann, url.Values{"password": {"password"}, "roles": {"admin"}})
	require.Equal(t, 200, status)
	m.user = "ann"
	status, _ = m.do("DELETE", ann, nil)
	require.Equal(t, 200, status)
	status, _ = m.do("GET", "/whoami", nil)
	require.Equal(t, 401, status)
	m.user = "Administrator"
	status, _ = m.do("DELETE", ann, nil)
	require.Equal(t, 404, status)
	status, _ = m.do("DELETE", "/settings/rbac/users/external/ann", nil)
	require.Equal(t, 404, status)
}

func TestStreamingConfigurations(t *testing.T) {
	for _, path := range []string{
		"/pools/default/bs/default", "/pools/default/bucketsStreaming/default",
		"/pools/default/nodeServicesStreaming", "/poolsStreaming/default",
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := mock.Start(t, mock.Virtual())
				m := newManager(t, c)
				req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+c.Node(0).ManagementAddr()+path,
					nil)
				require.NoError(t, err)
				req.SetBasicAuth("Administrator", "password")
				res, err := m.http.Do(req)
				require.NoError(t, err)
				defer res.Body.Close()
				in := bufio.NewReader(res.Body)
				for rev := range 3 {
					line, err := in.ReadString('\n')
					require.NoError(t, err)
					var config struct{ Rev int }
					require.NoError(t, json.Unmarshal([]byte(line), &config))
					if strings.Contains(path, "/default/") {
						require.Equal(t, rev+1, config.Rev)
					}
					for range 3 {
						b, err := in.ReadByte()
						require.NoError(t, err)
						require.Equal(t, byte('\n'), b)
					}
					c.BumpRevision()
				}
				if strings.Contains(path, "default/b") {
					require.NoError(t, c.DropBucket("default"))
					_, err = io.Copy(io.Discard, in)
					require.NoError(t, err, "the stream ends in order")
				}
			})
		})
	}
}

// With AnswersApart, a stream sends one map for all changes of an instant: the scheduler has no say in how many it
// sends.
func TestAStreamSendsOneMapForAnInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual(), mock.AnswersApart(time.Nanosecond))
		m := newManager(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+c.Node(0).ManagementAddr()+
			"/pools/default/bs/default", nil)
		require.NoError(t, err)
		req.SetBasicAuth("Administrator", "password")
		res, err := m.http.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		in, revs := json.NewDecoder(res.Body), make(chan int, 100)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				var config struct{ Rev int }
				if in.Decode(&config) != nil {
					return
				}
				revs <- config.Rev
			}
		}()
		synctest.Wait()
		require.Equal(t, 1, <-revs)
		for range 20 {
			c.BumpRevision()
			for range 10 {
				runtime.Gosched() // the stream's turn
			}
		}
		time.Sleep(time.Second)
		require.Equal(t, 21, <-revs)
		require.Empty(t, revs)
		cancel()
		<-done
	})
}

func TestSmallAnswersOfManagement(t *testing.T) {
	c := mock.Start(t, mock.TLS())
	require.NoError(t, c.PutDesignDocument("default", "d", `{"views":{}}`))
	m := newManager(t, c)
	for _, row := range []struct {
		path   string
		status int
		text   string
	}{
		{"/pools", 200, `"isAdminCreds":true`},
		{"/pools/default", 200, `"services":["kv","n1ql","fts","cbas","eventing"]`},
		{"/pools/default/tasks", 200, "notRunning"},
		{"/pools/default/certificate", 200, "BEGIN CERTIFICATE"},
		{bucketsPath + "/default/ddocs", 200, `"json":{"views":{}},"meta":{"id":"_design/d","rev":"1-mock"}}}]}`},
	} {
		status, body := m.do("GET", row.path, nil)
		require.Equal(t, row.status, status, row.path)
		require.Contains(t, string(body), row.text, row.path)
	}
	status, _ := newManager(t, mock.Start(t)).do("GET", "/pools/default/certificate", nil)
	require.Equal(t, 404, status)
	c.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/tasks", Times: 1}, mock.Answer{
		Status: 503,
		Body:   []byte("{}"),
	})
	status, _ = m.do("GET", "/pools/default/tasks", nil)
	require.Equal(t, 503, status)
	require.Len(t, c.ServiceLog(mock.ManagementService), 6)
}

// A bucket made over HTTP takes documents.
func TestABucketMadeOverHTTPReachesKV(t *testing.T) {
	c := mock.Start(t, mock.NoBuckets())
	status, _ := newManager(t, c).do("POST", bucketsPath, url.Values{"name": {"default"}, "ramQuotaMB": {"256"}})
	require.Equal(t, 202, status)
	r := login(t, c, baseFeatures...)
	r.set("k", "1")
	require.Equal(t, "1", string(r.call(memd.Packet{Opcode: memd.OpGet, Key: docKey("k")}).Value))
}
