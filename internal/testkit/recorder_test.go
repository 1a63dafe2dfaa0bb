package testkit_test

import (
	"fmt"
	"runtime"
	"testing"
)

// recorder is a testing.TB whose failures and skips are recorded instead of reported.
type recorder struct {
	testing.TB
	text    string
	skipped bool
}

func (r *recorder) Helper() {}

func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.text, r.skipped = fmt.Sprintf(format, args...), true
	runtime.Goexit()
}
