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

// A plan whose index has gone is answered with the server's text. SDKs look for all of it before they prepare again.
func TestAPlanWithoutItsIndexIsAnsweredAsServersDo_D200(t *testing.T) {
	c := mock.Start(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	type answered struct {
		Results []struct{ Name string }
		Errors  []struct {
			Code int
			Msg  string
		}
	}
	ask := func(body string) (out answered) {
		rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+c.Node(0).ServiceAddr(mock.QueryService)+"/query/service", strings.NewReader(body))
		require.NoError(t, err)
		rq.SetBasicAuth("Administrator", "password")
		rq.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(rq)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, json.Unmarshal(text, &out), string(text))
		return out
	}
	prepared := ask(`{"statement":"PREPARE SELECT 1"}`)
	require.Len(t, prepared.Results, 1)
	require.Equal(t, 1, c.FailPrepared(5000))
	failed := ask(`{"prepared":"` + prepared.Results[0].Name + `"}`)
	require.Len(t, failed.Errors, 1)
	require.Equal(t, 5000, failed.Errors[0].Code)
	require.Contains(t, failed.Errors[0].Msg, "Index Not Found - cause: queryport.indexNotFound")
}
