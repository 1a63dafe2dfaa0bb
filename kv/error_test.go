package kv_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

const (
	secretKey   = "customer::4711"
	secretValue = "hunter2"
	secretUser  = "jane.doe"
)

var secrets = kv.Common{Scope: "inventory", Collection: "hotel", OnBehalfOf: secretUser}

// judged is a server that refuses every attempt with a status, and the orchestrator decides.
func judged(st memd.Status, body string) *fake {
	var f *fake
	f = newFake(func(c *call.Call) {
		c.Share()
		c.SetVia(fakeVia)
		c.Route.Opaque = 0x2a
		epoch, _ := c.State.Sent()
		c.State.Answered(epoch)
		p := &memd.Packet{
			Magic: memd.MagicRes, Opcode: c.Req.Opcode, Status: st, Datatype: memd.DatatypeJSON,
			Value: []byte(body),
		}
		d := call.Classify(c.Req.Opcode, st, c.Req.CAS != 0)
		f.orch.MaybeRetry(c, d.Reason, c.StatusError(p, d), retry.Hint{})
	})
	return f
}

// losing is a connection that dies with every request on it.
func losing() *fake {
	var f *fake
	f = newFake(func(c *call.Call) {
		c.Share()
		c.SetVia(fakeVia)
		c.Route.Opaque = 0x2a
		epoch, _ := c.State.Sent()
		f.orch.ConnLost(c, epoch, io.EOF)
	})
	return f
}

// unrouted is a cluster without a node for the call, for one reason.
func unrouted(why retry.Reason, cause error) *fake {
	var f *fake
	f = newFake(func(c *call.Call) {
		c.Share()
		c.State.NotSent()
		f.orch.MaybeRetry(c, why, cause, retry.Hint{})
	})
	return f
}

// mapped is a server whose error map has a name for the status.
func mapped(st memd.Status, name, desc string) *fake {
	return newFake(func(c *call.Call) {
		c.SetVia(fakeVia)
		p := &memd.Packet{Opcode: c.Req.Opcode, Status: st}
		e := c.StatusError(p, call.Classify(c.Req.Opcode, st, false))
		e.Name, e.Description = name, desc
		c.Fail(e)
	})
}

func do[R any, O kv.Op[R]](ctx context.Context, f *fake, op O) error {
	_, err := kv.Do(ctx, f, op)
	return err
}

// stops is a strategy that gives up after some retries.
type stops struct{ after int }

func (s stops) RetryAfter(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
	if r.Counted >= s.after {
		return retry.Stop()
	}
	return retry.After(10 * time.Millisecond)
}

type shape struct {
	name string
	err  error
	is   []error
}

const body = `{"error":{"context":"Sync write gave up","ref":"6f1c-1c1e"}}`

// shapes is an error of every form, as calls return them.
func shapes(t *testing.T) []shape {
	t.Helper()
	bg := context.Background()
	key, value := []byte(secretKey), []byte(secretValue)
	upsert := kv.Upsert{Common: secrets, Key: key, Value: value}
	get := kv.Get{Common: secrets, Key: key}
	withRetry := func(s retry.Strategy) kv.Common {
		c := secrets
		c.Retry = s
		return c
	}
	canceled, cancel := context.WithCancel(bg)
	cancel()
	late, cancelLate := context.WithDeadline(bg, time.Now().Add(-time.Second))
	defer cancelLate()
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(bg, time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	endsSoon := func() context.Context {
		ctx, cancel := context.WithCancel(bg)
		time.AfterFunc(50*time.Millisecond, cancel)
		return ctx
	}
	return []shape{
		{"missing document", do(bg, refusing(memd.StatusKeyNotFound, 0, ""), get), []error{cberr.DocumentNotFound}},
		{
			"an error body", do(bg, refusing(memd.StatusDurabilityImpossible, memd.DatatypeJSON, body), upsert),
			[]error{cberr.DurabilityImpossible},
		},
		{
			"an error body that is no JSON", do(bg, refusing(memd.StatusInvalid, memd.DatatypeJSON, "{"), upsert),
			[]error{cberr.InvalidArgument},
		},
		{
			"an error body not marked as JSON", do(bg, refusing(memd.StatusInvalid, 0, body), upsert),
			[]error{cberr.InvalidArgument},
		},
		{
			"ambiguous by the server's word", do(bg, refusing(memd.StatusSyncWriteAmbiguous, 0, ""), upsert),
			[]error{cberr.DurabilityAmbiguous},
		},
		{"an unknown status", do(bg, refusing(0x7ff7, 0, ""), get), []error{cberr.Couchbase}},
		{
			"an unknown status that the map knows", do(bg, mapped(0x7ff0, "DUMMY_RETRY", "try again"), get),
			[]error{cberr.Couchbase},
		},
		{"gave up after retries", do(bg, judged(memd.StatusTmpFail, body), kv.Upsert{
			Common: withRetry(stops{2}),
			Key:    key, Value: value,
		}), []error{cberr.TemporaryFailure}},
		{"timed out over retries", do(bg, judged(memd.StatusLocked, ""),
			kv.Upsert{Common: withRetry(retry.BestEffort{}), Key: key, Value: value}), []error{
			cberr.UnambiguousTimeout,
			cberr.Timeout, context.DeadlineExceeded, cberr.DocumentLocked, retry.ErrTimeout,
		}},
		{"timed out on the wire, a write", do(soon(), silent(), upsert), []error{
			cberr.AmbiguousTimeout, cberr.Timeout,
			context.DeadlineExceeded, retry.ErrTimeout,
		}},
		{
			"timed out on the wire, a read", do(soon(), silent(), kv.Get{Common: secrets, Key: key}),
			[]error{cberr.UnambiguousTimeout, context.DeadlineExceeded},
		},
		{"canceled on the wire", do(endsSoon(), silent(), upsert), []error{
			cberr.RequestCanceled, context.Canceled,
			retry.ErrCanceled,
		}},
		{"canceled before it began", do(canceled, newFake(nil), upsert), []error{
			cberr.RequestCanceled,
			context.Canceled,
		}},
		{"its deadline passed before it began", do(late, newFake(nil), upsert), []error{
			cberr.UnambiguousTimeout,
			cberr.Timeout, context.DeadlineExceeded,
		}},
		{"a connection lost under a write", do(bg, losing(), upsert), []error{cberr.RequestCanceled, io.EOF}},
		{
			"a connection lost under a read", do(bg, losing(), kv.Get{Common: withRetry(stops{1}), Key: key}),
			[]error{cberr.RequestCanceled, io.EOF},
		},
		{
			"no node, a terminal reason", do(bg, unrouted(retry.BucketAccessError, errors.New("no access")), get),
			[]error{cberr.BucketAccess, retry.ErrTerminal},
		},
		{"no node", do(bg, unrouted(retry.NodeNotAvailable, errors.New("no node")), kv.Get{
			Common: withRetry(stops{0}),
			Key:    key,
		}), []error{cberr.RequestCanceled}},
		{"a bad argument", do(bg, newFake(nil), kv.Get{Common: secrets}), []error{cberr.InvalidArgument}},
		{
			"a value too large", do(bg, newFake(nil), kv.Upsert{Key: key, Value: make([]byte, kv.MaxValueLen+1)}),
			[]error{cberr.ValueTooLarge},
		},
		{"a feature that is missing", func() error {
			_, err := on("", kv.Upsert{Common: secrets, Key: key, Durability: 1}).encoded(call.Wire{})
			return err
		}(), []error{cberr.FeatureNotAvailable}},
		{
			"a malformed answer", do(bg, answering(memd.Packet{}), kv.Increment{Common: secrets, Key: key}),
			[]error{cberr.DecodingFailure},
		},
		{"a panic in Encode", do(bg, newFake(nil), kv.Seal(panics{inEncode: true})), []error{cberr.EncodingFailure}},
		{"a panic in Decode", do(bg, answering(memd.Packet{}), kv.Seal(panics{})), []error{cberr.DecodingFailure}},
		{"an error of an Encode", do(bg, newFake(nil), kv.Seal(failingEncode{})), []error{
			cberr.EncodingFailure,
			io.ErrNoProgress,
		}},
	}
}

// panics is an operation whose author erred.
type panics struct{ inEncode bool }

func (p panics) Encode(r *call.Request) error {
	r.Opcode, r.Key = memd.OpGet, []byte("k")
	if p.inEncode {
		panic("oops")
	}
	return nil
}

func (p panics) Decode(*call.Response) (int, error) { panic("oops") }

type failingEncode struct{}

func (failingEncode) Encode(r *call.Request) error {
	r.Opcode = memd.OpSet
	return io.ErrNoProgress
}

func (failingEncode) Decode(*call.Response) (int, error) { return 0, nil }

// D101, D102: every error by its text, its JSON and what it is. Time stands still but where a call waits.
func TestErrorGolden_D101_D102(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		for _, s := range shapes(t) {
			e := kvError(t, s.err)
			fmt.Fprintf(&b, "# %s\n%v\n", s.name, e)
			js, err := json.Marshal(e)
			require.NoError(t, err)
			fmt.Fprintf(&b, "%s\n\n", js)
		}
		// The waits of BestEffort are jittered: digits of durations are not the golden file's matter.
		testkit.Golden(t, "testdata/errors.golden", []byte(steady(b.String())), *update)
	})
}

var digits = regexp.MustCompile(`(after |"retry_attempts":)\d+`)

// steady takes out what random numbers decide.
func steady(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "KV_LOCKED") {
			line = digits.ReplaceAllString(line, "${1}N")
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

func TestEveryErrorReachesItsPartsAndKeepsSecrets_D101(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range shapes(t) {
			e := kvError(t, s.err)
			for _, target := range append(s.is, cberr.Couchbase) {
				require.ErrorIs(t, e, target, s.name)
			}
			require.NotErrorIs(t, e, cberr.ParsingFailure)
			require.Equal(t, cberr.KindOf(s.is[0]).Name(), e.Kind(), s.name)
			require.Equal(t, cberr.KindOf(e), cberr.KindOf(e.Err), s.name)
			var as *kv.Error
			require.ErrorAs(t, fmt.Errorf("wrapped: %w", e), &as)
			require.Same(t, e, as)
			info, ok := retry.InfoOf(e)
			require.True(t, ok)
			require.Equal(t, e.Retry, info)
			var ambiguous interface{ Ambiguous() bool }
			require.ErrorAs(t, error(e), &ambiguous)
			require.Equal(t, e.InDoubt, ambiguous.Ambiguous())

			js, err := json.Marshal(e)
			require.NoError(t, err)
			for _, text := range []string{
				e.Error(), fmt.Sprint(e), fmt.Sprintf("%+v", e), fmt.Sprintf("%v", *e), fmt.Sprintf("%q", e),
				string(js),
			} {
				for _, secret := range []string{secretKey, secretValue, secretUser} {
					require.NotContains(t, text, secret, s.name)
				}
			}
			// D102: no struct and no pointer is printed.
			require.NotRegexp(t, `[{&]|0x[0-9a-f]{6,}`, strings.ReplaceAll(e.Error(), "0x0000002a", ""), s.name)
		}
	})
}

func TestTheLastAnswerIsReachableBehindATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := do(context.Background(), judged(memd.StatusTmpFail, body),
			kv.Upsert{Common: kv.Common{Retry: retry.BestEffort{}}, Key: []byte("k")})
		e := kvError(t, err)
		require.ErrorIs(t, e, cberr.UnambiguousTimeout)
		require.ErrorIs(t, e, cberr.TemporaryFailure)
		require.False(t, e.Ambiguous(), "the server has said that it did nothing")
		require.True(t, e.Answered)
		require.Equal(t, memd.StatusTmpFail, e.Status)
		require.Equal(t, "Sync write gave up", e.Context)
		require.Equal(t, "6f1c-1c1e", e.Ref)
		require.Equal(t, time.Minute, e.Elapsed)
		require.Greater(t, e.Retry.Counted, 10)
		require.True(t, e.Retry.Reasons.Has(retry.KVTemporaryFailure))
		var re *retry.Error
		require.ErrorAs(t, e, &re)
		require.Equal(t, e.Retry, re.Info)
		var inner *kv.Error
		require.ErrorAs(t, re.Cause, &inner)
		require.Equal(t, memd.StatusTmpFail, inner.Status)
	})
}

func TestAnUnknownStatusKeepsItsNumberAndTheMapsName_D100(t *testing.T) {
	e := kvError(t, do(context.Background(), mapped(0x7ff0, "DUMMY_RETRY", "try again"), kv.Get{Key: []byte("k")}))
	require.ErrorContains(t, e, "status 0x7ff0 DUMMY_RETRY, try again")
	e = kvError(t, do(context.Background(), refusing(0x7ff7, 0, ""), kv.Get{Key: []byte("k")}))
	require.ErrorContains(t, e, "0x7ff7")
	require.EqualValues(t, 0x7ff7, e.Status)
}

func TestErrorBodiesOfEveryKindAreHarmless(t *testing.T) {
	for _, c := range []struct{ body, context, ref string }{
		{body, "Sync write gave up", "6f1c-1c1e"},
		{`{"error":{"context":"only"}}`, "only", ""},
		{`{"error":{"ref":"only"}}`, "", "only"},
		{`{"error":{}}`, "", ""},
		{`{"error":"text"}`, "", ""},
		{`{"error":null}`, "", ""},
		{`null`, "", ""},
		{`[]`, "", ""},
		{`{"error":{"context":5,"ref":{}}}`, "", ""},
		{"", "", ""},
		{"{", "", ""},
		{"\x00\xff", "", ""},
		{strings.Repeat("[", 1<<20), "", ""},
		{`{"error":{"context":"` + strings.Repeat("a", 1<<20) + `"}}`, "", ""}, // over the 64 KiB that are kept
	} {
		e := kvError(t, do(context.Background(), refusing(memd.StatusInvalid, memd.DatatypeJSON, c.body),
			kv.Get{Key: []byte("k")}))
		require.Equal(t, c.context, e.Context)
		require.Equal(t, c.ref, e.Ref)
		require.ErrorIs(t, e, cberr.InvalidArgument)
		require.Less(t, len(e.Error()), 1000)
	}
}

func TestTheManifestsNumberIsReadFromAnUnknownCollection(t *testing.T) {
	for text, want := range map[string]uint64{
		`{"manifest_uid":"1f"}`: 0x1f, `{"manifest_uid":"0"}`: 0, `{"manifest_uid":"ffffffffffffffff"}`: 1<<64 - 1,
	} {
		uid, ok := unknownCollection(t, text)
		require.True(t, ok, text)
		require.Equal(t, want, uid)
	}
	for _, text := range []string{``, `{`, `{}`, `{"manifest_uid":""}`, `{"manifest_uid":31}`, `{"manifest_uid":"1fx"}`, `{"manifest_uid":"-1"}`, `{"manifest_uid":"10000000000000000"}`} {
		_, ok := unknownCollection(t, text)
		require.False(t, ok, text)
	}
}

func unknownCollection(t *testing.T, text string) (uid uint64, ok bool) {
	t.Helper()
	f := newFake(func(c *call.Call) {
		p := &memd.Packet{Opcode: c.Req.Opcode, Status: memd.StatusUnknownCollection, Value: []byte(text)}
		e := c.StatusError(p, call.Classify(c.Req.Opcode, p.Status, false))
		uid, ok = e.ManifestUID()
		c.Fail(e)
	})
	require.ErrorIs(t, do(testContext(t), f, kv.Get{Key: []byte("k")}), cberr.CollectionNotFound)
	return uid, ok
}

// Guarantee 3: a failure that is not known to leave everything as it was leaves a write in doubt, and nothing else.
func TestFailuresThatMayHaveAppliedAWriteSaySo(t *testing.T) {
	for st, unsure := range map[memd.Status]bool{
		memd.StatusInternal: true, 0x7ff7: true, memd.StatusSyncWriteAmbiguous: true, memd.StatusKeyExists: false,
		memd.StatusAccess: false, memd.StatusInvalid: false,
	} {
		d := refusing(st, 0, "")
		require.Equal(t, unsure, kvError(t, do(context.Background(), d, kv.Upsert{Key: []byte("k")})).Ambiguous(), st)
		require.Equal(t, st == memd.StatusSyncWriteAmbiguous,
			kvError(t, do(context.Background(), d, kv.Get{Key: []byte("k")})).Ambiguous(), st)
	}
}

// A cluster map in the body of NOT_MY_VBUCKET is no error's context, and no error keeps it alive.
func TestANotMyVBucketBodyIsNoContext(t *testing.T) {
	e := kvError(t, do(context.Background(), refusing(memd.StatusNotMyVBucket, memd.DatatypeJSON, body),
		kv.Get{Key: []byte("k")}))
	require.Empty(t, e.Context)
	require.Empty(t, e.Ref)
}

func TestAZeroErrorPrints(t *testing.T) {
	var e kv.Error
	require.Equal(t, "key-value operation: failure", e.Error())
	require.Equal(t, "couchbase", e.Kind())
	require.NotErrorIs(t, &e, cberr.Timeout)
	var re *retry.Error
	require.NotErrorAs(t, &e, &re)
	js, err := json.Marshal(&e)
	require.NoError(t, err)
	require.JSONEq(t, `{"kind":"couchbase","message":"key-value operation: failure","ambiguous":false,"retry_attempts":0,
		"retry_reasons":[],"time_observed":0}`, string(js))
}

func TestTheJSONHasTheKeysOfTheSDKs(t *testing.T) {
	e := &kv.Error{
		Op: "upsert", Bucket: "travel", Scope: "s", Collection: "c", Answered: true, Status: 0x86, Name: "ETMPFAIL",
		Description: "later", Context: "ctx", Ref: "ref", Endpoint: "h:1", Opaque: 0x2a,
		Elapsed: 1500 * time.Microsecond,
		InDoubt: true, Err: cberr.TemporaryFailure,
		Retry: retry.Info{Counted: 2, Transparent: 1, Reasons: retry.Reasons(0).With(retry.KVTemporaryFailure)},
	}
	js, err := json.Marshal(e)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(js, &got))
	require.Equal(t, e.Error(), got["message"])
	delete(got, "message")
	require.Equal(t, map[string]any{
		"kind": "temporary_failure", "ambiguous": true, "status": "0x86", "error_name": "ETMPFAIL",
		"error_description": "later",
		"context":           "ctx", "ref": "ref", "bucket": "travel", "scope": "s", "collection": "c",
		"last_dispatched_to": "h:1",
		"opaque":             "0x0000002a", "retry_attempts": 3.0, "retry_reasons": []any{"KV_TEMPORARY_FAILURE"},
		"time_observed": 1500.0,
	}, got)
}
