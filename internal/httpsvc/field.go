package httpsvc

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// Int reads a whole number out of a JSON number, or out of text that holds one. ok is false for anything else, and for
// numbers beyond 32 bits.
func Int(raw json.RawMessage) (v int, ok bool) {
	text := strings.TrimSpace(Text(raw))
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return int(n), true
	}
	f, err := strconv.ParseFloat(text, 64) // such as 1.2009e4
	if err != nil || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return 0, false
	}
	return int(f), true
}

// Uint reads a whole number that is not negative out of a JSON number, or out of text that holds one; 0 for anything
// else.
func Uint(raw json.RawMessage) uint64 {
	text := strings.TrimSpace(Text(raw))
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f >= 1<<63 {
		return 0
	}
	return uint64(f)
}

// Float reads a JSON number, or text that holds one; 0 for anything else.
func Float(raw json.RawMessage) float64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(Text(raw)), 64)
	if err != nil {
		return 0
	}
	return f
}

// Duration reads a text such as "1.5ms"; 0 for anything else.
func Duration(raw json.RawMessage) time.Duration {
	d, err := time.ParseDuration(strings.TrimSpace(Text(raw)))
	if err != nil {
		return 0
	}
	return d
}

// Bool reads a JSON boolean, or text that says true or false. Anything else is false.
func Bool(raw json.RawMessage) bool { return strings.EqualFold(strings.TrimSpace(Text(raw)), "true") }

// Text is a JSON text's content, nothing for null, and the JSON itself for anything else.
func Text(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return s
	}
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// Object is a JSON object's fields, or nil for anything else.
func Object(raw json.RawMessage) map[string]json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// List is a JSON array's elements. One object stands for a list of one, anything else for an empty one.
func List(raw json.RawMessage) []json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '[':
		var l []json.RawMessage
		if json.Unmarshal(raw, &l) == nil {
			return l
		}
	case '{':
		if json.Valid(raw) {
			return []json.RawMessage{raw}
		}
	}
	return nil
}
