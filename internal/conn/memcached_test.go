package conn_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// memcached is a second opinion on framing, and on SCRAM: its cryptography is Cyrus SASL's. It knows no HELLO, no bucket
// and no vbucket, so these connections are bare.

// failing ends a call with what the status means, as a dispatcher does when it will not retry.
type failing struct{ nobody }

func (failing) Answered(_ *conn.Conn, c *kv.Call, p *memd.Packet) {
	c.Share()
	c.Fail(c.StatusError(p, kv.Classify(c.Req.Opcode, p.Status, c.Req.CAS != 0)))
}

func bareOptions(user, password string, mechanisms ...string) *conn.Options {
	return &conn.Options{
		Dial: (&net.Dialer{}).DialContext, Base: time.Now(), Handler: failing{}, Bare: true, Mechanisms: mechanisms, AllowPlain: true,
		Credentials: func(context.Context) (conn.Credentials, error) {
			return conn.Credentials{Username: user, Password: password}, nil
		},
	}
}

// bare connects to a memcached and serves the connection until the test ends.
func bare(t *testing.T, addr string, o *conn.Options) *dispatcher {
	t.Helper()
	cn, err := conn.Connect(t.Context(), addr, o)
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		_ = cn.Serve()
		close(served)
	}()
	t.Cleanup(func() {
		cn.Close(nil)
		<-served
	})
	return &dispatcher{cn: cn, base: o.Base, pool: make(chan *kv.Call, 64)}
}

func TestMemcachedUnderstandsOurFrames(t *testing.T) {
	s := testkit.Memcached(t, false)
	d := bare(t, s.Addr, bareOptions("", ""))
	ctx := t.Context()

	w, err := kv.Do(ctx, d, kv.Upsert{Key: []byte("k"), Value: []byte("value"), Flags: 0x02000006})
	require.NoError(t, err)
	r, err := kv.Do(ctx, d, kv.Get{Key: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, "value", string(r.Value))
	require.Equal(t, w.CAS, r.CAS)
	require.EqualValues(t, 0x02000006, r.Flags)

	_, err = kv.Do(ctx, d, kv.Insert{Key: []byte("k"), Value: []byte("x")})
	require.ErrorIs(t, err, cberr.DocumentExists)
	_, err = kv.Do(ctx, d, kv.Replace{Key: []byte("k"), Value: []byte("x"), CAS: w.CAS + 1})
	require.ErrorIs(t, err, cberr.CASMismatch)
	_, err = kv.Do(ctx, d, kv.Append{Key: []byte("k"), Value: []byte("+")})
	require.NoError(t, err)
	_, err = kv.Do(ctx, d, kv.Prepend{Key: []byte("k"), Value: []byte("-")})
	require.NoError(t, err)
	r, err = kv.Do(ctx, d, kv.GetAndTouch{Key: []byte("k"), Expiry: kv.ExpireAfter(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, "-value+", string(r.Value))
	initial := uint64(7)
	n, err := kv.Do(ctx, d, kv.Increment{Key: []byte("n"), Delta: 1, Initial: &initial})
	require.NoError(t, err)
	require.EqualValues(t, 7, n.Value)
	n, err = kv.Do(ctx, d, kv.Decrement{Key: []byte("n"), Delta: 9})
	require.NoError(t, err)
	require.Zero(t, n.Value, "a counter stops at 0")
	_, err = kv.Do(ctx, d, kv.Remove{Key: []byte("k")})
	require.NoError(t, err)
	_, err = kv.Do(ctx, d, kv.Get{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.DocumentNotFound, "an error body that is plain text disturbs nothing")
	_, err = kv.Do(ctx, d, kv.Noop{})
	require.NoError(t, err)
}

func TestMemcachedAnswersAThousandRequestsInFlight(t *testing.T) {
	s := testkit.Memcached(t, false)
	d := bare(t, s.Addr, bareOptions("", ""))
	big := bytes.Repeat([]byte("x"), 100_000) // more than one write takes, and more than one read
	var all []kv.Future[kv.MutationResult]
	for i := range 1000 {
		value := fmt.Appendf(nil, "value-%d", i)
		if i%100 == 0 {
			value = big
		}
		all = append(all, kv.Start(t.Context(), d, kv.Upsert{Key: fmt.Appendf(nil, "key-%d", i), Value: value}))
	}
	for _, f := range all {
		_, err := f.Wait(t.Context())
		require.NoError(t, err)
	}
	for i := range 1000 {
		r, err := kv.Do(t.Context(), d, kv.Get{Key: fmt.Appendf(nil, "key-%d", i)})
		require.NoError(t, err)
		if i%100 == 0 {
			require.True(t, bytes.Equal(big, r.Value))
		} else {
			require.Equal(t, fmt.Sprint("value-", i), string(r.Value))
		}
	}
}

func TestMemcachedLoginByEveryMechanism(t *testing.T) {
	s := testkit.Memcached(t, true)
	for _, mechanism := range []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", "PLAIN"} {
		d := bare(t, s.Addr, bareOptions(testkit.MemcachedUser, testkit.MemcachedPassword, mechanism))
		require.Equal(t, mechanism, d.cn.Info().Mechanism)
		_, err := kv.Do(t.Context(), d, kv.Upsert{Key: []byte("k"), Value: []byte(mechanism)})
		require.NoError(t, err, mechanism)

		_, err = conn.Connect(t.Context(), s.Addr, bareOptions(testkit.MemcachedUser, "guessed", mechanism))
		require.ErrorIs(t, err, cberr.AuthenticationFailure, mechanism)
		var ce *conn.ConnectError
		require.ErrorAs(t, err, &ce)
		require.Equal(t, memd.StatusAuthError, ce.Status, mechanism)
		require.NotContains(t, err.Error(), "guessed")
	}
	d := bare(t, s.Addr, bareOptions(testkit.MemcachedUser, testkit.MemcachedPassword))
	require.Equal(t, "SCRAM-SHA512", d.cn.Info().Mechanism, "the strongest that both have")
}

// tampering changes the first character of every server signature that is read through it.
type tampering struct{ net.Conn }

func (c tampering) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if i := bytes.Index(b[:n], []byte("v=")); i >= 0 && i+2 < n {
		if b[i+2] == 'A' {
			b[i+2] = 'B'
		} else {
			b[i+2] = 'A'
		}
	}
	return n, err
}

func TestAServerSignatureThatIsWrongIsRefused(t *testing.T) {
	s := testkit.Memcached(t, true)
	for _, mechanism := range []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1"} {
		o := bareOptions(testkit.MemcachedUser, testkit.MemcachedPassword, mechanism)
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return tampering{nc}, err
		}
		_, err := conn.Connect(t.Context(), s.Addr, o)
		require.ErrorContains(t, err, "signature is wrong", mechanism)
		require.NotErrorIs(t, err, cberr.AuthenticationFailure, "it was the server that failed to prove itself")
	}
}
