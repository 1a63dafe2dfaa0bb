package mock_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// unguarded are the keys that the C++ core, and with it the SDKs for Node.js, Python, Ruby and PHP, reads without
// looking whether they are there: a key that is missing, or has another type, ends the whole process. A path names
// members with dots, elements of arrays with "[]" and all members of an object with "{}"; behind the colon is the type,
// with a question mark for what may be missing but must have that type. From couchbase-cxx-client,
// core/management/*_json.hxx, core/operations/management/*.cxx and core/topology.
var unguarded = map[string][]string{
	"bucket": {
		"name:string", "uuid:string", "quota.rawRAM:unsigned", "replicaNumber:unsigned?", "maxTTL:unsigned?",
		"historyRetentionCollectionDefault:bool?", "historyRetentionBytes:unsigned?",
		"historyRetentionSeconds:unsigned?", "bucketType:string", "compressionMode:string?", "evictionPolicy:string",
		"storageBackend:string?",
		"durabilityMinLevel:string?", "conflictResolutionType:string", "controllers:object", "replicaIndex:bool?",
		"bucketCapabilities[]:string", "nodes[].status:string", "nodes[].hostname:string", "nodes[].version:string",
		"nodes[].services[]:string", "nodes[].ports{}:unsigned",
	},
	"user": {
		"domain:string", "id:string", "name:string?", "password_change_date:string?", "external_groups[]:string",
		"groups[]:string", "roles[].role:string", "roles[].bucket_name:string?", "roles[].scope_name:string?",
		"roles[].collection_name:string?", "roles[].origins[].type:string", "roles[].origins[].name:string?",
	},
	"role": {
		"role:string", "name:string", "desc:string", "bucket_name:string?", "scope_name:string?",
		"collection_name:string?",
	},
	"group": {
		"id:string", "description:string?", "ldap_group_ref:string?", "roles[].role:string",
		"roles[].bucket_name:string?", "roles[].scope_name:string?", "roles[].collection_name:string?",
	},
	"cluster": {
		"nodes[].hostname:string", "nodes[].otpNode:string", "nodes[].version:string", "nodes[].os:string",
		"nodes[].status:string", "nodes[].services[]:string", "bucketNames[].bucketName:string",
		"bucketNames[].uuid:string",
	},
	"manifest": {
		"uid:string", "scopes[].uid:string", "scopes[].name:string", "scopes[].collections[].uid:string",
		"scopes[].collections[].name:string", "scopes[].collections[].maxTTL:number?",
		"scopes[].collections[].history:bool?",
	},
	"error map": {
		"version:unsigned", "revision:unsigned", "errors{}.name:string", "errors{}.desc:string",
		"errors{}.attrs[]:string",
	},
	"search indexes": {
		"status:string", "indexDefs.indexDefs{}.uuid:string", "indexDefs.indexDefs{}.name:string",
		"indexDefs.indexDefs{}.type:string",
	},
	"search index": {"status:string", "indexDef.uuid:string", "indexDef.name:string", "indexDef.type:string"},
	"query index": {
		"name:string", "state:string", "using:string", "index_key[]:string", "is_primary:bool?", "keyspace_id:string",
		"namespace_id:string", "bucket_id:string?", "scope_id:string?", "condition:string?",
	},
	"deferred index":  {":string"},
	"dataset":         {"DatasetName:string", "DataverseName:string", "LinkName:string", "BucketName:string"},
	"link":            {"name:string", "dataverse:string", "scope:string", "type:string"},
	"s3 link":         {"accessKeyId:string", "region:string", "serviceEndpoint:string?"},
	"remote link":     {"activeHostname:string", "encryption:string?", "username:string?"},
	"analytics index": {"IndexName:string", "DataverseName:string", "DatasetName:string", "IsPrimary:bool"},
	"bucket map":      {"name:string", "uuid:string"},
}

// lookup are the values at a path, and how many of its ends are missing.
func lookup(v any, path string) (found []any, missing int) {
	if path == "" {
		return []any{v}, 0
	}
	head, tail, _ := strings.Cut(path, ".")
	name := strings.TrimSuffix(strings.TrimSuffix(head, "[]"), "{}")
	if name != "" {
		members, _ := v.(map[string]any)
		inner, ok := members[name]
		if !ok {
			return nil, 1
		}
		v = inner
	}
	var all []any
	switch {
	case strings.HasSuffix(head, "[]"):
		list, ok := v.([]any)
		if !ok {
			return nil, 1
		}
		all = list
	case strings.HasSuffix(head, "{}"):
		members, ok := v.(map[string]any)
		if !ok {
			return nil, 1
		}
		for _, inner := range members {
			all = append(all, inner)
		}
	default:
		all = []any{v}
	}
	for _, inner := range all {
		f, m := lookup(inner, tail)
		found, missing = append(found, f...), missing+m
	}
	return found, missing
}

func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case map[string]any:
		return "object"
	case json.Number:
		if _, err := v.Int64(); err == nil && !strings.HasPrefix(v.String(), "-") {
			return "unsigned"
		}
		return "number"
	}
	return fmt.Sprintf("%T", v)
}

func requireKeys(t *testing.T, what, text string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), "%s: %s", what, text)
	for _, key := range unguarded[what] {
		path, kind, _ := strings.Cut(key, ":")
		found, missing := lookup(v, path)
		optional := strings.HasSuffix(kind, "?")
		kind = strings.TrimSuffix(kind, "?")
		require.True(t, optional || missing == 0, "%s: %s is missing in %s", what, path, text)
		for _, one := range found {
			got := kindOf(one)
			require.True(t, got == kind || kind == "number" && got == "unsigned", "%s: %s is %s %v", what, path, got,
				one)
		}
	}
}

// requireEach holds each element of a list against the keys, and wants at least one.
func requireEach(t *testing.T, what, text string) {
	t.Helper()
	var list []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(text), &list), text)
	require.NotEmpty(t, list, what)
	for _, one := range list {
		requireKeys(t, what, string(one))
	}
}

func TestNoAnswerEndsAClientOfTheCPlusPlusCore(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16, mock.WithCollection("s", "c")),
		mock.Bucket("eph", 16, mock.Ephemeral()))
	m := newManager(t, c)
	for _, form := range []string{
		"name=made&ramQuotaMB=150&replicaNumber=1&maxTTL=5&durabilityMinLevel=majority&compressionMode=active",
		"name=magma&ramQuotaMB=1024&storageBackend=magma&historyRetentionSeconds=60&historyRetentionBytes=2147483648",
	} {
		status, body := m.ask("POST", bucketsPath, "application/x-www-form-urlencoded", form)
		require.Equal(t, 202, status, body)
	}
	for _, path := range []string{"/settings/rbac/groups/g", "/settings/rbac/users/local/u"} {
		form := url.Values{"roles": {"data_reader[default:s:c],ro_admin"}}
		if strings.Contains(path, "users") {
			form.Set("password", "password")
			form.Set("groups", "g")
		} else {
			form.Set("description", "d")
		}
		status, body := m.do("PUT", path, form)
		require.Equal(t, 200, status, string(body))
	}
	get := func(path string) string {
		status, body := m.do("GET", path, nil)
		require.Equal(t, 200, status, path)
		return string(body)
	}
	requireEach(t, "bucket", get(bucketsPath))
	for _, name := range []string{"default", "eph", "made", "magma"} {
		requireKeys(t, "bucket", get(bucketsPath+"/"+name))
		requireKeys(t, "bucket map", get("/pools/default/b/"+name))
		requireKeys(t, "manifest", get(bucketsPath+"/"+name+"/scopes"))
	}
	requireEach(t, "user", get("/settings/rbac/users"))
	requireEach(t, "user", get("/settings/rbac/users/local"))
	requireKeys(t, "user", get("/settings/rbac/users/local/u"))
	requireEach(t, "role", get("/settings/rbac/roles"))
	requireEach(t, "group", get("/settings/rbac/groups"))
	requireKeys(t, "group", get("/settings/rbac/groups/g"))
	requireKeys(t, "cluster", get("/pools/default"))
	requireKeys(t, "cluster", get("/pools/nodes"))
	r := login(t, c, baseFeatures...)
	for _, version := range []string{"\x00\x01", "\x00\x02"} {
		res := r.call(memd.Packet{Opcode: memd.OpGetErrorMap, Value: []byte(version)})
		requireKeys(t, "error map", string(res.Value))
	}
}

// serviceCall sends a request to a service of node 0.
func (m *manager) serviceCall(s mock.Service, method, path, kind, body string) string {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), method, "http://"+m.c.Node(0).ServiceAddr(s)+path,
		strings.NewReader(body))
	require.NoError(m.t, err)
	req.Header.Set("Content-Type", kind)
	req.SetBasicAuth("Administrator", "password")
	res, err := m.http.Do(req)
	require.NoError(m.t, err)
	defer res.Body.Close()
	require.Equal(m.t, 200, res.StatusCode, path)
	var all json.RawMessage
	require.NoError(m.t, json.NewDecoder(res.Body).Decode(&all))
	return string(all)
}

func (m *manager) rows(statement string) string {
	m.t.Helper()
	body, err := json.Marshal(map[string]string{"statement": statement})
	require.NoError(m.t, err)
	var out struct{ Results json.RawMessage }
	require.NoError(m.t, json.Unmarshal([]byte(m.serviceCall(mock.QueryService, "POST", "/query/service",
		"application/json", string(body))), &out))
	return string(out.Results)
}

// Indexes are listed as the statements of SDKs ask for them: one element of index_key for each key, and the names of
// deferred ones as texts.
func TestIndexesAsSDKsListThem(t *testing.T) {
	m := newManager(t, mock.Start(t, mock.Bucket("default", 16, mock.WithCollection("s", "c"))))
	m.rows("CREATE PRIMARY INDEX ON `default`")
	m.rows("CREATE INDEX two ON `default`(a, b) WHERE c > 1")
	m.rows("CREATE INDEX late ON `default`.`s`.`c`(a) WITH {\"defer_build\":true}")
	m.rows("CREATE INDEX early ON `default`(z) WITH {\"defer_build\":true}")
	const where = ` WHERE ((bucket_id IS MISSING AND keyspace_id = "default") OR bucket_id = "default") AND ` +
		"`using`=\"gsi\" "
	all := m.rows("SELECT idx.* FROM system:indexes AS idx" + where + "ORDER BY is_primary DESC, name ASC")
	requireEach(t, "query index", all)
	var list []struct {
		Name string
		Keys []string `json:"index_key"`
	}
	require.NoError(t, json.Unmarshal([]byte(all), &list))
	require.Len(t, list, 4)
	for _, ix := range list {
		if ix.Name == "two" {
			require.Equal(t, []string{"`a`", "`b`"}, ix.Keys)
		}
	}
	deferred := m.rows("SELECT RAW name FROM system:indexes WHERE keyspace_id = \"default\" AND bucket_id IS MISSING " +
		"AND state = \"deferred\"")
	require.JSONEq(t, `["early"]`, deferred)
	requireEach(t, "deferred index", deferred)
	m.rows("BUILD INDEX ON `default`(`early`)")
	require.JSONEq(t, `[]`, m.rows("SELECT RAW name FROM system:indexes WHERE keyspace_id = \"default\" AND bucket_id "+
		"IS MISSING AND state = \"deferred\""))
}

func TestSearchIndexesAsSDKsListThem(t *testing.T) {
	m := newManager(t, mock.Start(t))
	const kind = "application/json"
	for _, path := range []string{"/api/index/i", "/api/bucket/default/scope/_default/index/i"} {
		m.serviceCall(mock.SearchService, "PUT", path, kind,
			`{"name":"i","type":"fulltext-index","sourceType":"couchbase","sourceName":"default"}`)
		requireKeys(t, "search index", m.serviceCall(mock.SearchService, "GET", path, kind, ""))
		list := strings.TrimSuffix(path, "/i")
		requireKeys(t, "search indexes", m.serviceCall(mock.SearchService, "GET", list, kind, ""))
	}
	require.Contains(t, m.serviceCall(mock.SearchService, "GET", "/api/stats/index/i", kind, ""), "pindexes")
	require.Contains(t, m.serviceCall(mock.SearchService, "GET", "/api/stats", kind, ""), `"default:i:doc_count":0`)
	require.Contains(t, m.serviceCall(mock.SearchService, "GET", "/api/nsstats", kind, ""), "doc_count")
}

// Datasets and indexes of the analytics service are listed by SQL++ over its metadata; every row has the keys that are
// read without a look.
func TestAnalyticsMetadataAsSDKsListIt(t *testing.T) {
	m := newManager(t, mock.Start(t))
	ask := func(statement string) string {
		body, err := json.Marshal(map[string]string{"statement": statement})
		require.NoError(t, err)
		var out struct{ Results json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(m.serviceCall(mock.AnalyticsService, "POST", "/analytics/service",
			"application/json", string(body))), &out))
		return string(out.Results)
	}
	ask("CREATE DATASET ds ON `default`")
	ask("CREATE INDEX ix ON ds (a:string)")
	const elsewhere = " d WHERE d.DataverseName <> \"Metadata\""
	requireEach(t, "dataset", ask("SELECT d.* FROM Metadata.`Dataset`"+elsewhere+" AND d.DatasetType = \"INTERNAL\""))
	requireEach(t, "analytics index", ask("SELECT d.* FROM Metadata.`Index`"+elsewhere))
	require.JSONEq(t, `[{"n":"ds"}]`, ask("SELECT `Dataset`.DatasetName AS n FROM Metadata.`Dataset`"))
	require.Contains(t, ask("SELECT * FROM Metadata.`Dataverse`"), `{"Dataverse":{`)
}

// Links are kept without their secrets, and refused in the analytics service's words.
func TestAnalyticsLinksAsSDKsManageThem(t *testing.T) {
	c := mock.Start(t)
	m := newManager(t, c)
	const path = "/analytics/link"
	ask := func(method, path, form string, status int) string {
		got, body := m.askAt(c.Node(0).ServiceAddr(mock.AnalyticsService), method, path, formKind, form)
		require.Equal(t, status, got, "%s %s %s: %s", method, path, form, body)
		return body
	}
	const s3 = "dataverse=Default&name=a&type=s3&accessKeyId=k&secretAccessKey=hidden&region=r"
	require.Empty(t, ask("POST", path, s3, 200))
	require.Contains(t, ask("POST", path, s3, 400), `"code":24055`)
	require.Contains(t, ask("POST", path, "dataverse=x&name=a&type=s3", 400), `"code":24034`)
	require.Contains(t, ask("POST", path, "dataverse=Default&name=b&type=s3", 400), "accessKeyId")
	ask("PUT", path, "dataverse=Default&name=a&type=s3&accessKeyId=k2&secretAccessKey=hidden&region=r", 200)
	ask("POST", path+"/Default/b", "type=couchbase&hostname=h&password=hidden&encryption=none", 200)
	all := ask("GET", path, "", 200)
	requireEach(t, "link", all)
	require.NotContains(t, all, "hidden")
	requireEach(t, "s3 link", ask("GET", path+"?type=s3", "", 200))
	requireEach(t, "remote link", ask("GET", path+"/Default?name=b", "", 200))
	require.Empty(t, ask("DELETE", path, "dataverse=Default&name=a", 200))
	require.Contains(t, ask("DELETE", path+"/Default/a", "", 400), `"code":24006`)
}
