package services_test

import (
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// A stream of rows as large as anyone likes takes no memory.
func TestStreamsTakeNoMemory(t *testing.T) {
	c := mock.Start(t)
	a := newAsker(t, c)
	row := []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
	const rows = 64 << 10
	c.ScriptQuery("many", mock.Answer{Stream: func(yield func([]byte) bool) {
		for range rows {
			if !yield(row) {
				return
			}
		}
	}})
	req, err := http.NewRequestWithContext(t.Context(), "POST",
		"http://"+c.Node(0).ServiceAddr(mock.QueryService)+"/query/service",
		strings.NewReader(`{"statement":"SELECT many"}`))
	require.NoError(t, err)
	req.SetBasicAuth(a.user, a.password)
	runtime.GC()
	before := allocated()
	res, err := a.http.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.Greater(t, n, int64(rows*len(row)))
	require.Less(t, allocated()-before, uint64(8<<20), "of %d bytes", n)
}

// allocated is how many bytes the process has ever allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A stream ends when its client leaves.
func TestAStreamEndsWithItsClient(t *testing.T) {
	c := mock.Start(t)
	a := newAsker(t, c)
	ended := make(chan struct{})
	c.ScriptQuery("endless", mock.Answer{Stream: func(yield func([]byte) bool) {
		defer close(ended)
		for yield([]byte("1")) {
		}
	}})
	req, err := http.NewRequestWithContext(t.Context(), "POST",
		"http://"+c.Node(0).ServiceAddr(mock.QueryService)+"/query/service",
		strings.NewReader(`{"statement":"SELECT endless"}`))
	require.NoError(t, err)
	req.SetBasicAuth(a.user, a.password)
	res, err := a.http.Do(req)
	require.NoError(t, err)
	_, err = io.ReadFull(res.Body, make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	<-ended
}
