package main

import (
	"bytes"
	"strings"
	"testing"
)

// What the client tells of itself reaches every receiver.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"hook    kv upsert: 2 attempts, 1 retries", "hook    kv get: 1 attempts, 0 retries", "span    upsert, Ok",
		"span    dispatch_to_server, Unset", "db.client.operation.duration", "couchbase.client.connections",
		"Operations over threshold", `\"operation_name\":\"get\"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
