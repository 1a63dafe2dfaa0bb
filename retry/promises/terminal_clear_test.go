package promises_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

func get(ctx context.Context, b *core.Bucket, key string) error {
	_, err := kv.Do(ctx, b, kv.Get{Key: []byte(key), Common: kv.Common{Timeout: 100 * time.Millisecond}})
	return err
}

// reasons are all reasons of a failed call.
func reasons(t *testing.T, err error) retry.Reasons {
	t.Helper()
	info, ok := retry.InfoOf(err)
	require.True(t, ok, "%v", err)
	return info.Reasons
}

// TLS_ERROR is over when a later connection of the node has passed the handshake, whatever is said after it.
func TestTLSErrorIsClearedByAnyLaterHandshake(t *testing.T) {
	for name, fault := range map[string]struct {
		op    memd.Opcode
		fault mock.Fault
	}{
		"HELLO is not answered":    {memd.OpHello, mock.DropReply()},
		"HELLO is refused":         {memd.OpHello, mock.Status(memd.StatusInternal)},
		"SASL is not answered":     {memd.OpSASLAuth, mock.DropReply()},
		"SASL has trouble":         {memd.OpSASLAuth, mock.Status(memd.StatusTmpFail)},
		"the bucket is not there":  {memd.OpSelectBucket, mock.Status(memd.StatusKeyNotFound)},
		"the connection is closed": {memd.OpHello, mock.CloseBefore()},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				var fine atomic.Bool
				cl := client(t, m, encrypted(m), func(cfg *core.Config) {
					cfg.Net.ReconnectMax = 100 * time.Millisecond
					cfg.TLS.Config.VerifyConnection = func(tls.ConnectionState) error {
						if fine.Load() {
							return nil
						}
						return errors.New("not on the list")
					}
				})
				m.Inject(mock.Match{Opcodes: []memd.Opcode{fault.op}}, fault.fault)
				b := cl.Bucket("default")
				require.ErrorIs(t, get(within(t, time.Second), b, "k"), cberr.TLSFailure)
				fine.Store(true)
				time.Sleep(time.Second)
				err := get(within(t, time.Second), b, "k")
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.NotErrorIs(t, err, cberr.TLSFailure)
				require.False(t, reasons(t, err).Has(retry.TLSError))
			}, mock.Nodes(1), mock.TLS())
		})
	}
}

// AUTHENTICATION_ERROR is over when the node has accepted a login, whatever it says of the bucket.
func TestAuthenticationErrorIsClearedByAnyLaterLogin(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		cl := client(t, m, func(cfg *core.Config) {
			cfg.Auth.Password, cfg.Net.ReconnectMax = core.NewSecret("new"), 100*time.Millisecond
		})
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSelectBucket}}, mock.DropReply())
		b := cl.Bucket("default")
		require.ErrorIs(t, get(within(t, time.Second), b, "k"), cberr.AuthenticationFailure)
		require.NoError(t, m.SetPassword(mock.DefaultUser, "new"))
		time.Sleep(time.Second)
		err := get(within(t, time.Second), b, "k")
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.NotErrorIs(t, err, cberr.AuthenticationFailure)
	}, mock.Nodes(1))
}

// BUCKET_ACCESS_ERROR is the bucket's: any node that lets the bucket be selected ends it, while another one still
// refuses.
func TestBucketAccessErrorIsClearedByAnyNode(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		refused := m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpSelectBucket}},
			mock.Status(memd.StatusAccess))
		late := m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpSelectBucket}, Times: 1},
			mock.Status(memd.StatusAccess))
		cl := client(t, m)
		b := cl.Bucket("default")
		require.ErrorIs(t, get(within(t, time.Second), b, "k"), cberr.BucketAccess)
		require.NoError(t, late.WaitFired(within(t, time.Second), 1))
		time.Sleep(time.Second) // node 1 has let it be selected, node 0 goes on refusing
		require.Greater(t, refused.Fired(), 1)
		var waited int
		for i := range 16 {
			key := string([]byte{'k', byte(i)})
			_, nodes, ok := b.Locate([]byte(key))
			require.True(t, ok)
			err := get(within(t, time.Second), b, key)
			if nodes[0] == m.Node(1).Addr() {
				require.ErrorIs(t, err, cberr.DocumentNotFound)
				continue
			}
			waited++
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.False(t, reasons(t, err).Has(retry.BucketAccessError))
		}
		require.Positive(t, waited)
		refused.Remove()
		time.Sleep(5 * time.Second)
		require.NoError(t, b.WaitReady(within(t, time.Second)))
	})
}

// BUCKET_ACCESS_ERROR is one bucket's alone.
func TestBucketAccessErrorIsOfOneBucket(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		cl := client(t, m, func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password = "app",
				core.NewSecret("secret")
		})
		require.ErrorIs(t, get(within(t, time.Second), cl.Bucket("default"), "k"), cberr.BucketAccess)
		require.ErrorIs(t, get(within(t, time.Second), cl.Bucket("other"), "k"), cberr.DocumentNotFound)
	}, mock.Bucket("other", 64), mock.User("app", "secret", "other"))
}

// AUTHENTICATION_ERROR is an explicit refusal of the credentials at the SASL step, and nothing else that goes wrong
// there.
func TestOtherSASLTroubleIsNoAuthenticationError(t *testing.T) {
	for name, c := range map[string]struct {
		op    memd.Opcode
		fault mock.Fault
	}{
		"temporary failure":             {memd.OpSASLAuth, mock.Status(memd.StatusTmpFail)},
		"internal failure":              {memd.OpSASLStep, mock.Status(memd.StatusInternal)},
		"a first message without sense": {memd.OpSASLAuth, rewrite("nonsense")},
		"a wrong nonce":                 {memd.OpSASLAuth, rewrite("r=abc,s=c2FsdHNhbHRzYWx0,i=4096")},
		"too few iterations":            {memd.OpSASLAuth, rewrite("r=abc,s=c2FsdHNhbHRzYWx0,i=1")},
		"a last message without sense":  {memd.OpSASLStep, rewrite("nonsense")},
		"a wrong proof":                 {memd.OpSASLStep, rewrite("v=AAAA")},
		"an error with a good status":   {memd.OpSASLStep, rewrite("e=other-error")},
		"the connection is closed":      {memd.OpSASLStep, mock.CloseBefore()},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				m.Inject(mock.Match{Opcodes: []memd.Opcode{c.op}}, c.fault)
				err := get(within(t, time.Second), client(t, m).Bucket("default"), "k")
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.NotErrorIs(t, err, cberr.AuthenticationFailure)
				require.False(t, reasons(t, err).Has(retry.AuthenticationError))
			})
		})
	}
}

// An error of SCRAM that is about the credentials is such a refusal, whatever the status beside it.
func TestARefusedProofIsAnAuthenticationErrorWhateverItsStatus(t *testing.T) {
	// the last is CouchbaseMock's
	for _, text := range []string{"e=invalid-proof", "e=unknown-user", "v=AAAA,e=failed"} {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSASLStep}}, rewrite(text))
			err := get(within(t, time.Second), client(t, m).Bucket("default"), "k")
			require.ErrorIs(t, err, cberr.AuthenticationFailure, text)
			require.True(t, reasons(t, err).Has(retry.AuthenticationError), text)
		})
	}
}

func rewrite(text string) mock.Fault {
	return mock.Rewrite(func(_, rep *memd.Packet) { rep.Value = []byte(text) })
}

// slowToEnd is a connection whose Close takes delay once.
type slowToEnd struct {
	net.Conn
	delay *atomic.Int64
	slow  *atomic.Bool // it is taking that long now
}

func (c *slowToEnd) Close() error {
	if d := c.delay.Swap(0); d > 0 {
		c.slow.Store(true)
		time.Sleep(time.Duration(d))
		c.slow.Store(false)
	}
	return c.Conn.Close()
}

// A refusal that is noted after its node has left is dropped: the end of its connection has held it up.
func TestAConditionOfANodeThatHasLeftIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		var delay atomic.Int64
		var slow atomic.Bool
		m.Inject(mock.Match{Nodes: []int{2}, Opcodes: []memd.Opcode{memd.OpSASLStep}},
			mock.Status(memd.StatusAuthError))
		cl := client(t, m, func(cfg *core.Config) {
			cfg.Net.ReconnectMax = 100 * time.Millisecond
			dial := cfg.Net.Dial
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				if err == nil && addr == m.Node(2).Addr() {
					nc = &slowToEnd{nc, &delay, &slow}
				}
				return nc, err
			}
		})
		b := cl.Bucket("default")
		time.Sleep(time.Second) // the others work
		delay.Store(int64(5 * time.Second))
		time.Sleep(time.Second)
		require.True(t, slow.Load(), "node 2 has refused again, and that is not noted yet")
		require.NoError(t, m.Failover(2))
		time.Sleep(time.Second)
		require.True(t, slow.Load())
		time.Sleep(20 * time.Second)
		require.False(t, slow.Load())
		silence(m, 0)
		silence(m, 1)
		m.Network().ResetAll()
		time.Sleep(20 * time.Millisecond)
		err := get(within(t, time.Second), b, "k")
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.NotErrorIs(t, err, cberr.AuthenticationFailure)
	}, mock.Nodes(3))
}
