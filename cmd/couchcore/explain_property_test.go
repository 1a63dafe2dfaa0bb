package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	own      string   // the strategy that the call names
	hedges   bool     // the file hedges: attempts are counted then, not retries
	failures int      // how many times in a row it is met
	// prepare lets the next requests meet it, and gives how many have.
	prepare func(m *mock.Cluster, times int) (met func() int)
	call    func(ctx context.Context, c *core.Cluster, own retry.Strategy) error
}

// strategies are those that a call may name.
var strategies = map[string]retry.Strategy{
	"": nil, "best-effort": retry.BestEffort{}, "fast-fail": retry.FastFailOnTerminalError{},
}

// foretold is what explain says of one failure.
type foretold struct {
	Reason   *string   `json:"reason"`
	Decision string    `json:"decision"`
	DelayMS  []float64 `json:"delay_ms"`
	Error    *string   `json:"error"`
	Unpaid   bool      `json:"unpaid"`
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
	if s.own != "" {
		flags = append(flags, "--own-strategy", s.own)
	}
	for n := range s.failures {
		args := slices.Concat(flags, []string{"--retries", strconv.Itoa(n)})
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
		nodes := []mock.Option{mock.Nodes(1)} // which all attempts go to, as explain assumes
		if s.hedges {
			nodes = []mock.Option{mock.Nodes(5), mock.Replicas(3)} // more than are asked
		}
		m := mock.Start(t, append(nodes, mock.Bucket("default", 16), mock.Virtual())...)
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
		met := s.prepare(m, s.failures)
		err = s.call(ctx, c, strategies[s.own])
		for n, f := range all {
			if s.hedges && f.Decision == "retry" {
				require.Greater(t, met(), n, "attempts; the error is %v", err)
				continue
			}
			if f.Decision != "retry" {
				if s.hedges {
					require.Equal(t, n+1, met(), "attempts; the error is %v", err)
				} else {
					retries := n
					if f.Unpaid { // it is decided on, and its delay has passed
						retries++
						require.ErrorIs(t, err, retry.ErrThrottled)
					}
					require.Len(t, seen.whys, retries, "retries; the error is %v", err)
				}
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
	call   func(ctx context.Context, b *core.Bucket, cas uint64, own retry.Strategy) error
}{
	"get": {memd.OpGet, done(func(_ uint64, c kv.Common) kv.Get { return kv.Get{Key: key, Common: c} })},
	"get-and-touch": {memd.OpGAT, done(func(_ uint64, c kv.Common) kv.GetAndTouch {
		return kv.GetAndTouch{Key: key, Common: c}
	})},
	"get-and-lock": {memd.OpGetLocked, done(func(_ uint64, c kv.Common) kv.GetAndLock {
		return kv.GetAndLock{Key: key, LockTime: time.Second, Common: c}
	})},
	"unlock": {memd.OpUnlockKey, done(func(cas uint64, c kv.Common) kv.Unlock {
		return kv.Unlock{Key: key, CAS: max(cas, 1), Common: c}
	})},
	"upsert": {memd.OpSet, done(func(_ uint64, c kv.Common) kv.Upsert { return kv.Upsert{Key: key, Common: c} })},
	"insert": {memd.OpAdd, done(func(_ uint64, c kv.Common) kv.Insert { return kv.Insert{Key: key, Common: c} })},
	"replace": {memd.OpReplace, done(func(cas uint64, c kv.Common) kv.Replace {
		return kv.Replace{Key: key, CAS: cas, Common: c}
	})},
	"remove": {memd.OpDelete, done(func(cas uint64, c kv.Common) kv.Remove {
		return kv.Remove{Key: key, CAS: cas, Common: c}
	})},
	"append": {memd.OpAppend, done(func(cas uint64, c kv.Common) kv.Append {
		return kv.Append{Key: key, Value: key, CAS: cas, Common: c}
	})},
	"touch": {memd.OpTouch, done(func(_ uint64, c kv.Common) kv.Touch { return kv.Touch{Key: key, Common: c} })},
	"increment": {memd.OpIncrement, done(func(_ uint64, c kv.Common) kv.Increment {
		return kv.Increment{Key: key, Delta: 1, Common: c}
	})},
	"get-or-null": {memd.OpGet, done(func(_ uint64, c kv.Common) kv.GetOrNull {
		return kv.GetOrNull{Key: key, Common: c}
	})},
	"exists": {memd.OpGetMeta, done(func(_ uint64, c kv.Common) kv.Exists { return kv.Exists{Key: key, Common: c} })},
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

func done[R any, O kv.Op[R]](of func(cas uint64, c kv.Common) O) func(
	ctx context.Context, b *core.Bucket, cas uint64, own retry.Strategy,
) error {
	return func(ctx context.Context, b *core.Bucket, cas uint64, own retry.Strategy) error {
		_, err := kv.Do(ctx, b, of(cas, kv.Common{Retry: own}))
		return err
	}
}

func oneOf[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// kvSituation is any status that an operation of key-value is answered with, or a connection that is lost.
func kvSituation(r *rand.Rand, errorMap string) situation {
	name := oneOf(r, slices.Sorted(maps.Keys(kvCalls)))
	op := kvCalls[name]
	s := situation{flags: []string{"--service", "kv", "--op", name}, failures: 3}
	var cas uint64
	for _, n := range canHave {
		if n == name && r.IntN(2) == 0 {
			cas = 7
			s.flags = append(s.flags, "--with-cas")
		}
	}
	s.call = func(ctx context.Context, c *core.Cluster, own retry.Strategy) error {
		return op.call(ctx, c.Bucket("default"), cas, own)
	}
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
	s.prepare = func(m *mock.Cluster, times int) func() int {
		opcodes := []memd.Opcode{op.opcode, memd.OpGetReplica}
		return m.Inject(mock.Match{Opcodes: opcodes, Times: times}, fault).Fired
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
	lost := r.IntN(6) == 0 // the connection, without an answer
	s := situation{flags: []string{"--service", service, "--op", op, "--lost-socket"}, failures: 6}
	if !lost {
		s = situation{flags: []string{
			"--service", service, "--op", op, "--http", strconv.Itoa(status), "--body",
			written(t, body),
		}, failures: 3}
	}
	if after != "" && !lost {
		s.flags = append(s.flags, "--retry-after", after)
	}
	if readonly {
		s.flags = append(s.flags, "--readonly")
	}
	prepared := service == "query" && r.IntN(3) == 0
	if prepared {
		s.flags = append(s.flags, "--prepared")
	}
	s.prepare = func(m *mock.Cluster, times int) func() int {
		a := mock.Answer{Status: status, Body: []byte(body), Header: http.Header{}, Close: lost}
		if after != "" {
			a.Header.Set("Retry-After", after)
		}
		return m.Script(mock.ServiceMatch{Service: mockServices[service], Times: times}, a).Fired
	}
	s.call = func(ctx context.Context, c *core.Cluster, own retry.Strategy) error {
		switch service {
		case "query":
			return drain(c.Query(ctx, &query.Request{
				Statement: "SELECT 1", Readonly: readonly, Prepare: prepared, Retry: own,
			}))
		case "analytics":
			return drain(c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1", Readonly: readonly, Retry: own}))
		case "search":
			return drain(c.Search(ctx, &search.Request{Index: "index", Query: map[string]any{}, Retry: own}))
		case "views":
			return drain(c.Bucket("default").View(ctx, &views.Request{
				Bucket: "default", Design: "design",
				View: "view", Retry: own,
			}))
		}
		resp, err := c.Do(ctx, &core.HTTPRequest{
			Service: core.Management, Method: method, Path: "/",
			Idempotent: readonly, Retry: own,
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

// govern gives the situation one of the client's strategies or a policy file, and now and then the call a strategy of
// its own.
func (s *situation) govern(r *rand.Rand) {
	if r.IntN(4) == 0 {
		s.own = oneOf(r, []string{"best-effort", "fast-fail"})
	}
	switch r.IntN(6) {
	case 0:
		return
	case 1:
		s.policy = "best-effort"
		return
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
	list, pinned := strings.Join(reasons, ","), r.IntN(2) == 0
	kind, policy := "retryPolicy", fmt.Sprintf(`{"maxAttempts":%d,"initialBackoff":"0.05s","maxBackoff":"0.4s",
		"backoffMultiplier":%d,"retryableReasons":[%s],"pinned":%v%s}`, 2+r.IntN(4), 1+r.IntN(3), list, pinned, limits(r))
	if r.IntN(2) == 0 {
		s.hedges = hedgeable(s.flags) && (s.own == "" || pinned)
		kind, policy = "hedgingPolicy", fmt.Sprintf(`{"maxAttempts":%d,"hedgingDelay":"60s","nonFatalReasons":[%s],"pinned":%v}`,
			2+r.IntN(3), list, pinned)
	}
	more := ""
	if r.IntN(3) == 0 {
		more += fmt.Sprintf(`,"retryThrottling":{"maxTokens":%d,"tokenRatio":0.1}`, 1+r.IntN(8))
	}
	if r.IntN(3) == 0 {
		more += fmt.Sprintf(`,"tokenBucket":{"capacity":%d%s}`, 10+r.IntN(20),
			oneOf(r, []string{"", `,"refill":"0.0137s"`, `,"refill":"0.091s"`}))
	}
	name := fmt.Sprintf(`{"service":%q}`, s.flags[1])
	if r.IntN(8) == 0 && kind == "retryPolicy" {
		name = `{"service":"eventing"}` // which is another one
	}
	s.policy = fmt.Sprintf(`{"operationConfig":[{"name":[%s],%q:%s}]%s}`, name, kind, policy, more)
}

// limits are those of the time that a retry policy has, or none.
func limits(r *rand.Rand) (text string) {
	if r.IntN(2) == 0 {
		return ""
	}
	if r.IntN(2) == 0 {
		text += `,"softLimit":"0.09s"`
	}
	if text == "" || r.IntN(2) == 0 {
		text += fmt.Sprintf(`,"hardLimit":"0.12s","fit":%q`, oneOf(r, []string{
			"drop", "stretch", "truncate", "overflow", "cap", "giveUp",
		}))
	}
	return text + fmt.Sprintf(`,"jitter":%q`, oneOf(r, []string{"full", "equal", "none"}))
}

// hedgeable reports whether a call with those flags of explain may be hedged by a file for its service.
func hedgeable(flags []string) bool {
	switch flags[1] {
	case "kv":
		return flags[3] == "get"
	case "management":
		if flags[3] == http.MethodGet {
			return true
		}
	case "search", "views":
		return true
	}
	return slices.Contains(flags, "--readonly")
}

// What explain says of an operation, an answer and a policy is what the client does: whether it retries, with which
// delays and how often, and with which error, in doubt or not, it ends.
func TestExplainAndTheClientDecideAlike(t *testing.T) {
	const cases = 300
	errorMap := written(t, string(mock.Start(t, mock.Nodes(1)).ErrorMap()))
	for n := range cases {
		r := rand.New(rand.NewPCG(uint64(n), 37))
		s := kvSituation(r, errorMap)
		if n%2 == 1 {
			s = httpSituation(t, r)
		}
		s.govern(r)
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Log(s.flags, s.policy, s.own)
			s.happens(t, s.foretell(t), r.Float64)
		})
	}
}
