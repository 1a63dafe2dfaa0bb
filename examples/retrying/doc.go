// Package retrying has the programs of docs/retry.md: each is an Example that a test runs. It exports nothing.
package retrying
