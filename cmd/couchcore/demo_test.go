package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// The demonstrations run over TCP, so they take the time they take.

// runDemo runs a short demonstration that the hooks break.
func runDemo(t *testing.T, h demoHooks, args ...string) (result, demoReport) {
	t.Helper()
	var out, errs bytes.Buffer
	a := newApp(nil, &out, &errs, func(string) string { return "" })
	h.patience = 300 * time.Millisecond
	a.demo = h
	code := a.run(append([]string{"demo", "--duration", "600ms", "--workers", "16", "--json"}, args...))
	r := result{code, out.String(), errs.String()}
	r.object(t)
	var rep demoReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &rep))
	return r, rep
}

func TestDemoSaysThatAllIsWell(t *testing.T) {
	r := couchcore("demo", "--duration", "1500ms")
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Empty(t, r.stderr)
	for _, line := range []string{
		`^mock cluster   3 nodes, 1 replica, 64 vbuckets   couchbase://127\.0\.0\.1:\d+,`,
		`\nconnected      SCRAM-SHA512   epoch 1 rev 1   \S+ m?s\n`,
		`\nwrite, read    airline_10   112 bytes   cas [0-9a-f]{16}   `,
		`\noverride       get, default strategy   ok after 2 retries \(KV_TEMPORARY_FAILURE x2\)\n`,
		`\n               get, no retries         temporary_failure   \S+ ms   1 attempt\n`,
		`\nwrong password FastFailOnTerminalError \(default\)   authentication_failure   \S+ ms\n`,
		`\n               BestEffort                          unambiguous_timeout   1\.\d s, because: authentication failure on 3 of 3 nodes\n`,
		`\nload 1\.5 s     rebalance at 0\.6 s, node killed at 1\.05 s, 64 callers\n`,
		`\n               [0-9 ]+ ops   \S+k/s   p50 \S+ ms   p99 \S+ m?s   max \S+ m?s   retries [0-9 ]+   errors \d+   in doubt \d+\n`,
		`\nchecked        [0-9 ]+ acknowledged writes   lost 0   applied twice 0   goroutines left 0\nOK\n$`,
	} {
		require.Regexp(t, line, r.stdout)
	}
	require.NotContains(t, r.stdout, "not the password")
	require.NotContains(t, r.stdout, "\x1b", "no colour and no live line in a pipe")
}

func TestDemoAsJSON(t *testing.T) {
	r, rep := runDemo(t, demoHooks{})
	require.Zero(t, r.code, r.stderr)
	hasKeys(t, r.object(t), "ok", "acknowledged", "in_doubt", "lost", "applied_twice", "goroutines_left", "attempts",
		"reasons")
	require.True(t, rep.OK)
	require.Positive(t, rep.Acknowledged)
	require.GreaterOrEqual(t, rep.Attempts, rep.Ops)
	require.Positive(t, rep.Reasons["KV_NOT_MY_VBUCKET"], "the rebalance was met")
}

func TestDemoNoticesALostWrite(t *testing.T) {
	r, rep := runDemo(t, demoHooks{beforeLoad: func(m *mock.Cluster) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Skip: 100, Times: 1}, mock.LoseWrite())
	}})
	require.Equal(t, exitFailed, r.code)
	require.False(t, rep.OK)
	require.Equal(t, 1, rep.Lost)
	require.Zero(t, rep.AppliedTwice)
	require.Contains(t, r.stderr, "lost 1")
}

func TestDemoNoticesAWriteAppliedTwice(t *testing.T) {
	r, rep := runDemo(t, demoHooks{afterLoad: func(_ *mock.Cluster, b *core.Bucket, l *demoLoad) {
		again := l.workers[0].writes[0].token
		_, _ = kv.Do(context.Background(), b, kv.Upsert{Key: []byte(again), Value: demoValue(again)})
	}})
	require.Equal(t, exitFailed, r.code)
	require.False(t, rep.OK)
	require.Equal(t, 1, rep.AppliedTwice)
	require.Zero(t, rep.Lost)
}

func TestDemoNoticesARefusedWriteThatWasApplied(t *testing.T) {
	r, rep := runDemo(t, demoHooks{beforeLoad: func(m *mock.Cluster) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Skip: 100, Times: 1},
			mock.StatusAfter(memd.StatusTooBig))
	}})
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, 1, rep.AppliedThoughRefused)
	require.GreaterOrEqual(t, rep.Refused, 1)
}

func TestDemoNoticesAGoroutineThatStays(t *testing.T) {
	stay := make(chan struct{})
	gone := make(chan struct{})
	r, rep := runDemo(t, demoHooks{afterLoad: func(*mock.Cluster, *core.Bucket, *demoLoad) {
		go func() {
			<-stay
			close(gone)
		}()
	}})
	close(stay)
	<-gone
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, 1, rep.GoroutinesLeft)
	require.Zero(t, rep.Lost)
}

func TestDemoNoticesAPasswordThatIsTaken(t *testing.T) {
	r, rep := runDemo(t, demoHooks{wrongPass: mock.DefaultPassword})
	require.Equal(t, exitFailed, r.code)
	require.False(t, rep.OK)
	require.Contains(t, r.stderr, "a wrong password under")
}
