package mock_test

import (
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/viewjs"
)

// rowReader is what gocbcore's readers have in common.
type rowReader interface {
	NextRow() []byte
	Err() error
	MetaData() ([]byte, error)
	Close() error
}

// allRows reads a stream to its end.
func allRows(r rowReader) (rows []string, meta map[string]any, err error) {
	for row := r.NextRow(); row != nil; row = r.NextRow() {
		rows = append(rows, string(row))
	}
	if err := r.Err(); err != nil {
		return rows, nil, err
	}
	b, err := r.MetaData()
	if err == nil {
		err = json.Unmarshal(b, &meta)
	}
	return rows, meta, err
}

func deadline() time.Time { return time.Now().Add(patience) }

// gocbcore runs queries the way gocb does: with named arguments, prepared in both ways, and into errors.
func TestGocbcoreQueries(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	query := func(statement string, more string) (*gocbcore.N1QLRowReader, error) {
		return outcome(t, func(done func(*gocbcore.N1QLRowReader, error)) (gocbcore.PendingOp, error) {
			return a.N1QLQuery(gocbcore.N1QLQueryOptions{
				Payload: []byte(`{"statement":` + strconv.Quote(statement) + more + `}`), Deadline: deadline(),
			}, done)
		})
	}
	prepared := func(statement string) (*gocbcore.N1QLRowReader, error) {
		return outcome(t, func(done func(*gocbcore.N1QLRowReader, error)) (gocbcore.PendingOp, error) {
			return a.PreparedN1QLQuery(gocbcore.N1QLQueryOptions{
				Payload: []byte(`{"statement":` + strconv.Quote(statement) + `}`), Deadline: deadline(),
				RetryStrategy: gocbcore.NewBestEffortRetryStrategy(nil),
			}, done)
		})
	}
	r, err := query("SELECT $x AS v", `,"$x":[1],"client_context_id":"me"`)
	require.NoError(t, err)
	rows, meta, err := allRows(r)
	require.NoError(t, err)
	require.Equal(t, []string{`{"v":[1]}`}, rows)
	require.Equal(t, "me", meta["clientContextID"])
	_, err = query("SELECT * FROM nowhere", "")
	var qe *gocbcore.N1QLError
	require.ErrorAs(t, err, &qe)
	require.EqualValues(t, 12003, qe.Errors[0].Code)
	require.Equal(t, 424, qe.HTTPResponseCode)

	s := c.ScriptQuery("FROM cars", mock.Answer{Rows: []string{"1", "2"}})
	var name string
	for range 3 {
		r, err = prepared("SELECT * FROM cars")
		require.NoError(t, err)
		if n, err := r.PreparedName(); err == nil {
			name = n
		}
		rows, _, err = allRows(r)
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2"}, rows)
	}
	require.Equal(t, c.Prepared()["SELECT * FROM cars"], name)
	require.Equal(t, 3, s.Fired())
	c.FailPrepared(4050)
	r, err = prepared("SELECT * FROM cars")
	require.NoError(t, err)
	rows, _, err = allRows(r)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, 4, s.Fired(), "executed once, after being prepared again")

	c.ScriptQuery("cut", mock.Answer{Rows: []string{"1", "2", "3"}, CutRows: 2})
	r, err = query("SELECT cut", "")
	require.NoError(t, err)
	rows, _, err = allRows(r)
	require.Error(t, err)
	require.NotEmpty(t, rows)
	require.Less(t, len(rows), 3)
}

func TestGocbcorePreparesTheOlderWay(t *testing.T) {
	c := mock.Start(t, mock.Capabilities("n1ql"))
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	s := c.ScriptQuery("FROM cars", mock.Answer{Rows: []string{"1"}})
	for range 2 {
		r, err := outcome(t, func(done func(*gocbcore.N1QLRowReader, error)) (gocbcore.PendingOp, error) {
			return a.PreparedN1QLQuery(gocbcore.N1QLQueryOptions{Payload: []byte(`{"statement":"SELECT * FROM cars"}`), Deadline: deadline()}, done)
		})
		require.NoError(t, err)
		rows, _, err := allRows(r)
		require.NoError(t, err)
		require.Equal(t, []string{"1"}, rows)
		c.ForgetPrepared() // the plan that the client has is enough
	}
	require.Equal(t, 2, s.Fired())
	var prepares int
	for _, rq := range c.ServiceLog(mock.QueryService) {
		if rq.Preparing {
			prepares++
		}
	}
	require.Equal(t, 1, prepares)
}

func TestGocbcoreSearchesAnalysesAndViews(t *testing.T) {
	c := mock.Start(t, mock.Views(viewjs.New(viewjs.Options{})))
	require.NoError(t, c.PutDesignDocument("default", "shop",
		`{"views":{"sum":{"map":"function (doc) { emit([doc.kind], doc.price); }","reduce":"_sum"}}}`))
	r := login(t, c, baseFeatures...)
	r.set("a", `{"kind":"car","price":5}`)
	r.set("b", `{"kind":"car","price":16}`)
	r.set("c", `{"kind":"bike","price":1}`)
	r.set("d", `{"kind":"bus","price":20}`)
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	search := func(index string) (*gocbcore.SearchRowReader, error) {
		return outcome(t, func(done func(*gocbcore.SearchRowReader, error)) (gocbcore.PendingOp, error) {
			return a.SearchQuery(gocbcore.SearchQueryOptions{IndexName: index, Payload: []byte(`{"query":{"match_none":{}}}`), Deadline: deadline()}, done)
		})
	}
	_, err := search("none")
	require.ErrorIs(t, err, gocbcore.ErrIndexNotFound)
	c.ScriptSearch("travel", mock.Answer{Rows: []string{`{"id":"a","score":1.5}`}})
	sr, err := search("travel")
	require.NoError(t, err)
	rows, meta, err := allRows(sr)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.EqualValues(t, 1, meta["total_hits"])

	analyse := func(statement string) (*gocbcore.AnalyticsRowReader, error) {
		return outcome(t, func(done func(*gocbcore.AnalyticsRowReader, error)) (gocbcore.PendingOp, error) {
			return a.AnalyticsQuery(gocbcore.AnalyticsQueryOptions{Payload: []byte(`{"statement":` + strconv.Quote(statement) + `}`), Deadline: deadline()}, done)
		})
	}
	ar, err := analyse("SELECT 1")
	require.NoError(t, err)
	rows, _, err = allRows(ar)
	require.NoError(t, err)
	require.Equal(t, []string{`{"$1":1}`}, rows)
	_, err = analyse("SELECT * FROM nothing")
	require.ErrorIs(t, err, gocbcore.ErrDatasetNotFound)

	view := func(name string, options url.Values) (*gocbcore.ViewQueryRowReader, error) {
		return outcome(t, func(done func(*gocbcore.ViewQueryRowReader, error)) (gocbcore.PendingOp, error) {
			return a.ViewQuery(gocbcore.ViewQueryOptions{
				DesignDocumentName: "shop", ViewType: "_view", ViewName: name, Options: options, Deadline: deadline(),
			}, done)
		})
	}
	vr, err := view("sum", url.Values{"stale": {"false"}, "group_level": {"1"}})
	require.NoError(t, err)
	rows, _, err = allRows(vr)
	require.NoError(t, err)
	require.Equal(t, []string{`{"key":["bike"],"value":1}`, `{"key":["bus"],"value":20}`, `{"key":["car"],"value":21}`}, rows)
	_, err = view("nothing", nil)
	require.ErrorIs(t, err, gocbcore.ErrViewNotFound)
}

func TestGocbcorePingsEveryServiceAndReadsAnything(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	a := agent(t, c, nil)
	require.NoError(t, ready(t, a))
	// Not views: an agent with a bucket does not find the address to ping among its endpoints, which end in the bucket.
	services := []gocbcore.ServiceType{
		gocbcore.MemdService, gocbcore.N1qlService, gocbcore.FtsService,
		gocbcore.CbasService,
	}
	res, err := outcome(t, func(done func(*gocbcore.PingResult, error)) (gocbcore.PendingOp, error) {
		return a.Ping(gocbcore.PingOptions{
			ServiceTypes: services, N1QLDeadline: deadline(), FtsDeadline: deadline(), CbasDeadline: deadline(),
			CapiDeadline: deadline(), MgmtDeadline: deadline(), KVDeadline: deadline(),
		}, done)
	})
	require.NoError(t, err)
	for _, s := range services {
		require.Len(t, res.Services[s], 2)
		for _, e := range res.Services[s] {
			require.Equal(t, gocbcore.PingStateOK, e.State, "%v: %v", s, e.Error)
		}
	}
	_, err = outcome(t, func(done func(*gocbcore.WaitUntilReadyResult, error)) (gocbcore.PendingOp, error) {
		return a.WaitUntilReady(time.Now().Add(5*time.Second), gocbcore.WaitUntilReadyOptions{ServiceTypes: services},
			done)
	})
	require.NoError(t, err)
	got, err := outcome(t, func(done func(*gocbcore.HTTPResponse, error)) (gocbcore.PendingOp, error) {
		return a.DoHTTPRequest(&gocbcore.HTTPRequest{
			Service: gocbcore.MgmtService, Method: "GET", Path: "/pools",
			Deadline: deadline(),
		}, done)
	})
	require.NoError(t, err)
	defer got.Body.Close()
	require.Equal(t, 200, got.StatusCode)
	b, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.Contains(t, string(b), "isAdminCreds")
}

// gocbcore takes its configurations from the streaming ones of the management service when KV gives none.
func TestGocbcoreBootstrapsOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	a := agent(t, c, func(cfg *gocbcore.AgentConfig) {
		cfg.SeedConfig.MemdAddrs = nil
		cfg.SeedConfig.HTTPAddrs = []string{c.Node(0).ManagementAddr()}
	})
	require.NoError(t, ready(t, a))
	_, err := set(t, a, "k", "1")
	require.NoError(t, err)
	require.NotEmpty(t, c.ServiceLog(mock.ManagementService))
}
