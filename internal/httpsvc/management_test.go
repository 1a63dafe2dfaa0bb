package httpsvc_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

func refusal(t *testing.T, status int, text string) (*httpsvc.ManagementError, httpsvc.Verdict) {
	t.Helper()
	v, err := httpsvc.JudgeManagement(&httpsvc.Response{Status: status, Body: io.NopCloser(strings.NewReader(text))})
	require.NoError(t, err)
	require.Equal(t, retry.Unknown, v.Reason)
	var e *httpsvc.ManagementError
	require.ErrorAs(t, v.Err, &e)
	return e, v
}

func TestRefusalsOfTheClusterManager(t *testing.T) {
	for _, tc := range []struct {
		status int
		text   string
		want   error
	}{
		{401, "", cberr.AuthenticationFailure},
		{403, `{"message":"Forbidden","permissions":["cluster.admin"]}`, cberr.AuthenticationFailure},
		{404, "Requested resource not found.\r\n", cberr.BucketNotFound},
		{404, "Object Not Found", cberr.FeatureNotAvailable},
		{404, `{"errors":{"_":"Scope with name \"x\" is not found"}}`, cberr.ScopeNotFound},
		{404, `{"errors":{"_":"Collection with name \"x\" in scope \"y\" is not found"}}`, cberr.CollectionNotFound},
		{404, `"Unknown user."`, cberr.UserNotFound},
		{404, `"Unknown group."`, cberr.GroupNotFound},
		{400, `{"errors":{"groups":"Groups do not exist: x"}}`, cberr.GroupNotFound},
		{400, `{"errors":{"_":"Scope with name \"x\" already exists"}}`, cberr.ScopeExists},
		{400, `{"errors":{"_":"Collection with name \"x\" in scope \"y\" already exists"}}`, cberr.CollectionExists},
		{400, `{"errors":{"name":"Bucket with given name already exists"}}`, cberr.BucketExists},
		{400, `{"_":"Flush is disabled for the bucket"}`, cberr.BucketNotFlushable},
		{400, `{"errors":{"ramQuotaMB":"must be an integer"}}`, cberr.InvalidArgument},
		{429, "Limit(s) exceeded [num_concurrent_requests]", cberr.RateLimited},
		{429, "Maximum number of collections has been reached for scope \"x\"", cberr.QuotaLimited},
		{429, "", cberr.Couchbase},
		{500, "x", cberr.Couchbase},
		{503, "", cberr.Couchbase},
	} {
		e, v := refusal(t, tc.status, tc.text)
		require.Same(t, tc.want, e.Kind, "%d %s", tc.status, tc.text)
		require.Equal(t, e.Kind == cberr.RateLimited, v.Overload)
		require.Equal(t, e.Kind != cberr.RateLimited && e.Kind != cberr.QuotaLimited, v.General)
		require.ErrorIs(t, v.Err, cberr.Couchbase)
	}
}

// TestReasonsPerFieldB95: the field is named.
func TestReasonsPerFieldB95(t *testing.T) {
	for _, text := range []string{`{"errors":{"ramQuotaMB":"too small","name":"bad"}}`, `{"ramQuotaMB":"too small","name":"bad"}`} {
		e, _ := refusal(t, 400, text)
		require.Equal(t, map[string]string{"ramQuotaMB": "too small", "name": "bad"}, e.Fields)
		require.Equal(t, "invalid argument: status 400, name: bad, ramQuotaMB: too small", e.Error())
	}
	for _, text := range []string{"", "x", "[1]", `{"errors":[]}`, `{"errors":{}}`, `{"a":null}`} {
		e, _ := refusal(t, 400, text)
		require.Empty(t, e.Fields, text)
	}
}

// TestTextsOfTheClusterManagerThatAreLost: the status says enough.
func TestTextsOfTheClusterManagerThatAreLost(t *testing.T) {
	lost := iotest.ErrReader(errors.New("lost"))
	v, err := httpsvc.JudgeManagement(&httpsvc.Response{Status: 401, Body: io.NopCloser(lost)})
	require.NoError(t, err)
	require.ErrorIs(t, v.Err, cberr.AuthenticationFailure)
	v, err = httpsvc.JudgeManagement(&httpsvc.Response{Status: 204, Body: io.NopCloser(lost)})
	require.NoError(t, err)
	require.NoError(t, v.Err)
}

// TestSecretsOfStatementsAreHidden wherever a statement names one.
func TestSecretsOfStatementsAreHidden(t *testing.T) {
	for in, want := range map[string]string{
		`SELECT 1`:                           `SELECT 1`,
		`CREATE USER u PASSWORD "hush"`:      `CREATE USER u PASSWORD "*****"`,
		`ALTER USER u WITH password 'it''s'`: `ALTER USER u WITH password "*****"`,
		`{"secretAccessKey":"abc", "accessKeyId" : "x\"y", "a":"b"}`: `{"secretAccessKey":"*****", "accessKeyId" : "*****", "a":"b"}`,
		"CREATE LINK l WITH {`password`: \"hush\", \"region\": \"eu\"}": "" +
			"CREATE LINK l WITH {`password`: \"*****\", \"region\": \"eu\"}",
		`x identified by 'y'`: `x identified by "*****"`,
	} {
		require.Equal(t, want, httpsvc.HideSecrets(in))
	}
}

// FuzzManagement gives the cluster manager's refusals any status and text: each is a failure with a kind, which prints.
func FuzzManagement(f *testing.F) {
	f.Add(400, []byte(`{"errors":{"name":"Bucket with given name already exists"}}`))
	f.Add(404, []byte("Requested resource not found.\r\n"))
	f.Add(429, []byte("Limit(s) exceeded [num_concurrent_requests]"))
	f.Add(200, []byte(`{}`))
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		v, err := httpsvc.JudgeManagement(&httpsvc.Response{Status: status, Body: io.NopCloser(bytes.NewReader(text))})
		require.NoError(t, err)
		if status >= 200 && status <= 299 {
			require.NoError(t, v.Err)
			return
		}
		var e *httpsvc.ManagementError
		require.ErrorAs(t, v.Err, &e)
		require.NotNil(t, e.Kind)
		require.NotEmpty(t, e.Error())
		require.ErrorIs(t, v.Err, e.Kind)
	})
}
