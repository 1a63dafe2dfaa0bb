package retry_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
	"github.com/couchcore/couchcore/retry/policy"
)

// TestNoRetryWithoutAnActionThatSaysSo proves I5, CB-15 and CB-38: a reason that is not always retried is so only when
// the strategy says After, and a write for an unsafe reason not even then.
func TestNoRetryWithoutAnActionThatSaysSo(t *testing.T) {
	refusals := map[string]retry.Action{
		"zero": {}, "stop": retry.Stop(), "terminal": retry.StopTerminal(),
		"translated": retry.StopWith(func(err error) error { return err }), "time out": retry.TimeOutAfter(ms),
	}
	for why := range retry.All() {
		if why.AlwaysRetry() {
			continue
		}
		for _, idempotent := range []bool{false, true} {
			for name, a := range refusals {
				bubble(t, func(t *testing.T) {
					x := newOp(idempotent, time.Second)
					x.answer(retry.New(retry.Options{Default: after{a}}), why, retry.Hint{})
					pass(time.Minute)
					require.Empty(t, x.sent(), "%v, %s", why, name)
					require.Equal(t, 1, x.ended())
				})
			}
			bubble(t, func(t *testing.T) { // the strategy says yes to everything
				orc := retry.New(retry.Options{Default: after{retry.After(0)}})
				x := newOp(idempotent, time.Second)
				x.answer(orc, why, retry.Hint{})
				pass(time.Millisecond)
				safe := idempotent || why.AllowsNonIdempotent()
				require.Equal(t, safe, len(x.sent()) == 1, "%v, idempotent %v", why, idempotent)
				require.Equal(t, safe, x.ended() == 0, "%v, idempotent %v", why, idempotent)
				orc.Cancel(x, nil)
			})
		}
	}
}

// TestActionsCanGrow proves CB-17: an action is made by functions and has no field that a caller could fill, so a new
// kind of it breaks no other operation; its zero value stops.
func TestActionsCanGrow(t *testing.T) {
	typ := reflect.TypeFor[retry.Action]()
	for i := range typ.NumField() {
		require.False(t, typ.Field(i).IsExported(), typ.Field(i).Name)
	}
	strategy := reflect.TypeFor[retry.Strategy]()
	require.Equal(t, 1, strategy.NumMethod())
	require.Equal(t, typ, strategy.Method(0).Type.Out(0))
	require.Zero(t, retry.Stop())
}

// TestThePublicStrategies proves CB-24: these are all strategies that a user of the module can name. The strict one is
// not among them.
func TestThePublicStrategies(t *testing.T) {
	var got []string
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := name != "." && strings.HasPrefix(d.Name(), ".")
			if hidden || slices.Contains([]string{"internal", "testdata", "cmd", "examples", "target"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), "../"+name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Name.Name != "RetryAfter" || fn.Type.Results.NumFields() != 1 {
				continue
			}
			recv := fn.Recv.List[0].Type
			if p, ok := recv.(*ast.StarExpr); ok {
				recv = p.X
			}
			if id, ok := recv.(*ast.Ident); ok && id.IsExported() {
				got = append(got, path.Join(path.Dir(name), id.Name))
			}
		}
		return nil
	})
	require.NoError(t, err)
	slices.Sort(got)
	require.Equal(t, []string{
		"retry/BestEffort", "retry/FastFailOnTerminalError", "retry/Func",
		"retry/policy/Bucket", "retry/policy/Limit", "retry/policy/Only", "retry/policy/Pushback",
		"retry/policy/Throttle",
	}, got)
}

// purse is a budget of one's own.
type purse struct{ left int32 }

func (p *purse) Take(k retry.Kind) (int32, bool) {
	cost := map[retry.Kind]int32{retry.Throttling: 3}[k] + 1
	if cost > p.left {
		return 0, false
	}
	p.left -= cost
	return cost, true
}

func (p *purse) Settle(cost int32, succeeded bool) {
	if succeeded {
		p.left += cost
	}
}

// TestBudgetAndBackoffAreTheUsers proves SM-15: both are interfaces that a user fills, and it is they who decide.
func TestBudgetAndBackoffAreTheUsers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		p := &purse{left: 9}
		squares := func(step int, _ time.Duration) time.Duration { return time.Duration((step+1)*(step+1)) * ms }
		orc := retry.New(retry.Options{Default: policy.Bucket{Base: retry.BestEffort{Backoff: squares}, Store: p}})
		x := newOp(true, time.Second)
		x.dispatch = func() { x.answer(orc, retry.KVTemporaryFailure, retry.Hint{}) }
		x.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		pass(time.Second)
		require.Equal(t, inMS(0, 1, 5), since(start, x))
		require.ErrorIs(t, x.err, retry.ErrThrottled)
		require.Equal(t, 14*ms, x.end.Sub(start), "refused after its delay")
		require.EqualValues(t, 1, p.left)
	})
}

// TestServersDelayElseTheBackoff proves GR-5: without a delay of the server's the user's own apply, and without those
// the default.
func TestServersDelayElseTheBackoff(t *testing.T) {
	named := retry.Hint{Pushback: retry.PushbackAfter(5 * time.Second)}
	for _, c := range []struct {
		name     string
		strategy retry.Strategy
		hint     retry.Hint
		want     time.Duration
	}{
		{"server", nil, named, 5 * time.Second},
		{"server before the user", retry.BestEffort{Backoff: retry.Constant(20 * ms)}, named, 5 * time.Second},
		{"user", retry.BestEffort{Backoff: retry.Constant(20 * ms)}, retry.Hint{}, 20 * ms},
		{"default", nil, retry.Hint{}, ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				start := time.Now()
				orc := retry.New(retry.Options{Default: c.strategy})
				x := newOp(false, time.Minute)
				x.answer(orc, retry.ServiceResponseCodeIndicated, c.hint)
				pass(10 * time.Second)
				require.Equal(t, []time.Duration{0, c.want}, since(start, x))
				orc.Cancel(x, nil)
			})
		})
	}
}

// replied is what a server's answer brings.
type replied struct {
	why  retry.Reason // Unknown is fatal
	push retry.Pushback
}

func (r replied) Error() string            { return fmt.Sprint(r.why) }
func (r replied) Pushback() retry.Pushback { return r.push }

// TestFiveKindsOfAnswer proves GA6-32: a success, a fatal failure, one to be retried, the server's "do not retry" and
// its delay, each as the first of several answers, under a retry policy and under a hedging policy. The answer after
// those fails too, the third succeeds.
func TestFiveKindsOfAnswer(t *testing.T) {
	busy := retry.KVTemporaryFailure
	for _, c := range []struct {
		name    string
		first   error
		retried []time.Duration // when attempts are sent
		hedged  []time.Duration
		ok      bool
	}{
		{"ok", nil, inMS(0), inMS(0), true},
		{"fatal", replied{why: retry.Unknown}, inMS(0), inMS(0), false},
		{"retryable", replied{why: busy}, inMS(0, 10, 30), inMS(0, 0, 0), true},
		{"do not retry", replied{why: busy, push: retry.PushbackNever()}, inMS(0), inMS(0), false},
		{
			"retry in 70 ms",
			replied{why: busy, push: retry.PushbackAfter(70 * ms)},
			inMS(0, 70, 80), inMS(0, 70, 70),
			true,
		},
	} {
		answers := []error{c.first, replied{why: busy}, nil}
		t.Run(c.name+", retried", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				start := time.Now()
				orc := retry.New(retry.Options{Default: policy.Pushback{Base: policy.Only{
					Base:    retry.BestEffort{Backoff: retry.Exponential(10*ms, time.Second, 2)},
					Reasons: retry.Reasons(0).With(busy),
				}}})
				x := newOp(true, time.Minute)
				x.dispatch = func() {
					e, _ := x.st.Sent()
					require.True(t, x.st.Answered(e))
					var r replied
					switch answer := answers[len(x.sent())]; {
					case answer == nil:
						x.st.Finish()
						x.Done(nil, false)
					default:
						r = answer.(replied) //nolint:errorlint,forcetypeassert // the table's own
						orc.MaybeRetry(x, r.why, r, retry.Hint{Pushback: r.push})
					}
				}
				x.dispatch()
				pass(time.Minute)
				require.Equal(t, c.retried, since(start, x))
				require.Equal(t, 1, x.ended())
				if c.ok {
					require.NoError(t, x.err)
				} else {
					require.ErrorIs(t, x.err, c.first)
				}
			})
		})
		t.Run(c.name+", hedged", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				start := time.Now()
				var sent []time.Duration
				_, _, err := hedge.Do(t.Context(), hedge.Policy{
					MaxAttempts: 3, Delay: time.Second, Idempotent: true,
					//nolint:errorlint,forcetypeassert // the table's own
					NonFatal: func(err error) bool { return err.(replied).why == busy },
				}, func(_ context.Context, n int, _ *hedge.Avoid) (int, error) {
					sent = append(sent, time.Since(start))
					return n, answers[n]
				})
				require.Equal(t, c.hedged, sent)
				if c.ok {
					require.NoError(t, err)
				} else {
					require.Equal(t, c.first, err)
				}
			})
		})
	}
}
