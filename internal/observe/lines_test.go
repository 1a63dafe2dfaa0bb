package observe_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/observe"
)

// tape is a log handler that keeps what it is given and, before that, does what it is told to.
type tape struct {
	level  slog.Level
	before func(slog.Record)

	mu      sync.Mutex
	records []slog.Record
	ctxs    []context.Context
}

func (h *tape) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }
func (h *tape) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *tape) WithGroup(string) slog.Handler                { return h }
func (h *tape) Handle(ctx context.Context, r slog.Record) error {
	if h.before != nil {
		h.before(r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records, h.ctxs = append(h.records, r), append(h.ctxs, ctx)
	return nil
}

// lines are the records as texts, "message key=value".
func (h *tape) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, r := range h.records {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
		out = append(out, text)
	}
	return out
}

// shutTape is a handler that does not come back before open is called.
func shutTape() (h *tape, open func()) {
	gate := make(chan struct{})
	return &tape{level: slog.LevelDebug, before: func(slog.Record) { <-gate }}, func() { close(gate) }
}

func TestLinesOfSeveralGoroutinesKeepTheirOrder(t *testing.T) {
	h := &tape{}
	l := observe.NewLog(slog.New(h))
	const writers, each = 2, observe.LogLimit / 4
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				l.Info(t.Context(), observe.MsgConnected, slog.Int("writer", w), slog.Int("n", i))
			}
		})
	}
	wg.Wait()
	require.NoError(t, l.Close(t.Context()))
	require.Zero(t, l.Lost())
	all := h.lines()
	require.Len(t, all, writers*each)
	for w := range writers {
		n := 0
		for _, text := range all {
			if strings.Contains(text, fmt.Sprintf("writer=%d", w)) {
				require.Equal(t, fmt.Sprintf("Connected writer=%d n=%d", w, n), text)
				n++
			}
		}
	}
}

// What a handler may ask of a line is what held when and where it was written.
func TestALineIsThatOfItsMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		h, open := shutTape()
		l := observe.NewLog(slog.New(h))
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		attrs := make([]slog.Attr, 8) // more than a record has room for
		for i := range attrs {
			attrs[i] = slog.Int("n", i)
		}
		began := time.Now()
		l.Debug(ctx, observe.MsgRetrying, attrs...)
		l.Error(ctx, observe.MsgCallbackPanicked)
		attrs[0], attrs[7] = slog.Int("n", 100), slog.Int("n", 107)
		cancel()
		time.Sleep(time.Hour)
		open()
		synctest.Wait()
		require.Equal(t, []string{"Retrying n=0 n=1 n=2 n=3 n=4 n=5 n=6 n=7", "A callback panicked"}, h.lines())
		for i, level := range []slog.Level{slog.LevelDebug, slog.LevelError} {
			r := h.records[i]
			require.Equal(t, began, r.Time)
			require.Equal(t, level, r.Level)
			require.Contains(t, r.Source().File, "lines_test.go")
			require.Contains(t, r.Source().Function, "TestALineIsThatOfItsMoment")
			require.Equal(t, "value", h.ctxs[i].Value(key{}))
		}
	})
}

func TestAttributesAndGroupsOfTheLoggerAreKept(t *testing.T) {
	var out bytes.Buffer
	s := slog.New(slog.NewTextHandler(&out, nil)).With("app", "shop").WithGroup("db")
	l := observe.NewLog(s)
	l.Info(t.Context(), observe.MsgConnected, slog.String(observe.KeyEndpoint, "h:1"))
	require.NoError(t, l.Close(t.Context()))
	require.Contains(t, out.String(), "msg=Connected app=shop db.endpoint=h:1\n")
}

// Lines beyond the limit are lost, and a line says how many were, at the place where they would be: before the next
// one, or as the last.
func TestLinesBeyondTheLimitAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		h := &tape{before: func(slog.Record) { <-next }}
		l := observe.NewLog(slog.New(h))
		write := func(n int) {
			for range n {
				l.Info(t.Context(), observe.MsgConnected)
			}
			synctest.Wait()
		}
		write(1) // is with the handler
		write(observe.LogLimit + 7)
		require.EqualValues(t, 7, l.Lost())
		next <- struct{}{}
		synctest.Wait()
		l.Info(t.Context(), observe.MsgConnectionLost)
		write(5)
		require.EqualValues(t, 12, l.Lost())
		close(next)
		synctest.Wait()
		want := slices.Repeat([]string{"Connected"}, 1+observe.LogLimit)
		want = append(want, "Log lines lost count=7", "Connection lost", "Log lines lost count=5")
		require.Equal(t, want, h.lines())
		require.Equal(t, slog.LevelWarn, h.records[1+observe.LogLimit].Level)
		write(1)
		require.Len(t, h.lines(), len(want)+1, "they are told of once")
	})
}

func TestAHandlerThatWantsNoWarningsIsNotToldOfLostLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, open := shutTape()
		h.level = slog.LevelError
		l := observe.NewLog(slog.New(h))
		for range observe.LogLimit + 2 {
			l.Error(t.Context(), observe.MsgCallbackPanicked)
		}
		open()
		synctest.Wait()
		require.NotContains(t, h.lines(), "Log lines lost count=1")
		require.NotContains(t, h.lines(), "Log lines lost count=2")
	})
}

// A handler that panics, or ends the goroutine that it is called on, loses that line and no other.
func TestALineThatFailsIsTheOnlyOneLost(t *testing.T) {
	for name, fail := range map[string]func(){
		"panics":             func() { panic("handle") },
		"ends its goroutine": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			h := &tape{before: func(r slog.Record) {
				if r.Message == observe.MsgConnectFailed {
					fail()
				}
			}}
			l := observe.NewLog(slog.New(h))
			for _, msg := range []string{
				observe.MsgConnected, observe.MsgConnectFailed, observe.MsgConnectionLost,
				observe.MsgConnectFailed,
			} {
				l.Info(t.Context(), msg)
			}
			require.NoError(t, l.Close(t.Context()))
			require.Equal(t, []string{observe.MsgConnected, observe.MsgConnectionLost}, h.lines())
			require.EqualValues(t, 2, l.Lost())
		})
	}
}

// Close waits for a handler that is slow, and a second for one that does not come back.
func TestCloseOfALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &tape{before: func(slog.Record) { time.Sleep(100 * time.Millisecond) }}
		l := observe.NewLog(slog.New(h))
		for range 5 {
			l.Info(t.Context(), observe.MsgConnected)
		}
		began := time.Now()
		require.NoError(t, l.Close(t.Context()))
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		require.Len(t, h.lines(), 5)
		l.Info(t.Context(), observe.MsgConnected)
		synctest.Wait()
		require.Len(t, h.lines(), 5, "closed")
		require.EqualValues(t, 1, l.Lost())
		require.NoError(t, l.Close(t.Context()))
	})
	for _, patience := range []time.Duration{10 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			h, open := shutTape()
			l := observe.NewLog(slog.New(h))
			for range observe.LogLimit + 10 {
				l.Info(t.Context(), observe.MsgConnected)
			}
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			require.ErrorIs(t, l.Close(ctx), observe.ErrLogStuck)
			require.Equal(t, min(patience, observe.LogGrace), time.Since(began))
			open()
			synctest.Wait()
			require.Len(t, h.lines(), 1, "the one that the handler had")
			require.EqualValues(t, observe.LogLimit+9, l.Lost())
		})
	}
}

// A handler may use the log that it is the handler of: it waits for itself no longer than Close does for anyone.
func TestAHandlerMayUseItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &tape{}
		l := observe.NewLog(slog.New(h))
		h.before = func(r slog.Record) {
			if r.Message == observe.MsgConnected {
				l.Info(t.Context(), observe.MsgConnectionLost)
				if err := l.Close(t.Context()); err != nil {
					l.Info(t.Context(), observe.MsgClusterClosed)
				}
			}
		}
		began := time.Now()
		l.Info(t.Context(), observe.MsgConnected)
		synctest.Wait()
		require.Empty(t, h.lines())
		time.Sleep(observe.LogGrace)
		synctest.Wait()
		require.Equal(t, observe.LogGrace, time.Since(began))
		require.Equal(t, []string{observe.MsgConnected}, h.lines())
	})
}

// asked is a tape whose level may be changed, and that counts how often it is asked.
type asked struct {
	*tape
	from  atomic.Int64
	times atomic.Int64
	fail  func() // before each answer
}

func (h *asked) Enabled(_ context.Context, l slog.Level) bool {
	h.times.Add(1)
	if h.fail != nil {
		h.fail()
	}
	return int64(l) >= h.from.Load()
}

// Lines of a level that the handler does not want take no room, however many there are and whatever it is doing.
func TestLinesThatAreNotWantedTakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, open := shutTape()
		a := &asked{tape: h}
		l := observe.NewLog(slog.New(a))
		synctest.Wait()
		require.EqualValues(t, 4, a.times.Load())
		l.Info(t.Context(), observe.MsgConnected) // the handler does not come back from it
		for range 2 * observe.LogLimit {
			l.Debug(t.Context(), observe.MsgRetrying)
		}
		for range 10 {
			l.Warn(t.Context(), observe.MsgTerminalSet)
		}
		require.Zero(t, l.Lost())
		open()
		require.NoError(t, l.Close(t.Context()))
		require.Len(t, h.lines(), 11)
		require.EqualValues(t, 4+11, a.times.Load())
	})
}

// A handler that does not come back from Enabled holds up neither NewLog nor those that write lines, and one that asks
// the Log meanwhile learns that it is being asked.
func TestEnabledMayBlockAndAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var l observe.Log
		var again atomic.Bool
		a := &asked{tape: &tape{}}
		a.from.Store(int64(slog.LevelInfo))
		a.fail = func() {
			<-gate
			if again.Load() {
				require.False(t, l.Enabled(slog.LevelDebug))
			}
		}
		l = observe.NewLog(slog.New(a))
		l.Info(t.Context(), observe.MsgConnected)
		require.ErrorIs(t, observe.NewLog(slog.New(a)).Close(t.Context()), observe.ErrLogStuck)
		close(gate)
		synctest.Wait()
		time.Sleep(observe.AskAgain)
		again.Store(true)
		l.Debug(t.Context(), observe.MsgRetrying)
		synctest.Wait()
		require.EqualValues(t, 4+1+1+1, a.times.Load(), "once by the other Log, which is closed")
		require.NoError(t, l.Close(t.Context()))
		require.Zero(t, l.Lost())
		require.Len(t, a.lines(), 1)
	})
}

// That lines are lost is told although warnings were refused before.
func TestLostLinesAreToldOfToAHandlerThatWantsWarningsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, open := shutTape()
		a := &asked{tape: h}
		a.from.Store(int64(slog.LevelError))
		l := observe.NewLog(slog.New(a))
		synctest.Wait()
		a.from.Store(int64(slog.LevelWarn))
		for range observe.LogLimit + 2 {
			l.Error(t.Context(), observe.MsgCallbackPanicked)
			synctest.Wait()
		}
		open()
		require.NoError(t, l.Close(t.Context()))
		require.Contains(t, h.lines()[len(h.lines())-1], observe.MsgLinesLost)
	})
}

// A level that was refused is asked about again after some time, also when there was no room for a line meanwhile.
func TestARefusedLevelIsAskedAboutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		h := &tape{before: func(slog.Record) { <-gate }}
		a := &asked{tape: h}
		l := observe.NewLog(slog.New(a))
		defer func() { require.NoError(t, l.Close(t.Context())) }()
		synctest.Wait()
		for range observe.LogLimit + 1 { // one is with the handler, the others fill the room
			l.Info(t.Context(), observe.MsgConnected)
			synctest.Wait()
		}
		time.Sleep(observe.AskAgain)
		l.Debug(t.Context(), observe.MsgRetrying)
		require.Zero(t, l.Lost(), "a line that is not wanted is not lost")
		l.Warn(t.Context(), observe.MsgTerminalSet)
		require.EqualValues(t, 1, l.Lost())
		close(gate)
		time.Sleep(observe.AskAgain)
		for range 10 {
			require.True(t, l.Enabled(slog.LevelDebug))
			l.Debug(t.Context(), observe.MsgRetrying)
			require.False(t, l.Enabled(slog.LevelDebug), "one asks at a time")
			synctest.Wait()
			require.False(t, l.Enabled(slog.LevelDebug))
			time.Sleep(observe.AskAgain)
		}
		a.from.Store(int64(slog.LevelDebug))
		n := len(h.lines())
		for range 10 {
			l.Debug(t.Context(), observe.MsgRetrying)
			synctest.Wait()
		}
		require.Len(t, h.lines(), n+10)
	})
}

// A handler that fails when it is asked loses that line and no other.
func TestAHandlerThatFailsWhenItIsAsked(t *testing.T) {
	for name, fail := range map[string]func(){
		"panics": func() { panic("enabled") }, "ends its goroutine": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failing atomic.Bool
				a := &asked{tape: &tape{}, fail: func() {
					if failing.CompareAndSwap(true, false) {
						fail()
					}
				}}
				l := observe.NewLog(slog.New(a))
				synctest.Wait()
				failing.Store(true)
				for range 10 {
					l.Warn(t.Context(), observe.MsgTerminalSet)
				}
				require.NoError(t, l.Close(t.Context()))
				require.EqualValues(t, 1, l.Lost())
				require.Len(t, a.lines(), 9)
			})
		})
	}
}
