package mock_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

const formKind = "application/x-www-form-urlencoded"

func (m *manager) object(path string) map[string]any {
	m.t.Helper()
	status, body := m.ask("GET", path, "", "")
	require.Equal(m.t, 200, status, body)
	var out map[string]any
	require.NoError(m.t, json.Unmarshal([]byte(body), &out))
	return out
}

// requireMembers holds some members of an object against what they should be.
func requireMembers(t *testing.T, want, got map[string]any) {
	t.Helper()
	for name, value := range want {
		require.EqualValues(t, value, got[name], name)
	}
}

// Every setting that a form writes is read back, and one that no form names stays as it is.
func TestBucketSettingsAreReadBack(t *testing.T) {
	m := newManager(t, mock.Start(t, mock.Nodes(3)))
	status, body := m.ask("POST", bucketsPath, formKind, "name=b&ramQuotaMB=150&replicaNumber=2&replicaIndex=0&"+
		"evictionPolicy=fullEviction&flushEnabled=1&compressionMode=active&conflictResolutionType=lww&"+
		"durabilityMinLevel=majority&maxTTL=60&threadsNumber=8&rank=5&storageBackend=couchstore")
	require.Equal(t, 202, status, body)
	want := map[string]any{
		"replicaNumber": 2, "replicaIndex": false, "evictionPolicy": "fullEviction", "compressionMode": "active",
		"conflictResolutionType": "lww", "durabilityMinLevel": "majority", "maxTTL": 60, "threadsNumber": 8,
		"storageBackend": "couchstore", "bucketType": "membase", "driftAheadThresholdMs": 5000,
	}
	b := m.object(bucketsPath + "/b")
	requireMembers(t, want, b)
	requireMembers(t, map[string]any{"rawRAM": 150 << 20, "ram": 450 << 20}, b["quota"].(map[string]any))
	require.Contains(t, b["controllers"], "flush")

	status, body = m.ask("POST", bucketsPath+"/b", formKind,
		"maxTTL=7&flushEnabled=0&compressionMode=off&ramQuotaMB=200")
	require.Equal(t, 200, status, body)
	want["maxTTL"], want["compressionMode"] = 7, "off"
	b = m.object(bucketsPath + "/b")
	requireMembers(t, want, b)
	require.NotContains(t, b["controllers"], "flush")

	status, body = m.ask("POST", bucketsPath, formKind, "name=m&ramQuota=1024&storageBackend=magma&"+
		"historyRetentionSeconds=60&historyRetentionBytes=2147483648&storageQuotaPercentage=40&"+
		"historyRetentionCollectionDefault=false")
	require.Equal(t, 202, status, body)
	requireMembers(t, map[string]any{
		"storageBackend": "magma", "historyRetentionSeconds": 60, "historyRetentionBytes": int64(2147483648),
		"storageQuotaPercentage": 40, "historyRetentionCollectionDefault": false, "evictionPolicy": "fullEviction",
	}, m.object(bucketsPath+"/m"))
	require.Contains(t, m.object("/pools/default/b/m")["bucketCapabilities"], "nonDedupedHistory")

	status, body = m.ask("POST", bucketsPath, formKind, "name=e&ramQuotaMB=100&bucketType=ephemeral")
	require.Equal(t, 202, status, body)
	b = m.object(bucketsPath + "/e")
	requireMembers(t, map[string]any{"bucketType": "ephemeral", "evictionPolicy": "noEviction"}, b)
	require.NotContains(t, b, "replicaIndex")
}

// What is wrong about a bucket's settings is said in ns_server's words, each under the name of its field.
func TestBucketSettingsThatAreRefused(t *testing.T) {
	m := newManager(t, mock.Start(t, mock.Nodes(2)))
	const fine = "name=b&ramQuotaMB=100&"
	for _, row := range []struct{ form, field, text string }{
		{"ramQuotaMB=100", "name", "Bucket name needs to be specified"},
		{"name=&ramQuotaMB=100", "name", "Bucket name cannot be empty"},
		{"name=.b&ramQuotaMB=100", "name", "Bucket name cannot start with dot."},
		{"name=DEFAULT&ramQuotaMB=100", "name", "Bucket with given name already exists"},
		{"name=b", "ramQuota", "The RAM Quota must be specified and must be a positive integer."},
		{"name=b&ramQuotaMB=-1", "ramQuota", "The RAM Quota cannot be negative."},
		{"name=b&ramQuotaMB=99", "ramQuota", "RAM quota cannot be less than 100 MiB"},
		{fine + "bucketType=x", "bucketType", "invalid bucket type"},
		{fine + "replicaNumber=4", "replicaNumber", "Replica number larger than 3 is not supported."},
		{
			fine + "replicaNumber=x", "replicaNumber",
			"The replica number must be specified and must be a non-negative integer.",
		},
		{fine + "flushEnabled=x", "flushEnabled", "flushEnabled can only be 1 or 0"},
		{fine + "replicaIndex=x", "replicaIndex", "replicaIndex can only be 1 or 0"},
		{
			fine + "bucketType=ephemeral&replicaIndex=1", "replicaIndex",
			"replicaIndex not supported for ephemeral buckets",
		},
		{
			fine + "evictionPolicy=noEviction", "evictionPolicy",
			"Eviction policy must be either 'valueOnly' or 'fullEviction' for couchbase buckets",
		},
		{
			fine + "bucketType=ephemeral&evictionPolicy=valueOnly", "evictionPolicy",
			"Eviction policy must be either 'noEviction' or 'nruEviction' for ephemeral buckets",
		},
		{fine + "compressionMode=x", "compressionMode", "compressionMode can be set to 'off', 'passive' or 'active'"},
		{fine + "maxTTL=-1", "maxTTL", "Max TTL must be an integer between 0 and 2147483647"},
		{
			fine + "conflictResolutionType=x", "conflictResolutionType",
			"Conflict resolution type must be 'seqno' or 'lww' or 'custom'",
		},
		{
			fine + "bucketType=ephemeral&durabilityMinLevel=persistToMajority", "durability_min_level",
			"Durability minimum level must be either 'none' or 'majority' for ephemeral buckets",
		},
		{
			fine + "durabilityMinLevel=majority&replicaNumber=3", "durability_min_level",
			"Durability minimum level cannot be specified with 3 replicas",
		},
		{fine + "storageBackend=x", "storage_mode", "storage backend must be couchstore or magma"},
		{
			fine + "storageBackend=couchstore&historyRetentionSeconds=1", "historyRetentionSeconds",
			"History Retention can only used with Magma",
		},
		{fine + "threadsNumber=9", "threadsNumber", "The number of threads can't be greater than 8"},
	} {
		status, body := m.ask("POST", bucketsPath, formKind, row.form)
		require.Equal(t, 400, status, row.form)
		var out struct {
			Errors    map[string]string
			Summaries map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(body), &out), body)
		require.Equal(t, row.text, out.Errors[row.field], "%s: %s", row.form, body)
		require.Contains(t, out.Summaries, "ramSummary")
	}
	for form, field := range map[string]string{
		"conflictResolutionType=lww": "conflictResolutionType", "numVBuckets=7": "numVBuckets",
		"ramQuotaMB=1": "ramQuota", "maxTTL=x": "maxTTL",
	} {
		status, body := m.ask("POST", bucketsPath+"/default", formKind, form)
		require.Equal(t, 400, status, form)
		require.Contains(t, body, `"`+field+`":`, form)
	}
	status, body := m.ask("POST", bucketsPath+"?just_validate=1", formKind, "name=v&ramQuotaMB=100")
	require.Equal(t, 200, status, body)
	status, _ = m.ask("GET", bucketsPath+"/v", "", "")
	require.Equal(t, 404, status, "it was only checked")
}

// The settings act: the bucket's time to live, its least durability, and replicas after the next rebalance.
func TestBucketSettingsAct(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.NoBuckets(), mock.VBuckets(4))
	m := newManager(t, c)
	status, body := m.ask("POST", bucketsPath, formKind, "name=default&ramQuotaMB=100&maxTTL=60&replicaNumber=0")
	require.Equal(t, 202, status, body)
	status, body = m.ask("POST", bucketsPath+"/default/docs/k", formKind, `flags=7&value={"a":1}`)
	require.Equal(t, 200, status, body)
	docs := c.Documents("default")
	require.Len(t, docs, 1)
	require.NotZero(t, docs[0].Expiry, "the bucket's maxTTL")
	status, body = m.ask("POST", bucketsPath+"/default", formKind, "replicaNumber=1&durabilityMinLevel=majority")
	require.Equal(t, 200, status, body)
	require.Contains(t, string(c.ConfigJSON("default")), `"numReplicas":0`)
	require.Equal(t, false, m.object("/pools/default")["balanced"])
	require.NoError(t, c.Rebalance())
	require.Contains(t, string(c.ConfigJSON("default")), `"numReplicas":1`)
	require.Equal(t, true, m.object("/pools/default")["balanced"])
	require.EqualValues(t, 1, m.object(bucketsPath + "/default")["basicStats"].(map[string]any)["itemCount"])
}

// Documents and random keys are those of the bucket.
func TestDocumentsOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 4, mock.WithCollection("s", "c")))
	m := newManager(t, c)
	r := login(t, c, baseFeatures...)
	const place = bucketsPath + "/default/scopes/s/collections/c"
	for _, path := range []string{bucketsPath + "/default", place} {
		status, body := m.ask("GET", path+"/localRandomKey", "", "")
		require.Equal(t, 404, status)
		require.JSONEq(t, `{"ok":false,"error":"fallback_to_all_docs"}`, body)
		status, _ = m.ask("GET", path+"/docs/a%2Fb", "", "")
		require.Equal(t, 404, status)
		for _, key := range []string{"a%2Fb", "c"} {
			status, body = m.ask("POST", path+"/docs/"+key, formKind, `flags=7&value=%7B%22a%22%3A1%7D`)
			require.Equal(t, 200, status, body)
		}
		got := m.object(path + "/docs/a%2Fb")
		require.Equal(t, `{"a":1}`, got["json"])
		requireMembers(t, map[string]any{"id": "a/b", "flags": 7, "expiration": 0}, got["meta"].(map[string]any))
		require.Contains(t, []any{"a/b", "c"}, m.object(path + "/localRandomKey")["key"])
		_, body = m.ask("GET", path+"/docs?limit=1&skip=1&include_docs=true", "", "")
		require.Contains(t, body, `"id":"c"`)
		require.Contains(t, body, `"json":{"a":1}`)
		_, body = m.ask("GET", path+"/docs?startkey=%22b%22", "", "")
		require.JSONEq(t, `{"rows":[{"id":"c"}]}`, body)
		status, _ = m.ask("DELETE", path+"/docs/c", "", "")
		require.Equal(t, 200, status)
		_, body = m.ask("GET", path+"/docs", "", "")
		require.JSONEq(t, `{"rows":[{"id":"a/b"}]}`, body)
	}
	require.Equal(t, `{"a":1}`, string(r.call(memd.Packet{
		Opcode: memd.OpGet, Key: docKey("a/b"),
		VBucket: mock.VBucketOf([]byte("a/b"), 4),
	}).Value))
}

// Manifests are replaced and collections changed, and refusals have ns_server's status and words.
func TestManifestErrorsOverHTTP(t *testing.T) {
	m := newManager(t, mock.Start(t, mock.Bucket("default", 4, mock.WithCollection("s", "c"))))
	const scopes = bucketsPath + "/default/scopes"
	for _, row := range []struct {
		request, form string
		status        int
		text          string
	}{
		{"POST " + scopes, "name=s", 400, `{"errors":{"_":"Scope with name \"s\" already exists"}}`},
		{"POST " + scopes, "", 400, `{"errors":{"name":"The value must be supplied"}}`},
		{"POST " + scopes, "name=_s", 400, `{"errors":{"name":"First character must not be _ or %"}}`},
		{"POST " + scopes, "name=x&y=1", 400, `{"errors":{"y":"Unsupported key"}}`},
		{"DELETE " + scopes + "/x", "", 404, `{"errors":{"_":"Scope with name \"x\" is not found"}}`},
		{"DELETE " + scopes + "/_default", "", 400, `{"errors":{"_":"Deleting _default scope is not allowed"}}`},
		{
			"POST " + scopes + "/s/collections", "name=c", 400,
			`{"errors":{"_":"Collection with name \"c\" in scope \"s\" already exists"}}`,
		},
		{"POST " + scopes + "/x/collections", "name=c", 404, `{"errors":{"_":"Scope with name \"x\" is not found"}}`},
		{
			"POST " + scopes + "/s/collections", "name=d&maxTTL=-2", 400,
			`{"errors":{"maxTTL":"The value must be in range from -1 to 2147483647 (inclusive)"}}`,
		},
		{"POST " + scopes + "/s/collections", "name=d&history=true", 400, "Not allowed on this type of bucket"},
		{"PATCH " + scopes + "/s/collections/c", "name=d", 400, `{"errors":{"name":"Unsupported key"}}`},
		{"PATCH " + scopes + "/s/collections/c", "history=false&maxTTL=3", 200, ""},
		{
			"DELETE " + scopes + "/s/collections/x", "", 404,
			`{"errors":{"_":"Collection with name \"x\" in scope \"s\" is not found"}}`,
		},
		{"PUT " + scopes + "?validOnUid=ff", "{}", 400, ""},
		{"PUT " + scopes, `{"scopes":[{"name":"_default","collections":[{"name":"_default"},{"name":"n"}]}]}`, 200, ""},
	} {
		method, path, _ := strings.Cut(row.request, " ")
		status, body := m.ask(method, path, formKind, row.form)
		require.Equal(t, row.status, status, "%s %s: %s", row.request, row.form, body)
		if row.text != "" {
			require.Equal(t, row.text, body, row.request)
		}
	}
	_, body := m.ask("GET", scopes, "", "")
	require.Contains(t, body, `"name":"n"`)
	require.NotContains(t, body, `"name":"s"`)
}
