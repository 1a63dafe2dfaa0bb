package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// foretoldBy is what explain says of the same failure again and again, as far as the operation goes on.
func foretoldBy(t *testing.T, file, args string, most int) (all []string) {
	t.Helper()
	flags := append([]string{"explain", "--json"}, strings.Fields(args)...)
	if file != "" {
		flags = append(flags, "--strategy", "@"+written(t, file))
	}
	for n := range most {
		o := couchcore(slices.Concat(flags, []string{"--retries", strconv.Itoa(n)})...).object(t)
		text := o["decision"].(string)
		switch {
		case text == "retry":
			d := o["delay_ms"].([]any)
			text = span([]float64{d[0].(float64), d[1].(float64)})
		case o["unpaid"] == true:
			text = "unpaid"
		case text == "fail":
			text = o["error"].(string)
		}
		all = append(all, text)
		if o["decision"] != "retry" {
			break
		}
	}
	return all
}

// What becomes of an operation that meets the same failure again and again.
func TestExplainGoesThroughTheCourseOfAnOperation_D150(t *testing.T) {
	retries := func(more string) string {
		return `{"operationConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.01s","maxBackoff":"1s",
			"backoffMultiplier":2,"jitter":"none"` + more + `}]}`
	}
	const listed = `,"retryableReasons":["KV_TEMPORARY_FAILURE"]}`
	hedges := `{"operationConfig":[{"name":[{}],"hedgingPolicy":{"maxAttempts":2,"hedgingDelay":"1s"}}]}`
	for name, c := range map[string]struct {
		file, args string
		want       []string
	}{
		"what no list is about is so once": {
			retries(listed), "--service kv --op get --lost-socket", []string{"1 ms", "request_canceled"},
		},
		"and costs nothing": {
			strings.Replace(retries(`,"retryableReasons":["SOCKET_CLOSED_WHILE_IN_FLIGHT"]}`), `{`,
				`{"tokenBucket":{"capacity":10,"costs":{"client":9,"server":9,"timeout":9}},`, 1),
			"--service kv --op get --lost-socket",
			[]string{"1 ms", "10 ms", "unpaid"},
		},
		"tokens come back while it waits": {
			strings.Replace(retries(listed), `{`, `{"tokenBucket":{"capacity":10,"refill":"0.002s"},`, 1),
			"--service kv --op get --status 0x86",
			[]string{"10 ms", "20 ms", "40 ms", "80 ms", "temporary_failure"},
		},
		"or do not": {
			strings.Replace(retries(listed), `{`, `{"tokenBucket":{"capacity":10},`, 1),
			"--service kv --op get --status 0x86",
			[]string{"10 ms", "unpaid"},
		},
		"a vbucket that may have moved": {
			"", "--service kv --op get --status 0x07 --body testdata/missing.json", []string{
				"0 to 1 ms", "1 to 10 ms", "10 to 50 ms", "50 to 100 ms",
			},
		},
		"a vbucket that has not": {
			"", "--service kv --op get --status 0x07", []string{"1 ms", "10 ms", "50 ms", "100 ms"},
		},
		"a missing document is an answer of some": {
			"", "--service kv --op get-or-null --status 0x01", []string{"succeed"},
		},
		"and of others":   {"", "--service kv --op exists --status 0x01", []string{"succeed"}},
		"not of all":      {"", "--service kv --op get --status 0x01", []string{"document_not_found"}},
		"who takes it so": {hedges, "--service kv --op get-or-null --status 0x01", []string{"succeed"}},
		"and is no matter for a replica": {
			hedges, "--service kv --op get-or-null --status 0x86",
			[]string{"1 ms", "1 to 2 ms", "2 to 4 ms", "4 to 8 ms"},
		},
		"hedges that no node has seen": {
			hedges, "--service search --op query --lost-socket", []string{"0 ms", "0 ms", "1 ms", "request_canceled"},
		},
		"hedges that a node has refused": {
			hedges, "--service kv --op get --status 0x86", []string{"temporary_failure"},
		},
		"a limit that ends as a deadline does": {
			`{"operationConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,"fit":"cap","hardLimit":"3600s",
				"delays":["3599s","2s"],"retryableReasons":["KV_TEMPORARY_FAILURE"]}}]}`,
			"--service kv --op get --status 0x86",
			[]string{"3599000 ms", "unambiguous_timeout"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, foretoldBy(t, c.file, c.args, max(len(c.want), 4)))
		})
	}
}

func TestExplainKnowsNoAttemptBeyondItsBound(t *testing.T) {
	r := couchcore("explain", "--service", "kv", "--op", "get", "--status", "0x86", "--retries", "10001")
	r.failsWith(t, exitUsage, "--retries 10001 is negative or above 10000")
}
