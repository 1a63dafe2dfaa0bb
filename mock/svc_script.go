package mock

import (
	"context"
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// ServiceMatch says which requests a script answers. Every field that is not empty must fit. Requests that fail to
// authenticate, and pings, never reach a script.
type ServiceMatch struct {
	Service   Service // KVService, which is the zero value, matches every service
	Nodes     []int   // numbers of nodes
	Method    string
	Path      string                     // a part of the path
	Statement string                     // a part of the statement, whatever way the request names it
	Pattern   *regexp.Regexp             // of the statement
	Index     string                     // as ServiceRequest.Index, or its last parts after a slash or dot
	Preparing bool                       // match PREPARE instead of executions, the only thing that is matched otherwise
	Func      func(*ServiceRequest) bool // must not block or keep the request; may run on several goroutines
	Skip      int                        // this many matching requests pass first
	Times     int                        // the script answers this often, 0 means always
}

// Answer is how a script answers one request. The zero value is an answer without rows.
//
// Rows, Errors, Warnings and Members make the envelope that the service is known for, with the request's own context id
// and true counts in it. Body replaces all of that, and Default asks for what the mock would answer by itself.
type Answer struct {
	Status   int               // 0: 200, or what the service sends with the first of Errors
	Header   http.Header       // added to the answer's own, which lose
	Rows     []string          // JSON texts
	Stream   iter.Seq[[]byte]  // instead of Rows; runs on the request's goroutine, and its bytes are used at once
	Errors   []ServiceError    // after the rows
	Warnings []ServiceError    //
	Mutated  int               // documents that the statement has changed, for the metrics of the query service
	Members  map[string]string // JSON texts: add to the envelope, or replace what it has; an empty text leaves out
	Early    bool              // everything else comes before the rows
	Body     []byte            // sent as it is
	Default  bool              // rows, errors and members are those without a script; what follows holds

	Func func(*ServiceRequest) Answer // instead of this Answer; must not block

	Hold       bool          // wait for Script.Release first
	Delay      time.Duration // before the headers
	RowDelay   time.Duration // before each row
	Chunk      int           // send pieces of this many bytes, each on its own; 0: as large as they come
	Trickle    time.Duration // between those pieces
	CutRows    int           // break the connection after so many rows; 0: not
	CutBytes   int           // break it after so many bytes of the body; negative: after the headers
	StallRows  int           // send nothing more after so many rows, until Script.Release
	StallBytes int           // the same, counted as CutBytes
	Never      bool          // no answer at all, until the client leaves
	Close      bool          // break the connection instead of answering
	Deadline   bool          // waits end at the timeout that the request names, with the service's own timeout error
}

// ServiceError is an error or warning in an answer. For query and analytics it becomes {"code","msg","retry"} and so on;
// for search its Message is the answer's error text; for views Message and Reason are the error and its reason, or
// Message is the reason of an error behind rows.
type ServiceError struct {
	Code    int
	Message string
	Retry   bool   // retriable for analytics
	Reason  string // JSON text of the member "reason"; plain text for views
	Cause   string // JSON text
	Raw     string // the whole element as JSON text, instead of all others
}

// Script is a list of answers in force. Its methods may be called from any goroutine.
type Script struct {
	c       *Cluster
	match   ServiceMatch
	answers []Answer
	release chan struct{}

	mu      sync.Mutex
	seen    int
	fired   int
	off     bool
	open    bool
	changed chan struct{} // closed and replaced when fired grows
}

// scripts is the list of a cluster's scripts, in the order they were made.
type scripts struct {
	mu   sync.Mutex
	list []*Script // replaced, never changed in place
}

// Script answers matching requests until Remove: the first answer for the first request, and so on; the last one is for
// all that follow. Of several scripts that match, the newest that is not used up answers.
func (c *Cluster) Script(m ServiceMatch, answers ...Answer) *Script {
	if len(answers) == 0 {
		answers = []Answer{{}}
	}
	m.Nodes = slices.Clone(m.Nodes)
	s := &Script{
		c: c, match: m, answers: slices.Clone(answers), release: make(chan struct{}), changed: make(chan struct{}),
	}
	l := &c.services.scripts
	l.mu.Lock()
	l.list = append([]*Script{s}, l.list...)
	l.mu.Unlock()
	return s
}

// ScriptQuery is Script for executions of query statements that contain a text.
func (c *Cluster) ScriptQuery(statement string, answers ...Answer) *Script {
	return c.Script(ServiceMatch{Service: QueryService, Statement: statement}, answers...)
}

// ScriptAnalytics is Script for analytics statements that contain a text.
func (c *Cluster) ScriptAnalytics(statement string, answers ...Answer) *Script {
	return c.Script(ServiceMatch{Service: AnalyticsService, Statement: statement}, answers...)
}

// ScriptSearch is Script for queries of a search index, see ServiceMatch.Index.
func (c *Cluster) ScriptSearch(index string, answers ...Answer) *Script {
	return c.Script(ServiceMatch{Service: SearchService, Index: index, Path: "/query"}, answers...)
}

// ScriptView is Script for a view, "bucket/design document/view" or the last parts of that.
func (c *Cluster) ScriptView(view string, answers ...Answer) *Script {
	return c.Script(ServiceMatch{Service: ViewsService, Index: view, Path: "/_view/"}, answers...)
}

// Fired returns how many requests the script has answered, or is answering.
func (s *Script) Fired() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fired
}

// WaitFired waits until n requests have met the script, or ctx ends, whose error it returns then.
func (s *Script) WaitFired(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		fired, ch := s.fired, s.changed
		s.mu.Unlock()
		if fired >= n {
			return nil
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Release lets go of every request that Hold keeps or that has stalled, now and later.
func (s *Script) Release() {
	s.mu.Lock()
	open := s.open
	s.open = true
	s.mu.Unlock()
	if !open {
		close(s.release)
	}
}

// Remove ends the script. Requests that it is answering go on.
func (s *Script) Remove() {
	s.mu.Lock()
	s.off = true
	s.mu.Unlock()
	l := &s.c.services.scripts
	l.mu.Lock()
	l.list = slices.DeleteFunc(slices.Clone(l.list), func(x *Script) bool { return x == s })
	l.mu.Unlock()
}

// take counts a matching request and returns the answer to it, or nil when the script passes.
func (s *Script) take() *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off {
		return nil
	}
	s.seen++
	if s.seen <= s.match.Skip || s.match.Times > 0 && s.fired >= s.match.Times {
		return nil
	}
	a := s.answers[min(s.fired, len(s.answers)-1)]
	s.fired++
	close(s.changed)
	s.changed = make(chan struct{})
	return &a
}

// pick returns the script that answers rq, and its answer, or nil.
func (l *scripts) pick(rq *ServiceRequest) (*Script, *Answer) {
	l.mu.Lock()
	list := l.list
	l.mu.Unlock()
	for _, s := range list {
		if !s.match.fits(rq) {
			continue
		}
		if a := s.take(); a != nil {
			if a.Func != nil {
				made := a.Func(rq)
				a = &made
			}
			return s, a
		}
	}
	return nil, nil
}

func (m *ServiceMatch) fits(rq *ServiceRequest) bool {
	switch {
	case m.Service != KVService && m.Service != rq.Service,
		len(m.Nodes) > 0 && !slices.Contains(m.Nodes, rq.Node),
		m.Method != "" && m.Method != rq.Method,
		m.Path != "" && !strings.Contains(rq.Path, m.Path),
		m.Statement != "" && !strings.Contains(rq.Statement, m.Statement),
		m.Pattern != nil && !m.Pattern.MatchString(rq.Statement),
		m.Index != "" && !endsWithPath(rq.Index, m.Index),
		m.Preparing != rq.Preparing:
		return false
	}
	return m.Func == nil || m.Func(rq)
}

// endsWithPath reports whether whole is part, or ends with it behind a separator.
func endsWithPath(whole, part string) bool {
	before, ok := strings.CutSuffix(whole, part)
	return ok && (before == "" || strings.HasSuffix(before, "/") || strings.HasSuffix(before, "."))
}
