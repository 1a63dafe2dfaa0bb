package main

import (
	"fmt"
	"os"

	"github.com/couchcore/couchcore/internal/bench"
)

func main() {
	if err := bench.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
