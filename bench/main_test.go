package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be a child as well: the program starts itself again.
func TestMain(m *testing.M) {
	if childRole(os.Args[1:]) != "" {
		exit(runChild(os.Args[1:], os.Stdin, os.Stdout))
		return
	}
	goleak.VerifyTestMain(m)
}
