package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// situation is one question to explain, and how a client comes to meet it.
type situation struct {
	flags    []string // of explain, the strategy and the attempt apart
	policy   string   // the text of a policy file, or the name of a strategy
	failures int      // how many times in a row it is met
	prepare  func(m *mock.Cluster, times int)
	call     func(ctx context.Context, c *core.Cluster) error
}

// foretold is what explain says of one failure.
type foretold struct {
	Reason   *string   `json:"reason"`
	Decision string    `json:"decision"`
	DelayMS  []float64 `json:"delay_ms"`
	Error    *string   `json:"error"`
	inDoubt  bool
}

// foretell asks the command about each of the failures in turn.
func (s *situation) foretell(t *testing.T) (all []foretold) {
	t.Helper()
	flags := append([]string{"explain"}, s.flags...)
	if strings.HasPrefix(s.policy, "{") {
		flags = append(flags, "--strategy", "@"+written(t, s.policy))
	} else if s.policy != "" {
		flags = append(flags, "--strategy", s.policy)
	}
	for n := range s.failures {
		args := slices.Concat(flags, []string{"--attempt", strconv.Itoa(n)})
		r := couchcore(append([]string{"--json"}, args...)...)
		require.Zero(t, r.code, "%v: %s", args, r.stderr)
		var f foretold
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &f))
		all = append(all, f)
		if f.Decision != "retry" {
			all[n].inDoubt = strings.Contains(couchcore(args...).stdout, ", may have been applied")
			break
		}
	}
	return all
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// decisions is a retry.Observer that keeps the retries.
type decisions struct {
	mu    sync.Mutex
	whys  []retry.Reason
	after []time.Duration
}

func (d *decisions) Attempt(retry.AttemptInfo) {}

func (d *decisions) Retry(r *retry.Request, why retry.Reason, delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Operation != "get-collection-id" {
		d.whys, d.after = append(d.whys, why), append(d.after, delay)
	}
}

func (d *decisions) GaveUp(*retry.Request, retry.Reason, error) {}

// happens runs a client against a mock in virtual time and requires that what it does is what was foretold.
func (s *situation) happens(t *testing.T, all []foretold, random func() float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		seen := &decisions{}
		cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = mock.DefaultUser, core.NewSecret(mock.DefaultPassword),
			m.Dial
		cfg.Retry.JitterSource, cfg.Observe.Retry = random, seen
		switch {
		case s.policy == "best-effort":
			cfg.Retry.Strategy = retry.BestEffort{}
		case s.policy != "":
			cfg.Retry.Policy, err = core.ParsePolicy([]byte(s.policy))
			require.NoError(t, err)
		}
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, c.Bucket("default").WaitReady(ctx))
		s.prepare(m, s.failures)
		err = s.call(ctx, c)
		for n, f := range all {
			if f.Decision != "retry" {
				require.Len(t, seen.whys, n, "retries; the error is %v", err)
				require.Equal(t, f.Decision == "succeed", err == nil, "%v", err)
				if err != nil {
					require.Equal(t, *f.Error, failureOf(err).Kind, "%v", err)
					require.Equal(t, f.inDoubt, failureOf(err).Ambiguous, "in doubt: %v", err)
				}
				return
			}
			require.Greater(t, len(seen.whys), n, "retries; the error is %v", err)
			require.Equal(t, *f.Reason, seen.whys[n].String())
			require.GreaterOrEqual(t, ms(seen.after[n]), f.DelayMS[0], "retry %d", n)
			require.LessOrEqual(t, ms(seen.after[n]), f.DelayMS[1], "retry %d", n)
		}
	})
}

// kvCalls are operations by their name, with the opcode of their request.
var kvCalls = map[string]struct {
	opcode memd.Opcode
	call   func(ctx context.Context, b *core.Bucket, cas uint64) error
}{
	"get":           {memd.OpGet, done(func(uint64) kv.Get { return kv.Get{Key: key} })},
	"get-and-touch": {memd.OpGAT, done(func(uint64) kv.GetAndTouch { return kv.GetAndTouch{Key: key} })},
	"get-and-lock": {
		memd.OpGetLocked,
		done(func(uint64) kv.GetAndLock { return kv.GetAndLock{Key: key, LockTime: time.Second} }),
	},
	"unlock": {
		memd.OpUnlockKey,
		done(func(cas uint64) kv.Unlock { return kv.Unlock{Key: key, CAS: max(cas, 1)} }),
	},
	"upsert":  {memd.OpSet, done(func(uint64) kv.Upsert { return kv.Upsert{Key: key} })},
	"insert":  {memd.OpAdd, done(func(uint64) kv.Insert { return kv.Insert{Key: key} })},
	"replace": {memd.OpReplace, done(func(cas uint64) kv.Replace { return kv.Replace{Key: key, CAS: cas} })},
	"remove":  {memd.OpDelete, done(func(cas uint64) kv.Remove { return kv.Remove{Key: key, CAS: cas} })},
	"append": {memd.OpAppend, done(func(cas uint64) kv.Append {
		return kv.Append{
			Key: key, Value: key,
			CAS: cas,
		}
	})},
	"touch":     {memd.OpTouch, done(func(uint64) kv.Touch { return kv.Touch{Key: key} })},
	"increment": {memd.OpIncrement, done(func(uint64) kv.Increment { return kv.Increment{Key: key, Delta: 1} })},
}

var (
	key      = []byte("k")
	canHave  = []string{"replace", "remove", "append", "unlock"} // a CAS
	outcomes = []int{200, 400, 401, 403, 404, 409, 412, 429, 500, 502, 503, 504}
	waitFor  = []string{"", "", "0", "1", "3", "soon"}
	numbers  = map[string][]int{
		"query": {
			1000, 1065, 1080, 1191, 3000, 4040, 4050, 4060, 4070, 4080, 4090, 4300, 5000, 12003, 12004, 12009,
			12016, 13014, 17007,
		},
		"analytics": {20000, 21002, 21003, 23000, 23003, 23007, 24000, 24025, 25000},
	}
	listed = []string{
		"KV_TEMPORARY_FAILURE", "KV_LOCKED", "KV_SYNC_WRITE_IN_PROGRESS", "KV_ERROR_MAP_RETRY_INDICATED",
		"SERVICE_RESPONSE_CODE_INDICATED",
		"QUERY_INDEX_NOT_FOUND", "QUERY_ERROR_RETRYABLE", "ANALYTICS_TEMPORARY_FAILURE", "SEARCH_TOO_MANY_REQUESTS",
		"VIEWS_TEMPORARY_FAILURE",
		"SOCKET_CLOSED_WHILE_IN_FLIGHT",
	}
)

func done[R any, O kv.Op[R]](of func(cas uint64) O) func(ctx context.Context, b *core.Bucket, cas uint64) error {
	return func(ctx context.Context, b *core.Bucket, cas uint64) error {
		_, err := kv.Do(ctx, b, of(cas))
		return err
	}
}

func oneOf[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// kvSituation is any status that an operation of key-value is answered with, or a connection that is lost.
func kvSituation(r *rand.Rand, errorMap string) situation {
	names := opNamesOf(kvCalls)
	name := oneOf(r, names)
	op := kvCalls[name]
	s := situation{flags: []string{"--service", "kv", "--op", name}, failures: 3}
	var cas uint64
	for _, n := range canHave {
		if n == name && r.IntN(2) == 0 {
			cas = 7
			s.flags = append(s.flags, "--with-cas")
		}
	}
	s.call = func(ctx context.Context, c *core.Cluster) error { return op.call(ctx, c.Bucket("default"), cas) }
	fault := mock.CloseBefore()
	if r.IntN(8) == 0 {
		s.flags, s.failures = append(s.flags, "--lost-socket"), 1
	} else {
		st := oneOf(r, statuses())
		for call.Classify(op.opcode, st, cas != 0).Class == call.ClassSuccess {
			st = oneOf(r, statuses())
		}
		// what follows is about the next connection
		if call.Classify(op.opcode, st, cas != 0).Reconnect || st == memd.StatusAuthStale {
			s.failures = 1
		}
		s.flags = append(s.flags, "--status", fmt.Sprintf("0x%02x", uint16(st)), "--error-map", errorMap)
		fault = mock.Status(st)
	}
	s.prepare = func(m *mock.Cluster, times int) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{op.opcode}, Times: times}, fault)
	}
	return s
}

// statuses are those that the client knows, and one that it does not.
func statuses() []memd.Status {
	all := []memd.Status{0x7f}
	for st := range memd.Status(0x100) {
		if st.Known() {
			all = append(all, st)
		}
	}
	return all
}

func opNamesOf[V any](of map[string]V) (names []string) {
	for _, n := range opNames() {
		if _, ok := of[n]; ok {
			names = append(names, n)
		}
	}
	return names
}

// httpSituation is any answer of a service with HTTP.
func httpSituation(t *testing.T, r *rand.Rand) situation {
	t.Helper()
	service := oneOf(r, []string{"query", "analytics", "search", "views", "management"})
	status, after, readonly := oneOf(r, outcomes), oneOf(r, waitFor), r.IntN(2) == 0
	body := "{}"
	if codes := numbers[service]; codes != nil && r.IntN(4) > 0 {
		body = fmt.Sprintf(`{"requestID":"r","results":[],"errors":[{"code":%d,"msg":"m"}],"status":"fatal"}`, oneOf(r, codes))
	}
	op := service
	method := http.MethodGet
	if service == "management" {
		method = oneOf(r, []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete})
		op = method
	}
	s := situation{flags: []string{
		"--service", service, "--op", op, "--http", strconv.Itoa(status), "--body",
		written(t, body),
	}, failures: 3}
	if after != "" {
		s.flags = append(s.flags, "--retry-after", after)
	}
	if readonly {
		s.flags = append(s.flags, "--readonly")
	}
	s.prepare = func(m *mock.Cluster, times int) {
		a := mock.Answer{Status: status, Body: []byte(body), Header: http.Header{}}
		if after != "" {
			a.Header.Set("Retry-After", after)
		}
		m.Script(mock.ServiceMatch{Service: mockServices[service], Times: times}, a)
	}
	s.call = func(ctx context.Context, c *core.Cluster) error {
		switch service {
		case "query":
			return drain(c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: readonly}))
		case "analytics":
			return drain(c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1", Readonly: readonly}))
		case "search":
			return drain(c.Search(ctx, &search.Request{Index: "index", Query: map[string]any{}}))
		case "views":
			return drain(c.Bucket("default").View(ctx, &views.Request{
				Bucket: "default", Design: "design",
				View: "view",
			}))
		}
		resp, err := c.Do(ctx, &core.HTTPRequest{
			Service: core.Management, Method: method, Path: "/",
			Idempotent: readonly,
		})
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.Status >= http.StatusBadRequest {
			return &givenError{resp.Status}
		}
		return nil
	}
	return s
}

var mockServices = map[string]mock.Service{
	"query": mock.QueryService, "analytics": mock.AnalyticsService, "search": mock.SearchService,
	"views":      mock.ViewsService,
	"management": mock.ManagementService,
}

// anyPolicy is one of the client's strategies, or a policy file with lists.
func anyPolicy(r *rand.Rand, service string) string {
	switch r.IntN(3) {
	case 0:
		return ""
	case 1:
		return "best-effort"
	}
	var reasons []string
	for _, n := range listed {
		if r.IntN(3) > 0 {
			reasons = append(reasons, strconv.Quote(n))
		}
	}
	if reasons == nil {
		reasons = []string{strconv.Quote(listed[0])}
	}
	return fmt.Sprintf(`{"operationConfig":[{"name":[{"service":%q}],"retryPolicy":{"maxAttempts":%d,"initialBackoff":"0.05s",
		"maxBackoff":"0.4s","backoffMultiplier":%d,"retryableReasons":[%s]}}]}`, service, 2+r.IntN(4), 1+r.IntN(3), strings.Join(reasons, ","))
}

// What explain says of an operation, an answer and a policy is what the client does: whether it retries, with which
// delays and how often, and with which error, in doubt or not, it ends.
func TestExplainAndTheClientDecideAlike(t *testing.T) {
	const cases = 120
	errorMap := written(t, string(mock.Start(t, mock.Nodes(1)).ErrorMap()))
	for n := range cases {
		r := rand.New(rand.NewPCG(uint64(n), 37)) //nolint:gosec // a seed replays
		s := kvSituation(r, errorMap)
		if n%2 == 1 {
			s = httpSituation(t, r)
		}
		s.policy = anyPolicy(r, s.flags[1])
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Log(s.flags, s.policy)
			s.happens(t, s.foretell(t), r.Float64)
		})
	}
}
