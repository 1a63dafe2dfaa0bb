package control_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/control"
)

// seen is what a page of the console has been told. The members are those that the tests look at.
type seen struct {
	Cluster struct {
		Revision int64
		Nodes    []struct {
			Up          bool
			Suspended   bool
			Membership  string
			Connections int
		}
	}
	Connections []struct{ Agent, User, Bucket, Peer string }
	Injections  []struct{ ID string }

	Requests   []seenRequest
	Lost       int
	Operations []control.Operation
	Loads      []struct{ Node, Requests, Failures int }
}

type seenRequest struct {
	Opcode, Status, Key, Bucket, Collection, Fault string
	VBucket                                        int
	OK                                             bool
}

// readEvents reads a stream's events until want is content with one, which it returns.
func readEvents(t *testing.T, r io.Reader, want func(event string, s *seen) bool) *seen {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	var event string
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			event = text
		case "data":
			s := new(seen)
			require.NoError(t, json.Unmarshal([]byte(text), s), text)
			if want(event, s) {
				return s
			}
		}
	}
	t.Fatalf("the stream has ended: %v", lines.Err())
	return nil
}

// stream opens the events of a console for as long as the test runs, or until closed.
func (c *controlled) stream() (events io.Reader, closed func()) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/console/events", nil)
	require.NoError(c.t, err)
	answer, err := c.http.Do(rq)
	require.NoError(c.t, err)
	require.Equal(c.t, "text/event-stream", answer.Header.Get("Content-Type"))
	once := sync.OnceFunc(func() {
		cancel()
		_ = answer.Body.Close() // it is broken off
	})
	c.t.Cleanup(once)
	return answer.Body, once
}

// A console shows what a client does: its connections, its requests with statuses and faults, the state of nodes, and
// what the client itself reports.
func TestTheConsoleShowsAClientAtWork(t *testing.T) {
	c := startWith(t, control.Options{Console: true}, mock.Nodes(2), mock.VBuckets(16))
	require.Equal(t, c.url+"/console/", c.ok("GET", "/", nil)["console"])
	require.EqualValues(t, 0, c.ok("POST", "/v1/operations", body{})["consoles"])
	events, closed := c.stream()
	first := readEvents(t, events, func(event string, _ *seen) bool { return event == "state" })
	require.Len(t, first.Cluster.Nodes, 2)
	require.Empty(t, first.Connections)

	id := c.ok("POST", "/v1/injections", body{
		"match": body{"opcodes": []string{"GET"}, "times": 1}, "fault": body{"status": "ETMPFAIL"},
	})["id"]
	b := c.client().Bucket("default")
	c.upsert(b, "k", "v")
	require.Equal(t, "v", c.get(b, "k"))
	var opcodes []string
	readEvents(t, events, func(_ string, s *seen) bool {
		for _, r := range s.Requests {
			if r.Key != "k" {
				continue
			}
			opcodes = append(opcodes, r.Opcode+" "+r.Status)
			require.Equal(t, "default", r.Bucket)
			require.Equal(t, "_default._default", r.Collection)
			require.Equal(t, r.Status == "SUCCESS", r.OK)
			require.Equal(t, r.Status == "ETMPFAIL", r.Fault == "status ETMPFAIL")
			require.GreaterOrEqual(t, r.VBucket, 0)
		}
		return len(opcodes) == 3
	})
	require.Equal(t, []string{"SET SUCCESS", "GET ETMPFAIL", "GET SUCCESS"}, opcodes)

	c.ok("POST", "/v1/nodes/1/suspend", nil)
	s := readEvents(t, events, func(event string, s *seen) bool {
		return event == "state" && s.Cluster.Nodes[1].Suspended && len(s.Connections) > 0
	})
	require.Equal(t, id, s.Injections[0].ID)
	require.Contains(t, s.Connections[0].Agent, "couchcore")
	require.Equal(t, mock.DefaultUser, s.Connections[0].User)
	c.ok("POST", "/v1/nodes/1/resume", nil)

	require.EqualValues(t, 1, c.ok("POST", "/v1/operations", body{"client": "orders", "items": []body{{
		"operation": "get", "attempts": []body{{"status": "ETMPFAIL", "reason": "KV_TEMPORARY_FAILURE"}, {}},
	}}})["consoles"])
	s = readEvents(t, events, func(_ string, s *seen) bool { return len(s.Operations) > 0 })
	require.Equal(t, "orders", s.Operations[0].Client)
	require.Equal(t, "KV_TEMPORARY_FAILURE", s.Operations[0].Attempts[0].Reason)
	require.Len(t, s.Operations[0].Attempts, 2)

	closed()
	require.Eventually(t, func() bool {
		return c.ok("POST", "/v1/operations", body{})["consoles"] == float64(0)
	}, time.Minute, 10*time.Millisecond, "the page is gone")
	require.Len(t, c.items("/v1/connections"), len(c.mock.Connections()))
	require.Len(t, c.ok("GET", "/v1/buckets/default/map", nil)["rows"], 16)
}

// stuck is a page that does not read until it is let go.
type stuck struct {
	io.Writer
	header  http.Header
	blocked chan struct{} // closed when it is first written to
	release chan struct{}
	first   sync.Once
}

func (s *stuck) Header() http.Header { return s.header }
func (s *stuck) WriteHeader(int)     {}
func (s *stuck) Flush()              {}

func (s *stuck) Write(b []byte) (int, error) {
	s.first.Do(func() { close(s.blocked) })
	<-s.release
	return s.Writer.Write(b)
}

// A page that does not read holds no node up: it loses events, the oldest, and is told how many. The loads of nodes
// count them all.
func TestASlowPageLosesEventsAndIsToldHowMany(t *testing.T) {
	const requests = 2000
	c := start(t, mock.Nodes(1), mock.VBuckets(4))
	api := control.New(c.mock, control.Options{Console: true})
	b := c.client().Bucket("default")
	c.upsert(b, "first", "v")
	ctx, cancel := context.WithCancel(t.Context())
	events, out := io.Pipe()
	page := &stuck{Writer: out, header: http.Header{}, blocked: make(chan struct{}), release: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		api.ServeHTTP(page, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/console/events", nil))
	}()
	<-page.blocked
	for range requests {
		require.Equal(t, "v", c.get(b, "first"), "operations succeed while the page does not read")
	}
	_, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("last")})
	require.ErrorIs(t, err, cberr.DocumentNotFound)
	close(page.release)
	s := readEvents(t, events, func(event string, _ *seen) bool { return event == "requests" })
	require.Len(t, s.Requests, 256)
	require.GreaterOrEqual(t, s.Lost, requests+1-256)
	require.Equal(t, s.Lost+256, s.Loads[0].Requests)
	require.Equal(t, 1, s.Loads[0].Failures)
	require.True(t, slices.ContainsFunc(s.Requests, func(r seenRequest) bool { return r.Key == "last" && !r.OK }))
	cancel()
	require.NoError(t, events.Close())
	<-done
}

// A page that never reads does not keep the API from closing, and there is a limit to how many are open.
func TestPagesThatDoNotReadAreBounded(t *testing.T) {
	c := startWith(t, control.Options{Console: true}, mock.Nodes(1), mock.VBuckets(4))
	for range control.MaxConsoles {
		c.stream()
	}
	require.Equal(t, "limit_reached", c.fails(503, "GET", "/console/events", nil)["code"])
	require.Equal(t, "limit_reached", c.fails(400, "POST", "/v1/operations", body{
		"items": make([]body, control.MaxObjects+1),
	})["code"])
	began := time.Now()
	m := mock.Start(t, mock.Nodes(1), mock.VBuckets(4))
	s, err := control.Listen(m, "127.0.0.1:0", control.Options{Console: true})
	require.NoError(t, err)
	nc, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	require.NoError(t, err)
	defer nc.Close()
	_, err = io.WriteString(nc, "GET /console/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	require.NoError(t, err)
	other := &controlled{t, m, s.URL(), c.http}
	require.Eventually(t, func() bool {
		return other.ok("POST", "/v1/operations", body{})["consoles"] == float64(1)
	}, time.Minute, 10*time.Millisecond)
	large := body{"items": []body{{"error": strings.Repeat("x", 1<<19)}}}
	for range 64 { // 32 MiB are more than sockets hold
		other.ok("POST", "/v1/operations", large)
	}
	c.http.CloseIdleConnections()
	require.NoError(t, s.Close())
	require.Less(t, time.Since(began), time.Minute)
}

// The page is one of this host, runs no script but its own, and is not there unless it is asked for.
func TestThePageIsGuarded(t *testing.T) {
	c := startWith(t, control.Options{Console: true}, mock.Nodes(1), mock.VBuckets(4))
	get := func(path string, set func(*http.Request)) (int, http.Header, string) {
		rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+path, nil)
		require.NoError(t, err)
		set(rq)
		answer, err := c.http.Do(rq)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, answer.Header, string(text)
	}
	for path, kind := range map[string]string{
		"/console/": "text/html", "/console/console.js": "javascript", "/console/console.css": "text/css",
	} {
		status, header, text := get(path, func(*http.Request) {})
		require.Equal(t, 200, status, path)
		require.Contains(t, header.Get("Content-Type"), kind)
		policy := header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'; script-src 'self';")
		require.Contains(t, policy, "frame-ancestors 'none'")
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
		for _, way := range []string{
			"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "http://",
			"https://",
		} {
			require.NotContains(t, text, way, "%s: text of the wire is text, and nothing is foreign", path)
		}
		for name, set := range map[string]func(*http.Request){
			"origin": func(r *http.Request) { r.Header.Set("Origin", "http://elsewhere.example") },
			"port":   func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") },
			"site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
			"host":   func(r *http.Request) { r.Host = "rebound.example" },
		} {
			for _, p := range []string{path, "/console/events"} {
				status, _, _ := get(p, set)
				require.Equal(t, 403, status, "%s %s", p, name)
			}
		}
	}
	without := start(t, mock.Nodes(1), mock.VBuckets(4))
	require.Equal(t, "not_found", without.fails(404, "GET", "/console/", nil)["code"])
	require.Equal(t, "not_found", without.fails(404, "GET", "/console/events", nil)["code"])
	require.NotContains(t, without.ok("GET", "/", nil), "console")
}
