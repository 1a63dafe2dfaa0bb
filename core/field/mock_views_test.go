package field_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// The address that maps have for views names the bucket with its uuid, and the service answers there. Another uuid is
// that of a bucket that has gone.
func TestViewsAreWhereMapsSay_D201(t *testing.T) {
	c := mock.Start(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(url string) (int, string) {
		rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		rq.SetBasicAuth("Administrator", "password")
		answer, err := client.Do(rq)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode, string(text)
	}
	var config struct {
		Nodes []struct {
			CouchAPIBase string `json:"couchApiBase"`
		}
	}
	require.NoError(t, json.Unmarshal(c.ConfigJSON("default"), &config))
	base := strings.ReplaceAll(config.Nodes[0].CouchAPIBase, "$HOST", "127.0.0.1")
	require.Contains(t, base, "default%2B")

	status, text := ask(base + "/_design/none/_view/none")
	require.Equal(t, 404, status)
	require.Contains(t, text, `"error":"not_found"`)
	require.NotContains(t, text, "uuids_dont_match")
	status, text = ask(base + "1/_design/none/_view/none")
	require.Equal(t, 404, status)
	require.Contains(t, text, "uuids_dont_match")
}
