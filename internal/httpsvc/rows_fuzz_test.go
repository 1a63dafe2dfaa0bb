package httpsvc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// countRows is how often the attribute of the rows stands in a valid object.
func countRows(body []byte) int {
	dec := json.NewDecoder(bytes.NewReader(body))
	n := 0
	if _, err := dec.Token(); err != nil {
		return 0
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return n
		}
		if name == "results" {
			n++
		}
	}
	return n
}

// FuzzRows (F10) reads a response whole, cut in two, and byte by byte: the outcome is the same. What the reader accepts
// is what the standard decoder sees, and it accepts every object that stays within the limits.
func FuzzRows(f *testing.F) {
	f.Add([]byte(full), uint16(40))
	f.Add([]byte(`{"errors":[{"code":1}],"results":[1]}`), uint16(9))
	f.Add([]byte(`{"results":null,"a":{"results":[1]}}`), uint16(3))
	f.Add([]byte(`{"results":[[[[[[[[[[[1]]]]]]]]]]]}`), uint16(14))
	f.Add(manyRows(3), uint16(30))
	f.Add([]byte(`{"a":"`+strings.Repeat("x", 4<<10)+`"}`), uint16(4100))
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
		if r.Err() != nil {
			require.Empty(t, want.Meta)
			if valid && errors.Is(r.Err(), httpsvc.ErrMalformed) {
				// Valid JSON is malformed here for its rows only: no array, or two of them.
				rows := bytes.TrimSpace(object["results"])
				require.NotEmpty(t, rows)
				require.True(t, countRows(body) > 1 || rows[0] != '[' && string(rows) != "null")
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
