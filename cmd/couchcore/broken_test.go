package main

import (
	"bytes"
	"context"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
)

// broken is a set-up in which something is wrong, and the sentences, as patterns, that a user must see.
type brokenSetUp struct {
	args  []string // how to connect
	data  []string // the data command; nil reads a document
	hooks doctorHooks
	tune  func(*core.Config)
	told  bool // the node says what is wrong: nothing waits, unless the machine is busy

	says   string // the data command
	doctor string // doctor
	ready  string // WaitReady; "" when it succeeds
}

// brokenTime is what everything has that waits for something which does not come, and toldTime what it has that is told
// what is wrong. All set-ups are looked at at the same time, on whatever machine.
const (
	brokenTime = 8 * time.Second
	toldTime   = 2 * time.Minute
)

// sawBroken is what a user has seen.
type sawBroken struct {
	data, doctor result
	ready        error
}

// see runs the data command, doctor and WaitReady on the set-up, all at the same time.
func (s *brokenSetUp) see() (saw sawBroken) {
	var wg sync.WaitGroup
	most := brokenTime
	if s.told {
		most = toldTime
	}
	limit := append([]string{"--timeout", most.String()}, s.args...)
	run := func(tune func(*core.Config), args ...string) result {
		var out, errs bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &errs, func(string) string { return "" })
		a.doctor = s.hooks
		a.tune = func(cfg *core.Config) {
			if s.tune != nil {
				s.tune(cfg)
			}
			if tune != nil {
				tune(cfg)
			}
		}
		return result{a.run(args), out.String(), errs.String()}
	}
	data := s.data
	if data == nil {
		data = []string{"kv", "get", "k"}
	}
	wg.Go(func() { saw.doctor = run(nil, append([]string{"doctor"}, limit...)...) })
	wg.Go(func() {
		var cfg core.Config
		saw.data = run(func(used *core.Config) { cfg = *used }, append(data, limit...)...)
		c, err := core.Open(context.Background(), cfg)
		if err != nil {
			saw.ready = err
			return
		}
		defer func() { _ = c.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), most)
		defer cancel()
		saw.ready = c.Bucket(cfg.Bucket).WaitReady(ctx)
	})
	wg.Wait()
	return saw
}

// TestBrokenSetUpsSayWhatIsWrong_D177: a data command, doctor and WaitReady each say in words what is wrong now.
func TestBrokenSetUpsSayWhatIsWrong_D177(t *testing.T) {
	all := map[string]brokenSetUp{}
	for name, setUp := range brokenSetUps {
		all[name] = setUp(t)
	}
	require.GreaterOrEqual(t, len(all), 24)
	saw := map[string]sawBroken{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for name, s := range all {
		wg.Go(func() {
			what := s.see()
			mu.Lock()
			defer mu.Unlock()
			saw[name] = what
		})
	}
	wg.Wait()
	for name, s := range all {
		t.Run(name, func(t *testing.T) {
			what := saw[name]
			t.Log(what.data.stderr, what.ready, "\n", what.doctor.stdout)
			require.Regexp(t, `^couchcore: .*`+s.says, what.data.stderr)
			require.NotZero(t, what.data.code)
			require.Equal(t, 1, strings.Count(what.data.stderr, "\n"), what.data.stderr)
			require.Regexp(t, s.doctor, strings.Join(strings.Fields(what.doctor.stdout), " "))
			for _, line := range strings.Split(what.doctor.stdout, "\n") {
				require.LessOrEqual(t, len([]rune(line)), lineWidth, line)
			}
			if s.ready == "" {
				require.NoError(t, what.ready)
				return
			}
			require.Regexp(t, s.ready, what.ready.Error())
			require.NotNil(t, cberr.KindOf(what.ready), "%T", what.ready)
			public(t, what.ready)
		})
	}
}

// publicErrors are the types of errors that internal packages have and package core names.
var publicErrors = []reflect.Type{
	reflect.TypeFor[*core.NotReadyError](), reflect.TypeFor[*core.ConnectError](), reflect.TypeFor[*core.MapError](),
	reflect.TypeFor[*core.ResponseError](), reflect.TypeFor[*core.RequestError](), reflect.TypeFor[*core.PanicError](),
	reflect.TypeFor[*core.GoneError](), reflect.TypeFor[*core.ManagementError](),
}

// public checks that a program can name the type of an error.
func public(t *testing.T, err error) {
	t.Helper()
	for _, e := range publicErrors {
		if reflect.TypeOf(err) == e {
			return
		}
	}
	kind := reflect.TypeOf(err)
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	require.NotContains(t, kind.PkgPath(), "/internal/", "%T", err)
}

// at quotes an address for a pattern, also where lines end.
func at(addr string) string { return regexp.QuoteMeta(addr) }
