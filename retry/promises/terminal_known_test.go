package promises_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// patience is how long WaitReady lets a node go on that is still being connected to while another one has met a
// terminal condition: 0.25 s without progress.
const patience = 300 * time.Millisecond

// condition is one of the three terminal conditions of connections.
type condition struct {
	opts   []mock.Option
	change func(m *mock.Cluster) func(*core.Config)
	kind   *cberr.Kind
	reason retry.Reason
	onlyKV bool // requests to services do not meet it
}

func conditions() map[string]condition {
	return map[string]condition{
		"wrong password": {
			change: func(*mock.Cluster) func(*core.Config) { return wrongPassword },
			kind:   cberr.AuthenticationFailure, reason: retry.AuthenticationError,
		},
		"untrusted certificate": {
			opts: []mock.Option{mock.TLS()},
			change: func(m *mock.Cluster) func(*core.Config) {
				return func(cfg *core.Config) {
					encrypted(m)(cfg)
					trustsNoCA(cfg)
				}
			},
			kind: cberr.TLSFailure, reason: retry.TLSError,
		},
		"bucket without access": {
			opts: []mock.Option{mock.User("app", "secret", "other")},
			change: func(*mock.Cluster) func(*core.Config) {
				return func(cfg *core.Config) { cfg.Auth.Username, cfg.Auth.Password = "app", core.NewSecret("secret") }
			},
			kind: cberr.BucketAccess, reason: retry.BucketAccessError, onlyKV: true,
		},
	}
}

// Of two seeds one never answers, and the other one refuses: what it has said is the answer to every call, at once,
// whatever the silent one may still say.
func TestAKnownTerminalConditionIsToldAtOnceBesideASilentSeed(t *testing.T) {
	for name, c := range conditions() {
		for call, run := range calls {
			if c.onlyKV && (call == "query" || call == "raw request") {
				continue
			}
			t.Run(name+", "+call, func(t *testing.T) {
				inBubble(t, func(t *testing.T, m *mock.Cluster) {
					silence(m, 1)
					cl := client(t, m, c.change(m))
					cl.Bucket("default")
					var err error
					failsAtOnce(t, c.kind, atOnce, func(ctx context.Context) error {
						err = run(ctx, cl)
						return err
					})
					info, ok := retry.InfoOf(err)
					require.True(t, ok)
					require.Equal(t, c.reason, info.Reason)
				}, c.opts...)
			})
		}
		t.Run(name+", wait", func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				silence(m, 1)
				cl := client(t, m, c.change(m))
				b := cl.Bucket("default")
				failsAtOnce(t, c.kind, patience, b.WaitReady)
				failsAtOnce(t, c.kind, patience, func(ctx context.Context) error { return cl.WaitReady(ctx) })
			}, c.opts...)
		})
	}
}

// The same while a connection that was made before is being made again.
func TestAKnownTerminalConditionIsToldAtOnceAfterAReconnect(t *testing.T) {
	for call, run := range calls {
		t.Run("wrong password, "+call, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				cl := client(t, m)
				require.NoError(t, cl.Bucket("default").WaitReady(within(t, time.Second)))
				require.NoError(t, m.SetPassword(mock.DefaultUser, "another"))
				silence(m, 1)
				m.Network().Refuse(m.Node(0).ManagementAddr())
				m.Network().Refuse(m.Node(1).ManagementAddr())
				m.Network().Refuse(m.Node(0).ServiceAddr(mock.QueryService))
				m.Network().Refuse(m.Node(1).ServiceAddr(mock.QueryService))
				m.Network().ResetAll()
				time.Sleep(atOnce)
				for range 8 { // keys of both nodes
					failsAtOnce(t, cberr.AuthenticationFailure, atOnce,
						func(ctx context.Context) error { return run(ctx, cl) })
				}
				failsAtOnce(t, cberr.AuthenticationFailure, atOnce, cl.Bucket("default").WaitReady)
			})
		})
	}
	t.Run("untrusted certificate", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			var refuse atomic.Bool
			cl := client(t, m, encrypted(m), func(cfg *core.Config) {
				cfg.TLS.Config.VerifyConnection = func(tls.ConnectionState) error {
					if refuse.Load() {
						return errors.New("not on the list")
					}
					return nil
				}
			})
			require.NoError(t, cl.Bucket("default").WaitReady(within(t, time.Second)))
			refuse.Store(true)
			silence(m, 1)
			m.Network().ResetAll()
			time.Sleep(atOnce)
			for i := range 16 {
				failsAtOnce(t, cberr.TLSFailure, atOnce, func(ctx context.Context) error {
					_, err := kv.Do(ctx, cl.Bucket("default"), kv.Upsert{Key: []byte{byte(i)}})
					return err
				})
			}
			failsAtOnce(t, cberr.TLSFailure, atOnce, cl.Bucket("default").WaitReady)
		}, mock.TLS())
	})
}

// slowRecords is a resolver that answers after ten seconds.
type slowRecords struct{}

func (slowRecords) LookupSRV(ctx context.Context, _, _, _ string) (string, []*net.SRV, error) {
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
	}
	return "", nil, errors.New("too slow")
}

func TestAKnownTerminalConditionIsToldAtOnceBesideASlowSRVLookup(t *testing.T) {
	for call, run := range calls {
		t.Run(call, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				cl := client(t, m, wrongPassword, func(cfg *core.Config) {
					cfg.Seeds.SRV, cfg.Seeds.Resolver = "_couchbase._tcp.db.example.com", slowRecords{}
				})
				failsAtOnce(t, cberr.AuthenticationFailure, atOnce, func(ctx context.Context) error {
					return run(ctx,
						cl)
				})
			})
		})
	}
}

// A strategy that goes on is told, when the time is over, of everything that is known: not of the last thing only.
func TestAnExpiredCallNamesEveryTerminalConditionThatIsKnown(t *testing.T) {
	for call, run := range calls {
		t.Run(call, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				silence(m, 2)
				cl := client(t, m, encrypted(m), wrongPassword, func(cfg *core.Config) {
					cfg.Retry.Strategy = retry.BestEffort{}
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						nc, err := m.Dial(ctx, network, addr)
						if addr == m.Node(1).TLSAddr() && err == nil {
							nc = notTLS{nc}
						}
						return nc, err
					}
				})
				cl.Bucket("default")
				err := run(within(t, 2*time.Second), cl)
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.ErrorIs(t, err, cberr.AuthenticationFailure)
				require.ErrorIs(t, err, cberr.TLSFailure)
				require.ErrorContains(t, err, "does not look like a TLS handshake")
			}, mock.Nodes(3), mock.TLS())
		})
	}
	t.Run("wait", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			silence(m, 1)
			cl := client(t, m, wrongPassword, func(cfg *core.Config) { cfg.Retry.Strategy = retry.BestEffort{} })
			err := cl.Bucket("default").WaitReady(within(t, time.Second))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, cberr.AuthenticationFailure)
		})
	})
}

// notTLS is a socket whose other end speaks HTTP.
type notTLS struct{ net.Conn }

func (notTLS) Read(b []byte) (int, error) { return copy(b, "HTTP/1.1 400 Bad Request\r\n\r\n"), nil }

// A connection that works and gives no map yet keeps calls waiting. When their time is over they name what another node
// has said.
func TestACallThatWaitsOnAWorkingConnectionNamesTheConditionOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpGetClusterConfig}},
			mock.Status(memd.StatusKeyNotFound))
		m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpSASLStep}},
			mock.Status(memd.StatusAuthError))
		m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpHello}}, mock.Delay(10*time.Millisecond))
		silence(m, 2)
		cl := client(t, m)
		began := time.Now()
		_, err := kv.Do(within(t, 2*time.Second), cl.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

// A working path never fails because another one is sick, not even while both are made: seeds that are equally far away
// answer at about the same time, and whichever is first decides nothing.
func TestASeedThatRefusesFailsNoCallOfOtherSeeds(t *testing.T) {
	for range 20 {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			m.Inject(mock.Match{Nodes: []int{2}, Opcodes: []memd.Opcode{memd.OpSASLAuth}},
				mock.Status(memd.StatusAuthError))
			b := client(t, m).Bucket("default")
			for i := range 16 {
				key := []byte{'k', byte(i)}
				_, err := kv.Do(within(t, time.Second), b, kv.Upsert{Key: key})
				if _, nodes, ok := b.Locate(key); ok && nodes[0] == m.Node(2).Addr() {
					require.ErrorIs(t, err, cberr.AuthenticationFailure)
					continue
				}
				require.NoError(t, err)
			}
		}, mock.Nodes(3), mock.Latency(time.Millisecond))
	}
}
