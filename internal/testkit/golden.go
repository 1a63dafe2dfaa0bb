package testkit

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Hex reads a file of hex digits and returns the bytes they spell. Blanks, line ends and everything from a '#' to the
// end of its line are ignored, so that a packet can be laid out field by field and explained. It fails the test if the
// file is missing or holds anything else.
func Hex(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("hex fixture: %v", err)
	}
	raw, err := ParseHex(string(text))
	if err != nil {
		t.Fatalf("hex fixture %s: %v", path, err)
	}
	return raw
}

// ParseHex is Hex over a text already read.
func ParseHex(text string) ([]byte, error) {
	var digits []byte
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		for _, field := range strings.Fields(line) {
			if _, err := hex.DecodeString(field + strings.Repeat("0", len(field)%2)); err != nil {
				return nil, fmt.Errorf("line %d: %q is not hex", n+1, field)
			}
			digits = append(digits, field...)
		}
	}
	if len(digits)%2 != 0 {
		return nil, fmt.Errorf("odd number of digits (%d)", len(digits))
	}
	out := make([]byte, len(digits)/2)
	_, err := hex.Decode(out, digits)
	return out, err
}

// Golden compares got with the file at path and fails the test where they differ, or when there is no file. With update
// set it writes the file instead and says so; the diff of that is for a person to read before it is committed.
func Golden(t testing.TB, path string, got []byte, update bool) {
	t.Helper()
	if update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("golden file: %v", err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatalf("golden file: %v", err)
		}
		t.Logf("golden file %s written: read its diff", path)
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden file: %v", err)
	}
	if d := firstDifference(want, got); d != "" {
		t.Fatalf("%s: %s", path, d)
	}
}

// firstDifference names the first line in which the two texts differ, or returns "" when they are equal.
func firstDifference(want, got []byte) string {
	if bytes.Equal(want, got) {
		return ""
	}
	w, g := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := 0; i < len(w) && i < len(g); i++ {
		if !bytes.Equal(w[i], g[i]) {
			return fmt.Sprintf("line %d differs\nwant: %q\n got: %q", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines wanted, %d got; the shorter one is the beginning of the other", len(w), len(g))
}
