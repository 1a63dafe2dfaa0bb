package services

import (
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/mock/internal/trigger"
)

// Match says which requests a script answers. Every field that is not empty must fit. Requests that fail to
// authenticate, and pings, never reach a script.
type Match struct {
	Service   Service // KVService, which is the zero value, matches every service
	Nodes     []int   // numbers of nodes
	Method    string
	Path      string              // a part of the path
	Statement string              // a part of the statement, whatever way the request names it
	Pattern   *regexp.Regexp      // of the statement
	Index     string              // as ServiceRequest.Index, or its last parts after a slash or dot
	Preparing bool                // match PREPARE instead of executions, the only thing that is matched otherwise
	Func      func(*Request) bool // must not block or keep the request; may run on several goroutines
	Skip      int                 // this many matching requests pass first
	Times     int                 // the script answers this often, 0 means always

	Probability float64 // of answering a request that matches: 0, like 1, means every one
	Seed        uint64  // of the random numbers behind Probability
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
	Errors   []Error           // after the rows
	Warnings []Error           //
	Mutated  int               // documents that the statement has changed, for the metrics of the query service
	Members  map[string]string // JSON texts: add to the envelope, or replace what it has; an empty text leaves out
	RowsLast bool              // everything else comes before the rows
	Body     []byte            // sent as it is
	Default  bool              // rows, errors and members are those without a script; what follows holds

	Func func(*Request) Answer // instead of this Answer; must not block

	// Rewrite changes the whole body before any of it is sent: Default's, Body, or the envelope. It owns the bytes.
	Rewrite func(body []byte) []byte

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

// Error is an error or warning in an answer. For query and analytics it becomes {"code","msg","retry"} and so on;
// for search its Message is the answer's error text; for eventing Reason, Code and Message are the error's name, its
// code and its description; for views Message and Reason are the error and its reason, or Message is the reason of an
// error behind rows.
type Error struct {
	Code    int
	Message string
	Retry   bool   // retriable for analytics
	Reason  string // JSON text of the member "reason"; plain text for views and eventing
	Cause   string // JSON text
	Raw     string // the whole element as JSON text, instead of all others
}

// script is a list of answers and the requests that they are for.
type script struct {
	match   Match
	answers []Answer
}

// held is a script that acts on a request; nil for a request that none acts on.
type held = trigger.Item[script]

// Script answers matching requests until Remove: the first answer for the first request, and so on; the last one is for
// all that follow. Of several scripts that match, the newest that is not used up answers.
func (s *State) Script(m Match, answers ...Answer) *trigger.Trigger {
	if len(answers) == 0 {
		answers = []Answer{{}}
	}
	m.Nodes = slices.Clone(m.Nodes)
	return s.scripts.Add(script{m, slices.Clone(answers)},
		trigger.Often{Skip: m.Skip, Times: m.Times, Probability: m.Probability, Seed: m.Seed})
}

// scriptFor is the script that answers a request, and its answer, or nil. The newest is asked first.
func (s *State) scriptFor(rq *Request) (*held, *Answer) {
	for _, in := range slices.Backward(s.scripts.All()) {
		if !in.What.match.fits(rq) {
			continue
		}
		before, ok := in.Take()
		if !ok {
			continue
		}
		a := in.What.answers[min(before, len(in.What.answers)-1)]
		if a.Func != nil {
			a = a.Func(rq)
		}
		return in, &a
	}
	return nil, nil
}

func (m *Match) fits(rq *Request) bool {
	switch {
	case m.Service != KV && m.Service != rq.Service,
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
