package promises_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// These are statements of the first document about what answers mean, service by service.

// reasonsOfTheRFC are the statuses that it lists, and what each is.
var reasonsOfTheRFC = map[memd.Status]retry.Reason{
	0x07: retry.KVNotMyVBucket, 0x88: retry.KVCollectionOutdated, 0x09: retry.KVLocked, 0x86: retry.KVTemporaryFailure,
	0xa2: retry.KVSyncWriteInProgress, 0xa4: retry.KVSyncWriteReCommitInProgress,
}

func TestTheStatusesOfTheRFCHaveTheirReasons(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for status, why := range reasonsOfTheRFC {
			in := w.refuses(memd.OpSet, 1, status)
			_, info, err := w.upsert(nil)
			require.NoError(t, err, "%v", status)
			require.Equal(t, retry.Reasons(0).With(why), info.Reasons, "%v", status)
			in.Remove()
		}
	})
}

// TestEveryResponseIsPermanentRetryableOrTheApplications: of every status that has a name an upsert that meets it once
// ends with a result, ends with an error after one request, or is sent again for a reason. Nothing else happens to it.
func TestEveryResponseIsPermanentRetryableOrTheApplications(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.SetErrorMap([]byte(`{"version":2,"revision":99,"errors":{}}`))
		w.m.DisconnectAll()
		time.Sleep(time.Second)
		for st := range 1 << 9 {
			st := memd.Status(st)
			if !st.Known() {
				continue
			}
			in := w.refuses(memd.OpSet, 1, st)
			_, info, err := w.upsert(retry.BestEffort{Backoff: retry.Constant(ms)})
			switch {
			case info.Retries() > 0:
				require.NoError(t, err, "%v", st)
				require.NotZero(t, info.Reasons, "%v", st)
			case err != nil:
				require.NotNil(t, cberr.KindOf(err), "%v", st)
			default:
				require.Equal(t, memd.StatusSuccess, st)
			}
			in.Remove()
			time.Sleep(time.Second) // some statuses end the connection
		}
	})
}

// withErrorMap is a world whose nodes have an error map with these attributes for status 0x7ff1.
func withErrorMap(t *testing.T, attrs, more string, f func(t *testing.T, w *world)) {
	t.Helper()
	virtual(t, func(t *testing.T, w *world) {
		w.m.SetErrorMap([]byte(`{"version":2,"revision":99,"errors":{"7ff1":{"name":"NEW","desc":"new","attrs":[` + attrs + `]` + more + `}}}`))
		w.m.DisconnectAll()
		time.Sleep(time.Second)
		require.NoError(t, w.b.WaitReady(within(t, 10*time.Second)))
		f(t, w)
	})
}

const statusNew = memd.Status(0x7ff1)

func TestAnUnknownResponseCodeIsAPermanentFailure(t *testing.T) {
	withErrorMap(t, ``, ``, func(t *testing.T, w *world) {
		// one is in the map and is not to be retried, one is not in it
		for _, status := range []memd.Status{statusNew, 0x7fff} {
			in := w.refuses(memd.OpSet, 0, status)
			took, info, err := w.upsert(retry.BestEffort{})
			require.ErrorIs(t, err, cberr.Couchbase)
			require.Zero(t, took)
			require.Zero(t, info.Reasons, "the orchestrator is not asked")
			require.Equal(t, 1, in.Fired())
			in.Remove()
		}
	})
}

func TestRetryNowAndRetryLaterOfTheErrorMapAreAReason(t *testing.T) {
	for _, attrs := range []string{`"retry-now"`, `"retry-later"`, `"auto-retry"`, `"temp","retry-later"`} {
		withErrorMap(t, attrs, ``, func(t *testing.T, w *world) {
			w.refuses(memd.OpSet, 2, statusNew)
			_, info, err := w.upsert(nil)
			require.NoError(t, err, attrs)
			require.Equal(t, retry.Reasons(0).With(retry.KVErrorMapRetryIndicated), info.Reasons)
		})
	}
	withErrorMap(t, `"retry-now","no-retry"`, ``, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpSet, 0, statusNew)
		_, _, err := w.upsert(nil)
		require.Error(t, err, "no-retry wins")
		require.Equal(t, 1, in.Fired())
	})
}

// TestTheErrorMapIsConsultedOnlyForUnknownCodes: a code with a meaning of its own keeps it, whatever a map says.
func TestTheErrorMapIsConsultedOnlyForUnknownCodes(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.SetErrorMap([]byte(`{"version":2,"revision":99,"errors":{"6":{"name":"DELTA","desc":"d","attrs":["retry-now"]},
			"86":{"name":"TMPFAIL","desc":"d","attrs":["no-retry"]}}}`))
		w.m.DisconnectAll()
		time.Sleep(time.Second)
		in := w.refuses(memd.OpSet, 0, memd.StatusDeltaBadVal)
		_, _, err := w.upsert(nil)
		require.ErrorIs(t, err, cberr.DeltaInvalid)
		require.Equal(t, 1, in.Fired())
		in.Remove()
		w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		_, info, err := w.upsert(nil)
		require.NoError(t, err)
		require.Equal(t, retry.Reasons(0).With(retry.KVTemporaryFailure), info.Reasons)
	})
}

// TestTheRetrySpecificationOfTheErrorMapMustNotBeUsed: the delays are those of the strategy.
func TestTheRetrySpecificationOfTheErrorMapMustNotBeUsed(t *testing.T) {
	const spec = `,"retry":{"strategy":"constant","interval":1000,"after":700,"max-duration":2000}`
	withErrorMap(t, `"retry-now"`, spec, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 3, statusNew)
		_, info, err := w.upsert(every(7 * ms))
		require.NoError(t, err)
		require.Equal(t, in(7, 7, 7), delays(info))
	})
}

func TestLockedOfAnUnlockIsACASMismatchAndIsNotRetried(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		s := &recorder{base: retry.BestEffort{}}
		in := w.refuses(memd.OpUnlockKey, 0, memd.StatusLocked)
		_, err := kv.Do(within(t, time.Minute), w.b, kv.Unlock{Key: []byte("k"), CAS: 7, Common: kv.Common{Retry: s}})
		require.ErrorIs(t, err, cberr.CASMismatch)
		require.Empty(t, s.asked(), "the orchestrator never sees it")
		require.Equal(t, 1, in.Fired())
	})
}

// TestTheIdempotentOperationsAreThoseOfTheRFC, those that are pure reads and that it does not mention, and no other.
func TestTheIdempotentOperationsAreThoseOfTheRFC(t *testing.T) {
	of := map[string][]memd.Opcode{
		"the document": {
			memd.OpGetClusterConfig, memd.OpGet, memd.OpCollectionsGetID, memd.OpCollectionsGetManifest, memd.OpNoop,
			memd.OpGetMeta,
			memd.OpObserve, memd.OpObserveSeqno, memd.OpGetReplica, memd.OpSubdocMultiLookup, memd.OpSubdocGet,
			memd.OpSubdocExists,
			memd.OpSubdocGetCount,
		},
		"reads": {
			memd.OpGetRandomKey, memd.OpStat, memd.OpVersion, memd.OpGetFailoverLog, memd.OpGetEx,
			memd.OpGetExReplica,
		},
	}
	want := map[memd.Opcode]bool{}
	for _, ops := range of {
		for _, op := range ops {
			want[op] = true
		}
	}
	for op := range 256 {
		if verb, idempotent := kv.Verb(memd.Opcode(op)); verb != "" {
			require.Equal(t, want[memd.Opcode(op)], idempotent, verb)
		}
	}
	require.False(t, want[memd.OpGetLocked])
	require.False(t, want[memd.OpGAT])
}

// TestAGetThatLocksOrTouchesIsNotIdempotent: lost without an answer, it is in doubt.
func TestAGetThatLocksOrTouchesIsNotIdempotent(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for op, get := range map[memd.Opcode]func() error{
			memd.OpGetLocked: func() error {
				_, err := kv.Do(within(t, time.Minute), w.b, kv.GetAndLock{Key: []byte("k"), LockTime: time.Second})
				return err
			},
			memd.OpGAT: func() error {
				_, err := kv.Do(within(t, time.Minute), w.b, kv.GetAndTouch{
					Key:    []byte("k"),
					Expiry: kv.ExpireAfter(time.Hour),
				})
				return err
			},
		} {
			w.fails(op, 1, mock.CloseBefore())
			before := w.m.Frames(op)
			err := get()
			var failed *kv.Error
			require.ErrorAs(t, err, &failed)
			require.True(t, failed.Ambiguous())
			require.Equal(t, 1, w.m.Frames(op)-before)
			time.Sleep(time.Second)
		}
	})
}

// TestNoDCPCommandIsRetried: the client has none.
func TestNoDCPCommandIsRetried(t *testing.T) {
	for op := memd.Opcode(0x50); op <= 0x64; op++ { // DCP_OPEN to DCP_SEQNO_ADVANCED
		verb, _ := kv.Verb(op)
		require.Empty(t, verb, "0x%02x", uint8(op))
	}
}

// met sends a request to a service that gives the answers in turn, the last one for ever.
func met(
	t *testing.T, s mock.Service, send func(context.Context, *core.Cluster) error, answers ...mock.Answer,
) (info retry.Info, sent int, err error) {
	t.Helper()
	virtual(t, func(t *testing.T, w *world) {
		script := w.m.Script(mock.ServiceMatch{Service: s, Path: pathOf[s]}, answers...)
		err = send(within(t, 5*time.Second), w.c)
		info, _ = retry.InfoOf(err)
		sent = script.Fired()
	})
	return info, sent, err
}

// pathOf is a part of the path of a service's requests that are no requests for cluster maps.
var pathOf = map[mock.Service]string{mock.ManagementService: "/x"}

func sendQuery(readonly bool) func(context.Context, *core.Cluster) error {
	return func(ctx context.Context, c *core.Cluster) error {
		return drained(c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: readonly}))
	}
}

func sendAnalytics(readonly bool) func(context.Context, *core.Cluster) error {
	return func(ctx context.Context, c *core.Cluster) error {
		return drained(c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1", Readonly: readonly}))
	}
}

func sendSearch(ctx context.Context, c *core.Cluster) error {
	return drained(c.Search(ctx, &search.Request{Index: "i", Query: map[string]any{"match": "x"}}))
}

func sendView(ctx context.Context, c *core.Cluster) error {
	return drained(c.Bucket("default").View(ctx, &views.Request{Design: "d", View: "v"}))
}

func sendRaw(method string) func(context.Context, *core.Cluster) error {
	return func(ctx context.Context, c *core.Cluster) error {
		resp, err := c.Do(ctx, &core.HTTPRequest{Method: method, Path: "/x"})
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}

// TestWhichRequestsToServicesAreIdempotent: one whose connection is lost is sent again if it is, and is in doubt if it
// is not.
func TestQueriesAreIdempotentIfReadonlySearchesAndViewsAlwaysAndGETsOfTheManager(t *testing.T) {
	for name, c := range map[string]struct {
		service    mock.Service
		send       func(context.Context, *core.Cluster) error
		idempotent bool
	}{
		"query, readonly":     {mock.QueryService, sendQuery(true), true},
		"query":               {mock.QueryService, sendQuery(false), false},
		"analytics, readonly": {mock.AnalyticsService, sendAnalytics(true), true},
		"analytics":           {mock.AnalyticsService, sendAnalytics(false), false},
		"search":              {mock.SearchService, sendSearch, true},
		"view":                {mock.ViewsService, sendView, true},
		"GET":                 {mock.ManagementService, sendRaw(http.MethodGet), true},
		"POST":                {mock.ManagementService, sendRaw(http.MethodPost), false},
		"DELETE":              {mock.ManagementService, sendRaw(http.MethodDelete), false},
	} {
		t.Run(name, func(t *testing.T) {
			good := mock.Answer{}
			if c.service == mock.ManagementService {
				good = done()
			}
			_, sent, err := met(t, c.service, c.send, mock.Answer{Close: true}, good)
			if c.idempotent {
				require.NoError(t, err)
				require.Equal(t, 2, sent)
				return
			}
			require.ErrorIs(t, err, cberr.RequestCanceled)
			require.Equal(t, 1, sent)
			require.Equal(t, retry.Fail(), retry.Evaluate(err), "it may have been applied")
		})
	}
}

// TestTheCodesOfTheServicesHaveTheirReasons: analytics 23000, 23003 and 23007, search 429, view 302 and the list of
// views.
func TestTheCodesOfTheServicesHaveTheirReasons(t *testing.T) {
	code := func(n int) mock.Answer { return mock.Answer{Errors: []mock.ServiceError{{Code: n, Message: "m"}}} }
	type row struct {
		service mock.Service
		send    func(context.Context, *core.Cluster) error
		answer  mock.Answer
		want    retry.Reason // Unknown: it is a failure at once
	}
	rows := map[string]row{
		"analytics 24000": {mock.AnalyticsService, sendAnalytics(true), code(24000), retry.Unknown},
		"query 3000":      {mock.QueryService, sendQuery(true), code(3000), retry.Unknown},
		"query 12009":     {mock.QueryService, sendQuery(true), code(12009), retry.Unknown},
		"search 429":      {mock.SearchService, sendSearch, answered(429, "busy"), retry.SearchTooManyRequests},
		"search 400":      {mock.SearchService, sendSearch, answered(400, "bad"), retry.Unknown},
		"search 500":      {mock.SearchService, sendSearch, answered(500, "bad"), retry.Unknown},
		"view 302":        {mock.ViewsService, sendView, answered(302, ""), retry.ViewsNoActivePartition},
		"view 404, missing": {
			mock.ViewsService, sendView, answered(404, `{"error":"not_found","reason":"missing"}`), retry.ViewsTemporaryFailure,
		},
		"view 404": {mock.ViewsService, sendView, answered(404, `{"error":"not_found","reason":"deleted"}`), retry.Unknown},
		"view 500": {mock.ViewsService, sendView, answered(500, `{"error":"timeout","reason":"x"}`), retry.ViewsTemporaryFailure},
		"view 500, no such view": {
			mock.ViewsService, sendView, answered(500, `{"error":"not_found","reason":"missing_named_view"}`), retry.Unknown,
		},
		"view 500, badarg": {mock.ViewsService, sendView, answered(500, `{"error":"badarg","reason":"x"}`), retry.Unknown},
		"view 400":         {mock.ViewsService, sendView, answered(400, `{}`), retry.Unknown},
	}
	for _, n := range []int{23000, 23003, 23007} {
		rows[fmt.Sprint("analytics ", n)] = row{
			mock.AnalyticsService, sendAnalytics(false), code(n),
			retry.AnalyticsTemporaryFailure,
		}
	}
	for _, n := range []int{300, 301, 303, 307, 401, 408, 409, 412, 416, 417, 501, 502, 503, 504} {
		rows[fmt.Sprint("view ", n)] = row{mock.ViewsService, sendView, answered(n, "{}"), retry.ViewsTemporaryFailure}
	}
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			info, sent, err := met(t, c.service, c.send, c.answer)
			require.Error(t, err)
			if c.want == retry.Unknown {
				require.Zero(t, info.Reasons)
				require.Equal(t, 1, sent)
				return
			}
			require.Equal(t, retry.Reasons(0).With(c.want), info.Reasons)
			require.Greater(t, sent, 1)
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		})
	}
}

// TestAllServicesGoThroughOneEntryToRetrying: one strategy of the cluster is asked by each of them.
func TestAllServicesGoThroughOneEntryToRetrying(t *testing.T) {
	s := &recorder{base: policy.Limit{MaxAttempts: 2, Base: every(ms)}}
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		_, _, err := w.upsert(nil)
		require.NoError(t, err)
		for service, send := range map[mock.Service]func(context.Context, *core.Cluster) error{
			mock.QueryService: sendQuery(true), mock.AnalyticsService: sendAnalytics(true),
			mock.SearchService: sendSearch,
			mock.ViewsService:  sendView, mock.ManagementService: sendRaw(http.MethodGet),
		} {
			w.m.Script(mock.ServiceMatch{Service: service, Path: pathOf[service]}, answered(503, ""))
			require.ErrorIs(t, send(within(t, time.Minute), w.c), retry.ErrExhausted)
		}
		services := map[retry.Service]bool{}
		for _, a := range s.asked() {
			services[a.Service] = true
		}
		require.Len(t, services, 6, "%v", services)
	}, strategy(s))
}

// TestAUserMayClassifyAnAnswerThatHasNoReason, where another attempt is safe.
func TestAUserMayClassifyAnAnswerThatHasNoReason(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for _, op := range []memd.Opcode{memd.OpGet, memd.OpSet} {
			w.refuses(op, 1, memd.StatusInternal)
		}
		_, info, err := w.get(nil)
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		require.Equal(t, 1, info.Retries())
		_, info, err = w.upsert(nil)
		require.ErrorIs(t, err, cberr.InternalServerFailure, "the server may have applied it")
		require.Zero(t, info.Retries())
	}, func(c *core.Config) {
		c.Retry.Classify = func(a core.Answer) retry.Reason {
			if memd.Status(a.Code) == memd.StatusInternal {
				return retry.KVTemporaryFailure
			}
			return retry.Unknown
		}
	})
}
