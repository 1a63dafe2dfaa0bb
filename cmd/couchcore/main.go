package main

import "os"

func main() { os.Exit(run(arguments(os.Args), os.Stdin, os.Stdout, os.Stderr, os.Getenv)) }
