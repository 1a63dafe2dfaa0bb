package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
)

// What the client says: its log, the errors of its calls, its diagnostics. No password may be in it, in no form (P13),
// and no line of the log may be about a broken invariant (P16).

// says looks at something that the client has said.
func (w *world) says(where string, text []byte) {
	w.mu.Lock()
	secrets := w.secrets
	w.mu.Unlock()
	if secrets.In(text) {
		w.report.violate("P13", "the password is in %s", where)
	}
}

// logLines takes the client's log.
type logLines struct{ w *world }

func (l logLines) Write(line []byte) (int, error) {
	l.w.says("the log", line)
	if bytes.Contains(line, []byte("level="+slog.LevelError.String())) {
		l.w.report.violate("P16", "the log says %s", line)
	}
	if at := panicked(line); at != "" && !strings.Contains(at, "/internal/sim.") {
		l.w.report.violate("P16", "the client has panicked in %s, and says: %s", at, line)
	}
	l.w.behave(context.Background(), logging, longestLog)
	return len(line), nil
}

// panicked is the function of which a line with the stack of a contained panic says that it has panicked; "" for
// another line. What the client contains are the panics of the program's callbacks, not its own.
func panicked(line []byte) string {
	_, stack, ok := strings.Cut(string(line), " stack=")
	at := strings.LastIndex(stack, `\npanic(`)
	if !ok || at < 0 {
		return ""
	}
	for frame := range strings.SplitSeq(stack[at+len(`\n`):], `\n`) {
		place := strings.HasPrefix(frame, `\t`)
		if !place && !strings.HasPrefix(frame, "panic(") && !strings.HasPrefix(frame, "runtime.") {
			return frame
		}
	}
	return ""
}

func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(logLines{w}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lastWords looks at what the client says of itself before it is closed.
func (w *world) lastWords() {
	w.meters.read()
	for _, about := range []any{w.c.Diagnostics(), w.c.RetryStats()} {
		text, err := json.Marshal(about)
		if err != nil {
			w.report.violate("setup", "%v", err)
		}
		w.says("the diagnostics", text)
		w.says("the diagnostics", fmt.Appendf(nil, "%+v", about))
	}
}

// checkErrors looks at the errors of the calls, and at every 64th as a debugger would. So it does at those of requests
// to services and of scans, which are not as many: at each of them in both ways.
func (w *world) checkErrors() {
	look := func(where string, err error, closely bool) {
		if err == nil {
			return
		}
		w.says(where, []byte(err.Error()))
		if closely {
			w.says(where, fmt.Appendf(nil, "%+v %#v", err, err))
		}
	}
	for i, e := range w.ledger {
		look("an error", e.err, i%64 == 0)
	}
	for _, s := range w.statements {
		look("the error of a statement", s.err, true)
	}
	for i := range w.looked {
		look("the error of a request to a service", w.looked[i].err, true)
	}
	for _, s := range w.scanned {
		look("the error of a scan", s.err, true)
	}
}
