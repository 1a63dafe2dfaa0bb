package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// Statements: workers of half the runs ask the query and the analytics service, which execute a statement as a whole,
// in part or not at all, whatever their answer says of that. Each has a token, by which the mock counts how often it
// was executed. It is judged from that count alone: a statement that writes is executed once at most (P2), and at least
// once when it succeeded (P3); one that fails without doubt was not executed at all (P4); each ends by its deadline
// (P1), and what it gives are the rows of one answer, from the first on (P5): see services.go.

// statement is a statement's line in the ledger.
type statement struct {
	asking
	reads   bool // it says that it changes nothing
	inDoubt bool
}

func (s *statement) String() string {
	kind := "writing"
	if s.reads {
		kind = "reading"
	}
	return fmt.Sprintf("%s statement %s within %v -> in doubt %t (%v)", kind, s.token, s.limit, s.inDoubt, s.err)
}

// execution is what a service does with a statement. Those that have executed something say so in executed.
type execution struct {
	name     string
	executed bool
	often    int // of all together
	answer   mock.Answer
}

func failing(code int, message string) mock.Answer {
	return mock.Answer{Errors: []mock.ServiceError{{Code: code, Message: message, Retry: true}}}
}

// executions are what the query service does.
func executions() []execution {
	inPart := failing(1080, "Timeout 75ms exceeded")
	inPart.Mutated = 1
	failed := failing(12009, "DML Error, possible causes include CAS mismatch")
	failed.Mutated = 1
	atEnd := failing(5001, "Panic: internal error")
	atEnd.Rows, atEnd.Mutated = rows(3), 1
	return append(deliveries(),
		execution{"executed", true, 14, mock.Answer{Mutated: 1}},
		execution{"executed, with rows", true, 4, mock.Answer{Mutated: 1, Rows: rows(5)}},
		execution{"executed in part, then timed out", true, 4, inPart},
		execution{"executed in part, without a count", true, 2, failing(1080, "Timeout 75ms exceeded")},
		execution{"executed in part, then failed", true, 3, failed},
		execution{"48b rows, then an error", true, 2, atEnd},
		execution{"not executed: no index", false, 2, failing(5000, "queryport.indexNotFound")},
		execution{"not executed: may come again", false, 2, failing(13015, "buffer of the transaction is full")},
		execution{"not executed: no such keyspace", false, 2, failing(12003, "Keyspace not found")},
	)
}

// analyses are what the analytics service does.
func analyses() []execution {
	again := mock.Answer{Errors: []mock.ServiceError{{Code: 23000, Message: "Analytics Service is unavailable"}}}
	full := mock.Answer{Errors: []mock.ServiceError{{Code: 23007, Message: "Job queue is full"}}}
	return append(deliveries(),
		execution{"executed", true, 10, mock.Answer{Rows: rows(2)}},
		execution{"not executed: for now", false, 3, again},
		execution{"not executed: too many", false, 2, full},
	)
}

// executes has the services execute the run's statements.
func (w *world) executes() {
	w.executed = map[string]int{}
	for service, table := range map[mock.Service][]execution{
		mock.QueryService: executions(), mock.AnalyticsService: analyses(),
	} {
		w.m.Script(mock.ServiceMatch{Service: service, Statement: "SIM"}, mock.Answer{
			Func: func(rq *mock.ServiceRequest) mock.Answer {
				return w.execute(service, table, tokenIn(rq))
			},
		})
	}
}

// tokenIn is the token of a statement.
func tokenIn(rq *mock.ServiceRequest) (token string) {
	if json.Unmarshal([]byte(rq.Member("$t")), &token) != nil {
		_, token, _ = strings.Cut(rq.Statement, "SIM ")
	}
	return token
}

// execute answers a request with a token.
func (w *world) execute(service mock.Service, table []execution, token string) mock.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if told := w.told[token]; w.since() < told.notBefore && !w.mayBeLost(told.at) {
		w.report.violate("P6", "the request %s came back %v before it was told to", token, told.notBefore-w.since())
	}
	asked := strings.Trim(token, `"`) // a view's key is JSON
	w.asked[asked]++
	if strings.HasPrefix(asked, calmToken) {
		table = obliging()
	}
	all := 0
	for _, e := range table {
		all += e.often
	}
	n := w.d.below(all, text("execute"), text(token), uint64(w.asked[asked]))
	for _, e := range table {
		if n -= e.often; n >= 0 {
			continue
		}
		if e.executed {
			w.executed[token]++
		}
		w.report.FaultsFired[served(service, e.name)]++
		if e.answer.Close {
			w.hungUp[asked]++
		}
		if w.packed[asked] = e.name == packedAnswer; w.packed[asked] {
			e.answer.Body = w.bomb
		}
		if seconds, err := strconv.Atoi(e.answer.Header.Get("Retry-After")); err == nil {
			w.told[token] = order{w.since(), w.since() + time.Duration(seconds)*time.Second}
		}
		return e.answer
	}
	return mock.Answer{Status: http.StatusInternalServerError} // not reached
}

// order is a service's word on when a request may come back.
type order struct{ at, notBefore time.Duration }

// mayBeLost tells, with w.mu held, whether an answer may be lost, because connections broke since it was given. One
// that broke shortly before may have brought the request all the same: the client sends it until it hears of that.
func (w *world) mayBeLost(since time.Duration) bool {
	n := len(w.disturbed)
	return n > 0 && w.disturbed[n-1].at.Sub(w.began) >= since-4*w.latency
}

// ask makes statements until ctx ends.
func (w *world) ask(ctx context.Context, of mock.Service) {
	r := newSource(w.d, text("statements"), uint64(of))
	for n := 0; ; n++ {
		sleep(ctx, r.between(10*time.Millisecond, 200*time.Millisecond))
		if ctx.Err() != nil {
			return
		}
		s := &statement{asking: w.asksFor(of, n, r), reads: r.below(4) == 0}
		w.state(s, r)
	}
}

// state makes a statement, in any of the forms, and enters it into the ledger.
func (w *world) state(s *statement, r *source) {
	verb := "UPSERT SIM "
	if s.reads {
		verb = "SELECT SIM "
	}
	var strategy retry.Strategy
	if r.below(2) == 0 {
		strategy = retry.BestEffort{}
	}
	if s.of == mock.AnalyticsService {
		got, err := w.c.Analytics(context.Background(), &analytics.Request{
			Statement: verb + s.token, Readonly: s.reads, Timeout: s.limit, Retry: strategy,
		})
		w.gather(&s.asking, got, err)
	} else {
		rq := &query.Request{Statement: verb + s.token, Readonly: s.reads, Timeout: s.limit, Retry: strategy}
		if r.below(3) == 0 { // a plan that is kept
			s.prepared = true
			rq.Prepare, rq.Named = true, map[string]any{"t": s.token}
			if rq.Statement = `UPSERT INTO default (KEY, VALUE) VALUES ($t, "SIM")`; s.reads {
				rq.Statement = `SELECT $t AS token, "SIM" AS sim`
			}
		}
		got, err := w.c.Query(context.Background(), rq)
		w.gather(&s.asking, got, err)
	}
	var unsure interface{ Ambiguous() bool }
	s.inDoubt = s.err != nil && (!errors.As(s.err, &unsure) || unsure.Ambiguous())
	w.mu.Lock()
	w.statements = append(w.statements, s)
	w.mu.Unlock()
}

// checkStatements judges them.
func (w *world) checkStatements() {
	for _, s := range w.statements {
		n := w.executed[s.token]
		w.checkAsked(&s.asking, s)
		switch {
		case s.reads:
		case n > 1:
			w.report.AppliedTwice++
			w.report.violate("P2", "%s: it was executed %d times", s, n)
		case s.err == nil && n == 0:
			w.report.Lost++
			w.report.violate("P3", "%s: it was never executed", s)
		case s.err != nil && !s.inDoubt && n > 0:
			w.report.violate("P4", "%s: it was executed", s)
		}
	}
}
