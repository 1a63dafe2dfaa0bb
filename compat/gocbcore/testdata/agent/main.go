// Agent uses gocbcore itself, and prints what it has seen: "spans" or "own-spans", for the spans of a write, with and
// without one of the operation's own, or "security", for connections while TLS is turned on and off.
package main

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/couchbase/gocbcore/v10"
)

func main() {
	rec := &recorder{}
	config := &gocbcore.AgentConfig{BucketName: "default"}
	must(config.FromConnStr(os.Args[2]))
	config.SecurityConfig.Auth = gocbcore.PasswordAuthProvider{Username: "Administrator", Password: "password"}
	config.IoConfig.UseCollections = true
	if strings.HasSuffix(os.Args[1], "spans") {
		config.TracerConfig = gocbcore.TracerConfig{Tracer: rec, NoRootTraceSpans: os.Args[1] == "spans"}
	}
	agent, err := gocbcore.CreateAgent(config)
	must(err)
	done := make(chan error, 1)
	_, err = agent.WaitUntilReady(time.Now().Add(10*time.Second), gocbcore.WaitUntilReadyOptions{
		ServiceTypes: []gocbcore.ServiceType{gocbcore.MemdService},
	}, func(_ *gocbcore.WaitUntilReadyResult, err error) { done <- err })
	must(err)
	must(<-done)
	if os.Args[1] == "security" {
		security(agent)
	} else {
		must(set(agent))
		rec.print()
	}
	must(agent.Close())
}

func set(agent *gocbcore.Agent) error {
	done := make(chan error, 1)
	_, err := agent.Set(gocbcore.SetOptions{
		Key: []byte("k"), Value: []byte("1"), TraceContext: &span{path: "program"},
		RetryStrategy: gocbcore.NewBestEffortRetryStrategy(nil), Deadline: time.Now().Add(5 * time.Second),
	}, func(_ *gocbcore.StoreResult, err error) { done <- err })
	if err != nil {
		return err
	}
	return <-done
}

// security turns TLS on and off, and prints what connections there are.
func security(agent *gocbcore.Agent) {
	pem, err := os.ReadFile(os.Args[3])
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	for _, on := range []bool{false, true, false} {
		if on != agent.IsSecure() {
			must(agent.ReconfigureSecurity(gocbcore.ReconfigureSecurityOptions{
				UseTLS: on, TLSRootCAProvider: func() *x509.CertPool { return pool },
			}))
		}
		for began := time.Now(); !reached(agent); time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				must(fmt.Errorf("not connected anew"))
			}
		}
		must(set(agent))
		scheme, _, _ := strings.Cut(agent.MgmtEps()[0], ":")
		fmt.Println(agent.IsSecure(), scheme, request(agent))
	}
}

// reached reports whether all connections are to the addresses of the map.
func reached(agent *gocbcore.Agent) bool {
	info, err := agent.Diagnostics(gocbcore.DiagnosticsOptions{})
	must(err)
	want := map[string]bool{}
	for _, ep := range agent.MemdEps() {
		_, addr, _ := strings.Cut(ep, "://")
		want[addr] = true
	}
	for _, c := range info.MemdConns {
		_, addr, found := strings.Cut(c.RemoteAddr, "://")
		if !found {
			addr = c.RemoteAddr
		}
		if _, _, err := net.SplitHostPort(addr); err != nil || !want[addr] || c.State != gocbcore.EndpointStateConnected {
			return false
		}
	}
	return len(info.MemdConns) > 0
}

func request(agent *gocbcore.Agent) string {
	done := make(chan string, 1)
	_, err := agent.DoHTTPRequest(&gocbcore.HTTPRequest{
		Service: gocbcore.MgmtService, Method: "GET", Path: "/pools/default", IsIdempotent: true,
		Deadline: time.Now().Add(5 * time.Second),
	}, func(r *gocbcore.HTTPResponse, err error) {
		must(err)
		must(r.Body.Close())
		scheme, _, _ := strings.Cut(r.Endpoint, ":")
		done <- fmt.Sprint(scheme, " ", r.StatusCode)
	})
	must(err)
	return <-done
}

// recorder is a tracer that notes what happens in order.
type recorder struct {
	lock  sync.Mutex
	lines []string
}

// RequestSpan implements gocbcore.RequestTracer.
func (r *recorder) RequestSpan(parent gocbcore.RequestSpanContext, name string) gocbcore.RequestSpan {
	s := &span{of: r, path: name, tags: map[string]bool{}}
	if p, ok := parent.(*span); ok && p != nil {
		s.path = p.path + "/" + name
	}
	s.say("begin")
	return s
}

func (r *recorder) print() {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, l := range r.lines {
		fmt.Println(l)
	}
}

type span struct {
	of   *recorder
	path string
	tags map[string]bool
}

func (s *span) say(what string) {
	s.of.lock.Lock()
	defer s.of.lock.Unlock()
	if strings.HasPrefix(s.path, "program/") {
		s.of.lines = append(s.of.lines, what+" "+s.path)
	}
}

// End implements gocbcore.RequestSpan.
func (s *span) End() {
	tags := make([]string, 0, len(s.tags))
	for t := range s.tags {
		tags = append(tags, t)
	}
	sort.Strings(tags)
	s.say("end " + strings.Join(tags, ","))
}

// Context implements gocbcore.RequestSpan.
func (s *span) Context() gocbcore.RequestSpanContext { return s }

// AddEvent implements gocbcore.RequestSpan.
func (s *span) AddEvent(string, time.Time) {}

// SetAttribute implements gocbcore.RequestSpan.
func (s *span) SetAttribute(key string, _ any) { s.tags[key] = true }

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
