package core_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// resolver answers SRV lookups.
type resolver func(ctx context.Context, name string) ([]*net.SRV, error)

func (r resolver) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service != "" || proto != "" {
		return "", nil, errors.New("the name is the record's own")
	}
	records, err := r(ctx, name)
	return "", records, err
}

// records are SRV records of the nodes.
func records(m *mock.Cluster) []*net.SRV {
	var rs []*net.SRV
	for _, n := range m.Nodes() {
		host, _, _ := net.SplitHostPort(n.Addr())
		rs = append(rs, &net.SRV{Target: host + ".", Port: 11210})
	}
	return rs
}

// named opens a client of a cluster that is known by a name; alias says whether the name has an address of its own.
func named(t *testing.T, m *mock.Cluster, alias bool, r core.Resolver) *core.Cluster {
	t.Helper()
	cfg, err := core.ParseConnString("couchbase://db.example.com")
	require.NoError(t, err)
	require.Equal(t, "_couchbase._tcp.db.example.com", cfg.Seeds.SRV)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Seeds.Resolver = "Administrator", core.NewSecret("password"), r
	cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if tail, ok := strings.CutPrefix(addr, "db.example.com"); ok {
			if !alias {
				return nil, &net.DNSError{Err: "no such host", Name: "db.example.com", IsNotFound: true}
			}
			addr = "10.0.0.1" + tail
		}
		return m.Dial(ctx, network, addr)
	}
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// C3: the nodes that the record names are asked, and a record that is absent, slow or nonsense is no failure: the
// name's own address is asked beside it.
func TestSRVRecords_C3(t *testing.T) {
	for name, c := range map[string]struct {
		alias  bool
		lookup func(m *mock.Cluster) resolver
	}{
		"found": {false, func(m *mock.Cluster) resolver {
			return func(context.Context, string) ([]*net.SRV, error) { return records(m), nil }
		}},
		"absent": {true, func(m *mock.Cluster) resolver {
			return func(_ context.Context, name string) ([]*net.SRV, error) {
				return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
			}
		}},
		"silent": {true, func(m *mock.Cluster) resolver {
			return func(ctx context.Context, _ string) ([]*net.SRV, error) { <-ctx.Done(); return nil, ctx.Err() }
		}},
		"slow": {false, func(m *mock.Cluster) resolver {
			return func(context.Context, string) ([]*net.SRV, error) { time.Sleep(time.Second); return records(m), nil }
		}},
		"no service": {true, func(m *mock.Cluster) resolver {
			return func(context.Context, string) ([]*net.SRV, error) {
				return []*net.SRV{{Target: "."}, {Target: "x", Port: 0}}, nil
			}
		}},
		"panics": {true, func(m *mock.Cluster) resolver {
			return func(context.Context, string) ([]*net.SRV, error) { panic("in the user's resolver") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
				cl := named(t, m, c.alias, c.lookup(m))
				began := time.Now()
				_, err := kv.Do(ctx(t), cl.Bucket("default"), kv.Upsert{Key: []byte("k")})
				require.NoError(t, err)
				if name != "slow" {
					require.Zero(t, time.Since(began))
				}
			})
		})
	}
}

// However many records a name has, a bounded number of them is dialled.
func TestSRVAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		var mu sync.Mutex
		dialled := map[string]bool{}
		many := resolver(func(context.Context, string) (rs []*net.SRV, err error) {
			for i := range 10000 {
				rs = append(rs, &net.SRV{Target: fmt.Sprintf("n%d.example.com", i), Port: 11210})
			}
			return rs, nil
		})
		cl := open(t, m, func(cfg *core.Config) {
			cfg.Seeds.Hosts, cfg.Seeds.SRV, cfg.Seeds.Resolver = []string{"nobody"}, "_couchbase._tcp.x", many
			cfg.Net.Dial = func(_ context.Context, _, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dialled[addr] = true
				return nil, errors.New("no such host")
			}
		})
		_, err := kv.Do(ctx(t), cl.Bucket("default"), kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, dialled, 65)
	})
}

// T17, C3: when all nodes have been replaced the record is looked up again, and calls that wait go to the new ones.
func TestAllNodesReplaced_T17(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		fresh := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
		fresh.BumpEpoch()
		var moved atomic.Bool
		var lookups atomic.Int32
		cl := open(t, old, func(cfg *core.Config) {
			cfg.Seeds.Hosts, cfg.Seeds.SRV = []string{"db.example.com"}, "_couchbase._tcp.db.example.com"
			cfg.Seeds.Resolver = resolver(func(context.Context, string) ([]*net.SRV, error) {
				lookups.Add(1)
				if moved.Load() {
					return []*net.SRV{{Target: "new.example.com", Port: 11210}}, nil
				}
				return records(old), nil
			})
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				switch {
				case !moved.Load():
					return old.Dial(ctx, network, addr)
				case strings.HasPrefix(addr, "new.example.com"):
					return fresh.Dial(ctx, network, "10.0.0.1:11210")
				case strings.HasPrefix(addr, "10.0.0.3"): // one that the new cluster does not have
					return nil, errors.New("no route to host")
				}
				if lookups.Load() < 2 {
					return nil, errors.New("no route to host")
				}
				return fresh.Dial(ctx, network, addr)
			}
		})
		b := cl.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 1, lookups.Load())
		moved.Store(true)
		old.DisconnectAll()
		time.Sleep(time.Second)
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{
			Retry:   retry.BestEffort{},
			Timeout: 9 * time.Second,
		}})
		require.NoError(t, err)
		require.GreaterOrEqual(t, lookups.Load(), int32(2))
		require.Len(t, fresh.ApplyLog("default"), 1)
		time.Sleep(5 * time.Second)
		require.Len(t, b.Status(), 2, "nothing is left of the seeds")
	})
}
