package bench

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be a child as well: the program starts itself again.
func TestMain(m *testing.M) {
	if childRole(os.Args[1:]) != "" {
		if err := Main(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
