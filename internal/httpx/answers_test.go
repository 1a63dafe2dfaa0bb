package httpx_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/views"
)

// TestConnectionsAreUsedAgainWhenClean: after an answer that was read whole, and after a refusal whose rest is short;
// not after one that was cut, closed early, or whose rest is long or slow.
func TestConnectionsAreUsedAgainWhenClean(t *testing.T) {
	long := strings.Repeat(" ", 2<<20)
	for name, tc := range map[string]struct {
		first string // the first answer; the second is good
		links int
	}{
		"whole":   {ok(`{"results":[1]}`), 1},
		"refused": {"HTTP/1.1 503 X\r\nContent-Length: 5\r\n\r\nshort", 1},
		"long":    {"HTTP/1.1 503 X\r\nContent-Length: 2097152\r\n\r\n" + long, 2},
		"slow":    {"HTTP/1.1 503 X\r\nContent-Length: 500\r\n\r\nshort", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				links, n := 0, 0
				w := newWorld(t, nil, setup{raw: func(nc net.Conn) {
					links++
					in := bufio.NewReader(nc)
					for {
						r, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, r.Body)
						answer := tc.first
						if n++; n > 1 {
							answer = ok(`{"results":[2]}`)
						}
						_, _ = io.WriteString(nc, answer)
					}
				}})
				_, _, err := w.do(get("/a"))
				require.NoError(t, err)
				if n == 1 {
					_, _, err = w.do(get("/a"))
					require.NoError(t, err)
				}
				require.Equal(t, 2, n)
				require.Equal(t, tc.links, links)
				require.Less(t, time.Since(w.began), 2*time.Second)
			})
		})
	}
}

// bomb packs an answer with one row of 100 MiB into a thousandth of that.
func bomb(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	mebibyte := bytes.Repeat([]byte{'x'}, 1<<20)
	for i := range 100 {
		text := mebibyte
		switch i {
		case 0:
			text = []byte(`{"results":["`)
		case 99:
			text = []byte(`"]}`)
		}
		_, err := z.Write(text)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.Less(t, b.Len(), 1<<20)
	return b.Bytes()
}

// TestCompressedAnswersAreRefused: nothing is unpacked, so nothing can be packed too well. That is so for answers of
// every status, and for one whose row would be within the limit. The caller of a raw request gets what came.
func TestCompressedAnswersAreRefused(t *testing.T) {
	packed := bomb(t)
	for _, status := range []int{200, 404, 500, 503} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
					rw.Header().Set("Content-Encoding", "gzip")
					rw.WriteHeader(status)
					_, _ = rw.Write(packed)
				}, setup{options: func(o *httpx.Options) { o.RowLimit = 1 << 30 }})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				rows, _, err := w.read(statement(false))
				runtime.ReadMemStats(&after)
				require.ErrorIs(t, err, cberr.DecodingFailure)
				require.Empty(t, rows)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
				require.Equal(t, 1, w.count())
				require.Empty(t, w.requests()[0].header.Get("Accept-Encoding"))
				if status == http.StatusServiceUnavailable { // it is no answer for the caller of a raw request
					return
				}
				resp, err := w.client.Do(t.Context(), get("/raw"))
				require.NoError(t, err)
				data, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, packed, data)
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}

// TestHostileAnswers: headers and rows without end, and what is no JSON, are typed errors.
func TestHostileAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		want   error
	}{
		"headers":  {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", cberr.RequestCanceled},
		"no http":  {"hello\r\n\r\n", cberr.RequestCanceled},
		"no json":  {ok("hello"), cberr.DecodingFailure},
		"nested":   {ok(`{"results":[` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `]}`), cberr.DecodingFailure},
		"two rows": {ok(`{"results":[],"results":[]}`), cberr.DecodingFailure},
		"redirect": {"HTTP/1.1 302 X\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n", cberr.Couchbase},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				w := newWorld(t, nil, setup{raw: scripts(&sent, tc.answer)})
				_, _, err := w.read(statement(false))
				require.ErrorIs(t, err, tc.want)
				require.Equal(t, 1, sent)
				if name == "headers" {
					require.ErrorContains(t, err, "headers exceeded")
				}
			})
		})
	}
}

// TestErrorsDoNotShowKeys: what a view is asked for stands in the address, and not in the text of a failure.
func TestErrorsDoNotShowKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, setup{raw: func(nc net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(nc)) }})
		for _, way := range []func(){func() {}, func() { w.net.Refuse("n1:80") }, func() { w.nodes = nil }} {
			way()
			_, err := views.Run(t.Context(), w.client, &views.Request{
				Bucket: "b", Design: "d", View: "v", Key: "hush",
				Timeout: time.Second,
			})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.NotContains(t, err.Error(), "hush")
		}
	})
}

// TestRefusalWhoseTextStalls: the status says enough, so the client does not wait for the rest.
func TestRefusalWhoseTextStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := newWorld(t, nil, setup{raw: func(nc net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(nc))
			if n++; n == 1 {
				_, _ = io.WriteString(nc, "HTTP/1.1 503 X\r\nRetry-After: 3\r\nContent-Length: 500\r\n\r\n")
				_, _ = nc.Read(make([]byte, 1))
				return
			}
			_, _ = io.WriteString(nc, ok(`{"results":[1]}`))
		}})
		rows, _, err := w.read(statement(false))
		require.NoError(t, err)
		require.Equal(t, []string{"1"}, rows)
		require.Equal(t, 4*time.Second, time.Since(w.began))
	})
}

// TestInDoubtIsWhatWasReallyWritten: a connection that fails after so many bytes of a request. Only if not a single one
// has left is the request sent again; in doubt it is otherwise, and it never reaches the service twice.
func TestInDoubtIsWhatWasReallyWritten(t *testing.T) {
	for k := 0; k < 200; k++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, statuses("200"), setup{})
			first := true
			w.net.OnLink(func(l *mock.Link) {
				if first {
					l.Up().FailAfter(k, net.ErrClosed)
				}
				first = false
			})
			_, _, err := w.do(post("/a", "x"))
			synctest.Wait()
			switch {
			case k == 0:
				require.NoError(t, err)
				require.Equal(t, 1, w.count())
			case err == nil: // it was no longer than that
				require.Equal(t, 1, w.count())
			default:
				require.ErrorIs(t, err, cberr.RequestCanceled)
				var e *httpsvc.Error
				require.ErrorAs(t, err, &e)
				require.True(t, e.Ambiguous(), k)
				require.LessOrEqual(t, w.count(), 1)
			}
		})
	}
}
