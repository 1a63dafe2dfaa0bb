package dispatch

import (
	"fmt"
	"io"
	"log/slog"
)

// A user can print what Bucket.Runner gives. A printer that walks a router by reflection would read what goroutines
// write, so a router prints its name, in every format.

// String names the bucket.
func (r *Router) String() string { return fmt.Sprintf("dispatcher of bucket %q", r.o.Bucket) }

// Format writes what String gives, for every verb.
func (r *Router) Format(f fmt.State, _ rune) {
	if f != nil {
		_, _ = io.WriteString(f, r.String())
	}
}

// LogValue is what String gives.
func (r *Router) LogValue() slog.Value { return slog.StringValue(r.String()) }
