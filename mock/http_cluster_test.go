package mock_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// post sends a form and wants a status; it returns the body.
func (m *manager) post(path, form string, status int) string {
	m.t.Helper()
	got, body := m.ask("POST", path, formKind, form)
	require.Equal(m.t, status, got, "%s %s: %s", path, form, body)
	return body
}

// memberships are the nodes of the pool: what the cluster thinks of each, by name.
func (m *manager) memberships() map[string]string { return m.ofNodes("clusterMembership") }

// ofNodes is a member of each node.
func (m *manager) ofNodes(member string) map[string]string {
	out := map[string]string{}
	for _, n := range m.object("/pools/default")["nodes"].([]any) {
		node := n.(map[string]any)
		out[node["otpNode"].(string)] = node[member].(string)
	}
	return out
}

// What is written to a page of settings is read back; a form with one wrong field changes nothing.
func TestSettingsAreReadBack(t *testing.T) {
	m := newManager(t, mock.Start(t))
	for _, row := range []struct {
		path, form string
		want       map[string]any
	}{
		{"/settings/querySettings", "queryTimeout=7&queryUseCBO=false&queryLogLevel=debug", map[string]any{
			"queryTimeout": 7, "queryUseCBO": false, "queryLogLevel": "debug", "queryScanCap": 512,
		}},
		{"/settings/indexes", "numReplica=2&storageMode=memory_optimized", map[string]any{
			"numReplica": 2, "storageMode": "memory_optimized", "maxRollbackPoints": 2,
		}},
		{"/settings/autoFailover", "enabled=true&timeout=30&maxCount=3", map[string]any{
			"enabled": true, "timeout": 30, "maxCount": 3, "count": 0,
		}},
		{"/settings/stats", "sendStats=true", map[string]any{"sendStats": true}},
		{"/settings/security", "tlsMinVersion=tlsv1.3", map[string]any{"tlsMinVersion": "tlsv1.3"}},
		{"/internalSettings", "maxBucketCount=40&myOwn=x", map[string]any{"maxBucketCount": 40, "myOwn": "x"}},
		{"/settings/alerts", "enabled=true&recipients=a,b", map[string]any{
			"enabled": true, "recipients": []any{"a", "b"},
		}},
		{"/settings/retryRebalance", "enabled=true", map[string]any{"enabled": true, "maxAttempts": 1}},
		{"/settings/passwordPolicy", "minLength=8", map[string]any{"minLength": 8}},
	} {
		m.post(row.path, row.form, 200)
		requireMembers(t, row.want, m.object(row.path))
	}
	m.post("/controller/setAutoCompaction", "databaseFragmentationThreshold[percentage]=44", 200)
	compaction := m.object("/settings/autoCompaction")["autoCompactionSettings"].(map[string]any)
	require.EqualValues(t, 44, compaction["databaseFragmentationThreshold"].(map[string]any)["percentage"])
	for _, row := range []struct{ path, body, want, wrong string }{
		{
			"/settings/appTelemetry", `{"maxScrapeClientsPerNode":5}`, `"maxScrapeClientsPerNode":5`,
			`{"enabled":"x"}`,
		},
		{"/settings/ldap", `{"hosts":["a","b"],"port":3389,"userDNMapping":{"template":"x"}}`, `"hosts":["a","b"]`, `{`},
		{"/settings/metrics", `{"retentionSize":7}`, `"retentionSize":7`, `{"retentionSize":"x"}`},
		{
			"/settings/resourceManagement", `{"diskUsage":{"enabled":true},"bucket":{"residentRatio":{"magmaMinimum":0.3}}}`,
			`"diskUsage":{"enabled":true,"maximum":96}`, `{"diskUsage":{"enabled":true,"minimum":1}}`,
		},
	} {
		status, body := m.ask("POST", row.path, "application/json", row.body)
		require.Equal(t, 200, status, body)
		_, body = m.ask("GET", row.path, "", "")
		require.Contains(t, body, row.want)
		status, body = m.ask("POST", row.path, "application/json", row.wrong)
		require.Equal(t, 400, status, body)
	}
	m.post("/settings/resourceManagement", "diskUsage/maximum=90", 200)
	requireMembers(t, map[string]any{"enabled": true, "maximum": 90},
		m.object("/settings/resourceManagement")["diskUsage"].(map[string]any))
	for _, row := range []struct{ path, form, want string }{
		{
			"/settings/querySettings", "queryTimeout=x&queryScanCap=1",
			`{"errors":{"queryTimeout":"The value must be an integer"}}`,
		},
		{"/settings/querySettings", "nothing=1", `{"errors":{"nothing":"Unsupported key"}}`},
		{"/settings/autoFailover", "timeout=30", `{"errors":{"enabled":"The value must be supplied"}}`},
		{
			"/settings/autoFailover", "enabled=true&timeout=0",
			`{"errors":{"timeout":"The value must be in range from 1 to 3600 (inclusive)"}}`,
		},
		{
			"/settings/stats", "sendStats=1",
			`{"errors":{"sendStats":"The value must be one of the following: [true,false]"}}`,
		},
	} {
		require.Equal(t, row.want, m.post(row.path, row.form, 400))
	}
	requireMembers(t, map[string]any{"queryTimeout": 7, "queryScanCap": 512}, m.object("/settings/querySettings"))
}

// The set-up calls of a fresh node check what they get, and what they set is read back.
func TestClusterSetUpOverHTTP(t *testing.T) {
	c := mock.Start(t)
	m := newManager(t, c)
	m.post("/pools/default", "clusterName=lab&memoryQuota=300&ftsMemoryQuota=400", 200)
	pool := m.object("/pools/default")
	requireMembers(t, map[string]any{"clusterName": "lab", "memoryQuota": 300, "ftsMemoryQuota": 400}, pool)
	require.Contains(t, string(c.ConfigJSON("")), `"clusterName":"lab"`)
	require.Contains(t, m.post("/pools/default", "memoryQuota=10", 400), "cannot be less than 256MB")
	require.Contains(t, m.post("/pools/default", "", 400), "Request should have parameters")
	require.Contains(t, m.post("/node/controller/setupServices", "services=n1ql", 400), "without kv")
	require.Contains(t, m.post("/node/controller/setupServices", "services=kv,x", 400), "Unknown services")
	require.Contains(t, m.post("/settings/web", "username=a", 400), `"password":"The value must be supplied"`)
	require.Contains(t, m.post("/clusterInit", "services=kv&username=root&password=password&port=SAME&memoryQuota=256&"+
		"clusterName=new&sendStats=true", 200), "newBaseUri")
	m.user = "root"
	who := m.object("/whoami")
	requireMembers(t, map[string]any{"id": "root", "domain": "admin"}, who)
	require.Equal(t, "new", m.object("/pools/default")["clusterName"])
	require.Equal(t, true, m.object("/settings/stats")["sendStats"])
}

// An alternate address is in every configuration, with the ports that were named, until it is taken back.
func TestAlternateAddressesOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Services(mock.KVService, mock.QueryService))
	m := newManager(t, c)
	const path = "/node/controller/setupAlternateAddresses/external"
	status, body := m.ask("PUT", path, formKind, "hostname=203.0.113.7&kv=31210&n1ql=30093&mgmt=30091")
	require.Equal(t, 200, status, body)
	for _, text := range []string{string(c.ConfigJSON("default")), string(c.ConfigJSON(""))} {
		var config struct {
			NodesExt []struct {
				AlternateAddresses map[string]struct {
					Hostname string
					Ports    map[string]int
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &config))
		external := config.NodesExt[0].AlternateAddresses["external"]
		require.Equal(t, "203.0.113.7", external.Hostname)
		require.Equal(t, map[string]int{"kv": 31210, "n1ql": 30093, "mgmt": 30091}, external.Ports)
		require.Empty(t, config.NodesExt[1].AlternateAddresses, "only the node that was asked has one")
	}
	node := m.object("/nodes/self")["alternateAddresses"].(map[string]any)["external"].(map[string]any)
	require.Equal(t, "203.0.113.7", node["hostname"])
	require.EqualValues(t, 31210, node["ports"].(map[string]any)["kv"])
	status, body = m.ask("PUT", path, formKind, "hostname=203.0.113.8")
	require.Equal(t, 200, status, body)
	require.Contains(t, string(c.ConfigJSON("")), `"alternateAddresses":{"external":{"hostname":"203.0.113.8"}}`)
	for form, want := range map[string]string{
		"kv=31210": "The value must be supplied", "hostname=h&kv=80": "in range from 1024 to 65535",
		"hostname=h&cbas=30095": "Cannot set external ports [cbas] as services are unavailable on the node.",
		"hostname=h&x=1":        "Unsupported key",
	} {
		status, body = m.ask("PUT", path, formKind, form)
		require.Equal(t, 400, status)
		require.Contains(t, body, want, form)
	}
	status, _ = m.ask("DELETE", path, "", "")
	require.Equal(t, 200, status)
	require.NotContains(t, string(c.ConfigJSON("default")), "alternateAddresses")
}

// Nodes are added, failed over, recovered and taken out over HTTP, and the maps follow.
func TestTopologyOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.Nodes(3), mock.VBuckets(12), mock.Replicas(1), mock.Virtual())
	m := newManager(t, c)
	const n1, n2, n3, n4 = "ns_1@10.0.0.1", "ns_1@10.0.0.2", "ns_1@10.0.0.3", "ns_1@10.0.0.4"
	all := strings.Join([]string{n1, n2, n3}, ",")
	require.JSONEq(t, `{"mismatch":1}`, m.post("/controller/rebalance", "knownNodes="+n1, 400))
	require.JSONEq(t, `{"empty_known_nodes":1}`, m.post("/controller/rebalance", "", 400))
	require.Contains(t, m.post("/controller/failOver", "otpNode=x", 400), "Unknown server given")
	require.Contains(t, m.post("/controller/failOver", "", 400), "No server specified.")
	require.Contains(t, m.post("/controller/ejectNode", "otpNode="+n2, 400), "Cannot remove active server.")

	m.post("/controller/startGracefulFailover", "otpNode="+n2, 200)
	require.Equal(t, "inactiveFailed", m.memberships()[n2])
	require.NotContains(t, string(c.ConfigJSON("default")), "10.0.0.2")
	require.Equal(t, false, m.object("/pools/default")["balanced"])
	require.Contains(t, m.post("/controller/failOver", "otpNode="+n2, 400), "Inactive server given.")
	require.Contains(t, m.post("/controller/setRecoveryType", "otpNode="+n2+"&recoveryType=x", 400),
		"recovery type must be either 'delta' or 'full'")
	m.post("/controller/setRecoveryType", "otpNode="+n2+"&recoveryType=delta", 200)
	require.Equal(t, "inactiveAdded", m.memberships()[n2])
	require.Equal(t, "delta", m.ofNodes("recoveryType")[n2])
	m.post("/controller/setRecoveryType", "otpNode="+n2+"&recoveryType=full", 200)
	require.Equal(t, "full", m.ofNodes("recoveryType")[n2])
	m.post("/controller/reFailOver", "otpNode="+n2, 200)
	m.post("/controller/reAddNode", "otpNode="+n2, 200)
	m.post("/controller/rebalance", "knownNodes="+all, 200)
	require.Equal(t, "active", m.memberships()[n2])
	require.Contains(t, string(c.ConfigJSON("default")), "10.0.0.2:11210")
	require.Equal(t, "none", m.object("/pools/default/rebalanceProgress")["status"])

	require.JSONEq(t, `{"otpNode":"`+n4+`"}`, m.post("/controller/addNode",
		"hostname=10.0.0.4&user=Administrator&password=password&services=kv", 200))
	require.Equal(t, "inactiveAdded", m.memberships()[n4])
	m.post("/controller/rebalance", "knownNodes="+all+","+n4+"&ejectedNodes="+n3, 200)
	require.Equal(t, map[string]string{n1: "active", n2: "active", n4: "active"}, m.memberships())
	require.Equal(t, []string{"kv"}, servicesOf(m, n4))
	require.NotContains(t, string(c.ConfigJSON("default")), "10.0.0.3")

	m.post("/controller/failOver", "otpNode="+n4, 200)
	m.post("/controller/ejectNode", "otpNode="+n4, 200)
	require.NotContains(t, m.memberships(), n4)
	counters := m.object("/pools/default")["counters"].(map[string]any)
	require.EqualValues(t, 2, counters["rebalance_success"])
	m.post("/controller/failOver", "otpNode="+n2, 200)
	require.Contains(t, m.post("/controller/failOver", "otpNode="+n1, 400), "Last active node cannot be failed over.")
}

func servicesOf(m *manager, name string) []string {
	var out []string
	for _, n := range m.object("/pools/default")["nodes"].([]any) {
		if node := n.(map[string]any); node["otpNode"] == name {
			for _, s := range node["services"].([]any) {
				out = append(out, s.(string))
			}
		}
	}
	return out
}

// A graceful failover loses no document that a replica lacks.
func TestGracefulFailoverLosesNothing(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.VBuckets(8), mock.Replicas(1), mock.Virtual())
	m := newManager(t, c)
	require.NoError(t, c.SetReplicaLag("default", 1<<40))
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		m.post(bucketsPath+"/default/docs/"+key, "value=1", 200)
	}
	m.post("/controller/startGracefulFailover", "otpNode=ns_1@10.0.0.2", 200)
	require.Len(t, c.Documents("default"), 6)
	one := newManager(t, mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Virtual()))
	require.Contains(t, one.post("/controller/startGracefulFailover", "otpNode=ns_1@10.0.0.2", 400),
		"would lose vbuckets")
}

// Server groups are made, named anew, given nodes and dropped.
func TestServerGroupsOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Virtual())
	m := newManager(t, c)
	const path = "/pools/default/serverGroups"
	m.post(path, "name=second", 200)
	require.JSONEq(t, `{"name":"already exists"}`, m.post(path, "name=second", 400))
	all := m.object(path)
	groups := all["groups"].([]any)
	require.Len(t, groups, 2)
	uris := map[string]string{}
	for _, g := range groups {
		group := g.(map[string]any)
		uris[group["name"].(string)] = group["uri"].(string)
	}
	assign := `{"groups":[{"uri":"` + uris["Group 1"] + `","nodes":[{"otpNode":"ns_1@10.0.0.1"}]},{"uri":"` +
		uris["second"] + `","nodes":[{"otpNode":"ns_1@10.0.0.2"}]}]}`
	status, _ := m.ask("PUT", path+"?rev=1", "application/json", assign)
	require.Equal(t, 409, status)
	status, body := m.ask("PUT", all["uri"].(string), "application/json", assign)
	require.Equal(t, 200, status, body)
	require.Contains(t, string(c.ConfigJSON("default")), `"serverGroup":"second"`)
	status, _ = m.ask("DELETE", uris["second"], "", "")
	require.Equal(t, 400, status, "it has a node")
	status, body = m.ask("PUT", uris["second"], formKind, "name=third")
	require.Equal(t, 200, status, body)
	require.Contains(t, string(c.ConfigJSON("default")), `"serverGroup":"third"`)
	m.post(uris["second"]+"/addNode", "hostname=h&user=u&password=p", 200)
	require.Equal(t, 2, strings.Count(string(c.ConfigJSON("")), `"serverGroup":"third"`))
}

// A group's roles are those of its members, with the group as their origin, and act.
func TestGroupsOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 4), mock.Bucket("other", 4))
	m := newManager(t, c)
	put := func(path string, form url.Values, status int) string {
		got, body := m.do("PUT", path, form)
		require.Equal(t, status, got, string(body))
		return string(body)
	}
	const groups, users = "/settings/rbac/groups", "/settings/rbac/users"
	require.Contains(t, put(groups+"/g", url.Values{}, 400), `"roles":"The value must be supplied"`)
	require.Contains(t, put(groups+"/g", url.Values{"roles": {"nonsense,data_reader"}}, 400), "[nonsense,data_reader]")
	require.Contains(t, put(groups+"/g", url.Values{"roles": {"data_reader[absent]"}}, 400), "[data_reader[absent]]")
	put(groups+"/g", url.Values{"roles": {"data_writer[default]"}, "description": {"writers"}, "ldap_group_ref": {
		"cn=w",
	}}, 200)
	require.Contains(t, put(users+"/local/u", url.Values{"password": {"password"}, "groups": {"g,x"}}, 400),
		"Groups do not exist: x")
	put(users+"/local/u", url.Values{"password": {"password"}, "groups": {"g"}, "roles": {"ro_admin"}}, 200)
	u := m.object(users + "/local/u")
	require.Equal(t, []any{"g"}, u["groups"])
	require.Len(t, u["roles"], 2)
	origins := u["roles"].([]any)[1].(map[string]any)["origins"]
	require.Equal(t, []any{map[string]any{"type": "group", "name": "g"}}, origins)
	m.user = "u"
	m.post(bucketsPath+"/default/docs/k", "value=1", 200)
	m.post(bucketsPath+"/other/docs/k", "value=1", 403)
	requireMembers(t, map[string]any{"id": "u", "domain": "local"}, m.object("/whoami"))
	m.user = "Administrator"
	put(groups+"/g", url.Values{"roles": {"data_writer[other]"}}, 200)
	m.user = "u"
	m.post(bucketsPath+"/other/docs/k", "value=1", 200)
	m.user = "Administrator"
	put(users+"/external/e", url.Values{"roles": {"admin"}}, 200)
	require.NotContains(t, m.object(users+"/external/e"), "password_change_date")
	put(users+"/nowhere/e", url.Values{"roles": {"admin"}}, 404)
	status, body := m.ask("GET", users+"?pageSize=1", "", "")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"total":2`)
	for range 2 {
		status, body = m.ask("DELETE", groups+"/g", "", "")
	}
	require.Equal(t, 404, status)
	require.Equal(t, `"Group was not found."`, body)
	require.Empty(t, m.object(users + "/local/u")["groups"])
	m.user = "u"
	m.post(bucketsPath+"/other/docs/k", "value=1", 403)
}

// Sample buckets are made, and refused when they exist or no sample has the name. beer-sample has as many documents as
// that of a server; the others stay empty.
func TestSampleBucketsOverHTTP(t *testing.T) {
	m := newManager(t, mock.Start(t))
	const path = "/sampleBuckets/install"
	require.Contains(t, m.post(path, `["beer-sample"]`, 202), "beer-sample")
	require.Contains(t, m.post(path, `["beer-sample","x"]`, 400), "Sample x is not a valid sample.")
	_, body := m.ask("GET", "/sampleBuckets", "", "")
	require.Contains(t, body, `{"installed":true,"name":"beer-sample"`)
	_, body = m.ask("GET", "/metrics", "", "")
	require.Contains(t, body, `kv_curr_items{bucket="beer-sample"} 7303`)
	require.Contains(t, m.post(path, `["travel-sample"]`, 202), "travel-sample")
	_, body = m.ask("GET", "/metrics", "", "")
	require.Contains(t, body, `kv_curr_items{bucket="travel-sample"} 0`)
}
