package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// Statements: a worker of half the runs asks the query service, which executes a statement as a whole, in part or not
// at all, whatever its answer says of that. Each has a token, by which the mock counts how often it was executed. It is
// judged from that count alone: a statement that writes is executed once at most (P2), and at least once when it
// succeeded (P3); one that fails without doubt was not executed at all (P4); each ends by its deadline (P1).

// statement is a statement's line in the ledger.
type statement struct {
	token        string
	reads        bool // it says that it changes nothing
	limit        time.Duration
	began, ended time.Duration
	err          error
	inDoubt      bool
}

func (s *statement) String() string {
	kind := "writing"
	if s.reads {
		kind = "reading"
	}
	return fmt.Sprintf("%s statement %s within %v -> in doubt %t (%v)", kind, s.token, s.limit, s.inDoubt, s.err)
}

// outcomes of a statement at the query service. Those that have executed something say so in executed.
var executions = []struct {
	name     string
	executed bool
	often    int // of 20
	answer   mock.Answer
}{
	{"executed", true, 7, mock.Answer{Mutated: 1}},
	{"executed, with a row", true, 1, mock.Answer{Mutated: 1, Rows: []string{`{"n":1}`}}},
	{"executed in part, then timed out", true, 3, mock.Answer{Mutated: 1, Errors: []mock.ServiceError{
		{Code: 1080, Message: "Timeout 75ms exceeded", Retry: true},
	}}},
	{"executed in part, without a count", true, 1, mock.Answer{Errors: []mock.ServiceError{
		{Code: 1080, Message: "Timeout 75ms exceeded", Retry: true},
	}}},
	{"executed in part, then failed", true, 2, mock.Answer{Mutated: 1, Errors: []mock.ServiceError{
		{Code: 12009, Message: "DML Error, possible causes include CAS mismatch", Retry: true},
	}}},
	{"executed, and no answer", true, 1, mock.Answer{Never: true}},
	{"executed, then closed", true, 1, mock.Answer{Close: true}},
	{"executed, then cut off", true, 1, mock.Answer{Mutated: 1, Rows: []string{`{"n":1}`, `{"n":2}`}, CutBytes: 30}},
	{"not executed, then closed", false, 1, mock.Answer{Close: true}},
	{
		"not executed: no index", false, 1,
		mock.Answer{Errors: []mock.ServiceError{{Code: 5000, Message: "queryport.indexNotFound"}}},
	},
	{
		"not executed: no such keyspace", false, 1,
		mock.Answer{Errors: []mock.ServiceError{{Code: 12003, Message: "Keyspace not found"}}},
	},
}

// statementFault begins the names of these among the faults.
const statementFault = "47 statement "

// executes has the query service execute the run's statements.
func (w *world) executes() {
	w.executed = map[string]int{}
	w.m.ScriptQuery("SIM ", mock.Answer{Func: func(rq *mock.ServiceRequest) mock.Answer {
		_, token, _ := strings.Cut(rq.Statement, "SIM ")
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked++
		n := w.d.below(20, text("execute"), text(token), uint64(w.asked))
		for _, e := range executions {
			if n -= e.often; n >= 0 {
				continue
			}
			if e.executed {
				w.executed[token]++
			}
			w.report.FaultsFired[statementFault+e.name]++
			return e.answer
		}
		return mock.Answer{}
	}})
}

// ask makes statements until ctx ends.
func (w *world) ask(ctx context.Context) {
	r := newSource(w.d, text("statements"))
	for n := 0; ; n++ {
		sleep(ctx, r.between(10*time.Millisecond, 200*time.Millisecond))
		if ctx.Err() != nil {
			return
		}
		s := &statement{token: fmt.Sprintf("s-%d", n), reads: r.below(4) == 0, limit: r.between(20*time.Millisecond,
			1500*time.Millisecond)}
		verb := "UPSERT SIM "
		if s.reads {
			verb = "SELECT SIM "
		}
		rq := &query.Request{Statement: verb + s.token, Readonly: s.reads, Timeout: s.limit}
		if r.below(2) == 0 {
			rq.Retry = retry.BestEffort{}
		}
		s.began = w.since()
		rows, err := w.c.Query(context.Background(), rq)
		if err == nil {
			for rows.Next() {
				_ = rows.Row()
			}
			_ = rows.Close()
			err = rows.Err()
		}
		s.ended, s.err = w.since(), err
		var qe *query.Error
		s.inDoubt = err != nil && (!errors.As(err, &qe) || qe.Ambiguous())
		w.mu.Lock()
		w.statements = append(w.statements, s)
		w.mu.Unlock()
	}
}

// checkStatements judges them.
func (w *world) checkStatements() {
	for _, s := range w.statements {
		n := w.executed[s.token]
		if took := s.ended - s.began; took > s.limit+cancelSlack {
			w.report.violate("P1", "%s: it took %v", s, took)
		}
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
