package promises_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/views"
)

// views of a bucket that the user may not open, beside a seed that never answers.
func viewWithoutAccess(t *testing.T, f func(t *testing.T, cl *core.Cluster, view func() error), s retry.Strategy) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		silence(m, 1)
		cl := client(t, m, func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password = "app", core.NewSecret("secret")
		})
		f(t, cl, func() error {
			_, err := cl.Bucket("default").View(within(t, 2*time.Second), &views.Request{
				Design: "d", View: "v", Retry: s,
			})
			return err
		})
	}, mock.User("app", "secret", "other"))
}

// A view goes by its bucket's map. While the bucket is refused and there is no map of it, nothing can send the request,
// and it fails with the condition as a key-value call does. Requests that need no bucket go on.
func TestAViewOfABucketWithoutAccessFailsAtOnceWithTheCondition(t *testing.T) {
	viewWithoutAccess(t, func(t *testing.T, cl *core.Cluster, view func() error) {
		for range 3 {
			var err error
			failsAtOnce(t, cberr.BucketAccess, atOnce, func(context.Context) error { err = view(); return err })
			require.True(t, reasons(t, err).Has(retry.BucketAccessError))
			require.ErrorContains(t, err, `SELECT_BUCKET "default" answered 0x24`)
			require.NoError(t, calls["query"](within(t, time.Second), cl))
			time.Sleep(5 * time.Second)
		}
	}, nil)
}

// A strategy that goes on behind a condition has a view wait for its bucket; when its time is over the error names the
// condition.
func TestAViewOfABucketWithoutAccessWaitsUnderBestEffort(t *testing.T) {
	viewWithoutAccess(t, func(t *testing.T, cl *core.Cluster, view func() error) {
		began := time.Now()
		err := view()
		require.Equal(t, 2*time.Second, time.Since(began))
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorIs(t, err, cberr.BucketAccess, "the condition that is known")
		require.ErrorContains(t, err, `SELECT_BUCKET "default" answered 0x24`)
	}, retry.BestEffort{})
}

// A bucket whose map comes over HTTP has a way for its views, whatever key-value connections have met.
func TestAViewGoesByAMapOverHTTPThoughKeyValueRefusesTheBucket(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSelectBucket}}, mock.Status(memd.StatusAccess))
		m.Script(mock.ServiceMatch{Service: mock.ViewsService}, mock.Answer{Body: []byte(`{"total_rows":0,"rows":[]}`)})
		cl := client(t, m)
		b := cl.Bucket("default")
		time.Sleep(5 * time.Second) // key-value goes on to bring no map, so that HTTP is asked
		require.NoError(t, drained(b.View(within(t, time.Second), &views.Request{Design: "d", View: "v"})))
	})
}

// The refusal of one node does not fail requests to services while another connection works. A request that cannot be
// sent for another reason waits, as it does without a refusal, and is sent as soon as that reason is gone.
func TestAConditionOfOneNodeFailsNoServiceRequestWhileAnotherConnectionWorks(t *testing.T) {
	for name, c := range map[string]struct {
		opts   []mock.Option
		refuse func(m *mock.Cluster) func(*core.Config) // the clients of node 0
		kind   error
	}{
		"a refused login": {
			refuse: func(m *mock.Cluster) func(*core.Config) {
				m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpSASLStep}},
					mock.Status(memd.StatusAuthError))
				return func(*core.Config) {}
			},
			kind: cberr.AuthenticationFailure,
		},
		"no TLS": {
			opts: []mock.Option{mock.TLS()}, kind: cberr.TLSFailure,
			refuse: func(m *mock.Cluster) func(*core.Config) {
				return func(cfg *core.Config) {
					encrypted(m)(cfg)
					dial := cfg.Net.Dial
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						if addr == m.Node(0).TLSAddr() {
							return cleartext(), nil
						}
						return dial(ctx, network, addr)
					}
				}
			},
		},
	} {
		for _, call := range []string{"query", "raw request"} {
			t.Run(name+", "+call, func(t *testing.T) {
				inBubble(t, func(t *testing.T, m *mock.Cluster) {
					cl := client(t, m, c.refuse(m))
					b := cl.Bucket("default")
					time.Sleep(time.Second) // node 1 works, and node 0 goes on being refused
					at := func(node int) error {
						return get(within(t, time.Second), b, keyAt(t, b, m.Node(node)))
					}
					require.ErrorIs(t, at(0), c.kind, "a condition it is")
					require.ErrorIs(t, at(1), cberr.DocumentNotFound)

					for i := range 2 {
						for _, addr := range httpAddrs(m.Node(i)) {
							m.Network().Refuse(addr)
						}
					}
					time.AfterFunc(2*time.Second, func() {
						for _, addr := range httpAddrs(m.Node(1)) {
							m.Network().Restore(addr)
						}
					})
					began := time.Now()
					require.NoError(t, calls[call](within(t, 20*time.Second), cl))
					require.GreaterOrEqual(t, time.Since(began), 2*time.Second, "it has waited")
				}, c.opts...)
			})
		}
	}
}

// cleartext is a connection to a server that does not speak TLS.
func cleartext() net.Conn {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		_, _ = theirs.Read(make([]byte, 4096))
		_, _ = theirs.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	}()
	return ours
}

// httpAddrs are a node's addresses of management and query, plain and over TLS.
func httpAddrs(n *mock.Node) []string {
	return []string{
		n.ManagementAddr(), n.ManagementTLSAddr(), n.ServiceAddr(mock.QueryService),
		n.ServiceTLSAddr(mock.QueryService),
	}
}

func hostOf(t *testing.T, addr string) string {
	t.Helper()
	host, _, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return host
}

// keyAt is a key whose active copy is on the node.
func keyAt(t *testing.T, b *core.Bucket, n *mock.Node) string {
	t.Helper()
	for i := range 256 {
		key := string([]byte{'k', byte(i)})
		if _, nodes, ok := b.Locate([]byte(key)); ok && hostOf(t, nodes[0]) == hostOf(t, n.Addr()) {
			return key
		}
	}
	t.Fatal("no key is on the node")
	return ""
}
