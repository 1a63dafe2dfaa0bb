package promises_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// These are the statements about the policy file: it says what Go can.

// writes is a file with one retry policy for writes, after whatever the file begins with.
func writes(head, fields string) string {
	return `{` + head + `"operationConfig":[{"name":[{"service":"kv","operation":"upsert"}],"timeout":"20s","retryPolicy":{` + fields + `,
		"retryableReasons":["KV_LOCKED","KV_TEMPORARY_FAILURE"]}}]}`
}

// governed lets a write meet a locked document for ever under a file.
func governed(t *testing.T, p *policy.Config, change ...func(*core.Config)) (waited []time.Duration, took time.Duration,
	err error,
) {
	t.Helper()
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusLocked)
		var info retry.Info
		took, info, err = w.upsert(nil)
		waited = delays(info)
	}, append(change, func(c *core.Config) { c.Retry.Policy = p })...)
	return waited, took, err
}

func TestAFileSaysWhatHappensAtALimit(t *testing.T) {
	for _, c := range []struct {
		limits string
		waited []time.Duration
		took   time.Duration
		end    error
	}{
		{`"hardLimit":"1s"`, in(150, 300), 450 * ms, retry.ErrExhausted},
		{`"hardLimit":"1s","fit":"drop"`, in(150, 300), 450 * ms, retry.ErrExhausted},
		{`"hardLimit":"1s","fit":"truncate"`, in(150, 300, 550), time.Second, retry.ErrExhausted},
		{`"hardLimit":"1s","fit":"overflow"`, in(150, 300, 600), 1050 * ms, retry.ErrExhausted},
		{`"hardLimit":"1s","fit":"cap"`, in(150, 300, 550), time.Second, retry.ErrTimeout},
		{`"hardLimit":"1s","fit":"giveUp"`, in(150, 300), 450 * ms, retry.ErrExhausted},
		{`"hardLimit":"2s","fit":"stretch"`, in(150, 300, 1550), 2 * time.Second, retry.ErrExhausted},
		{`"softLimit":"0.4s","hardLimit":"2s"`, in(150, 300), 450 * ms, retry.ErrExhausted},
	} {
		waited, took, err := governed(t, parsed(t, writes("", `"maxAttempts":4,"delays":["0.15s","0.3s","0.6s"],`+c.limits)))
		require.ErrorIs(t, err, c.end, c.limits)
		require.Equal(t, c.waited, waited, c.limits)
		require.Equal(t, c.took, took, c.limits)
	}
}

// TestTheNumbersOfTheDocumentInAFile are those of soft 1 s and hard 2 s, where the fourth delay is dropped.
func TestTheNumbersOfTheDocumentInAFile(t *testing.T) {
	waited, took, err := governed(t, parsed(t, writes("",
		`"maxAttempts":5,"delays":["0.15s","0.3s","0.5s","1.15s"],"softLimit":"1s","hardLimit":"2s"`)))
	require.ErrorIs(t, err, retry.ErrExhausted)
	require.Equal(t, in(150, 300, 500), waited)
	require.Equal(t, 950*ms, took)
}

func TestAFileListsDelays(t *testing.T) {
	waited, _, err := governed(t, parsed(t, writes("", `"maxAttempts":5,"delays":["10ms","50ms","0.1s"]`)))
	require.ErrorIs(t, err, retry.ErrExhausted)
	require.Equal(t, in(10, 50, 100, 100), waited, "the last one goes on, and there is no jitter unless the file "+
		"says so")
	waited, _, _ = governed(t, parsed(t, writes("", `"maxAttempts":5,"delays":["10ms","50ms"],"jitter":"equal"`)))
	require.Equal(t, in(5, 25, 25, 25), waited)
}

func TestMoreThanFiveAttemptsAreTheClientsToAllow(t *testing.T) {
	text := writes("", `"maxAttempts":8,"delays":["10ms"]`)
	waited, _, _ := governed(t, parsed(t, text))
	require.Len(t, waited, 4, "more than five count as five")
	p, err := core.ParsePolicyWith([]byte(text), policy.ParseOptions{MaxAttemptsCap: 10})
	require.NoError(t, err)
	waited, took, err := governed(t, p)
	require.ErrorIs(t, err, retry.ErrExhausted)
	require.Equal(t, 70*ms, took)
	require.NotEmpty(t, waited)
}

// TestAFilesTokenBucketCostsByKind has tokens for two retries after a server's overload, and for four after a lock.
func TestAFilesTokenBucketCostsByKind(t *testing.T) {
	text := writes(`"tokenBucket":{"capacity":20,"refill":"0.1s","costs":{"server":5,"throttling":10}},`, `"maxAttempts":5,"delays":["1ms"]`)
	virtual(t, func(t *testing.T, w *world) {
		refused := func(st memd.Status) int {
			in := w.refuses(memd.OpSet, 0, st)
			defer in.Remove()
			_, _, err := w.upsert(nil)
			require.Error(t, err)
			return in.Fired()
		}
		require.Equal(t, 3, refused(memd.StatusTmpFail))
		require.Equal(t, 1, refused(memd.StatusTmpFail), "it is empty, and first sends are free")
		in := w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		_, _, err := w.upsert(nil)
		require.ErrorIs(t, err, retry.ErrThrottled)
		in.Remove()
		time.Sleep(time.Second)
		require.Equal(t, 2, refused(memd.StatusTmpFail), "ten tokens have come back with time")
		time.Sleep(time.Minute)
		require.Equal(t, 5, refused(memd.StatusLocked))
		time.Sleep(time.Minute)
		for range 10 {
			w.refuses(memd.OpSet, 2, memd.StatusTmpFail)
			_, _, err := w.upsert(nil)
			require.NoError(t, err, "a success gives back what was paid")
		}
	}, func(c *core.Config) { c.Retry.Policy = parsed(t, text) }) // in the bubble: the bucket fills up with its time
}

func TestJitterThatAddsSurvivesTheMaximum(t *testing.T) {
	text := writes("", `"maxAttempts":5,"initialBackoff":"0.1s","maxBackoff":"0.3s","backoffMultiplier":10,"jitter":"%"`)
	for _, jitter := range []string{"additive", "proportional", "equal", "full", "decorrelated"} {
		var last []time.Duration
		for _, random := range []float64{0, 0.5, 0.999} {
			waited, _, err := governed(t, parsed(t, strings.Replace(text, "%", jitter, 1)),
				func(c *core.Config) { c.Retry.JitterSource = func() float64 { return random } })
			require.ErrorIs(t, err, retry.ErrExhausted)
			if random > 0 {
				require.Len(t, waited, 4)
				require.LessOrEqual(t, waited[3], 300*ms, "the maximum holds")
				last = append(last, waited[1])
			}
		}
		require.Less(t, last[0], last[1], "%s: delays at the maximum are spread too", jitter)
	}
}

// TestTheClustersJitterSourceRollsForFiles, at Open and when the file is replaced.
func TestTheClustersJitterSourceRollsForFiles(t *testing.T) {
	text := writes("", `"maxAttempts":3,"initialBackoff":"0.1s","maxBackoff":"1s","backoffMultiplier":2`)
	half := func(c *core.Config) { c.Retry.JitterSource = func() float64 { return 0.5 } }
	waited, _, _ := governed(t, parsed(t, text), half)
	require.Equal(t, in(50, 100), waited)
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusLocked)
		w.c.SetPolicy(parsed(t, text))
		_, info, _ := w.upsert(nil)
		require.Equal(t, in(50, 100), delays(info))
	}, half)
}

// TestTransparentRetriesFollowTheClientsOwnBackoff, and leave the file's delays to what a server has refused.
func TestTransparentRetriesFollowTheClientsOwnBackoff(t *testing.T) {
	text := writes("", `"maxAttempts":2,"delays":["0.7s","5s"]`)
	virtual(t, func(t *testing.T, w *world) {
		key := w.keyOn(1)
		require.NoError(t, w.m.Kill(1))
		time.Sleep(10 * time.Second)
		_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key, Common: kv.Common{Timeout: 4 * time.Second}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		info, _ := retry.InfoOf(err)
		require.Zero(t, info.Counted)
		require.Equal(t, in(1, 10, 50, 100), delays(info)[:4])

		require.NoError(t, w.m.Respawn(1))
		require.NoError(t, w.b.WaitReady(within(t, time.Minute)))
		require.NoError(t, w.m.Kill(1))
		time.Sleep(10 * time.Second)
		time.AfterFunc(300*ms, func() {
			w.refuses(memd.OpSet, 1, memd.StatusLocked)
			_ = w.m.Respawn(1)
		})
		res, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key})
		require.NoError(t, err)
		info = res.RetryInfo()
		require.Positive(t, info.Transparent)
		require.Equal(t, 1, info.Counted)
		ds := delays(info)
		require.Equal(t, 700*ms, ds[len(ds)-1], "the file's first delay is that of the first retry that counts")
	}, file(t, text))
}

func TestTheGuidesFileDoesWhatTheGuideSays(t *testing.T) {
	waited, took, err := governed(t, parsed(t, guidesFile(t)))
	require.ErrorIs(t, err, retry.ErrExhausted)
	require.Equal(t, in(10, 50, 100, 40), waited, "the fourth delay is cut to end on the hard limit")
	require.Equal(t, 200*ms, took)
}

// oneRequest asks one service of a cluster under a file, which is answered 503 for ever, and gives the requests that it
// saw.
func oneRequest(t *testing.T, service core.Service, text string) (n int) {
	t.Helper()
	c := services(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x" {
			n++
		}
		rw.WriteHeader(http.StatusServiceUnavailable)
	}, file(t, text))
	_, err := c.Do(within(t, time.Minute), &core.HTTPRequest{Service: service, Method: http.MethodGet, Path: "/x"})
	require.ErrorIs(t, err, retry.ErrExhausted)
	return n
}

func TestAFileGovernsEveryService(t *testing.T) {
	for _, service := range []core.Service{
		core.Eventing, core.Backup, core.Management, core.Query, core.Search,
		core.Analytics, core.Views,
	} {
		for _, code := range []string{`503`, `"UNAVAILABLE"`, `"unavailable"`, `"SERVICE_RESPONSE_CODE_INDICATED"`} {
			if service == core.Views && code != `"SERVICE_RESPONSE_CODE_INDICATED"` {
				continue // its 503 has a reason of its own
			}
			require.Equal(t, 3, oneRequest(t, service, `{"operationConfig":[{"name":[{"service":"`+service.String()+`","operation":"GET"}],
				"retryPolicy":{"maxAttempts":3,"delays":["1ms"],"retryableReasons":[`+code+`]}}]}`), "%v %s", service, code)
		}
	}
}

// TestAFileIsRefusedForWhatItCannotDo: each error names the field, the value and what is allowed.
func TestAFileIsRefusedForWhatItCannotDo(t *testing.T) {
	const hedge = `,"hedgingPolicy":{"maxAttempts":2}`
	entry := func(name, tail string) string { return `{"operationConfig":[{"name":[` + name + `]` + tail + `}]}` }
	retried := func(fields string) string {
		return entry(`{"service":"kv"}`, `,"retryPolicy":{"retryableReasons":["KV_LOCKED"],"maxAttempts":2,`+fields+`}`)
	}
	listed := func(service, list string) string {
		return `{"methodConfig":[{"name":[{"service":"` + service + `"}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"1s",
			"maxBackoff":"1s","backoffMultiplier":1,"retryableStatusCodes":[` + list + `]}}]}`
	}
	bucket := func(fields string) string { return `{"tokenBucket":{` + fields + `}}` }
	const inRetry, inList = "operationConfig[0].retryPolicy.", "methodConfig[0].retryPolicy.retryableStatusCodes[0]"
	for text, want := range map[string][]string{
		entry(`{"service":"kv","operation":"gett"}`, ``):                                            {"operationConfig[0].name[0].operation", `"gett"`, "is not an operation of kv", "get-and-touch"},
		entry(`{"service":"query","operation":"select"}`, ``):                                       {"operationConfig[0].name[0].operation", `"select"`, "query", "POST"},
		entry(`{"service":"management","operation":"get"}`, ``):                                     {"operationConfig[0].name[0].operation", `"get"`, "GET"},
		entry(`{"service":"gsi"}`, ``):                                                              {"operationConfig[0].name[0].service", `"gsi"`, "eventing", "backup"},
		entry(`{"service":"kv","operation":"upsert"}`, hedge):                                       {"operationConfig[0].name[0]", `"upsert"`, "hedg", "[get]"},
		entry(`{"service":"kv","operation":"get"},{"service":"kv","operation":"increment"}`, hedge): {"operationConfig[0].name[1]", `"increment"`, "[get]"},
		entry(`{"service":"management","operation":"buckets"}`, hedge):                              {"operationConfig[0].name[0]", `"buckets"`, "hedg", "GET"},
		retried(`"delays":[]`):                                                                      {inRetry + "delays", "[]", "empty"},
		retried(`"delays":["1s",5]`):                                                                {inRetry + "delays[1]", "5", "duration"},
		retried(`"delays":["0ms"]`):                                                                 {inRetry + "delays[0]", `"0ms"`, "duration"},
		retried(`"delays":["1s"],"maxBackoff":"1s"`):                                                {inRetry + "maxBackoff", "delays"},
		retried(`"delays":["1s"],"jitter":"decorrelated"`):                                          {inRetry + "jitter", "decorrelated", "delays"},
		retried(`"initialBackoff":"1s","maxBackoff":"1s"`):                                          {inRetry + "backoffMultiplier", "required"},
		retried(`"delays":["1s"],"hardLimit":"1s","fit":"bend"`):                                    {inRetry + "fit", `"bend"`, "drop stretch truncate overflow cap giveUp"},
		retried(`"delays":["1s"],"fit":"truncate"`):                                                 {inRetry + "fit", "truncate", "hardLimit"},
		bucket(`"refill":"1s"`):                                                                     {"tokenBucket.capacity", "required"},
		bucket(`"capacity":0`):                                                                      {"tokenBucket.capacity", "0", "2147483647"},
		bucket(`"capacity":20,"costs":{"sever":1}`):                                                 {"tokenBucket.costs.sever", "1", "server, client, throttling, timeout"},
		bucket(`"capacity":20,"costs":{"server":-1}`):                                               {"tokenBucket.costs.server", "-1"},
		bucket(`"capacity":20,"costs":{"timeout":21}`):                                              {"tokenBucket.costs.timeout", "21", "capacity of 20"},
		bucket(`"capacity":20,"refill":"31d"`):                                                      {"tokenBucket.refill", `"31d"`, "duration"},
		listed("kv", `"UNAVAILABLE"`):                                                               {inList, `"UNAVAILABLE"`, "KV_TEMPORARY_FAILURE", "SOCKET_CLOSED_WHILE_IN_FLIGHT"},
		listed("kv", `14`):                                                                          {inList, `14`, "UNAVAILABLE", "KV_TEMPORARY_FAILURE"},
		listed("query", `"ABORTED"`):                                                                {inList, `"ABORTED"`, "QUERY_ERROR_RETRYABLE"},
		listed("query", `"INVALID_ARGUMENT"`):                                                       {inList, `"INVALID_ARGUMENT"`, "never retried"},
		listed("kv", `"NO_SUCH"`):                                                                   {inList, `"NO_SUCH"`, "is not a reason"},
	} {
		_, err := core.ParsePolicy([]byte(text))
		var pe *policy.ParseError
		require.ErrorAs(t, err, &pe, text)
		require.Equal(t, want[0], pe.Path, text)
		for _, part := range want {
			require.ErrorContains(t, err, part, text)
		}
	}
	for _, name := range []string{
		`{}`, `{"service":"kv"}`, `{"service":"kv","operation":"get"}`, `{"service":"query"}`,
		`{"service":"search","operation":"search"}`, `{"service":"eventing"}`, `{"service":"management","operation":"POST"}`,
	} {
		parsed(t, entry(name, hedge))
	}
}

func TestAFileTakesGRPCsStatusesWhereTheyMeanOneThing(t *testing.T) {
	for list, want := range map[string]int{`"RESOURCE_EXHAUSTED"`: 429, `8`: 429, `"Unavailable"`: 503, `14`: 503, `"DEADLINE_EXCEEDED"`: 504, `4`: 504, `503`: 503} {
		for status := range map[int]bool{429: true, 503: true, 504: true} {
			var n int
			c := services(t, func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/x" {
					n++
				}
				rw.WriteHeader(status)
			}, file(t, `{"methodConfig":[{"name":[{"service":"eventing"},{"service":"query"}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s",
				"maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":[`+list+`]}}]}`))
			_, err := c.Do(within(t, time.Minute), &core.HTTPRequest{
				Service: core.Eventing, Method: http.MethodGet,
				Path: "/x",
			})
			require.Error(t, err)
			require.Equal(t, map[bool]int{true: 2, false: 1}[status == want], n, "%s and %s", list,
				strconv.Itoa(status))
		}
	}
	parsed(t, `{"methodConfig":[{"name":[{}],"hedgingPolicy":{"maxAttempts":2,"nonFatalStatusCodes":["UNAUTHENTICATED",16]}}]}`)
}
