package services

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

const maxTransactions = 1024 // that are open at once

// execute is what becomes of a statement that no script knows: the interpreter executes it.
func (x *Call) execute() Answer {
	rq := x.rq
	switch strings.ToUpper(strings.Trim(rq.Statement, "; \t\n")) {
	case "SELECT MOCKROW":
		return Answer{Rows: []string{`{"row":"value"}`}}
	case "SELECT EMPTYROW":
		return Answer{}
	}
	o, failure := x.options()
	if failure != nil {
		return *failure
	}
	statement := rq.Statement
	o.Scans = func(k sqlpp.Keyspace) bool { return x.s.host.Scans(rq.Node, k.Bucket) }
	if rq.Service == Analytics {
		if a, ok := x.analyticsStatement(); ok {
			return a
		}
		o.Store, o.NoWrites = &datasets{queryStore{x.s}}, true
		o.Scans = func(sqlpp.Keyspace) bool { return true }
		statement = withMetadata(statement)
	}
	id := rq.text("txid")
	if o.Txn = x.s.transaction(id); id != "" && o.Txn == nil {
		return *failure1(sqlpp.CodeTxnContext, "Transaction context error: transaction %s is not known", id)
	}
	var res sqlpp.Result
	if x.keyValue != "" {
		res = sqlpp.KeyValue(x.keyValue, x.txdata().cas(), o)
	} else {
		res = sqlpp.Run(statement, o)
	}
	a := Answer{Rows: res.Rows, Mutated: res.Mutated}
	if res.Signature != "" && rq.Service == Query {
		a.Members = map[string]string{"signature": res.Signature}
	}
	for _, e := range res.Errors {
		if e.Unsupported {
			x.refuses(e.Message)
		}
		code := e.Code
		if code == sqlpp.CodeSyntax && rq.Service == Analytics {
			code = analyticsSyntax
		}
		a.Errors = append(a.Errors, Error{Code: code, Message: e.Message, Reason: x.reason(e)})
	}
	switch {
	case res.Begin:
		return x.begin()
	case res.End:
		x.s.endTransaction(id)
	}
	return a
}

// reason is the reason that an error has on nodes of that release.
func (x *Call) reason(e *sqlpp.Error) string {
	if !x.s.host.Reasons(x.rq.Node) {
		return ""
	}
	return e.Reason
}

const analyticsSyntax = 24000

// Run executes a statement of the query service for an administrator, without scripts and logs.
func (s *State) Run(statement string) error {
	x := &Call{s: s, rq: &Request{Service: Query, Statement: statement}}
	for _, e := range x.execute().Errors {
		return fmt.Errorf("mock: %s: %d: %s", statement, e.Code, e.Message)
	}
	return nil
}

// options are what the request says about the execution of its statement.
func (x *Call) options() (*sqlpp.Options, *Answer) {
	rq := x.rq
	o := &sqlpp.Options{
		Store: &queryStore{x.s}, Context: sqlpp.ParseContext(rq.text("query_context")), Named: map[string]any{},
		Now: time.Now(), UUID: freshUUID, PreserveExpiry: rq.flag("preserve_expiry"),
	}
	o.ReadOnly = rq.flag("readonly") || rq.Service == Query && rq.Method == http.MethodGet
	for name, raw := range rq.members {
		if name == "" || name[0] != '$' && name[0] != '@' {
			continue
		}
		if v, ok := sqlpp.Decode(raw); ok {
			o.Named[name[1:]] = v
		}
	}
	if raw := rq.members["args"]; raw != nil {
		v, ok := sqlpp.Decode(raw)
		list, isList := v.([]any)
		if !ok || !isList {
			return nil, failure1(1070, "Type mismatch: args must be an array")
		}
		o.Args = list
	}
	if x.using == "" {
		return o, nil
	}
	v, err := sqlpp.Value(x.using, o)
	switch v := v.(type) {
	case []any:
		o.Args = v
	case map[string]any:
		o.Named = v
	default:
		if err == nil {
			return nil, failure1(5010, "The parameters of EXECUTE must be an array or an object")
		}
		return nil, &Answer{Errors: []Error{{Code: err.Code, Message: err.Message}}}
	}
	return o, nil
}

// transaction is an open transaction, or nil.
func (s *State) transaction(id string) *sqlpp.Txn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.txns[id]
}

func (s *State) endTransaction(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.txns, id)
}

// txdata is what a client's own part of a transaction says: which attempt it is, what it has written, and in one
// operation the CAS that it has seen.
type txdata struct {
	ID struct {
		Attempt string `json:"atmpt"`
	} `json:"id"`
	Mutations []stagedWrite `json:"mutations"`
	SCAS      string        `json:"scas"`
}

// stagedWrite is a document that a client's transaction has written by key-value.
type stagedWrite struct {
	Bucket     string `json:"bkt"`
	Scope      string `json:"scp"`
	Collection string `json:"coll"`
	ID         string `json:"id"`
}

func (x *Call) txdata() (d txdata) {
	_ = jsonInto(x.rq.members["txdata"], &d) // without it all is empty
	return d
}

func (d txdata) cas() uint64 {
	n, _ := strconv.ParseUint(d.SCAS, 10, 64) // 0 without one
	return n
}

// begin opens a transaction and answers with its id: the one of the client's attempt, if it is part of one.
func (x *Call) begin() Answer {
	s, d := x.s, x.txdata()
	id := cmp.Or(d.ID.Attempt, freshUUID())
	t := sqlpp.NewTxn()
	for i := range d.Mutations {
		if m := &d.Mutations[i]; !(&queryStore{s}).stage(t, id, m) {
			return *failure1(17006, "Start Transaction statement error: document %s is not staged", m.ID)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.txns) >= maxTransactions {
		return *failure1(17006, "Start Transaction statement error: %d transactions are open", len(s.txns))
	}
	s.txns[id] = t
	return Answer{Rows: []string{fmt.Sprintf(`{"nodeUUID":%s,"txid":%s}`, quote(s.host.UUID()), quote(id))}}
}

// unquotedName takes the namespace and the quotes away from a keyspace.
func unquotedName(s string) string {
	s = strings.ReplaceAll(s, "`", "")
	if before, after, ok := strings.Cut(s, ":"); ok && strings.EqualFold(before, "default") {
		return after
	}
	return s
}

// parameterText is a parameter of a form: JSON if it is that, and a text otherwise.
func parameterText(name, value string) json.RawMessage {
	if name != "" && (name[0] == '$' || name[0] == '@' || name == "args") && json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	return json.RawMessage(quote(value))
}
