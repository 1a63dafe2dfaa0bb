package main

import (
	"fmt"
	"os"

	"github.com/couchcore/couchcore/internal/bench"
)

func main() {
	if err := bench.Main(os.Args[1:], bench.Extra{Name: "gocb", About: "its default collection, default options, raw values", Open: openGocb}); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
