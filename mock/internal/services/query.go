package services

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

// prepared is a statement that the query service knows by a name.
type prepared struct {
	statement string
	context   string
	stale     int // the error that using it meets; 0: none
}

// query answers a request of the query or the analytics service.
func (x *Call) query() {
	rq := x.rq
	if rq.Path != "/query/service" && rq.Path != "/query" && rq.Path != "/analytics/service" {
		x.scripted(x.queryOther)
		return
	}
	err := rq.parse()
	rq.Statement = strings.TrimSpace(rq.text("statement"))
	rq.Prepared = rq.text("prepared")
	if err != nil || rq.Statement == "" && rq.Prepared == "" {
		x.reply(nil, failure1(1050, "No statement or prepared value"))
		return
	}
	if rq.Service == Query {
		if failure := x.statement(); failure != nil {
			x.reply(nil, failure)
			return
		}
	}
	x.scripted(func() Answer {
		if rq.Service == Query {
			if failure := x.parameters(); failure != nil {
				return *failure
			}
		}
		if rq.Preparing {
			return x.prepareRow()
		}
		return x.execute()
	})
}

func failure1(code int, format string, args ...any) *Answer {
	return &Answer{Errors: []Error{{Code: code, Message: fmt.Sprintf(format, args...)}}}
}

// statement finds out which statement the request is about, and whether to execute it. An answer that it returns is a
// failure to do so.
func (x *Call) statement() *Answer {
	rq := x.rq
	p, ok := sqlpp.Split(rq.Statement)
	if ok && p.Execute && rq.Prepared == "" {
		rq.Prepared, x.using = p.Name, p.Using
	}
	if sqlpp.IsKeyValue(rq.Prepared) {
		x.keyValue, rq.Statement = rq.Prepared, "EXECUTE "+rq.Prepared
		return nil
	}
	if rq.Prepared != "" {
		p, failure := x.s.usePrepared(rq.Prepared, rq.text("encoded_plan"))
		if failure == nil {
			rq.Statement = p.statement
		}
		return failure
	}
	if ok && !p.Execute {
		rq.Statement, rq.Prepared = p.Statement, p.Name
		rq.Preparing = !rq.flag("auto_execute") || !x.s.host.Capable("n1ql", "enhancedPreparedStatements")
		if !sqlpp.IsStatement(rq.Statement) {
			return x.syntax()
		}
		if !rq.Preparing {
			x.prepared = quote(x.prepare())
		}
	}
	return nil
}

// syntax is the failure of a statement that cannot be read, nil for one that can.
func (x *Call) syntax() *Answer {
	if e := sqlpp.Check(x.rq.Statement); e != nil {
		if e.Unsupported {
			x.refuses(e.Message)
		}
		return &Answer{Errors: []Error{{Code: e.Code, Message: e.Message}}}
	}
	return nil
}

// prepare keeps the request's statement and returns its name.
func (x *Call) prepare() string {
	rq, s := x.rq, x.s
	context, here := rq.text("query_context"), s.host.ServiceAddr(rq.Node, Management)
	s.mu.Lock()
	defer s.mu.Unlock()
	if rq.Prepared == "" {
		for name, p := range s.prepared {
			if p.statement == rq.Statement && p.context == context && p.stale == 0 {
				rq.Prepared = name
			}
		}
	}
	if rq.Prepared == "" {
		rq.Prepared = "[" + here + "]" + freshUUID()
	}
	s.prepared[rq.Prepared] = &prepared{statement: rq.Statement, context: context}
	return rq.Prepared
}

// plan is what an encoded plan holds.
type plan struct {
	Name      string `json:"name"`
	Statement string `json:"statement"`
	Context   string `json:"queryContext"`
}

// prepareRow prepares, and answers with what an older client needs to execute the statement.
func (x *Call) prepareRow() Answer {
	if failure := x.syntax(); failure != nil {
		return *failure
	}
	name := x.prepare()
	p, _ := json.Marshal(plan{name, x.rq.Statement, x.rq.text("query_context")}) // strings cannot fail
	row := fmt.Sprintf(`{"encoded_plan":%s,"indexApiVersion":4,"featureControls":76,"name":%s,"namespace":"default",`+
		`"queryContext":%s,"operator":{},"signature":{"*":"*"},"statement":%s,"text":%s,"useFts":false,"useCBO":true}`,
		quote(base64.StdEncoding.EncodeToString(p)), quote(name), quote(x.rq.text("query_context")),
		quote("PREPARE "+x.rq.Statement), quote("PREPARE "+x.rq.Statement))
	return Answer{Rows: []string{row}, Members: map[string]string{"signature": `"json"`}}
}

// unknownPrepared is the error for a name without a statement. A server answers it with the HTTP status 404, and
// without a hint about a retry.
const unknownPrepared = 4040

// staleTexts are what the service says about a statement that cannot be used any more. The last one is what clients
// look for when an index of the plan is gone.
var staleTexts = map[int]string{
	unknownPrepared: "No such prepared statement", 4050: "Unrecognizable prepared statement",
	4060: "Unable to find prepared statement",
	4070: "Unable to decode prepared statement", 4080: "Encoded plan parameter does not match",
	4090: "Prepared statement is no longer valid", 5000: "Index Not Found - cause: queryport.indexNotFound",
}

// usePrepared finds a prepared statement. A plan brings back one that is not known any more.
func (s *State) usePrepared(name, encoded string) (*prepared, *Answer) {
	pl, wrong := readPlan(name, encoded) // before the mutex is taken
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.prepared[name]
	switch {
	case p != nil && p.stale != 0:
		return nil, failure1(p.stale, "%s: %s", cmp.Or(staleTexts[p.stale], "Prepared statement cannot be used"), name)
	case p != nil:
		return p, nil
	case wrong != nil:
		return nil, wrong
	}
	p = &prepared{statement: pl.Statement, context: pl.Context}
	s.prepared[name] = p
	return p, nil
}

// readPlan decodes the plan of a request for a prepared statement.
func readPlan(name, encoded string) (pl plan, wrong *Answer) {
	if encoded == "" {
		return pl, failure1(unknownPrepared, "No such prepared statement: %s", name)
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case err != nil || json.Unmarshal(b, &pl) != nil || pl.Statement == "":
		return pl, failure1(4070, "Unable to decode prepared statement %s", name)
	case pl.Name != name:
		return pl, failure1(4080, "Encoded plan parameter does not match %s", name)
	}
	return pl, nil
}

// ForgetPrepared removes every prepared statement, as a restart of the query service does: a request that names one
// without its plan gets the error 4040. It returns how many there were.
func (s *State) ForgetPrepared() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.prepared)
	clear(s.prepared)
	return n
}

// FailPrepared makes every statement that is prepared now fail with an error code, with or without a plan, until it is
// prepared again. It returns how many there are.
func (s *State) FailPrepared(code int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.prepared {
		p.stale = code
	}
	return len(s.prepared)
}

// Prepared returns the names of the statements that are prepared and can be used, by statement.
func (s *State) Prepared() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for name, p := range s.prepared {
		if p.stale == 0 {
			out[p.statement] = name
		}
	}
	return out
}

// queryOther answers paths beside that for queries.
func (x *Call) queryOther() Answer {
	switch path := x.rq.Path; {
	case x.rq.Service != Analytics:
	case path == "/analytics/node/agg/stats/remaining":
		return x.s.pending()
	case path == linksPath || strings.HasPrefix(path, linksPath+"/"):
		return x.links()
	}
	return Answer{
		Status: http.StatusNotFound, Body: []byte("404 page not found\n"),
		Header: http.Header{"Content-Type": {"text/plain"}},
	}
}
