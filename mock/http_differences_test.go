package mock_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// TestManagementDifferences_D188 holds paths and values of the management service that the mock once had differently
// from ns_server: missing paths, a setting that was read back as a text, and one that was not read back.
func TestManagementDifferences_D188(t *testing.T) {
	m := newManager(t, mock.Start(t, mock.User(mock.DefaultUser, mock.DefaultPassword),
		mock.ExternalUser("far", "pw", "default")))
	m.post("/settings/developerPreview", "enabled=true", 200)
	require.Equal(t, true, m.object("/settings/developerPreview")["enabled"])
	require.Contains(t, m.post("/settings/developerPreview", "enabled=false", 400), "Only accepted value is 'true'.")

	m.post("/controller/setAutoCompaction", "purgeInterval=7&databaseFragmentationThreshold[percentage]=40", 200)
	require.EqualValues(t, 7, m.object("/settings/autoCompaction")["purgeInterval"])
	m.post("/controller/setAutoCompaction", "databaseFragmentationThreshold[percentage]=30", 200)
	require.EqualValues(t, 7, m.object("/settings/autoCompaction")["purgeInterval"])
	m.post("/controller/setAutoCompaction", "purgeInterval=0", 400)

	require.Equal(t, false, m.object("/settings/license")["reporting_enabled"])
	m.post("/settings/license", "reporting_enabled=true&customer_token=secret", 200)
	license := m.object("/settings/license")
	require.Equal(t, true, license["reporting_enabled"])
	require.Equal(t, "**********", license["customer_token"])

	require.Contains(t, m.post("/node/controller/doJoinCluster", "clusterMemberHostIp=127.0.0.1", 400),
		"Node is already provisioned. To join use controller/addNode api of the cluster")
	m.post("/controller/hardResetNode", "", 200)

	backup := m.object("/settings/rbac/backup")
	require.Equal(t, "1", backup["version"])
	require.Equal(t, "8.0", backup["compat_version"])
	far := backup["users"].([]any)[0].(map[string]any)
	require.Equal(t, "far", far["id"])
	require.Equal(t, "external", far["domain"])
	require.NotContains(t, far, "password")

	for body, want := range map[string]string{
		"{": "Invalid Json", "{}": "A Json array must be specified.",
	} {
		status, text := m.ask("POST", "/pools/default/stats/range", "application/json", body)
		require.Equal(t, 400, status)
		require.Contains(t, text, want)
	}
	status, text := m.ask("POST", "/pools/default/stats/range", "application/json",
		`[{"metric":[{"label":"name","value":"kv_num_vbuckets"}]},{"metric":[{"label":"name","value":"nope"}]}]`)
	require.Equal(t, 200, status)
	var got []struct {
		Data []struct {
			Metric map[string]string `json:"metric"`
		} `json:"data"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Len(t, got, 2)
	require.Equal(t, "default", got[0].Data[0].Metric["bucket"])
	require.Empty(t, got[1].Data)

	old := newManager(t, mock.Start(t, mock.Version("7.2")))
	status, _ = old.ask("GET", "/settings/rbac/backup", "", "")
	require.Equal(t, 404, status)
}
