package httpx_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// rawRows is a service of rows whose first error decides: "again" may be retried.
var rawRows = httpsvc.RowService[[]byte]{
	Key: "results", Wrap: same[error], Meta: same[[]byte],
	Judge: func(a *httpsvc.Answer) httpsvc.Verdict {
		v := httpsvc.Verdict{General: true}
		if len(a.Errors) > 0 {
			v.Err = fmt.Errorf("%w: %s", cberr.PlanningFailure, a.Errors[0])
			if strings.Contains(string(a.Errors[0]), "again") {
				v.Reason = retry.QueryErrorRetryable
			}
		}
		return v
	},
}

func same[T any](v T) T { return v }

// scripts answers each connection's requests with raw bytes, the last of them for ever, and then closes it.
func scripts(sent *int, answers ...string) func(net.Conn) {
	return func(nc net.Conn) {
		in := bufio.NewReader(nc)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			answer := answers[min(*sent, len(answers)-1)]
			*sent++
			_, _ = io.WriteString(nc, answer)
			if !strings.HasSuffix(answer, "0\r\n\r\n") {
				return
			}
		}
	}
}

// ok is a whole answer in chunks, open one that breaks off.
func ok(parts ...string) string { return open(parts...) + "0\r\n\r\n" }

func open(parts ...string) string {
	s := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, p := range parts {
		s += fmt.Sprintf("%x\r\n%s\r\n", len(p), p)
	}
	return s
}

// read sends a request and reads all of its rows.
func (w *world) read(r *httpsvc.Request) (rows []string, meta string, err error) {
	got, err := httpsvc.OpenRows(w.t.Context(), w.client, r, rawRows)
	if err != nil {
		return nil, "", err
	}
	for got.Next() {
		rows = append(rows, string(got.Row()))
	}
	m, _ := got.Meta()
	require.NoError(w.t, got.Close())
	return rows, string(m), got.Err()
}

// statement is a request for rows. One that reads may be sent again.
func statement(readonly bool) *httpsvc.Request {
	r := post("/query/service", `{"statement":"x"}`)
	r.Service, r.Idempotent = httpsvc.Query, readonly
	return r
}

// TestGA634NothingIsSentAgainAfterTheFirstRow: a connection that dies before the first row is another matter.
func TestGA634NothingIsSentAgainAfterTheFirstRow(t *testing.T) {
	for _, readonly := range []bool{true, false} {
		for _, breaking := range []string{open(`{"results":[1`), open(`{"results":[1,`), open(`{"results":[1,2],`)} {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				w := newWorld(t, nil, setup{raw: scripts(&sent, breaking, ok(`{"results":[7]}`))})
				rows, _, err := w.read(statement(readonly))
				if breaking == open(`{"results":[1`) { // no row was whole
					require.Equal(t, map[bool]int{true: 2, false: 1}[readonly], sent)
					require.Equal(t, readonly, err == nil)
				} else {
					require.Equal(t, 1, sent)
					require.Equal(t, "1", rows[0])
					require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				}
				if err != nil {
					require.ErrorIs(t, err, cberr.RequestCanceled)
					var e *httpsvc.Error
					require.ErrorAs(t, err, &e)
					require.Equal(t, !readonly, e.Ambiguous())
				}
			})
		}
	}
}

// TestGA635ErrorsInA200AreRetried: the answer is looked at up to its first row or error list before the caller has it.
func TestGA635ErrorsInA200AreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		w := newWorld(t, nil, setup{raw: scripts(&sent,
			ok(`{"requestID":"1","errors":[{"msg":"again"}],"status":"errors"}`),
			ok(`{"requestID":"2","results":[],"err`, `ors":[{"msg":"again"}],"status":"errors"}`),
			ok(`{"requestID":"3","results":[1,2],"status":"success"}`))})
		rows, meta, err := w.read(statement(true))
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2"}, rows)
		require.JSONEq(t, `{"requestID":"3","status":"success"}`, meta)
		require.Equal(t, 3, sent)
	})
	synctest.Test(t, func(t *testing.T) { // what may not be retried ends it
		sent := 0
		w := newWorld(t, nil, setup{raw: scripts(&sent, ok(`{"errors":[{"msg":"never"}]}`))})
		_, _, err := w.read(statement(true))
		require.ErrorIs(t, err, cberr.PlanningFailure)
		require.Equal(t, 1, sent)
	})
	synctest.Test(t, func(t *testing.T) { // behind a row nothing may be
		sent := 0
		w := newWorld(t, nil, setup{raw: scripts(&sent, ok(`{"results":[1],"errors":[{"msg":"again"}]}`))})
		rows, meta, err := w.read(statement(true))
		require.ErrorIs(t, err, cberr.PlanningFailure)
		require.Equal(t, []string{"1"}, rows)
		require.NotEmpty(t, meta)
		require.Equal(t, 1, sent)
	})
}

// TestStalledAnswers: by the deadline, whatever of the answer has come, and in doubt unless the statement reads.
func TestStalledAnswers(t *testing.T) {
	for _, part := range []string{"", "HTTP/1.1 200 OK\r\n", open(), open(`{"results":[`), open(`{"results":[1,`)} {
		for _, readonly := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, setup{raw: func(nc net.Conn) {
					_, _ = http.ReadRequest(bufio.NewReader(nc))
					_, _ = io.WriteString(nc, part)
					_, _ = nc.Read(make([]byte, 1)) // until the client goes
				}})
				r := statement(readonly)
				r.Timeout = 3 * time.Second
				_, _, err := w.read(r)
				require.Equal(t, 3*time.Second, time.Since(w.began))
				require.ErrorIs(t, err, map[bool]error{
					true:  cberr.UnambiguousTimeout,
					false: cberr.AmbiguousTimeout,
				}[readonly], "%q", part)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				var e *httpsvc.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, !readonly, e.Ambiguous())
			})
		}
	}
}

// TestTrickledAnswers: a byte each 10 ms is an answer all the same, and ends at the deadline if that comes first.
func TestTrickledAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, setup{raw: func(nc net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(nc))
			for _, c := range []byte(ok(`{"results":[{"a":"b"},{"a":"c"}],`, `"status":"success"}`)) {
				time.Sleep(10 * time.Millisecond)
				if _, err := nc.Write([]byte{c}); err != nil {
					return
				}
			}
		}})
		rows, _, err := w.read(statement(true))
		require.NoError(t, err)
		require.Equal(t, []string{`{"a":"b"}`, `{"a":"c"}`}, rows)
		r := statement(true)
		r.Timeout = time.Second
		before := time.Now()
		_, _, err = w.read(r)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, time.Second, time.Since(before))
	})
}

// TestCloseBeforeTheEndCancelsTheRequest: the service sees it, and the connection is not used again.
func TestCloseBeforeTheEndCancelsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan time.Duration, 1)
		began := time.Now()
		w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, `{"results":[1,2,`)
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
			gone <- time.Since(began)
		}, setup{})
		rows, err := httpsvc.OpenRows(t.Context(), w.client, statement(false), rawRows)
		require.NoError(t, err)
		require.True(t, rows.Next())
		_, err = rows.Meta()
		require.ErrorIs(t, err, httpsvc.ErrRowsLeft)
		time.Sleep(time.Second)
		require.NoError(t, rows.Close())
		require.Equal(t, time.Second, <-gone)
		require.False(t, rows.Next())
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
		synctest.Wait()
		require.Empty(t, w.net.Links())
	})
}

// TestCancelWhileRowsAreRead: the caller's end of its context ends the rows.
func TestCancelWhileRowsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, `{"results":[1,2,`)
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		}, setup{})
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		rows, err := httpsvc.OpenRows(ctx, w.client, statement(false), rawRows)
		require.NoError(t, err)
		require.True(t, rows.Next())
		require.True(t, rows.Next())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		require.False(t, rows.Next())
		require.ErrorIs(t, rows.Err(), cberr.RequestCanceled)
		require.ErrorIs(t, rows.Err(), gone)
	})
}

// TestRowsOverHTTPInConstantMemory: neither the client nor what it stands on holds the answer.
func TestRowsOverHTTPInConstantMemory(t *testing.T) {
	size := 48 << 20
	if os.Getenv("COUCHCORE_LONG") != "" {
		size = 1 << 30
	}
	synctest.Test(t, func(t *testing.T) {
		row := `,{"text":"` + strings.Repeat("lorem ipsum ", 80) + `"}`
		part := []byte(strings.Repeat(row, 64))
		w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, `{"results":[0`)
			for n := 0; n < size; n += len(part) {
				if _, err := rw.Write(part); err != nil {
					return
				}
			}
			_, _ = io.WriteString(rw, `],"status":"success"}`)
		}, setup{})
		r := statement(true)
		r.Timeout = time.Hour
		rows, err := httpsvc.OpenRows(t.Context(), w.client, r, rawRows)
		require.NoError(t, err)
		var m runtime.MemStats
		runtime.GC()
		peak, n := uint64(0), 0
		for rows.Next() {
			if n++; n%2000 == 0 {
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
		require.NoError(t, rows.Err())
		require.Greater(t, n, size/len(row))
		require.Less(t, peak, uint64(32<<20))
	})
}

// TestCloseOfTheClientIsToldToEveryReader, whichever it notices first.
func TestCloseOfTheClientIsToldToEveryReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, `{"results":[1,`)
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		}, setup{})
		var all sync.WaitGroup
		for range 50 {
			rows, err := httpsvc.OpenRows(t.Context(), w.client, statement(false), rawRows)
			require.NoError(t, err)
			require.True(t, rows.Next())
			all.Go(func() {
				require.False(t, rows.Next())
				require.ErrorIs(t, rows.Err(), retry.ErrClosed)
				require.ErrorIs(t, rows.Err(), cberr.RequestCanceled)
			})
		}
		synctest.Wait()
		w.client.Close()
		all.Wait()
		_, err := httpsvc.OpenRows(t.Context(), w.client, statement(false), rawRows)
		require.ErrorIs(t, err, retry.ErrClosed)
	})
}
