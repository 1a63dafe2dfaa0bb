// Package tasks counts what a Close waits for, so that an error can say what it did not wait for.
package tasks
