package core_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"net"
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

// CB-1: a failure before anything was sent, one without an answer and one with an answer are told apart.
func TestTheStagesOfFailureAreToldApart_CB1(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(1).Addr())
		stage := func() (retry.Stage, bool) {
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Retry: never}})
			var e *kv.Error
			require.ErrorAs(t, err, &e)
			return e.Retry.Stage, e.Ambiguous()
		}
		in := m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail))
		s, inDoubt := stage()
		require.Equal(t, retry.StageResponse, s)
		require.False(t, inDoubt)
		in.Remove()
		in = m.Inject(only(memd.OpSet, 0), mock.CloseBefore())
		s, inDoubt = stage()
		require.Equal(t, retry.StageNetwork, s)
		require.True(t, inDoubt)
		in.Remove()
		require.NoError(t, m.Kill(1))
		time.Sleep(100 * time.Millisecond)
		s, inDoubt = stage()
		require.Equal(t, retry.StageDispatch, s)
		require.False(t, inDoubt)
	})
}

// CB-2, CB-10, D72: a write that cannot be sent yet waits for the node and is sent once.
func TestAWriteWaitsForItsNode_CB2_D72(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(1).Addr())
		require.NoError(t, m.Kill(1))
		time.Sleep(200 * time.Millisecond)
		before := m.Frames(memd.OpSet)
		f := kv.Start(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v")})
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, m.Respawn(1))
		res, err := f.Wait(ctx(t))
		require.NoError(t, err)
		require.Equal(t, 1, m.Frames(memd.OpSet)-before)
		require.Zero(t, res.RetryInfo().Counted, "nothing was sent in vain")
		require.True(t, res.RetryInfo().Reasons.Has(retry.SocketNotAvailable))
	})
}

// CB-7: a call that is retried holds up none that came after it, not even on the same connection.
func TestARetriedCallHoldsUpNoOther_CB7(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		m.Inject(only(memd.OpGet, 1), mock.NotMyVBucket(true, nil))
		began := time.Now()
		first := kv.Start(ctx(t), b, kv.Get{Key: key})
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		res, err := first.Wait(ctx(t))
		require.NoError(t, err)
		require.Equal(t, time.Millisecond, time.Since(began))
		require.Equal(t, "v", string(res.Value), "it was sent again after the later one")
	})
}

// CB-16, D14: a strategy that blocks delays its own call only.
func TestAStrategyThatBlocksDelaysItsOwnCallOnly_CB16(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		slow := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
			time.Sleep(200 * time.Millisecond)
			return retry.After(0)
		})
		m.Inject(only(memd.OpSet, 1), mock.Status(memd.StatusTmpFail))
		began := time.Now()
		f := kv.Start(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Retry: slow}})
		synctest.Wait()
		for range 100 {
			_, err := kv.Do(ctx(t), b, kv.Insert{Key: key})
			require.Condition(t, func() bool { return err == nil || errors.Is(err, cberr.DocumentExists) })
		}
		require.Zero(t, time.Since(began))
		_, err := f.Wait(ctx(t))
		require.NoError(t, err)
		require.Equal(t, 200*time.Millisecond, time.Since(began))
	})
}

type robotKey struct{}

// CB-18: what the caller has put into the context is there for the strategy.
func TestAStrategySeesTheCallersContext_CB18(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail))
		noRobots := retry.Func(func(c context.Context, r *retry.Request, why retry.Reason) retry.Action {
			if r.Context.Value(robotKey{}) != nil {
				return retry.Stop()
			}
			return retry.BestEffort{}.RetryAfter(c, r, why)
		})
		for robot, want := range map[bool]bool{true: false, false: true} {
			c := ctx(t)
			if robot {
				c = context.WithValue(c, robotKey{}, true)
			}
			_, err := kv.Do(c, b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: noRobots}})
			require.Equal(t, want, errors.Is(err, cberr.Timeout))
		}
	})
}

// CB-29, D7: only 0x20 at SASL means bad credentials. What else may go wrong there is transient.
func TestOnlyARefusalMeansBadCredentials_CB29(t *testing.T) {
	for _, st := range []memd.Status{memd.StatusTmpFail, memd.StatusNotSupported, memd.StatusInternal} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
			in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSASLAuth, memd.OpSASLStep}}, mock.Status(st))
			b := open(t, m).Bucket("default")
			f := kv.Start(ctx(t), b, kv.Upsert{Key: []byte("k")})
			time.Sleep(300 * time.Millisecond)
			require.Positive(t, in.Fired())
			in.Remove()
			_, err := f.Wait(ctx(t))
			require.NoError(t, err, "%v", st)
		})
	}
}

// CB-30: a failed TLS handshake is a condition until one succeeds.
func TestATLSFailureIsForgottenAfterASuccess_CB30(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual(), mock.TLS())
		pool := x509.NewCertPool()
		var trusts sync.Map
		c := open(t, m, tlsHosts, func(cfg *core.Config) {
			cfg.TLS.Config = &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(tls.ConnectionState) error {
				if _, ok := trusts.Load("now"); ok {
					return nil
				}
				return &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
			}, RootCAs: pool}
		})
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.TLSFailure)
		trusts.Store("now", true)
		_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{
			Key:    []byte("k"),
			Common: kv.Common{Retry: retry.BestEffort{}, Timeout: 9 * time.Second},
		})
		require.NoError(t, err)
		require.NoError(t, m.Kill(0)) // and what is wrong now is something else
		time.Sleep(100 * time.Millisecond)
		_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Get{
			Key:    []byte("k"),
			Common: kv.Common{Timeout: 100 * time.Millisecond},
		})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.NotErrorIs(t, err, cberr.TLSFailure)
	})
}

// CB-32: no access is a condition of that bucket, and is forgotten when the bucket can be selected.
func TestNoAccessIsAConditionOfTheBucket_CB32(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Bucket("other", 8), mock.Virtual())
		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSelectBucket}, Func: func(p *memd.Packet) bool {
			return string(p.Key) == "other"
		}}, mock.Status(memd.StatusAccess))
		c := open(t, m)
		_, err := kv.Do(ctx(t), c.Bucket("other"), kv.Upsert{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.BucketAccess)
		_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		in.Remove()
		_, err = kv.Do(ctx(t), c.Bucket("other"), kv.Upsert{
			Key:    []byte("k"),
			Common: kv.Common{Retry: retry.BestEffort{}, Timeout: 9 * time.Second},
		})
		require.NoError(t, err)
		_, err = kv.Do(ctx(t), c.Bucket("other"), kv.Get{Key: []byte("k")})
		require.NoError(t, err)
	})
}

// CB-36: with TLS 1.3 a node says no to a missing client certificate after a good handshake, at the first read.
func TestAnAlertAfterTheHandshakeIsATLSFailure_CB36(t *testing.T) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{selfSigned(t)}, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13,
	})
	require.NoError(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				_, _ = nc.Read(make([]byte, 1)) // makes the handshake, and refuses
				_ = nc.Close()
			})
		}
	})
	c, err := core.Open(t.Context(), core.Config{
		Seeds: core.SeedConfig{Hosts: []string{l.Addr().String()}},
		TLS:   core.TLSConfig{Config: &tls.Config{InsecureSkipVerify: true}},
	})
	require.NoError(t, err)
	defer c.Close()
	_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.TLSFailure)
	require.NotErrorIs(t, err, cberr.Timeout)
}

// selfSigned is a certificate for this machine that no authority has signed.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// CB-36: a token that is refused is a refused login; one that is taken works. It never crosses a plaintext socket.
func TestTokens_CB36(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual(), mock.TLS(),
			mock.Token(canary, "Administrator"))
		with := func(token string, encrypted bool, r *recorder) *core.Bucket {
			return open(t, m, func(cfg *core.Config) {
				cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Token = "", core.Secret{}, core.NewSecret(token)
				if r != nil {
					cfg.Net.Dial = r.dial(cfg.Net.Dial)
				}
				if encrypted {
					tlsHosts(cfg)
					cfg.TLS.Config = trusting(m)
				}
				cfg.Auth.AllowPlain = true
			}).Bucket("default")
		}
		_, err := kv.Do(ctx(t), with(canary, true, nil), kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		_, err = kv.Do(ctx(t), with("another", true, nil), kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
		var r recorder
		_, err = kv.Do(ctx(t), with(canary, false, &r), kv.Get{
			Key:    []byte("k"),
			Common: kv.Common{Timeout: 100 * time.Millisecond},
		})
		require.Error(t, err)
		r.mu.Lock()
		defer r.mu.Unlock()
		require.False(t, bytes.Contains(r.all.Bytes(), []byte(canary)))
	})
}

// CB-41, CB-42, CB-43, CB-44, D86: every decision is in the log, whichever way it went.
func TestEveryDecisionIsLogged_CB41_CB44_D86(t *testing.T) {
	var mu sync.Mutex
	var out bytes.Buffer
	lines := func() (retried, refused []map[string]any) {
		synctest.Wait() // until they are written
		mu.Lock()
		defer mu.Unlock()
		for l := range bytes.Lines(out.Bytes()) {
			var m map[string]any
			require.NoError(t, json.Unmarshal(l, &m))
			switch m["msg"] {
			case "Retrying":
				retried = append(retried, m)
			case "Not retried":
				refused = append(refused, m)
			}
		}
		out.Reset()
		return retried, refused
	}
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		lines()
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 2}, mock.Status(memd.StatusTmpFail))
		m.Inject(only(memd.OpSet, 1), mock.NotMyVBucket(true, nil))
		res, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("the-key"), Value: []byte("the-value")})
		require.NoError(t, err)
		require.Equal(t, 3, res.RetryInfo().Retries())
		retried, refused := lines()
		require.Empty(t, refused)
		require.Len(t, retried, 3)
		for i, why := range []string{"KV_NOT_MY_VBUCKET", "KV_TEMPORARY_FAILURE", "KV_TEMPORARY_FAILURE"} {
			l := retried[i]
			require.Equal(t, "DEBUG", l["level"])
			require.Equal(t, why, l["reason"], "%v", l)
			require.Equal(t, "upsert", l["operation"])
			require.EqualValues(t, i, l["retries"])
			require.NotEmpty(t, l["operation_id"])
			require.NotNil(t, l["delay"])
			require.NotContains(t, l, "the-key")
		}
		m.Inject(only(memd.OpSet, 1), mock.Status(memd.StatusTmpFail))
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: []byte("the-key"), Common: kv.Common{Retry: never}})
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		retried, refused = lines()
		require.Empty(t, retried)
		require.Len(t, refused, 1)
		require.Equal(t, "KV_TEMPORARY_FAILURE", refused[0]["reason"])
		require.Equal(t, "upsert", refused[0]["operation"])
	}, func(c *core.Config) {
		c.Observe.Log = slog.New(slog.NewJSONHandler(&lockedWriter{&mu, &out},
			&slog.HandlerOptions{Level: slog.LevelDebug}))
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

// CB-46, CB-47: a delay that goes beyond the deadline ends there, and nothing is sent.
func TestADelayBeyondTheDeadlineSendsNothing_CB46_CB47(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		in := m.Inject(only(memd.OpSet, 0), mock.Status(memd.StatusTmpFail))
		began := time.Now()
		s := retry.BestEffort{Backoff: retry.Schedule(2*time.Second, time.Second)}
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: s}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Equal(t, 2500*time.Millisecond, time.Since(began))
		require.Equal(t, 2, in.Fired())
	})
}

// CB-67: the client's own requests for a cluster map are sent once each, whatever the answer.
func TestARequestForAMapIsSentOnce_CB67(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		in := m.Inject(only(memd.OpGetClusterConfig, 0), mock.Status(memd.StatusTmpFail))
		time.Sleep(10*2500*time.Millisecond + time.Second)
		require.Equal(t, 10, in.Fired())
	}, func(c *core.Config) { c.Retry.Strategy = retry.BestEffort{} })
}

// GA6-42, I9: a call whose connection dies before the call was written goes over another one, which is no attempt.
func TestALostRaceIsNoAttempt_GA642(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(1).Addr())
		for _, l := range m.Network().Links() {
			if l.RemoteAddr() == m.Node(1).Addr() {
				l.Up().FailAfter(0, errors.New("cable pulled")) // no byte of what is written now goes out
			}
		}
		before := m.Frames(memd.OpSet)
		res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v"), Common: kv.Common{Retry: never}})
		require.NoError(t, err)
		require.Zero(t, res.RetryInfo().Counted)
		require.Equal(t, 1, m.Frames(memd.OpSet)-before)
	})
}

// GA6-43, D2: the first re-route is free, the second follows the backoff, even if the vbucket has moved again.
func TestOnlyTheFirstRerouteIsFree_GA643(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		vb, _, _ := b.Locate(key)
		require.NoError(t, m.MoveVBucket("default", int(vb), 1))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Nodes: []int{1}, Times: 1}, mock.NotMyVBucket(true,
			nil))
		began := time.Now()
		res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
		require.NoError(t, err)
		require.Equal(t, time.Millisecond, time.Since(began))
		require.Equal(t, 2, res.RetryInfo().Transparent)
		require.Zero(t, res.RetryInfo().Counted)
		require.Equal(t, []time.Duration{0, time.Millisecond}, []time.Duration{
			res.RetryInfo().Log[0].Delay,
			res.RetryInfo().Log[1].Delay,
		})
	})
}

// D75: a lost connection is one whatever it was made of, and whatever error it ended with.
func TestALostConnectionIsRecognised_D75(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "TLS": true} {
		for what, lose := range map[string]func(*mock.Link){
			"reset":       func(l *mock.Link) { l.Reset() },
			"end of file": func(l *mock.Link) { l.Down().EndAfter(0) },
			"other error": func(l *mock.Link) { l.Up().FailAfter(0, net.ErrClosed) }, // shows at the next write
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual(), mock.TLS())
					b := open(t, m, func(cfg *core.Config) {
						if encrypted {
							tlsHosts(cfg)
							cfg.TLS.Config = trusting(m)
						}
					}).Bucket("default")
					require.NoError(t, b.WaitReady(ctx(t)))
					_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
					require.NoError(t, err)
					in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet, memd.OpTouch}, Times: 2}, mock.Drop())
					read := kv.Start(ctx(t), b, kv.Get{Key: []byte("k")})
					write := kv.Start(ctx(t), b, kv.Touch{Key: []byte("k")})
					require.NoError(t, in.WaitFired(ctx(t), 2))
					for _, l := range m.Network().Links() {
						lose(l)
					}
					_, err = kv.Do(ctx(t), b, kv.Noop{})
					require.NoError(t, err)
					res, err := read.Wait(ctx(t))
					require.NoError(t, err)
					require.Equal(t, retry.SocketClosedWhileInFlight, res.RetryInfo().Reason)
					_, err = write.Wait(ctx(t))
					require.ErrorIs(t, err, cberr.RequestCanceled)
					var e *kv.Error
					require.ErrorAs(t, err, &e)
					require.True(t, e.Ambiguous())
				})
			})
		}
	}
}
