package httpsvc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// outcome is all that can be known of a response.
type outcome struct {
	Peeked httpsvc.Found
	Rows   []string
	Errors []string
	Meta   string
	Err    string
}

func texts[T ~[]byte](parts []T) []string {
	var out []string
	for _, p := range parts {
		out = append(out, string(p))
	}
	return out
}

func readAll(src io.Reader, key string, limits httpsvc.Limits) (outcome, *httpsvc.RowReader) {
	var o outcome
	r := httpsvc.NewRowReader(src, key, limits)
	o.Peeked = r.Peek()
	for {
		row, ok := r.Next()
		if !ok {
			break
		}
		o.Rows = append(o.Rows, string(row))
	}
	o.Errors, o.Meta = texts(r.Errors()), string(r.Metadata())
	if err := r.Err(); err != nil {
		o.Err = err.Error()
	}
	return o, r
}

// chunks gives its data in pieces that end at the given offsets.
type chunks struct {
	data []byte
	at   []int
	off  int
}

func (c *chunks) Read(p []byte) (int, error) {
	for len(c.at) > 0 && c.at[0] <= c.off {
		c.at = c.at[1:]
	}
	end := len(c.data)
	if len(c.at) > 0 {
		end = min(end, c.at[0])
	}
	if c.off == len(c.data) {
		return 0, io.EOF
	}
	n := copy(p, c.data[c.off:end])
	c.off += n
	return n, nil
}

const full = ` {"requestID":"7a1c","signature":{"n":"number"},
 "results": [ {"n":1} ,{"s":"]},\"[\\"}, [ ] ,null, -1.5e3,"x" ,true],
 "warnings":[{"code":5001,"msg":"slow"}],
 "errors": [{"code":1080,"msg":"Timeout"},{"code":5000}] ,"status":"timeout"} ` + "\r\n"

var fullRows = []string{`{"n":1}`, `{"s":"]},\"[\\"}`, `[ ]`, `null`, `-1.5e3`, `"x"`, `true`}

func TestRowsThenErrors(t *testing.T) {
	o, r := readAll(strings.NewReader(full), "results", httpsvc.Limits{})
	require.Equal(t, outcome{
		Peeked: httpsvc.FoundRow,
		Rows:   fullRows,
		Errors: []string{`{"code":1080,"msg":"Timeout"}`, `{"code":5000}`},
		Meta: `{"requestID":"7a1c","signature":{"n":"number"},"warnings":[{"code":5001,"msg":"slow"}],` +
			`"errors":[{"code":1080,"msg":"Timeout"},{"code":5000}],"status":"timeout"}`,
	}, o)
	require.NoError(t, r.Err())
	require.Equal(t, httpsvc.FoundEnd, r.Peek())
	_, ok := r.Next()
	require.False(t, ok)
}

// TestSplitAtEveryByte gives the same response in two pieces, cut at every place, and byte by byte.
func TestSplitAtEveryByte(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Len(t, files, 7)
	bodies := []string{full, `{"results":null}`, `{}`, `{"errors":[{}],"results":[1]}`, `{"results":[1,2`}
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		bodies = append(bodies, string(b))
	}
	for _, body := range bodies {
		key := "results"
		if strings.Contains(body, `"hits"`) {
			key = "hits"
		}
		want, _ := readAll(strings.NewReader(body), key, httpsvc.Limits{})
		got, _ := readAll(iotest.OneByteReader(strings.NewReader(body)), key, httpsvc.Limits{})
		require.Equal(t, want, got)
		for i := range body {
			got, _ := readAll(&chunks{data: []byte(body), at: []int{i}}, key, httpsvc.Limits{})
			require.Equal(t, want, got, "cut at %d", i)
		}
	}
}

// TestTruncatedAtEveryByte: whatever is missing, the rows so far are there and the end is an error.
func TestTruncatedAtEveryByte(t *testing.T) {
	end := strings.LastIndexByte(full, '}') + 1
	for i := range end {
		o, r := readAll(strings.NewReader(full[:i]), "results", httpsvc.Limits{})
		require.ErrorIs(t, r.Err(), io.ErrUnexpectedEOF, "cut at %d", i)
		require.Equal(t, fullRows[:len(o.Rows)], append([]string{}, o.Rows...))
		require.Empty(t, o.Meta)

		// A connection that breaks says so.
		broken := errors.New("connection reset")
		_, r = readAll(io.MultiReader(strings.NewReader(full[:i]), iotest.ErrReader(broken)), "results",
			httpsvc.Limits{})
		require.ErrorIs(t, r.Err(), broken)
	}
	for i := end; i <= len(full); i++ {
		o, r := readAll(strings.NewReader(full[:i]), "results", httpsvc.Limits{})
		require.NoError(t, r.Err())
		require.Equal(t, fullRows, o.Rows)
	}
	// The object was whole, the response was not.
	_, r := readAll(io.MultiReader(strings.NewReader(full), iotest.ErrReader(io.ErrUnexpectedEOF)), "results",
		httpsvc.Limits{})
	require.ErrorIs(t, r.Err(), io.ErrUnexpectedEOF)
}

func TestWhatPeekFinds(t *testing.T) {
	for body, want := range map[string]httpsvc.Found{
		`{"results":[1],"errors":[{"code":1}]}`:   httpsvc.FoundRow,
		`{"errors":[{"code":1}],"results":[1]}`:   httpsvc.FoundErrors,
		`{"results":[],"errors":[{"code":1}]}`:    httpsvc.FoundErrors,
		`{"results":null,"errors":[{"code":1}]}`:  httpsvc.FoundErrors,
		`{"errors":{"code":1}}`:                   httpsvc.FoundErrors,
		`{"errors":[],"results":[]}`:              httpsvc.FoundEnd,
		`{"errors":null}`:                         httpsvc.FoundEnd,
		`{"errors":[],"results":[1]}`:             httpsvc.FoundRow,
		`{"results":[]}`:                          httpsvc.FoundEnd,
		`{}`:                                      httpsvc.FoundEnd,
		`nonsense`:                                httpsvc.FoundEnd,
		`{"status":{"errors":{"p":"timeout"}}}`:   httpsvc.FoundEnd,
		`{"err\u006frs":[{}],"r\u0065sults":[1]}`: httpsvc.FoundErrors,
	} {
		r := httpsvc.NewRowReader(strings.NewReader(body), "results", httpsvc.Limits{})
		require.Equal(t, want, r.Peek(), body)
		require.Equal(t, want, r.Peek(), "peeking takes nothing away: %s", body)
	}
}

// TestPeekReadsNoFurtherThanItMust: the response may stay open for minutes behind its first row.
func TestPeekReadsNoFurtherThanItMust(t *testing.T) {
	blocked := errors.New("read on")
	for start, want := range map[string]httpsvc.Found{
		`{"a":1,"results":[{"n":1}`:   httpsvc.FoundRow,
		`{"errors":[{"code":1}]`:      httpsvc.FoundErrors,
		`{"results":[{"n":1},{"n":2}`: httpsvc.FoundRow,
	} {
		r := httpsvc.NewRowReader(io.MultiReader(strings.NewReader(start), iotest.ErrReader(blocked)), "results",
			httpsvc.Limits{})
		require.Equal(t, want, r.Peek())
		require.NoError(t, r.Err())
	}
}

func TestErrorsBeforeRowsDoNotHideTheRows(t *testing.T) {
	o, _ := readAll(strings.NewReader(`{"errors":[{"code":1}],"results":[1,2],"status":"errors"}`), "results", httpsvc.Limits{})
	require.Equal(t, []string{"1", "2"}, o.Rows)
	require.Equal(t, []string{`{"code":1}`}, o.Errors)
	require.Equal(t, httpsvc.FoundErrors, o.Peeked)
	require.JSONEq(t, `{"errors":[{"code":1}],"status":"errors"}`, o.Meta)
}

// TestSearchNullHitsB93: no rows, and everything else is metadata.
func TestSearchNullHitsB93(t *testing.T) {
	body, err := os.ReadFile("testdata/search_hits_nil.json")
	require.NoError(t, err)
	o, r := readAll(bytes.NewReader(body), "hits", httpsvc.Limits{})
	require.NoError(t, r.Err())
	require.Empty(t, o.Rows)
	require.Empty(t, o.Errors, "those of partitions are metadata")
	var got, want map[string]any
	require.NoError(t, json.Unmarshal([]byte(o.Meta), &got))
	require.NoError(t, json.Unmarshal(body, &want))
	delete(want, "hits")
	require.Equal(t, want, got)
}

func TestMalformedResponses(t *testing.T) {
	for body, part := range map[string]string{
		`x`: "object", `[]`: "object", `"a"`: "object", `<html>`: "object", `{} x`: "object", `{}{}`: "object",
		`{,}`: "attribute", `{"a"}`: "attribute", `{"a":}`: "attribute", `{"a":1,}`: "attribute", `{"a":1 "b":2}`: "attribute",
		`{a:1}`: "attribute", `{"a":1]`: "attribute", `{"a":tru}`: "attribute", `{"a":[1}}`: "attribute", `{"a":"\x"}`: "attribute",
		`{"a":01}`: "attribute", `{1:2}`: "attribute", `{"a":{"b" 1}}`: "attribute", "{\"a\":\"\n\"}": "attribute",
		`{"results":{}}`: "attribute", `{"results":1}`: "attribute", `{"results":[],"results":[]}`: "attribute",
		`{"results":nul}`: "attribute", `{"results":null,"results":[1]}`: "attribute",
		`{"results":[,]}`: "row", `{"results":[1,]}`: "row", `{"results":[1 2]}`: "row", `{"results":[1}`: "row",
		`{"results":[{]}]}`: "row", `{"results":[:]}`: "row", `{"results":[+1]}`: "row", `{"results":[1]]`: "attribute",
	} {
		o, r := readAll(strings.NewReader(body), "results", httpsvc.Limits{})
		require.ErrorIs(t, r.Err(), httpsvc.ErrMalformed, body)
		var be *httpsvc.BodyError
		require.ErrorAs(t, r.Err(), &be)
		require.Equal(t, part, be.Part, body)
		require.LessOrEqual(t, be.Offset, int64(len(body)))
		require.Empty(t, o.Meta)
		_, ok := r.Next()
		require.False(t, ok, "a failure is final")
	}
	_, r := readAll(strings.NewReader(""), "results", httpsvc.Limits{})
	require.ErrorIs(t, r.Err(), io.ErrUnexpectedEOF)
	_, r = readAll(stuck{}, "results", httpsvc.Limits{})
	require.ErrorIs(t, r.Err(), io.ErrNoProgress)
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestLimits(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	long := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	limits := httpsvc.Limits{Row: 100, Depth: 8}
	for _, c := range []struct {
		body  string
		want  error
		limit int
		part  string
	}{
		{`{"results":[` + long(100) + `,` + long(100) + `]}`, nil, 0, ""},
		{`{"results":[` + long(101) + `]}`, httpsvc.ErrTooLarge, 100, "row"},
		{`{"results":[` + long(100_000) + `]}`, httpsvc.ErrTooLarge, 100, "row"},
		{`{"results":[` + nest(8) + `]}`, nil, 0, ""},
		{`{"results":[` + nest(9) + `]}`, httpsvc.ErrTooDeep, 8, "row"},
		{`{"a":` + nest(8) + `}`, nil, 0, ""},
		{`{"a":` + nest(9) + `}`, httpsvc.ErrTooDeep, 8, "attribute"},
		{`{"a":` + long(94) + `}`, nil, 0, ""},
		{`{"a":` + long(95) + `}`, httpsvc.ErrTooLarge, 100, "attribute"},
		{`{"a":` + long(50) + `,"b":` + long(50) + `}`, httpsvc.ErrTooLarge, 100, "attribute"},
		{`{` + long(101) + `:1}`, httpsvc.ErrTooLarge, 100, "attribute"},
	} {
		_, r := readAll(strings.NewReader(c.body), "results", limits)
		if c.want == nil {
			require.NoError(t, r.Err(), c.body)
			continue
		}
		require.ErrorIs(t, r.Err(), c.want)
		var be *httpsvc.BodyError
		require.ErrorAs(t, r.Err(), &be)
		require.Equal(t, c.limit, be.Limit)
		require.Equal(t, c.part, be.Part)
		require.ErrorContains(t, r.Err(), fmt.Sprintf("limit %d", c.limit))
	}
	// The defaults stand where nothing is said.
	_, r := readAll(strings.NewReader(`{"results":[`+nest(httpsvc.DefaultDepthLimit)+`]}`), "results", httpsvc.Limits{})
	require.NoError(t, r.Err())
	_, r = readAll(strings.NewReader(`{"results":[`+nest(httpsvc.DefaultDepthLimit+1)+`]}`), "results", httpsvc.Limits{})
	require.ErrorIs(t, r.Err(), httpsvc.ErrTooDeep)
}

// TestWhatIsOverTheLimitIsToldAlikeHoweverItArrives has values that pass the limit by a few bytes, and what would be
// another failure beyond it: the error says the limit's own place, not how far the reader had come.
func TestWhatIsOverTheLimitIsToldAlikeHoweverItArrives(t *testing.T) {
	limits := httpsvc.Limits{Row: 100, Depth: 8}
	x := func(n int) string { return strings.Repeat("x", n) }
	var values []string
	for n := range 6 {
		values = append(values,
			`"`+x(97+n)+`"`, `"`+x(97+n), `["`+x(95+n)+`"]`, strings.Repeat("1", 99+n), // ended, and cut off
			`["`+x(92+n)+`"`+strings.Repeat("[", 9), `"`+x(96+n)+"\\")
	}
	over := 0
	for _, v := range values {
		for _, head := range []string{`{"a":`, `{"results":[`, `{"results":[1,`, `{"a":1,`} {
			for _, tail := range []string{"", "]}", "}", "x", ":1}"} {
				body := head + v + tail
				want, r := readAll(strings.NewReader(body), "results", limits)
				slow, _ := readAll(iotest.OneByteReader(strings.NewReader(body)), "results", limits)
				require.Equal(t, want, slow, body)
				for at := range len(body) {
					half, _ := readAll(&chunks{data: []byte(body), at: []int{at}}, "results", limits)
					require.Equal(t, want, half, body)
				}
				var be *httpsvc.BodyError
				if errors.As(r.Err(), &be) && be.Err == httpsvc.ErrTooLarge &&
					be.Offset == int64(len(head)+limits.Row) {
					over++
				}
			}
		}
	}
	require.Greater(t, over, 200)
}

// endless is a row without an end.
type endless struct{ started bool }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	if !e.started {
		e.started = true
		return copy(p, `{"results":["`), nil
	}
	return len(p), nil
}

func TestEndlessRowIsRefusedInBoundedMemory(t *testing.T) {
	const limit = 8 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, r := readAll(&endless{}, "results", httpsvc.Limits{Row: limit})
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, r.Err(), httpsvc.ErrTooLarge)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*limit),
		"doubled buffers, the last one of the limit's size")
}

// manyRows is a response with n rows.
func manyRows(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"results":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"some text","tags":["a","b"]}`, i)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func TestRowsDoNotAllocate(t *testing.T) {
	r := httpsvc.NewRowReader(bytes.NewReader(manyRows(20000)), "results", httpsvc.Limits{})
	require.Equal(t, httpsvc.FoundRow, r.Peek())
	require.Zero(t, testing.AllocsPerRun(15000, func() {
		if _, ok := r.Next(); !ok {
			t.Error(r.Err())
		}
	}))
}

func BenchmarkRows(b *testing.B) {
	body := manyRows(20000)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := httpsvc.NewRowReader(bytes.NewReader(body), "results", httpsvc.Limits{})
		n := 0
		for _, ok := r.Next(); ok; _, ok = r.Next() {
			n++
		}
		if n != 20000 || r.Err() != nil {
			b.Fatal(n, r.Err())
		}
	}
}
