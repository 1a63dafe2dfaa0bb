package field_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

const century = 100 * 365 * 24 * time.Hour

// longest are durations whose sums and multiples overflow.
var longest = map[string]time.Duration{"the longest": math.MaxInt64, "a century": century}

// durationsOf are the names of all durations of a struct and of the structs in it, with a setter each.
func durationsOf(typ reflect.Type, prefix string, at func(reflect.Value) reflect.Value) map[string]func(reflect.Value,
	time.Duration) {
	all := map[string]func(reflect.Value, time.Duration){}
	for i := range typ.NumField() {
		f := typ.Field(i)
		field := func(v reflect.Value) reflect.Value { return at(v).Field(i) }
		switch {
		case !f.IsExported():
		case f.Type == reflect.TypeFor[time.Duration]():
			all[prefix+f.Name] = func(v reflect.Value, d time.Duration) { field(v).SetInt(int64(d)) }
		case f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == reflect.TypeFor[core.Config]().PkgPath():
			for name, set := range durationsOf(f.Type, prefix+f.Name+".", field) {
				all[name] = set
			}
		case f.Type == reflect.TypeFor[*core.CircuitBreaker]():
			pointed := func(v reflect.Value) reflect.Value {
				if field(v).IsNil() {
					field(v).Set(reflect.New(f.Type.Elem()))
				}
				return field(v).Elem()
			}
			for name, set := range durationsOf(f.Type.Elem(), prefix+f.Name+".", pointed) {
				all[name] = set
			}
		}
	}
	return all
}

// Each duration of the configuration may be as long as a Duration can be: nothing ends early, late or with a panic for
// it.
func TestLongDurationsOfTheConfiguration_D135(t *testing.T) {
	fields := durationsOf(reflect.TypeFor[core.Config](), "", func(v reflect.Value) reflect.Value { return v })
	require.Greater(t, len(fields), 25, "the fields are found")
	for field, set := range fields {
		for name, d := range longest {
			t.Run(field+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := mock.Start(t, mock.Nodes(2), mock.Replicas(1), mock.Bucket("default", 16), mock.Virtual())
					began := time.Now()
					c := onMock(t, m, func(cfg *core.Config) { set(reflect.ValueOf(cfg).Elem(), d) })
					b := c.Bucket("default")
					require.NoError(t, b.WaitReady(fresh(t)))
					m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail))
					for _, level := range []memd.DurabilityLevel{memd.DurabilityNone, memd.DurabilityMajority} {
						_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v"), Durability: level})
						require.NoError(t, err)
					}
					_, err := kv.Do(fresh(t), b, kv.Get{Key: []byte("k")})
					require.NoError(t, err)
					require.NoError(t, m.CloseConns(0))
					require.NoError(t, m.CloseConns(1))
					_, err = kv.Do(fresh(t), b, kv.Get{Key: []byte("k")})
					require.NoError(t, err)
					require.NoError(t, c.Close())
					require.Less(t, time.Since(began), 2*time.Second)
				})
			})
		}
	}
}

// durableTime is the time that a durable request gives the server, in milliseconds.
func durableTime(t *testing.T, p *memd.Packet) (ms uint16) {
	t.Helper()
	for frames := p.Frames; len(frames) > 0; {
		id, data, tail, err := memd.NextFrame(frames)
		require.NoError(t, err)
		if _, limit, ok := memd.ParseDurability(data); id == memd.FrameDurability && ok {
			ms = limit
		}
		frames = tail
	}
	return ms
}

// So may the time of one call, and the deadline of its context.
func TestLongTimesOfCalls_D135(t *testing.T) {
	virtualScripted(t, 1, func(t *testing.T, s *scripted.Cluster, change func(*core.Config)) {
		s.Map = func(_ *scripted.Node, bucket string) []byte {
			return s.Render(scripted.Spec{Bucket: bucket, Caps: `"collections","durableWrite","xattr","rangeScan"`})
		}
		var mu sync.Mutex
		var durable []uint16
		var bodies []string
		s.Nodes[0].SetHook(func(session *scripted.Session, p *memd.Packet) bool {
			mu.Lock()
			defer mu.Unlock()
			switch p.Opcode {
			case memd.OpSet:
				durable = append(durable, durableTime(t, p))
			case memd.OpRangeScanCreate:
				bodies = append(bodies, string(p.Value))
				session.Reply(p, memd.StatusKeyNotFound, nil, nil)
				return true
			}
			return false
		})
		b := ready(t, s, change)
		for name, d := range longest {
			_, err := kv.Do(context.Background(), b, kv.Upsert{
				Common: kv.Common{Timeout: d}, Key: []byte("k"),
				Durability: memd.DurabilityMajority,
			})
			require.NoError(t, err, name)
			_, err = kv.Do(context.Background(), b, kv.Get{Common: kv.Common{Timeout: d}, Key: []byte("k")})
			require.NoError(t, err, name)
			ctx, cancel := context.WithTimeout(context.Background(), d)
			_, err = kv.Do(ctx, b, kv.Upsert{
				Common: kv.Common{Timeout: d}, Key: []byte("k"),
				Durability: memd.DurabilityMajority,
			})
			require.NoError(t, err, name)
			for _, o := range kv.GetMulti(ctx, b, kv.Common{Timeout: d}, [][]byte{[]byte("k"), []byte("k")}) {
				require.NoError(t, o.Err, name)
			}
			_, err = kv.Do(ctx, b, kv.RangeScanCreate{
				Range:        kv.PrefixRange([]byte("a")),
				SnapshotWait: d,
			})
			require.ErrorIs(t, err, cberr.DocumentNotFound, name)
			cancel()
			late, cancel := context.WithDeadline(context.Background(), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
			_, err = kv.Do(late, b, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err, name)
			cancel()
		}
		mu.Lock()
		defer mu.Unlock()
		for _, ms := range durable {
			require.Contains(t, []uint16{0, 65534}, ms, "the server has as much time as it can be given")
		}
		require.Len(t, bodies, 2)
		for _, body := range bodies {
			var scan struct {
				Snapshot struct {
					Wait int64 `json:"timeout_ms"`
				} `json:"snapshot_requirements"`
			}
			require.NoError(t, json.Unmarshal([]byte(body), &scan))
			require.Positive(t, scan.Snapshot.Wait, body)
		}
	})
}

// What a service is told of a long timeout is a long one.
func TestLongTimesOfServices_D135(t *testing.T) {
	var mu sync.Mutex
	var told []string
	c := services(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var asked struct {
			Timeout string `json:"timeout"`
		}
		_ = json.Unmarshal(body, &asked)
		mu.Lock()
		told = append(told, asked.Timeout)
		mu.Unlock()
		_, _ = io.WriteString(w, `{"results":[1],"status":"success"}`)
	})
	for name, d := range longest {
		rows, err := c.Query(context.Background(), &query.Request{Statement: "SELECT 1", Timeout: d})
		require.NoError(t, err, name)
		require.NoError(t, rows.Close())
	}
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, told, len(longest))
	for _, text := range told {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		require.Greater(t, d, century-time.Hour)
	}
}

// A delay that is longer than what is left ends the call at its deadline, whether a strategy or a server names it.
func TestLongDelays_D135(t *testing.T) {
	strategies := map[string]retry.Strategy{"negative": retry.BestEffort{Backoff: retry.Constant(-1)}}
	for name, d := range longest {
		strategies["constant, "+name] = retry.BestEffort{Backoff: retry.Constant(d)}
		strategies["linear, "+name] = retry.BestEffort{Backoff: retry.Linear(d, d)}
		strategies["exponential, "+name] = retry.BestEffort{Backoff: retry.Exponential(d, d, math.MaxFloat64)}
		strategies["decorrelated, "+name] = retry.BestEffort{Backoff: retry.Decorrelated(d, d, nil)}
		strategies["jitter, "+name] = retry.BestEffort{Backoff: retry.AddJitter(retry.Constant(d), 3, nil)}
		strategies["limited, "+name] = policy.Limit{
			Base: retry.BestEffort{Backoff: retry.Constant(d)}, Hard: d,
			MaxElapsed: d, Fit: policy.Stretch,
		}
		strategies["own, "+name] = retry.Func(func(context.Context, *retry.Request,
			retry.Reason,
		) retry.Action {
			return retry.After(d)
		})
		slow := policy.NewStore(1, d, policy.Costs{})
		strategies["budget, "+name] = policy.Bucket{Base: retry.BestEffort{Backoff: retry.Constant(100 *
			time.Millisecond)}, Store: slow}
	}
	for name, s := range strategies {
		t.Run(name, func(t *testing.T) {
			virtualScripted(t, 1, func(t *testing.T, sc *scripted.Cluster, change func(*core.Config)) {
				b := ready(t, sc, change)
				sc.Nodes[0].SetHook(func(session *scripted.Session, p *memd.Packet) bool {
					if p.Opcode == memd.OpSet {
						session.Reply(p, memd.StatusTmpFail, nil, nil)
					}
					return p.Opcode == memd.OpSet
				})
				began := time.Now()
				_, err := kv.Do(context.Background(), b, kv.Upsert{
					Common: kv.Common{Timeout: time.Second, Retry: s},
					Key:    []byte("k"),
				})
				require.Error(t, err)
				require.LessOrEqual(t, time.Since(began), time.Second)
				require.LessOrEqual(t, sc.Nodes[0].Requests(memd.OpSet), 1100, "no delay has become none")
			})
		})
	}
}

// Texts have bounds of their own.
func TestLongDurationsInTexts_D135(t *testing.T) {
	for _, text := range []string{
		"9223372036854ms", "2562047h", fmt.Sprint(int64(math.MaxInt64 / 1_000_000)),
		"9223372036s",
	} {
		cfg, err := core.ParseConnString("couchbase://127.0.0.1?kv_timeout=" + text)
		require.NoError(t, err, text)
		require.Greater(t, cfg.KV.Timeout, century, text)
	}
	for _, text := range []string{
		"9223372036855ms", "99999999h", fmt.Sprint(int64(math.MaxInt64)),
		strings.Repeat("9", 400),
	} {
		_, err := core.ParseConnString("couchbase://127.0.0.1?kv_timeout=" + text)
		require.Error(t, err, text)
	}
	for text, ok := range map[string]bool{"9223372036s": true, "9223372037s": false, "99999999999999999999s": false} {
		_, err := core.ParsePolicy([]byte(`{"methodConfig":[{"name":[{"service":"kv"}],"timeout":"` + text + `"}]}`))
		require.Equal(t, ok, err == nil, "%s: %v", text, err)
	}
}
