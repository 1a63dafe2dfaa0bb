package field_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// TestEveryServiceReadsTheUserToActFor_D128: servers read base64 of name, colon and domain, and refuse the request
// otherwise.
func TestEveryServiceReadsTheUserToActFor_D128(t *testing.T) {
	var mu sync.Mutex
	var got []string
	c := services(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = append(got, r.Header.Get("cb-on-behalf-of"))
		mu.Unlock()
		_, _ = io.WriteString(w, `{"results":[],"hits":[],"rows":[],"status":"success"}`)
	})
	for domain, want := range map[string]string{
		"": "alice:local", "local": "alice:local",
		"external": "alice:external",
	} {
		ctx := within(t, 5*time.Second)
		got = nil
		rows, err := c.Query(ctx, &query.Request{Statement: "SELECT 1", OnBehalfOf: "alice", OnBehalfOfDomain: domain})
		require.NoError(t, err)
		_ = rows.Close()
		more, err := c.Analytics(ctx, &analytics.Request{
			Statement: "SELECT 1", OnBehalfOf: "alice",
			OnBehalfOfDomain: domain,
		})
		require.NoError(t, err)
		_ = more.Close()
		hits, err := c.Search(ctx, &search.Request{
			Index: "i", Query: map[string]any{}, OnBehalfOf: "alice",
			OnBehalfOfDomain: domain,
		})
		require.NoError(t, err)
		_ = hits.Close()
		view, err := c.Bucket("default").View(ctx, &views.Request{
			Design: "d", View: "v", OnBehalfOf: "alice",
			OnBehalfOfDomain: domain,
		})
		require.NoError(t, err)
		_ = view.Close()
		resp, err := c.Do(ctx, &core.HTTPRequest{
			Method: "GET", Path: "/", OnBehalfOf: "alice",
			OnBehalfOfDomain: domain,
		})
		require.NoError(t, err)
		_ = resp.Body.Close()
		header := base64.StdEncoding.EncodeToString([]byte(want))
		require.Equal(t, []string{header, header, header, header, header}, got)
	}
	got = nil
	for _, r := range []query.Request{
		{OnBehalfOf: "alice", OnBehalfOfDomain: "ldap"}, {OnBehalfOfDomain: "local"}, {OnBehalfOf: "alice:external"},
	} {
		r.Statement = "SELECT 1"
		_, err := c.Query(within(t, time.Second), &r)
		require.ErrorIs(t, err, cberr.InvalidArgument)
		require.ErrorContains(t, err, "OnBehalfOf")
	}
	require.Empty(t, got, "nothing is sent")
}

// TestTheMockActsForTheUserOfTheHeader_D128: the mock reads the header as servers do.
func TestTheMockActsForTheUserOfTheHeader_D128(t *testing.T) {
	m := mock.Start(t, mock.Nodes(1), mock.User("Administrator", "password"), mock.User("alice", "pw", "default"),
		mock.ExternalUser("bob", "pw", "default"))
	c := openConfig(t, core.Config{
		Seeds: core.SeedConfig{Hosts: []string{m.Node(0).Addr()}},
		Net:   core.NetConfig{NodeFilter: core.AnyNode},
		Auth:  core.AuthConfig{Username: "Administrator", Password: core.NewSecret("password")},
	})
	ask := func(user, domain string) error {
		return runQuery(within(t, 5*time.Second), c, &query.Request{
			Statement: "SELECT 1", OnBehalfOf: user, OnBehalfOfDomain: domain, Timeout: 5 * time.Second,
		})
	}
	require.NoError(t, ask("alice", ""))
	require.NoError(t, ask("bob", "external"))
	require.ErrorIs(t, ask("bob", ""), cberr.AuthenticationFailure)
	require.ErrorIs(t, ask("nobody", "local"), cberr.AuthenticationFailure)
	log := m.ServiceLog(mock.QueryService)
	require.Equal(t, "alice", log[0].User)
	require.Equal(t, "bob", log[1].User)
}
