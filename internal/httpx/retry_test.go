package httpx_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/retry"
)

// statuses answers with one status after the other, the last one for ever; "503/2" is 503 with Retry-After: 2.
func statuses(list ...string) http.HandlerFunc {
	var n atomic.Int32
	return func(rw http.ResponseWriter, _ *http.Request) {
		i := min(int(n.Add(1)), len(list)) - 1
		status, after, _ := strings.Cut(list[i], "/")
		if after != "" {
			rw.Header().Set("Retry-After", after)
		}
		code := 0
		_, _ = fmt.Sscan(status, &code)
		rw.WriteHeader(code)
		_, _ = io.WriteString(rw, "body "+list[i])
	}
}

// TestGR1RetriedRequestEqualsTheFirst compares the bytes on the wire, but for the attempt's number and the timeout.
func TestGR1RetriedRequestEqualsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var raw []string
		w := newWorld(t, nil, setup{raw: func(nc net.Conn) {
			var got bytes.Buffer
			in := bufio.NewReader(io.TeeReader(nc, &got))
			for {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				raw = append(raw, got.String())
				got.Reset()
				answer := []string{"503 X\r\nRetry-After: 1", "503 X", "200 OK"}[min(len(raw), 3)-1]
				_, _ = fmt.Fprintf(nc, "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}", answer)
			}
		}})
		r := post("/query/service?x=1", "")
		r.Idempotent, r.Header, r.OnBehalfOf = true, map[string]string{"X-One": "1"}, "eve"
		r.Body = func(left time.Duration) ([]byte, error) {
			return []byte(`{"timeout":"` + httpsvc.ServiceTimeout(left).String() + `","v":[1,2]}`), nil
		}
		_, _, err := w.do(r)
		require.NoError(t, err)
		require.Len(t, raw, 3)
		changing := regexp.MustCompile(`Retry-Attempt: [0-9]+\r\n|Content-Length: [0-9]+|"timeout":"[^"]*"`)
		require.NotContains(t, raw[0], "Retry-Attempt")
		require.Contains(t, raw[0], `"timeout":"1m15s"`)
		require.Contains(t, raw[1], `"timeout":"1m14s"`)
		require.Contains(t, raw[2], "Retry-Attempt: 2\r\n")
		first := changing.ReplaceAllString(raw[0], "")
		require.Equal(t, first, changing.ReplaceAllString(raw[1], ""))
		require.Equal(t, first, changing.ReplaceAllString(raw[2], ""))
	})
}

// TestGR2GA645AttemptIsNumbered: the server sees the attempt's number and the client how many there were.
func TestGR2GA645AttemptIsNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("503", "503", "200"), setup{})
		resp, err := w.client.Do(t.Context(), get("/a"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 2, resp.Retry.Counted)
		require.Equal(t, retry.ServiceResponseCodeIndicated, resp.Retry.Reason)
		var numbers []string
		for _, r := range w.requests() {
			numbers = append(numbers, r.header.Get("Retry-Attempt"))
		}
		require.Equal(t, []string{"", "1", "2"}, numbers)

		w = newWorld(t, statuses("503"), setup{nodes: []string{"n2:80"}})
		_, _, err = w.do(&httpsvc.Request{Method: "GET", Path: "/a", Timeout: 100 * time.Millisecond})
		info, ok := retry.InfoOf(err)
		require.True(t, ok)
		require.Equal(t, w.count()-1, info.Counted)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	})
}

// TestGR3RetryAfterIsObeyedExactly has the server's delay in seconds and as a date.
func TestGR3RetryAfterIsObeyedExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("503/7", "200"), setup{})
		_, _, err := w.do(post("/a", "x"))
		require.NoError(t, err)
		require.Equal(t, []time.Duration{0, 7 * time.Second}, at(w.requests()))
	})
	synctest.Test(t, func(t *testing.T) {
		date := time.Now().Add(9 * time.Second).UTC().Format(http.TimeFormat)
		w := newWorld(t, statuses("429/"+date, "503/"+time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), "200"),
			setup{})
		_, _, err := w.do(post("/a", "x"))
		require.NoError(t, err)
		// A past date is at once, for the first time.
		require.Equal(t, []time.Duration{0, 9 * time.Second, 9*time.Second + retry.Floor}, at(w.requests()))
	})
	synctest.Test(t, func(t *testing.T) { // the deadline comes first: capped, and nothing is sent
		w := newWorld(t, statuses("503/7"), setup{})
		r := post("/a", "x")
		r.Timeout = 2 * time.Second
		_, _, err := w.do(r)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 2*time.Second, time.Since(w.began))
		require.Equal(t, 1, w.count())
	})
}

// TestGR7GA640OnlyRewindableBodiesAreSentAgain: the answer to a body that cannot be made again is given as it is.
func TestGR7GA640OnlyRewindableBodiesAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("503/1", "200"), setup{})
		r := &httpsvc.Request{Method: "POST", Path: "/a", Idempotent: true, Stream: streamOf("text", nil)}
		_, _, err := w.do(r)
		var failed *httpsvc.ResponseError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 503, failed.Status)
		require.Equal(t, "body 503/1", string(failed.Body))
		require.Equal(t, 1, w.count())
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("503/1", "200"), setup{})
		again := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("text")), nil }
		status, _, err := w.do(&httpsvc.Request{Method: "POST", Path: "/a", Stream: streamOf("text", again)})
		require.NoError(t, err)
		require.Equal(t, 200, status)
		got := w.requests()
		require.Len(t, got, 2)
		require.Equal(t, "text", got[0].body)
		require.Equal(t, got[0].body, got[1].body)
	})
	synctest.Test(t, func(t *testing.T) { // a body that cannot be rewound is a failure, not an empty body
		w := newWorld(t, statuses("503/1", "200"), setup{})
		broken := errors.New("no way back")
		again := func() (io.ReadCloser, error) { return nil, broken }
		_, _, err := w.do(&httpsvc.Request{Method: "POST", Path: "/a", Stream: streamOf("text", again)})
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.Equal(t, 1, w.count())
	})
}

// TestGR11StatusesThatAreRetried: 429 always, 503 with Retry-After always, 503 without it and 504 only for idempotent
// requests (D4); a status that no list names never (CB-57).
func TestGR11StatusesThatAreRetried(t *testing.T) {
	for _, tc := range []struct {
		answer     string
		idempotent bool
		sent       int
	}{
		{"429", false, 2},
		{"429", true, 2},
		{"429/1", false, 2},
		{"429/1", true, 2},
		{"503", false, 1},
		{"503", true, 2},
		{"503/1", false, 2},
		{"503/1", true, 2},
		{"504", false, 1},
		{"504", true, 2},
		{"504/1", false, 1},
		{"504/1", true, 2},
		{"500", true, 1},
		{"502", true, 1},
		{"400", true, 1},
		{"401", true, 1},
		{"404", true, 1},
		{"408", true, 1},
		{"302", true, 1},
		{"503/soon", false, 1},
		{"503/soon", true, 2},
	} {
		t.Run(fmt.Sprintf("%s %v", tc.answer, tc.idempotent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, statuses(tc.answer, "200"), setup{})
				r := post("/a", "x")
				r.Idempotent = tc.idempotent
				status, _, err := w.do(r)
				require.Equal(t, tc.sent, w.count())
				var failed *httpsvc.ResponseError
				if errors.As(err, &failed) {
					status = failed.Status
					require.Contains(t, []int{503, 504}, status)
				} else {
					require.NoError(t, err)
				}
				if tc.sent == 1 {
					require.Equal(t, tc.answer[:3], fmt.Sprint(status))
				}
			})
		})
	}
}

// TestCB56GetsAreIdempotent: by their method, and nothing else is unless it says so.
func TestCB56GetsAreIdempotent(t *testing.T) {
	for method, sent := range map[string]int{"GET": 2, "HEAD": 2, "POST": 1, "PUT": 1, "DELETE": 1, "PATCH": 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, statuses("504", "200"), setup{})
			_, _, err := w.do(&httpsvc.Request{Method: method, Path: "/a"})
			require.Equal(t, sent == 2, err == nil, method)
			require.Equal(t, sent, w.count(), method)
		})
	}
}

// TestGR13NoCallIsBlockedWhileOneWaits: requests wait without a goroutine of the client's, and do not hold up others.
func TestGR13NoCallIsBlockedWhileOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/free" {
				rw.Header().Set("Retry-After", "60")
				rw.WriteHeader(503)
			}
		}, setup{options: func(o *httpx.Options) { o.MaxConns = 4 }})
		ctx, cancel := context.WithCancel(t.Context())
		before := runtime.NumGoroutine()
		const many = 200
		ended := make(chan error, many)
		for i := range many {
			go func() {
				_, _, err := w.doCtx(ctx, get(fmt.Sprintf("/p%d", i)))
				ended <- err
			}()
		}
		time.Sleep(10 * time.Second) // idle connections have been closed
		require.LessOrEqual(t, runtime.NumGoroutine(), before+many+2)
		_, _, err := w.do(get("/free"))
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, time.Since(w.began))
		cancel()
		for range many {
			require.ErrorIs(t, <-ended, cberr.RequestCanceled)
		}
	})
}

// TestGA633RetryLandsOnAnotherNode, D113: a node that cannot be reached is avoided, by this request and by later ones.
func TestGA633RetryLandsOnAnotherNodeD113(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("200"), setup{nodes: []string{"n1:80", "n2:80", "n3:80"}})
		w.net.Refuse("n2:80")
		for range 3 { // a request that meets the dead node goes on to the next one
			_, _, err := w.do(post("/a", "x"))
			require.NoError(t, err)
		}
		for _, r := range w.requests() {
			require.NotEqual(t, "n2:80", r.node)
		}
		before := time.Now()
		for range 6 { // and others do not go there at all for a while
			_, _, err := w.do(post("/a", "x"))
			require.NoError(t, err)
		}
		require.Equal(t, before, time.Now())
		w.net.Restore("n2:80")
		time.Sleep(2 * time.Second)
		for range 3 {
			_, _, err := w.do(post("/a", "x"))
			require.NoError(t, err)
		}
		require.Contains(t, fmt.Sprint(w.requests()), "n2:80")
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("503/1", "200"), setup{nodes: []string{"n1:80", "n2:80"}})
		_, _, err := w.do(get("/a"))
		require.NoError(t, err)
		got := w.requests()
		require.NotEqual(t, got[0].node, got[1].node)
	})
	// the request that met it does not go there again, when all others have forgotten it
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("200"), setup{nodes: []string{"n1:80", "n2:80"}})
		w.net.Refuse("n2:80")
		met := make(chan int, 1)
		go func() {
			r := get("/a")
			r.Strategy = slowly{}
			resp, err := w.client.Do(t.Context(), r)
			if err == nil {
				resp.Body.Close()
				met <- resp.Retry.Retries()
			}
			close(met)
		}()
		time.Sleep(time.Second)
		_, _, err := w.do(get("/b")) // takes the turn of the healthy node
		require.NoError(t, err)
		require.Equal(t, 1, <-met)
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, at(w.requests()))
	})
	synctest.Test(t, func(t *testing.T) { // missing credentials say nothing about the node
		failing := true
		w := newWorld(t, statuses("200"), setup{nodes: []string{"n1:80", "n2:80"}, options: func(o *httpx.Options) {
			good := o.Credentials
			o.Credentials = func(ctx context.Context, of httpsvc.Service, addr string, tls bool) (httpx.Credentials,
				error,
			) {
				if failing {
					failing = false
					return httpx.Credentials{}, errors.New("no credentials")
				}
				return good(ctx, of, addr, tls)
			}
		}})
		for range 2 {
			_, _, err := w.do(get("/a"))
			require.NoError(t, err)
		}
		got := w.requests()
		require.Less(t, time.Since(w.began), time.Second)
		require.NotEqual(t, got[0].node, got[1].node)
	})
}

// slowly is a strategy that waits for longer than a node is avoided by all.
type slowly struct{}

func (slowly) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.After(2 * time.Second)
}

// TestGA636GA637GA638BuffersForRetriesAreBounded: a request that is too big is sent all the same, and fails at its
// first refusal.
func TestGA636GA637GA638BuffersForRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("503/1", "200"), setup{retry: retry.Options{MaxOpBytes: 1000}})
		_, _, err := w.do(post("/a", strings.Repeat("x", 1001)))
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Equal(t, []time.Duration{0}, at(w.requests()))
		status, _, err := w.do(post("/a", strings.Repeat("x", 1000)))
		require.NoError(t, err)
		require.Equal(t, 200, status)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("503/60"), setup{retry: retry.Options{MaxBytes: 1500}})
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, _, err := w.doCtx(ctx, post("/a", strings.Repeat("x", 1000)))
			first <- err
		}()
		synctest.Wait()
		_, _, err := w.do(post("/b", strings.Repeat("x", 1000)))
		require.ErrorIs(t, err, retry.ErrTooManyInRetry)
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		cancel()
		require.ErrorIs(t, <-first, cberr.RequestCanceled)
	})
}

// TestRedirectsAreNotFollowed: the caller gets them.
func TestRedirectsAreNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Location", "http://n1:80/elsewhere")
			rw.WriteHeader(302)
		}, setup{})
		for _, r := range []*httpsvc.Request{get("/a"), post("/a", "x")} {
			status, _, err := w.do(r)
			require.NoError(t, err)
			require.Equal(t, 302, status)
		}
		require.Equal(t, 2, w.count())
	})
}
