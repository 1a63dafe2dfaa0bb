package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/couchcore/couchcore/internal/bench"
)

func main() {
	err := bench.Main(os.Args[1:])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	if errors.Is(err, bench.ErrInconclusive) {
		os.Exit(2)
	}
	os.Exit(1)
}
