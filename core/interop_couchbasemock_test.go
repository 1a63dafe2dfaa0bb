package core_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// More of what the client does against the real CouchbaseMock, where the server's own records (command log, stored
// documents, retry verifier) are the oracle.

// couchbaseMockWith is couchbaseMock for a client whose configuration the test changes.
func couchbaseMockWith(
	t *testing.T, o testkit.MockOptions, change func(*core.Config), body func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket),
) {
	t.Helper()
	o.Buckets = []string{"default:secret"}
	testkit.CouchbaseMock(t, o, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		cfg := core.Config{
			Hosts: m.Addresses("default"), Username: "default", Password: core.NewSecret("secret"), KVTimeout: 10 * time.Second,
		}
		if change != nil {
			change(&cfg)
		}
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(longer(t)))
		body(t, m, b)
	})
}

// noPoll leaves only what the servers say by themselves: maps come in NOT_MY_VBUCKET answers.
func noPoll(c *core.Config) { c.PollInterval = time.Hour }

// nodeOf is the index of the node that has the key's active copy.
func nodeOf(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket, key []byte) int {
	t.Helper()
	_, nodes, ok := b.Locate(key)
	require.True(t, ok)
	i := slices.Index(m.Addresses("default"), nodes[0])
	require.GreaterOrEqual(t, i, 0)
	return i
}

// keysOf are so many keys whose active copies are on the node.
func keysOf(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket, node, n int) [][]byte {
	t.Helper()
	var keys [][]byte
	for i := 0; len(keys) < n; i++ {
		key := fmt.Appendf(nil, "key-%d", i)
		if nodeOf(t, m, b, key) == node {
			keys = append(keys, key)
		}
	}
	return keys
}

// stored is one copy of a document as the server has it.
type stored struct {
	Value string
	CAS   uint64
}

// copies are what the server itself says of a key, one for each node; nil where the node is not in the key's chain.
func copies(t *testing.T, m *testkit.CouchbaseMockServer, key []byte) []*stored {
	t.Helper()
	var nodes []*struct{ Cache stored }
	require.NoError(t, json.Unmarshal(m.Command("KEYINFO", map[string]any{"Key": string(key), "Bucket": "default"}), &nodes))
	var out []*stored
	for _, n := range nodes {
		if n == nil {
			out = append(out, nil)
		} else {
			out = append(out, &n.Cache)
		}
	}
	return out
}

func TestCouchbaseMockStoresWhatWasSent(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		for i := range 30 {
			key, value := fmt.Appendf(nil, "stored-%d", i), fmt.Sprintf("value-%d", i)
			w, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte(value)})
			require.NoError(t, err)
			_, nodes, _ := b.Locate(key)
			active, has := nodeOf(t, m, b, key), 0
			for n, c := range copies(t, m, key) {
				if c != nil {
					has++
					require.Equal(t, value, c.Value)
					require.Equal(t, w.CAS, c.CAS)
					require.Contains(t, nodes, m.Addresses("default")[n])
				} else {
					require.NotEqual(t, active, n, "our hash and the server's name another node")
				}
			}
			require.Equal(t, 2, has, "the active copy and one replica")
		}

		key := []byte("short")
		_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("v"), Expiry: kv.ExpireAfter(time.Minute)})
		require.NoError(t, err)
		m.Command("TIME_TRAVEL", map[string]any{"Offset": 50})
		_, err = kv.Do(ctx, b, kv.Get{Key: key})
		require.NoError(t, err)
		m.Command("TIME_TRAVEL", map[string]any{"Offset": 20})
		_, err = kv.Do(ctx, b, kv.Get{Key: key})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
	})
}

func TestCouchbaseMockLacksExists(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, _ *testkit.CouchbaseMockServer, b *core.Bucket) {
		_, err := kv.Do(longer(t), b, kv.Exists{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.UnsupportedOperation)
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, memd.StatusUnknownCommand, e.Status)
		require.Zero(t, e.Retry.Retries())
		_, err = kv.Do(longer(t), b, kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.DocumentNotFound, "the connection is as good as before")
	})
}

func TestCouchbaseMockManyInFlight(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		run := func(n int) time.Duration {
			value := func(i int) []byte { return bytes.Repeat([]byte{'a' + byte(i%26)}, i%3000) }
			began := time.Now()
			var sets []kv.Future[kv.MutationResult]
			for i := range n {
				sets = append(sets, kv.Start(ctx, b, kv.Upsert{Key: fmt.Appendf(nil, "many-%d", i), Value: value(i), Flags: uint32(i)}))
			}
			for _, f := range sets {
				_, err := f.Wait(ctx)
				require.NoError(t, err)
			}
			var gets []kv.Future[kv.GetResult]
			for i := range n {
				gets = append(gets, kv.Start(ctx, b, kv.Get{Key: fmt.Appendf(nil, "many-%d", i)}))
			}
			for i, f := range gets {
				r, err := f.Wait(ctx)
				require.NoError(t, err)
				require.True(t, bytes.Equal(value(i), r.Value))
				require.EqualValues(t, i, r.Flags)
			}
			return time.Since(began)
		}
		t.Logf("%d operations in %v", 2*3000, run(3000))
		// The same with every answer cut in two, inside of a header.
		m.Command("HICCUP", map[string]any{"msecs": 2, "offset": 7})
		t.Logf("%d operations in %v, answers cut", 2*200, run(200))
		m.Command("HICCUP", map[string]any{"msecs": 0, "offset": 0})
		require.Zero(t, b.Orphans())
	})
}

// TestCouchbaseMockRetryTimesAreOurs: the server's error map tells for three codes when to try again. The retry rules
// forbid using that: the delays are the strategy's.
func TestCouchbaseMockRetryTimesAreOurs(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx, key, n := longer(t), []byte("k"), []byte("n")
		_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)
		node := nodeOf(t, m, b, key)
		for _, code := range []memd.Status{0x7ff0, 0x7ff1, 0x7ff2} {
			const failures = 7
			m.Command("OPFAIL", map[string]any{"code": code, "count": failures, "servers": []int{node}, "operation": memd.OpGet})
			m.Command("START_RETRY_VERIFY", map[string]any{"idx": node, "bucket": "default"})
			res, err := kv.Do(ctx, b, kv.Get{Key: key, Common: kv.Common{Retry: retry.BestEffort{}}})
			require.NoError(t, err)
			var requests []struct {
				Opcode memd.Opcode `json:"opcode"`
				MS     int64       `json:"ms_timestamp"`
			}
			require.NoError(t, json.Unmarshal(m.Command("GET_CMDLOG", map[string]any{"idx": node, "bucket": "default"}), &requests))
			requests = slices.DeleteFunc(requests, func(r struct {
				Opcode memd.Opcode `json:"opcode"`
				MS     int64       `json:"ms_timestamp"`
			},
			) bool {
				return r.Opcode != memd.OpGet
			})
			require.Len(t, requests, failures+1, "the server counts as many")
			require.Len(t, res.Retry.Log, failures)
			for i, a := range res.Retry.Log {
				require.Equal(t, retry.KVErrorMapRetryIndicated, a.Reason)
				high := min(time.Millisecond<<i, 500*time.Millisecond)
				require.GreaterOrEqual(t, a.Delay, max(high/2, time.Millisecond), "0x%x: delay %d", uint16(code), i)
				require.LessOrEqual(t, a.Delay, high, "0x%x: delay %d", uint16(code), i)
				gap := time.Duration(requests[i+1].MS-requests[i].MS+1) * time.Millisecond
				require.GreaterOrEqual(t, gap, a.Delay.Truncate(time.Millisecond), "the server's clock agrees")
			}
			_, err = m.TryCommand("CHECK_RETRY_VERIFY", map[string]any{"idx": node, "bucket": "default", "opcode": memd.OpGet, "errcode": code, "fuzz_ms": 5})
			require.Error(t, err, "the server's own check of the map's times does not hold for us")
		}

		// What was refused was not executed: a counter may go again.
		opfail(m, 0x7ff1, memd.OpIncrement, 3)
		initial := uint64(1)
		c, err := kv.Do(ctx, b, kv.Increment{Key: n, Delta: 1, Initial: &initial})
		require.NoError(t, err)
		require.EqualValues(t, 1, c.Value)
		require.Equal(t, 3, c.Retry.Attempts)
		opfail(m, 0, memd.OpIncrement, 0)

		// And for good: a timeout that says what it was about.
		opfail(m, 0x7ff2, memd.OpIncrement, -1)
		_, err = kv.Do(ctx, b, kv.Increment{Key: n, Delta: 1, Common: kv.Common{Timeout: 200 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.False(t, e.Ambiguous())
		require.True(t, e.Retry.Reasons.Has(retry.KVErrorMapRetryIndicated))
		require.ErrorContains(t, err, "0x7ff2")
		opfail(m, 0, memd.OpIncrement, 0)
		c, err = kv.Do(ctx, b, kv.Increment{Key: n, Delta: 1})
		require.NoError(t, err)
		require.EqualValues(t, 2, c.Value, "the one that timed out was not applied")
	})
}

// TestCouchbaseMockTruncateLosesAnswers: an answer that fits into the limit is thrown away by the released server, a
// longer one is kept until the limit is lifted and the node writes again.
func TestCouchbaseMockTruncateLosesAnswers(t *testing.T) {
	o := testkit.MockOptions{Nodes: 1, Replicas: -1, VBuckets: 4}
	couchbaseMockWith(t, o, noPoll, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx, key := longer(t), []byte("k")
		initial := uint64(1)
		_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)

		m.Command("TRUNCATE", map[string]any{"limit": 1000})
		_, err = kv.Do(ctx, b, kv.Increment{Key: []byte("n"), Delta: 1, Initial: &initial, Common: kv.Common{Timeout: 200 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)
		require.Equal(t, "1", copies(t, m, []byte("n"))[0].Value, "it was applied, and the client cannot know")
		_, err = kv.Do(ctx, b, kv.Get{Key: key, Common: kv.Common{Timeout: 200 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)

		m.Command("TRUNCATE", map[string]any{"limit": 10})
		waits := kv.Start(ctx, b, kv.Get{Key: key})
		counts := kv.Start(ctx, b, kv.Increment{Key: []byte("n"), Delta: 1})
		select {
		case <-waits.Done():
			t.Fatal("nothing is answered")
		case <-time.After(50 * time.Millisecond):
		}
		m.Command("TRUNCATE", map[string]any{"limit": 0})
		_, err = kv.Do(ctx, b, kv.Noop{})
		require.NoError(t, err)
		r, err := waits.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, "v", string(r.Value))
		n, err := counts.Wait(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 2, n.Value)
		require.Equal(t, "2", copies(t, m, []byte("n"))[0].Value)
	})
}

// TestCouchbaseMockMovedVBuckets learns of a new map from NOT_MY_VBUCKET answers alone.
func TestCouchbaseMockMovedVBuckets(t *testing.T) {
	couchbaseMockWith(t, testkit.MockOptions{}, noPoll, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		for _, node := range []int{0, 2} {
			m.Command("START_CMDLOG", map[string]any{"idx": node, "bucket": "default"})
		}
		for _, step := range []struct {
			command string
			nodes   int
		}{{"FAILOVER", 2}, {"RESPAWN", 3}} {
			before, _ := b.Map()
			alive := append(keysOf(t, m, b, 0, 40), keysOf(t, m, b, 2, 40)...)
			m.Command(step.command, map[string]any{"idx": 1, "rebalance": true})
			moved := 0
			for _, key := range alive {
				res, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte(step.command)})
				require.NoError(t, err)
				if res.Retry.Reasons.Has(retry.KVNotMyVBucket) {
					moved++
					require.Equal(t, 0, res.Retry.Attempts, "the answer's map says where to go")
					require.Equal(t, 1, res.Retry.Transparent)
				}
			}
			require.Positive(t, moved)
			after, _ := b.Map()
			require.Greater(t, after.Rev, before.Rev)
			require.Len(t, after.Nodes, step.nodes)
			for _, key := range alive {
				r, err := kv.Do(ctx, b, kv.Get{Key: key})
				require.NoError(t, err)
				require.Equal(t, step.command, string(r.Value))
			}
			t.Logf("%s: %d calls were sent to a former node", step.command, moved)
		}
		for _, node := range []int{0, 2} {
			log := m.Command("GET_CMDLOG", map[string]any{"idx": node, "bucket": "default"})
			require.NotContains(t, string(log), fmt.Sprintf(`"opcode":%d,`, memd.OpGetClusterConfig), "nobody asked for the map")
		}
	})
}

// TestCouchbaseMockMovedVBucketsWithoutAMap has answers that do not say where to go, from nodes that do not give their
// map either: the call is retried until one does.
func TestCouchbaseMockMovedVBucketsWithoutAMap(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		alive := append(keysOf(t, m, b, 0, 40), keysOf(t, m, b, 2, 40)...)
		before, _ := b.Map()
		m.Command("SET_CCCP", map[string]any{"enabled": false})
		m.Command("FAILOVER", map[string]any{"idx": 1, "rebalance": true})
		var calls []kv.Future[kv.MutationResult]
		for _, key := range alive {
			calls = append(calls, kv.Start(ctx, b, kv.Upsert{Key: key, Value: []byte("v")}))
		}
		time.Sleep(150 * time.Millisecond)
		now, _ := b.Map()
		n := 0
		for _, c := range calls { select { case <-c.Done(): n++; r, err := c.Wait(ctx); t.Logf("%v %+v", err, r.Retry); default: } }
		t.Log("done", n, before, now)
		require.Equal(t, before.Rev, now.Rev)
		m.Command("SET_CCCP", map[string]any{"enabled": true})
		moved := 0
		for _, c := range calls {
			res, err := c.Wait(ctx)
			require.NoError(t, err)
			t.Logf("%v %+v", err, res.Retry)
			if res.Retry.Reasons.Has(retry.KVNotMyVBucket) {
				moved++
				require.Positive(t, res.Retry.Attempts)
			}
		}
		require.Positive(t, moved)
		now, _ = b.Map()
		require.Greater(t, now.Rev, before.Rev)
	})
}

// TestCouchbaseMockSilentNode has a node that stops answering and stays in everybody's map.
func TestCouchbaseMockSilentNode(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		ctx := longer(t)
		mine, others := keysOf(t, m, b, 1, 3), append(keysOf(t, m, b, 0, 20), keysOf(t, m, b, 2, 20)...)
		for _, key := range append(mine, others...) {
			_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("1")})
			require.NoError(t, err)
		}
		m.Command("FAILOVER", map[string]any{"idx": 1, "rebalance": false})
		short := kv.Common{Timeout: 300 * time.Millisecond}
		get := kv.Start(ctx, b, kv.Get{Key: mine[0], Common: short})
		count := kv.Start(ctx, b, kv.Increment{Key: mine[1], Delta: 1, Common: short})
		patient := kv.Start(ctx, b, kv.Get{Key: mine[2]})
		began := time.Now()
		for _, key := range others {
			_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("2")})
			require.NoError(t, err)
		}
		t.Logf("%d writes to the other nodes in %v", len(others), time.Since(began))
		_, err := get.Wait(ctx)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		_, err = count.Wait(ctx)
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)

		// The map without it is found by polling. From then on nothing is sent, so nothing is in doubt.
		require.Eventually(t, func() bool {
			now, _ := b.Map()
			return len(now.Nodes) == 2
		}, 10*time.Second, 5*time.Millisecond)
		_, err = kv.Do(ctx, b, kv.Increment{Key: mine[1], Delta: 1, Common: short})
		t.Log(err)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		info, _ := retry.InfoOf(err)
		require.True(t, info.Reasons.Has(retry.NodeNotAvailable), "%v", err)

		m.Command("RESPAWN", map[string]any{"idx": 1})
		r, err := patient.Wait(ctx)
		t.Logf("%v %+v", err, r.Retry)
		for _, key := range append(mine, others...) {
			_, err := kv.Do(ctx, b, kv.Upsert{Key: key, Value: []byte("3")})
			require.NoError(t, err)
		}
	})
}

func TestCouchbaseMockErrorReferences(t *testing.T) {
	couchbaseMock(t, func(t *testing.T, m *testkit.CouchbaseMockServer, b *core.Bucket) {
		m.Command("SET_ENHANCED_ERRORS", map[string]any{"enabled": true})
		_, err := kv.Do(longer(t), b, kv.Get{Key: []byte("absent")})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.NotEmpty(t, e.Ref)
		require.Equal(t, "Failed to lookup item", e.Context)
		require.ErrorContains(t, err, e.Ref)
	})
}

// TestCouchbaseMockMechanisms restricts what the server offers. PLAIN is spoken on an open line only when allowed.
func TestCouchbaseMockMechanisms(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}}, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		connect := func(allowPlain bool) (*core.Bucket, error) {
			c, err := core.Open(t.Context(), core.Config{
				Hosts: m.Addresses("default"), Username: "default", Password: core.NewSecret("secret"), AllowPlain: allowPlain,
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			b := c.Bucket("default")
			_, err = kv.Do(longer(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
			return b, err
		}
		offer := func(names ...string) { m.Command("SET_SASL_MECHANISMS", map[string]any{"mechs": names}) }
		for _, name := range []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1"} {
			offer("PLAIN", name)
			b, err := connect(true)
			require.NoError(t, err, name)
			require.NoError(t, b.WaitReady(longer(t)))
			for _, s := range b.Status() {
				require.Equal(t, name, s.Mechanism)
			}
		}
		offer("PLAIN")
		b, err := connect(true)
		require.NoError(t, err)
		require.Equal(t, "PLAIN", b.Status()[0].Mechanism)
		_, err = connect(false)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorContains(t, err, "no common authentication mechanism")
		require.NotContains(t, err.Error(), "secret")
	})
}

// TestCouchbaseMockHandshakeTrouble fails steps of the handshake with what may pass: connecting is tried again.
func TestCouchbaseMockHandshakeTrouble(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}}, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		for _, op := range []memd.Opcode{
			memd.OpHello, memd.OpGetErrorMap, memd.OpSASLListMechs, memd.OpSASLAuth, memd.OpSASLStep, memd.OpSelectBucket, memd.OpGetClusterConfig,
		} {
			opfail(m, memd.StatusTmpFail, op, 2)
			b := openCouchbaseMock(t, m, "secret").Bucket("default")
			_, err := kv.Do(longer(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
			require.NoError(t, err, "%v", op)
			require.NoError(t, b.WaitReady(longer(t)), "%v", op)
			opfail(m, 0, op, 0)
		}
	})
}

// TestCouchbaseMockWrongPasswordIsWaitedForWhenAsked is the other strategy's side of a refused login.
func TestCouchbaseMockWrongPasswordIsWaitedForWhenAsked(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}}, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		b := openCouchbaseMock(t, m, "guessed").Bucket("default")
		_, err := kv.Do(longer(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: time.Second, Retry: retry.BestEffort{}}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
		for _, s := range b.Status() {
			require.False(t, s.Connected)
		}
		require.ErrorIs(t, b.WaitReady(longer(t)), cberr.AuthenticationFailure)
	})
}
