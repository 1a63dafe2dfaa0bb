package core_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// S6: every limit has bounds of its own; a value outside of them is refused with the field's name and the bounds.
func TestLimitsOutOfBoundsAreRefusedByName_S6(t *testing.T) {
	for field, bounds := range map[string][2]int{
		"Limits.Packet": {64 << 10, 1 << 30}, "Limits.Inflated": {1, 1 << 30}, "Limits.Map": {1 << 10, 1 << 30},
		"Limits.MapDepth": {8, 10000},
		"Limits.ErrorMap": {1 << 10, 1 << 30}, "Limits.Row": {1, 1 << 30}, "Limits.RowDepth": {8, 9000},
		"Limits.SRV": {1, 4096}, "Limits.InFlight": {1, 49152},
		"Limits.Queue": {1, 1 << 24}, "Limits.Parked": {1, 1 << 24}, "KV.Connections": {1, 1024},
		"HTTP.MaxConnections": {0, 1 << 24},
		"HTTP.MaxIdle":        {0, 1 << 24},
	} {
		set := func(v int) error {
			var cfg core.Config
			group, name, _ := strings.Cut(field, ".")
			reflect.ValueOf(&cfg).Elem().FieldByName(group).FieldByName(name).SetInt(int64(v))
			c, err := core.Open(t.Context(), cfg)
			if err == nil {
				require.NoError(t, c.Close())
			}
			return err
		}
		for _, v := range []int{0, bounds[0], bounds[1]} {
			require.NoError(t, set(v), "%s %d", field, v)
		}
		for _, v := range []int{-1, bounds[0] - 1, bounds[1] + 1} {
			if v == 0 {
				continue // the default
			}
			var e *core.ConfigError
			require.ErrorAs(t, set(v), &e, "%s %d", field, v)
			require.Equal(t, field, e.Field)
			require.Contains(t, e.Error(), fmt.Sprintf("is %d, limits %d and %d", v, bounds[0], bounds[1]))
		}
	}
}

// logs gathers what a client logs.
type logs struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(locked{&l.mu, &l.out}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// String is what has been logged, in a bubble.
func (l *logs) String() string {
	synctest.Wait() // until it is written
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// limited runs f against a node in a bubble, with a client whose configuration was changed.
func limited(t *testing.T, change func(*core.Config), f func(t *testing.T, m *mock.Cluster, b *core.Bucket)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		f(t, m, open(t, m, change).Bucket("default"))
	})
}

var quick = kv.Common{Timeout: 200 * time.Millisecond, Retry: retry.BestEffort{}}

// S6, fault 24: a packet above the limit ends its connection and names the limit.
func TestFrameLimit_S6(t *testing.T) {
	for limit, fits := range map[int]bool{64 << 10: false, 0: true} {
		limited(t, func(c *core.Config) { c.Limits.Packet = limit }, func(t *testing.T, m *mock.Cluster,
			b *core.Bucket,
		) {
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: make([]byte, 70<<10)})
			require.NoError(t, err)
			m.Inject(only(memd.OpGet, 0), mock.Rewrite(func(_, rep *memd.Packet) {
				rep.Value,
					rep.Datatype = make([]byte, 70<<10), 0
			}))
			res, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: quick})
			if fits {
				require.NoError(t, err)
				require.Len(t, res.Value, 70<<10)
				return
			}
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.ErrorContains(t, err, "65536")
		})
	}
}

// S6, D8, fault 28: what a compressed value claims to become is held against the limit; the connection stays.
func TestInflateLimit_S6(t *testing.T) {
	packed := snappy.Encode(nil, bytes.Repeat([]byte("x"), 5000))
	for limit, fits := range map[int]bool{4999: false, 5000: true, 0: true} {
		limited(t, func(c *core.Config) { c.Limits.Inflated = limit }, func(t *testing.T, m *mock.Cluster,
			b *core.Bucket,
		) {
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			m.Inject(only(memd.OpGet, 0), mock.Rewrite(func(_, rep *memd.Packet) {
				rep.Value, rep.Datatype = packed,
					memd.DatatypeSnappy
			}))
			hellos := m.Frames(memd.OpHello)
			res, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
			require.Equal(t, hellos, m.Frames(memd.OpHello))
			if fits {
				require.NoError(t, err)
				require.Len(t, res.Value, 5000)
				return
			}
			require.ErrorIs(t, err, cberr.DecodingFailure)
			require.ErrorContains(t, err, "limit 4999")
		})
	}
}

// S6: a cluster map that is too large, or nested too deeply, is not used, and the log says why. Compressed or not.
func TestConfigLimits_S6(t *testing.T) {
	deep := strings.Repeat("[", 20) + strings.Repeat("]", 20)
	for name, c := range map[string]struct {
		change func(*core.Config)
		remap  func(raw string) (string, memd.Datatype)
		says   string
	}{
		"size": {func(c *core.Config) { c.Limits.Map = 2000 }, func(raw string) (string, memd.Datatype) {
			return raw[:len(raw)-1] + `,"pad":"` + strings.Repeat("x", 3000) + `"}`, memd.DatatypeJSON
		}, "limit 2000"},
		"inflated size": {func(c *core.Config) { c.Limits.Map = 2000 }, func(raw string) (string, memd.Datatype) {
			raw = raw[:len(raw)-1] + `,"pad":"` + strings.Repeat("x", 3000) + `"}`
			return string(snappy.Encode(nil, []byte(raw))), memd.DatatypeJSON | memd.DatatypeSnappy
		}, "limit 2000"},
		"depth": {func(c *core.Config) { c.Limits.MapDepth = 20 }, func(raw string) (string, memd.Datatype) {
			return raw[:len(raw)-1] + `,"pad":` + deep + `}`, memd.DatatypeJSON
		}, "limit 20"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, bad := range []bool{true, false} {
				var l logs
				change := func(cfg *core.Config) {
					cfg.Observe.Log = l.logger()
					if bad {
						c.change(cfg)
					}
				}
				synctest.Test(t, func(t *testing.T) {
					m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
					m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(_, rep *memd.Packet) {
						if len(rep.Value) > 0 {
							v, dt := c.remap(string(rep.Value))
							rep.Value, rep.Datatype = []byte(v), dt
						}
					}))
					b := open(t, m, change).Bucket("default") // its handshake brings the first map
					_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: quick})
					if !bad {
						require.NoError(t, err)
						return
					}
					require.ErrorIs(t, err, cberr.UnambiguousTimeout)
					time.Sleep(5 * time.Second) // polls bring the same map
					require.Contains(t, l.String(), c.says)
				})
			}
		})
	}
}

// S6: an error map that is too large is as good as none; the connection stays.
func TestErrorMapLimit_S6(t *testing.T) {
	var l logs
	limited(t, func(c *core.Config) { c.Limits.ErrorMap, c.Observe.Log = 1024, l.logger() },
		func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			require.NoError(t, b.WaitReady(ctx(t)))
			require.Contains(t, l.String(), "limit 1024 bytes")
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
		})
}

// S6: no more answers of a lookup are used than the limit says.
func TestSRVLimit_S6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(4), mock.Bucket("default", 8), mock.Virtual())
		var mu sync.Mutex
		dialled := map[string]bool{}
		cl := open(t, m, func(cfg *core.Config) {
			cfg.Seeds.Hosts, cfg.Seeds.SRV, cfg.Limits.SRV = []string{"nobody"}, "_couchbase._tcp.x", 3
			cfg.Seeds.Resolver = resolver(func(context.Context, string) ([]*net.SRV, error) { return records(m), nil })
			cfg.Net.Dial = func(_ context.Context, _, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dialled[addr] = true
				return nil, &net.DNSError{Err: "no such host", Name: addr}
			}
		})
		_, err := kv.Do(ctx(t), cl.Bucket("default"), kv.Get{Key: []byte("k"), Common: quick})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, dialled, 4)
	})
}
