package core_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime/metrics"
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
	"github.com/couchcore/couchcore/retry"
)

// D22: the mechanism follows from the kind of the credentials, the transport and the server's list: a server, or a
// user, that only PLAIN serves is served over TLS, and a client certificate needs no login at all.
func TestMechanismsFollowFromTheCredentials_D22(t *testing.T) {
	for name, c := range map[string]struct {
		offered, wanted []string
		certificate     bool
		mechanism       string
		logins          int
	}{
		"strongest": {nil, nil, false, "SCRAM-SHA512", 2},
		// the first try was for what the server does not have
		"PLAIN is left":    {[]string{"PLAIN"}, nil, false, "PLAIN", 4},
		"an external user": {nil, []string{"PLAIN"}, false, "PLAIN", 2},
		"certificate":      {nil, nil, true, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := []mock.Option{mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual(), mock.TLS()}
				if c.offered != nil {
					opts = append(opts, mock.Mechanisms(c.offered...))
				}
				m := mock.Start(t, opts...)
				b := open(t, m, tlsHosts, func(cfg *core.Config) {
					cfg.TLS.Config, cfg.Auth.Mechanisms = trusting(m), c.wanted
					if c.certificate {
						cert, err := m.ClientCertificate("Administrator")
						require.NoError(t, err)
						cfg.TLS.Config.Certificates = []tls.Certificate{cert}
						cfg.Auth.Username, cfg.Auth.Password = "", core.Secret{}
					}
				}).Bucket("default")
				require.NoError(t, b.WaitReady(ctx(t)))
				for _, s := range b.Status() {
					require.Equal(t, c.mechanism, s.Mechanism)
				}
				require.Equal(t, c.logins, m.Frames(memd.OpSASLAuth))
			})
		})
	}
}

// D23: a wrong password is named, by every call and not only the first, and forgotten as soon as it is right.
func TestAWrongPasswordIsNamedUntilItIsRight_D23(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 8), mock.Virtual())
		require.NoError(t, m.SetPassword("Administrator", "another"))
		b := open(t, m).Bucket("default")
		for range 20 {
			_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
			require.ErrorIs(t, err, cberr.AuthenticationFailure)
			_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: quick})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.ErrorIs(t, err, cberr.AuthenticationFailure)
		}
		require.NoError(t, m.SetPassword("Administrator", "password"))
		time.Sleep(5 * time.Second)
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.NoError(t, b.WaitReady(ctx(t)))
	})
}

// D25: a call that waits for the first map sleeps until there is something to look at. Goroutines that look every
// millisecond would be scheduled hundreds of thousands of times in these ten minutes.
func TestWaitingForTheFirstMapIsNoBusyLoop_D25(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		m.Inject(only(memd.OpGetClusterConfig, 0), mock.Status(memd.StatusKeyNotFound))
		c := open(t, m)
		before := scheduled()
		long, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { _ = c.Bucket("default").WaitReady(long) })
			wg.Go(func() {
				_, _ = kv.Do(long, c.Bucket("default"), kv.Get{
					Key:    []byte("k"),
					Common: kv.Common{Timeout: 10 * time.Minute, Retry: retry.BestEffort{}},
				})
			})
		}
		wg.Wait()
		require.Less(t, scheduled()-before, uint64(40_000))
	})
}

// scheduled is about an eighth of how often goroutines have been scheduled: the runtime looks at that many of them.
func scheduled() (n uint64) {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	for _, c := range s[0].Value.Float64Histogram().Counts {
		n += c
	}
	return n
}

// D31, P13: no kind of secret is in what the client prints, whatever is asked of it: errors, logs, reports, the
// configuration and the credentials themselves.
func TestSecretsArePrintedNowhere_D31(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logs
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual(), mock.TLS(),
			mock.Token("good", "Administrator"))
		var out strings.Builder
		note := func(vs ...any) {
			for _, v := range vs {
				fmt.Fprintf(&out, "%v %+v %#v\n", v, v, v)
				if j, err := json.Marshal(v); err == nil {
					out.Write(j)
				}
			}
		}
		for _, cr := range []core.Credentials{
			{Username: "Administrator", Password: core.NewSecret(canary)}, {Token: core.NewSecret(canary)},
		} {
			c := open(t, m, tlsHosts, func(cfg *core.Config) {
				cfg.TLS.Config, cfg.Observe.Log = trusting(m), l.logger()
				cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Token = cr.Username, cr.Password, cr.Token
				cfg.Seeds.HTTPHosts = []string{m.Node(0).ManagementTLSAddr()}
				note(cfg.Auth.Password, cfg.Auth.Token, cr)
			})
			_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k"), Common: quick})
			require.ErrorIs(t, err, cberr.AuthenticationFailure)
			note(err, c.Bucket("default").WaitReady(ctx(t)), c.Diagnostics(), c.Bucket("default").Status(),
				c.SetCredentials(cr), request(t, c))
			_, err = c.Ping(ctx(t), core.PingOptions{Timeout: time.Second})
			note(err)
			require.NoError(t, c.Close())
		}
		c := open(t, m, tlsHosts, func(cfg *core.Config) { // over a live connection
			cfg.TLS.Config, cfg.Observe.Log = trusting(m), l.logger()
			cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Token = "", core.Secret{}, core.NewSecret("good")
		})
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		require.NoError(t, c.SetCredentials(core.Credentials{Token: core.NewSecret(canary)}))
		time.Sleep(time.Second)
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k")})
		note(err, c.Diagnostics())
		text := out.String() + l.String()
		require.Contains(t, text, "A login was not renewed")
		for _, secret := range []string{
			canary, base64.StdEncoding.EncodeToString([]byte(canary)), hex.EncodeToString([]byte(canary)),
			base64.StdEncoding.EncodeToString([]byte("Administrator:" + canary)),
		} {
			require.NotContains(t, text, secret)
		}
	})
}

// D32, fault 48d: redirects are not followed, neither of requests nor of cluster maps, so that credentials go nowhere
// else.
func TestRedirectsAreNotFollowed_D32(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		m.Script(mock.ServiceMatch{Service: mock.ManagementService}, mock.Answer{
			Status: http.StatusFound, Header: http.Header{"Location": {"http://10.0.0.66:8091/pools"}},
			Body: []byte("there"),
		})
		var d dialled
		c := open(t, m, func(cfg *core.Config) { cfg.Net.Dial = d.dial(cfg.Net.Dial) })
		resp, err := c.Do(ctx(t), &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusFound, resp.Status)
		maps := openString(t, m, "http://10.0.0.1?bootstrap_on=http",
			func(cfg *core.Config) { cfg.Net.Dial = d.dial(cfg.Net.Dial) })
		_, err = kv.Do(ctx(t), maps.Bucket("default"), kv.Get{Key: []byte("k"), Common: quick})
		require.ErrorContains(t, err, "302")
		require.Zero(t, d.host("10.0.0.66"))
	})
}

// D43: a node that has another address in a newer map is reached there, and no more at the old one.
func TestANodeThatMovesIsFollowed_D43(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 64), mock.Virtual())
		b := open(t, m, func(cfg *core.Config) {
			cfg.Seeds.Hosts = cfg.Seeds.Hosts[:1]
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				return m.Dial(ctx, network, strings.Replace(addr, "10.0.0.77", "10.0.0.2", 1))
			}
		}).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		key := keyOn(t, b, "10.0.0.2:11210")
		res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
		require.NoError(t, err)
		require.Equal(t, "10.0.0.2:11210", res.Endpoint())
		hostile(m, "10.0.0.77")
		m.BumpRevision()
		time.Sleep(5 * time.Second)
		res, err = kv.Do(ctx(t), b, kv.Upsert{Key: key})
		require.NoError(t, err)
		require.Equal(t, "10.0.0.77:11210", res.Endpoint())
		require.Equal(t, 1, m.Node(1).Connections())
	})
}

// D60: a bucket that cannot be opened holds up no other.
func TestASlowBucketHoldsUpNoOther_D60(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("slow", 8), mock.Bucket("default", 8), mock.Virtual())
		m.Inject(mock.Match{Func: func(p *memd.Packet) bool {
			return p.Opcode == memd.OpSelectBucket && string(p.Key) == "slow"
		}}, mock.Drop())
		c := open(t, m)
		began := time.Now()
		f := kv.Start(ctx(t), c.Bucket("slow"), kv.Get{Key: []byte("k")})
		time.Sleep(time.Millisecond)
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.Equal(t, time.Millisecond, time.Since(began))
		_, err = f.Wait(ctx(t))
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	})
}

// D61: the node to ask for a map is one of the newest map's, however many those are and whatever the random numbers
// are.
func TestPollingAsksANodeThatExists_D61(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(4), mock.Bucket("default", 8), mock.Virtual())
		b := open(t, m, func(cfg *core.Config) {
			cfg.Retry.JitterSource, cfg.Maps.PollInterval = func() float64 { return 1 - 1e-12 }, 100*time.Millisecond
		}).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		for i := 3; i > 0; i-- {
			require.NoError(t, m.RemoveNode(i))
			before := m.Frames(memd.OpGetClusterConfig)
			time.Sleep(3 * time.Second)
			require.GreaterOrEqual(t, m.Frames(memd.OpGetClusterConfig)-before, 25)
			mp, _ := b.Map()
			require.Len(t, mp.Nodes, i)
		}
	})
}
