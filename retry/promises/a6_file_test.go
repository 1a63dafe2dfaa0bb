package promises_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// These are statements of the fifth document about the service config.

// fields are the members of a retry policy that is right.
var fields = map[string]string{
	"maxAttempts": `4`, "initialBackoff": `"0.1s"`, "maxBackoff": `"1s"`, "backoffMultiplier": `2`,
	"retryableReasons": `["KV_TEMPORARY_FAILURE"]`,
}

// retryPolicy is a file with a retry policy for everything; pairs of names and values replace its members, and ""
// leaves one out.
func retryPolicy(pairs ...string) string {
	var members []string
	for name, value := range fields {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				value = pairs[i+1]
			}
		}
		if value != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, value))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if _, known := fields[pairs[i]]; !known {
			members = append(members, fmt.Sprintf("%q:%s", pairs[i], pairs[i+1]))
		}
	}
	return `{"operationConfig":[{"name":[{}],"retryPolicy":{` + strings.Join(members, ",") + `}}]}`
}

// refused checks that no value of a member of the retry policy is taken, and that the error names the member.
func refused(t *testing.T, member string, values ...string) {
	t.Helper()
	for _, v := range values {
		_, err := core.ParsePolicy([]byte(retryPolicy(member, v)))
		require.ErrorContains(t, err, "operationConfig[0].retryPolicy", "%s: %s", member, v)
		require.ErrorContains(t, err, member, "%s: %s", member, v)
	}
}

// taken checks that each value is taken.
func taken(t *testing.T, member string, values ...string) {
	t.Helper()
	for _, v := range values {
		_, err := core.ParsePolicy([]byte(retryPolicy(member, v)))
		require.NoError(t, err, "%s: %s", member, v)
	}
}

func TestMaxAttemptsIsRequiredAndAnIntegerGreaterThan1(t *testing.T) {
	refused(t, "maxAttempts", ``, `1`, `0`, `-1`, `1.5`, `"3"`, `null`, `true`)
	taken(t, "maxAttempts", `2`, `5`, `77`)
}

// TestMaxAttemptsIncludesTheOriginalRPC, and values greater than 5 are treated as 5.
func TestMaxAttemptsIncludesTheOriginalRPCAndAbove5CountsAs5(t *testing.T) {
	for value, want := range map[string]int{`2`: 2, `3`: 3, `5`: 5, `6`: 5, `1000`: 5} {
		virtual(t, func(t *testing.T, w *world) {
			in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
			_, _, err := w.upsert(nil)
			require.ErrorIs(t, err, retry.ErrExhausted)
			require.ErrorIs(t, err, cberr.TemporaryFailure)
			require.Equal(t, want, in.Fired(), value)
		}, file(t, retryPolicy("maxAttempts", value, "initialBackoff", `"0.001s"`)))
	}
}

func TestInitialBackoffAndMaxBackoffAreRequiredAndDurationsGreaterThan0(t *testing.T) {
	for _, member := range []string{"initialBackoff", "maxBackoff"} {
		refused(t, member, ``, `"0s"`, `"-1s"`, `"1"`, `1`, `"1.0000000001s"`, `"s"`, `"1m"`, `null`)
		taken(t, member, `"1s"`, `"0.000000001s"`, `"3.5s"`)
	}
}

func TestTheBackoffMultiplierIsRequiredAndGreaterThan0(t *testing.T) {
	refused(t, "backoffMultiplier", ``, `0`, `-2`, `"2"`, `null`)
	taken(t, "backoffMultiplier", `2`, `0.5`, `1.6`)
}

// TestStatusCodesAreIntegersOrNamesInAnyCaseAndAtLeastOne: our reasons and the numbers of services stand for gRPC's
// codes.
func TestStatusCodesAreIntegersOrNamesInAnyCaseAndAtLeastOne(t *testing.T) {
	refused(t, "retryableReasons", ``, `[]`, `["NO_SUCH_REASON"]`, `[true]`, `"KV_LOCKED"`, `[1.5]`)
	taken(t, "retryableReasons", `["kv_temporary_failure"]`, `[134]`, `["0x86"]`, `["KV_LOCKED","Kv_Temporary_Failure",429]`)
}

// TestOnlyTheListedCodesAreRetried: any other failure ends the operation.
func TestOnlyTheListedCodesAreRetried(t *testing.T) {
	for _, list := range []string{`["KV_TEMPORARY_FAILURE"]`, `["kv_temporary_failure"]`, `[134]`, `["0x86"]`} {
		virtual(t, func(t *testing.T, w *world) {
			w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
			_, _, err := w.upsert(nil)
			require.NoError(t, err, list)
			in := w.refuses(memd.OpSet, 0, memd.StatusLocked)
			took, _, err := w.upsert(nil)
			require.ErrorIs(t, err, cberr.DocumentLocked)
			require.Zero(t, took)
			require.Equal(t, 1, in.Fired())
		}, file(t, retryPolicy("retryableReasons", list)))
	}
}

// TestNoConfiguredCodeMakesAWriteSafe: what gRPC leaves to the owner of the service stays with the operation here.
func TestNoConfiguredCodeMakesAWriteSafe(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.fails(memd.OpSet, 1, mock.CloseBefore())
		before := w.m.Frames(memd.OpSet)
		_, _, err := w.upsert(nil)
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.Equal(t, 1, w.m.Frames(memd.OpSet)-before)
	}, file(t, retryPolicy("retryableReasons", `["SOCKET_CLOSED_WHILE_IN_FLIGHT"]`)))
}

// TestTheNthDelayIsRandomBetween0AndTheExponential: random(0, min(initialBackoff*backoffMultiplier**(n-1),
// maxBackoff)).
func TestTheNthDelayIsRandomBetween0AndTheExponential(t *testing.T) {
	most := in(10, 20, 30)
	spread := map[time.Duration]bool{}
	for range 20 {
		virtual(t, func(t *testing.T, w *world) {
			var at []time.Time
			w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Func: func(*memd.Packet) bool {
				at = append(at, time.Now())
				return true
			}}, mock.Status(memd.StatusTmpFail))
			_, _, err := w.upsert(nil)
			require.ErrorIs(t, err, retry.ErrExhausted)
			require.Len(t, at, 4)
			for i, m := range most {
				d := at[i+1].Sub(at[i])
				require.LessOrEqual(t, d, m, "delay %d", i)
				spread[d.Truncate(ms)] = true
			}
		}, file(t, retryPolicy("initialBackoff", `"0.01s"`, "maxBackoff", `"0.03s"`)), func(c *core.Config) { c.Retry.JitterSource = nil })
	}
	require.Greater(t, len(spread), 10, "they are random")
}

func TestMaxTokensIsAbove0AndAtMost1000AndTokenRatioHasThreeDecimals(t *testing.T) {
	for _, bad := range []string{
		`{"maxTokens":0,"tokenRatio":0.1}`, `{"maxTokens":1001,"tokenRatio":0.1}`, `{"maxTokens":1.5,"tokenRatio":0.1}`,
		`{"maxTokens":10}`, `{"tokenRatio":0.1}`, `{"maxTokens":10,"tokenRatio":0}`, `{"maxTokens":10,"tokenRatio":-1}`,
		`{"maxTokens":10,"tokenRatio":0.0001}`, `{"maxTokens":"10","tokenRatio":0.1}`,
	} {
		_, err := core.ParsePolicy([]byte(`{"retryThrottling":` + bad + `}`))
		require.ErrorContains(t, err, "retryThrottling", bad)
	}
	for _, good := range []string{`{"maxTokens":1000,"tokenRatio":0.1}`, `{"maxTokens":1,"tokenRatio":0.5466}`} {
		_, err := core.ParsePolicy([]byte(`{"retryThrottling":` + good + `}`))
		require.NoError(t, err, good)
	}
}

func TestTheHedgingPolicyIsValidated(t *testing.T) {
	of := func(policy string) error {
		_, err := core.ParsePolicy([]byte(`{"operationConfig":[{"name":[{"service":"kv","operation":"get"}],"hedgingPolicy":` + policy + `}]}`))
		return err
	}
	for _, bad := range []string{
		`{}`, `{"maxAttempts":1}`, `{"maxAttempts":"2"}`, `{"maxAttempts":2,"hedgingDelay":"-1s"}`, `{"maxAttempts":2,"hedgingDelay":1}`,
		`{"maxAttempts":2,"nonFatalReasons":["NO_SUCH"]}`, `{"maxAttempts":2,"other":1}`,
	} {
		require.ErrorContains(t, of(bad), "hedgingPolicy", bad)
	}
	for _, good := range []string{
		`{"maxAttempts":2}`, `{"maxAttempts":9}`, `{"maxAttempts":2,"hedgingDelay":"0s"}`, `{"maxAttempts":2,"nonFatalReasons":[]}`,
	} {
		require.NoError(t, of(good), good)
	}
}

// TestANameThatOccursTwiceIsRefused, in one entry or in two.
func TestANameThatOccursTwiceIsRefused(t *testing.T) {
	for _, names := range []string{`[{"service":"kv"},{"service":"kv"}]`, `[{}],"timeout":"1s"},{"name":[{}]`} {
		_, err := core.ParsePolicy([]byte(`{"operationConfig":[{"name":` + names + `,"timeout":"2s"}]}`))
		require.Error(t, err, names)
	}
}

// TestTheMostExactNameOfAPolicyWins: operation, service, everything.
func TestTheMostExactNameOfAPolicyWins(t *testing.T) {
	text := `{"operationConfig":[{"name":[{}],"timeout":"1s"},{"name":[{"service":"kv"}],"timeout":"2s"},
		{"name":[{"service":"kv","operation":"upsert"}],"timeout":"0.5s"}]}`
	virtual(t, func(t *testing.T, w *world) {
		w.fails(memd.OpSet, 0, mock.Drop())
		w.fails(memd.OpGet, 0, mock.Drop())
		took, _, err := w.upsert(nil)
		require.ErrorIs(t, err, cberr.Timeout)
		require.Equal(t, 500*ms, took)
		took, _, _ = w.get(nil)
		require.Equal(t, 2*time.Second, took)
	}, file(t, text))
}

// TestTheDocumentsJSONIsRead: the document's own form, with our services and reasons in the places of gRPC's.
func TestTheDocumentsJSONIsRead(t *testing.T) {
	_, err := core.ParsePolicy([]byte(`{"methodConfig":[
		{"name":[{"service":"kv","method":"get"}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.1s","maxBackoff":"1s","backoffMultiplier":2,
			"retryableStatusCodes":["KV_TEMPORARY_FAILURE"]}},
		{"name":[{"service":"query"}],"hedgingPolicy":{"maxAttempts":4,"hedgingDelay":"0.5s","nonFatalStatusCodes":["QUERY_INDEX_NOT_FOUND"]}}],
		"retryThrottling":{"maxTokens":10,"tokenRatio":0.1}}`))
	require.NoError(t, err)
}

// TestWithoutAPolicyTheBuiltInStrategyDecides: gRPC does not retry then; the first document's default strategy does.
func TestWithoutAPolicyTheBuiltInStrategyDecides(t *testing.T) {
	text := `{"operationConfig":[{"name":[{"service":"kv","operation":"get"}],"timeout":"1s"}]}`
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 2, memd.StatusTmpFail)
		_, info, err := w.upsert(nil)
		require.NoError(t, err)
		require.Equal(t, 2, info.Retries())
	}, file(t, text))
}

// TestRetriesCanBeSwitchedOff: what no server has looked at is sent again all the same.
func TestRetriesCanBeSwitchedOff(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		_, _, err := w.upsert(retry.BestEffort{})
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Equal(t, 1, in.Fired())
		in.Remove()
		w.fails(memd.OpSet, 2, mock.NotMyVBucket(false, nil))
		_, info, err := w.upsert(nil)
		require.NoError(t, err)
		require.Equal(t, 2, info.Transparent)
	}, func(c *core.Config) { c.Retry.Disabled = true })
}

func TestAPolicyCanForbidToBeOverridden(t *testing.T) {
	for pinned, want := range map[string]int{`true`: 2, `false`: 1} {
		virtual(t, func(t *testing.T, w *world) {
			in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
			_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: stops{}}})
			require.ErrorIs(t, err, cberr.TemporaryFailure)
			require.Equal(t, want, in.Fired())
		}, file(t, retryPolicy("maxAttempts", "2", "pinned", pinned)))
	}
}
