package couchbasemock_test

import (
	"archive/zip"
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/couchbasemock"
)

func TestItsCommandLine(t *testing.T) {
	a, err := couchbasemock.ParseArguments(nil)
	require.NoError(t, err)
	require.Equal(t, &couchbasemock.Arguments{
		Port: 8091, Nodes: 10, VBuckets: 1024, Replicas: 2, Buckets: []couchbasemock.BucketArgument{{Name: "default"}},
	}, a)
	a, err = couchbasemock.ParseArguments(strings.Fields("--harakiri-monitor localhost:7 --port=0 -n 4 " +
		"--replicas 1 -cdv 32 --buckets a::couchbase,b:pw:memcached,c:pw,d -h *"))
	require.NoError(t, err)
	require.Equal(t, &couchbasemock.Arguments{
		Host: "*", Nodes: 4, VBuckets: 32, Replicas: 1, Monitor: "localhost:7", CCCP: true, Debug: true,
		Buckets: []couchbasemock.BucketArgument{
			{Name: "a"}, {Name: "b", Password: "pw", Memcached: true}, {Name: "c", Password: "pw"}, {Name: "d"},
		},
	}, a)
	a, err = couchbasemock.ParseArguments([]string{"-E", "-?", "--version", "--docs", "x"})
	require.NoError(t, err)
	require.Empty(t, a.Buckets)
	require.True(t, a.Help && a.Version)
	for line, why := range map[string]string{
		"--nodes": "needs a value", "-n": "needs a value", "--nodes x": "1 to 64", "-v 3": "a power of two",
		"--odd": "no option --odd", "-x": "no option -x", "word": "not an option", "--cccp=1": "takes no value",
		"--buckets :pw": "name:password:type", "-b a:b:c:d": "name:password:type",
		"--port 70000": "65535",
	} {
		_, err := couchbasemock.ParseArguments(strings.Fields(line))
		require.ErrorContains(t, err, why, line)
	}
	require.Contains(t, couchbasemock.HelpText(), "-b, --buckets VALUE")
}

// Requests over HTTP without credentials may use the buckets that have no password, and no others.
func TestBucketsWithoutAPassword(t *testing.T) {
	a, err := couchbasemock.ParseArguments(strings.Fields("--port 0 --nodes 1 --replicas 0 -v 4 -b open,closed:pw"))
	require.NoError(t, err)
	c := mock.Start(t, a.Options()...)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(bucket, user, password string) int {
		rq, err := http.NewRequestWithContext(context.Background(), "GET",
			"http://"+c.Node(0).ManagementAddr()+"/pools/default/buckets/"+bucket, nil)
		require.NoError(t, err)
		if user != "" {
			rq.SetBasicAuth(user, password)
		}
		answer, err := client.Do(rq)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	require.Equal(t, 200, ask("open", "", ""))
	require.NotEqual(t, 200, ask("closed", "", ""))
	require.Equal(t, 200, ask("closed", "closed", "pw"))
	require.Equal(t, 401, ask("closed", "closed", "wrong"))
	require.NotEqual(t, 200, ask("open", "closed", "pw"))
	require.Equal(t, 200, ask("closed", "Administrator", "password"))

	const sample = "beer-sample"
	require.Equal(t, 404, ask(sample, "", ""))
	rq, err := http.NewRequestWithContext(context.Background(), "POST",
		"http://"+c.Node(0).ManagementAddr()+"/sampleBuckets/install", strings.NewReader(`["`+sample+`"]`))
	require.NoError(t, err)
	rq.SetBasicAuth("Administrator", "password")
	answer, err := client.Do(rq)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, 202, answer.StatusCode)
	require.Equal(t, 200, ask(sample, "", ""))
	require.Equal(t, 200, ask(sample, sample, ""))
}

func TestDocumentsOfAZIPFile(t *testing.T) {
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	for name, text := range map[string]string{
		"s/docs/a.json": `{"n":1}`, "s/design_docs/d.json": `{"views":{}}`, "s/README": "x", "s/docs/": "",
	} {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, err = w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	f, err := couchbasemock.ReadDocs(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	c := mock.Start(t)
	require.NoError(t, c.Load(f))
	require.Len(t, c.Documents("default"), 1)
	require.True(t, c.DropDesignDocument("default", "d"))
	_, err = couchbasemock.ReadDocs(strings.NewReader("no zip"), 6)
	require.Error(t, err)
}
