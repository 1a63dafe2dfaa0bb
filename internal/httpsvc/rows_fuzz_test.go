package httpsvc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// contents are the rows of a valid object, its attributes without them, and how often the rows stand in it.
func contents(body []byte) (rows, attributes []json.RawMessage, times int) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if _, err := dec.Token(); err != nil {
		return nil, nil, 0
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			break
		}
		if name != "results" {
			attributes = append(attributes, value)
			continue
		}
		times++
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil {
			rows = append(rows, list...)
		}
	}
	return rows, attributes, times
}

// levels is how deep arrays and objects are nested in a valid value.
func levels(value []byte) (most int) {
	dec := json.NewDecoder(bytes.NewReader(value))
	for depth := 0; ; {
		switch token, err := dec.Token(); {
		case err != nil:
			return most
		case token == json.Delim('['), token == json.Delim('{'):
			depth++
			most = max(most, depth)
		case token == json.Delim(']'), token == json.Delim('}'):
			depth--
		}
	}
}

// deep reports whether one of the values has more levels than the limit.
func deep(limit int, values []json.RawMessage) bool {
	return slices.ContainsFunc(values, func(v json.RawMessage) bool { return levels(v) > limit })
}

// requireWithinLimits judges the outcome for a valid object by the limits. What is accepted keeps them: rows and
// attributes are no deeper than the one, a row and all that is no row no longer than the other. What is refused for one
// of them exceeds it.
func requireWithinLimits(t *testing.T, body []byte, got outcome, err error, limits httpsvc.Limits) {
	rows, attributes, _ := contents(body)
	beside, long := len(body), false
	for _, row := range rows {
		beside -= len(row)
		long = long || len(row) > limits.Row
	}
	switch {
	case err == nil:
		require.False(t, long)
		require.False(t, deep(limits.Depth, rows))
		require.False(t, deep(limits.Depth, attributes))
		require.LessOrEqual(t, len(got.Meta), limits.Row)
	case errors.Is(err, httpsvc.ErrTooDeep):
		require.True(t, deep(limits.Depth, rows) || deep(limits.Depth, attributes))
	case errors.Is(err, httpsvc.ErrTooLarge):
		require.True(t, long || beside > limits.Row)
	}
}

// FuzzRows (F10) reads a response whole, cut in two, and byte by byte: the outcome is the same. What the reader accepts
// is what the standard decoder sees, and it accepts every object that stays within the limits.
func FuzzRows(f *testing.F) {
	f.Add([]byte(full), uint16(40))
	f.Add([]byte(`{"errors":[{"code":1}],"results":[1]}`), uint16(9))
	f.Add([]byte(`{"results":null,"a":{"results":[1]}}`), uint16(3))
	f.Add([]byte(`{"results":[[[[[[[[[[[1]]]]]]]]]]]}`), uint16(14))
	f.Add(manyRows(3), uint16(30))
	f.Add([]byte(`{"a":[[[[[[[[[1]]]]]]]]],"results":[]}`), uint16(14))
	f.Add([]byte(`{"results":[[[[[[[[[1]]]]]]]]],"a":{"b":[[[[[[[1]]]]]]]}}`), uint16(14))
	f.Add([]byte(`{"a":"`+strings.Repeat("x", 4<<10)+`"}`), uint16(4100))
	f.Add([]byte(`{"results":["`+strings.Repeat("x", 4<<10)+`"]}`), uint16(4100))
	f.Add([]byte(`{"a":"`+strings.Repeat("x", 3<<10)+`","results":[1],"b":"`+strings.Repeat("y", 2<<10)+`"}`), uint16(9))
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(b, uint16(len(b)/2))
	}
	limits := httpsvc.Limits{Row: 4 << 10, Depth: 8}
	f.Fuzz(func(t *testing.T, body []byte, cut uint16) {
		want, r := readAll(bytes.NewReader(body), "results", limits)
		half, _ := readAll(&chunks{data: body, at: []int{int(cut) % (len(body) + 1)}}, "results", limits)
		require.Equal(t, want, half)
		slow, _ := readAll(iotest.OneByteReader(bytes.NewReader(body)), "results", limits)
		require.Equal(t, want, slow)
		for _, row := range want.Rows {
			require.LessOrEqual(t, len(row), limits.Row)
			require.True(t, json.Valid([]byte(row)))
		}

		var object map[string]json.RawMessage
		trimmed := bytes.TrimLeft(body, " \t\r\n")
		valid := len(trimmed) > 0 && trimmed[0] == '{' && json.Unmarshal(body, &object) == nil
		if valid {
			requireWithinLimits(t, body, want, r.Err(), limits)
		}
		if r.Err() != nil {
			require.Empty(t, want.Meta)
			if valid && errors.Is(r.Err(), httpsvc.ErrMalformed) {
				// Valid JSON is malformed here for its rows only: no array, or two of them.
				rows := bytes.TrimSpace(object["results"])
				require.NotEmpty(t, rows)
				_, _, times := contents(body)
				require.True(t, times > 1 || rows[0] != '[' && string(rows) != "null")
			}
			return
		}
		require.True(t, valid)
		var rows []json.RawMessage
		if len(object["results"]) > 0 {
			require.NoError(t, json.Unmarshal(object["results"], &rows))
		}
		require.Equal(t, want.Rows, texts(rows))
		delete(object, "results")
		var meta map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(want.Meta), &meta))
		require.Equal(t, object, meta)
	})
}
