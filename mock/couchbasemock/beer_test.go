package couchbasemock_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/couchbasemock"
	"github.com/couchcore/couchcore/mock/viewjs"
)

// TestBeerSampleIsThere holds that --with-beer-sample makes a bucket that needs no password, with as many documents as
// clients look for, which the views of the sample find.
func TestBeerSampleIsThere(t *testing.T) {
	a, err := couchbasemock.ParseArguments([]string{"--port=0", "-n", "1", "-v", "16", "-S"})
	require.NoError(t, err)
	c := mock.Start(t, append(a.Options(), mock.Views(viewjs.New(viewjs.Options{})))...)
	require.ElementsMatch(t, []string{"default", mock.BeerBucket}, c.Buckets())
	require.NoError(t, c.Load(mock.BeerSample()))
	require.Len(t, c.Documents(mock.BeerBucket), 7303)
	for view, want := range map[string]int{
		"brewery_beers?stale=false&limit=1": 7303, "by_location?stale=false&group_level=1": 4,
	} {
		rq, err := http.NewRequestWithContext(t.Context(), "GET",
			"http://"+c.Node(0).ServiceAddr(mock.ViewsService)+"/beer-sample/_design/beer/_view/"+view, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(rq)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		var got struct {
			Total int               `json:"total_rows"`
			Rows  []json.RawMessage `json:"rows"`
		}
		require.NoError(t, json.Unmarshal(text, &got), "%s", text)
		if got.Total == 0 {
			got.Total = len(got.Rows)
		}
		require.Equal(t, want, got.Total, "%s: %.200s", view, text)
	}
	http.DefaultClient.CloseIdleConnections()

	a, err = couchbasemock.ParseArguments([]string{"--with-beer-sample", "--buckets", "beer-sample:pw:couchbase"})
	require.NoError(t, err)
	c = mock.Start(t, append(a.Options(), mock.Ports(0), mock.Nodes(1))...)
	require.Equal(t, []string{"beer-sample"}, c.Buckets())
}
