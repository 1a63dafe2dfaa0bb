package handshake_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/memd"
)

// tapped sees the packets of both directions, and may change what the server sends.
type tapped struct {
	net.Conn
	change func(p *memd.Packet)

	mu       sync.Mutex
	requests []memd.Packet
	sent     []byte // received from the client, not yet a whole packet
	answers  []byte // received from the server, likewise
	ready    []byte // changed, not yet read
}

func (c *tapped) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.sent = append(c.sent, b...)
	for {
		var p memd.Packet
		n, err := p.Parse(c.sent, memd.DefaultLimit)
		if err != nil {
			break
		}
		p.Key, p.Value = bytes.Clone(p.Key), bytes.Clone(p.Value)
		c.requests = append(c.requests, p)
		c.sent = c.sent[n:]
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *tapped) Read(b []byte) (int, error) {
	for len(c.ready) == 0 {
		var p memd.Packet
		if n, err := p.Parse(c.answers, memd.DefaultLimit); err == nil {
			if c.change != nil {
				c.change(&p)
			}
			if c.ready, err = p.AppendTo(nil); err != nil {
				return 0, err
			}
			c.answers = c.answers[n:]
			break
		}
		part := make([]byte, 4096)
		n, err := c.Conn.Read(part)
		c.answers = append(c.answers, part[:n]...)
		if err != nil {
			return 0, err
		}
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// seen are the opcodes that the client has sent, and whether any of its packets held the text.
func (c *tapped) seen(text string) (ops []memd.Opcode, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.requests {
		ops = append(ops, p.Opcode)
		found = found || bytes.Contains(p.Value, []byte(text)) || bytes.Contains(p.Key, []byte(text))
	}
	return ops, found
}

// signIn connects as the user with a tap on the line, and proves that the login counts.
func signIn(t *testing.T, addr string, tap *tapped, change ...func(*handshake.Options)) (*handshake.Info, error) {
	t.Helper()
	o := &handshake.Options{
		Memcached: true, Timeout: 5 * time.Second, Credentials: as(testkit.MemcachedUser, testkit.MemcachedPassword),
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			tap.Conn = nc
			return tap, err
		},
	}
	for _, f := range change {
		f(o)
	}
	made, err := handshake.Connect(t.Context(), addr, o)
	if err != nil {
		return nil, err
	}
	defer made.Conn.Close()
	noop, err := (&memd.Packet{Magic: memd.MagicReq, Opcode: memd.OpGet, Key: []byte("absent")}).AppendTo(nil)
	require.NoError(t, err)
	_, err = made.Conn.Write(noop)
	require.NoError(t, err)
	var p memd.Packet
	in := make([]byte, 4096)
	n, err := made.Conn.Read(in)
	require.NoError(t, err)
	_, err = p.Parse(in[:n], 0)
	require.NoError(t, err)
	require.Equal(t, memd.StatusKeyNotFound, p.Status)
	return &made.Info, nil
}

// as are the credentials of a user.
func as(user, password string) func(context.Context, string) (handshake.Credentials, error) {
	return func(context.Context, string) (handshake.Credentials, error) {
		return handshake.Credentials{Username: user, Password: observe.NewSecret(password)}, nil
	}
}

func mechanisms(names ...string) func(*handshake.Options) {
	return func(o *handshake.Options) { o.Mechanisms = names }
}

func password(text string) func(*handshake.Options) {
	return func(o *handshake.Options) { o.Credentials = as(testkit.MemcachedUser, text) }
}

// Cyrus SASL stands behind memcached: its SCRAM shares no code with ours. The user's name has the two characters that
// SCRAM escapes.
func TestMemcachedSCRAM(t *testing.T) {
	s := testkit.Memcached(t, true)
	for ours, theirs := range map[string]string{
		"SCRAM-SHA512": "SCRAM-SHA-512", "SCRAM-SHA256": "SCRAM-SHA-256", "SCRAM-SHA1": "SCRAM-SHA-1",
	} {
		for _, asked := range []string{ours, theirs} {
			t.Run(asked, func(t *testing.T) {
				tap := &tapped{}
				info, err := signIn(t, s.Addr, tap, mechanisms(asked))
				require.NoError(t, err)
				require.Equal(t, ours, info.Mechanism)
				_, leaked := tap.seen(testkit.MemcachedPassword)
				require.False(t, leaked)
				require.Equal(t, theirs, string(tap.requests[1].Key), "the name as the server spells it")
			})
		}
	}
	t.Run("the strongest that both have", func(t *testing.T) {
		info, err := signIn(t, s.Addr, &tapped{})
		require.NoError(t, err)
		require.Equal(t, "SCRAM-SHA512", info.Mechanism)
	})
	t.Run("with kept keys", func(t *testing.T) {
		var ring handshake.Keyring
		for range 3 {
			_, err := signIn(t, s.Addr, &tapped{}, func(o *handshake.Options) { o.SCRAM = &ring })
			require.NoError(t, err)
		}
	})
}

func TestMemcachedSCRAMRefusesAWrongPasswordAndAnUnknownUser(t *testing.T) {
	s := testkit.Memcached(t, true)
	for _, m := range []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1"} {
		_, err := signIn(t, s.Addr, &tapped{}, mechanisms(m), password("guessed"))
		var ce *handshake.Error
		require.ErrorAs(t, err, &ce)
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
		require.Equal(t, handshake.StepAuthStep, ce.Step)
		require.Equal(t, memd.StatusAuthError, ce.Status)
		require.NotContains(t, err.Error(), "guessed")

		_, err = signIn(t, s.Addr, &tapped{}, mechanisms(m), func(o *handshake.Options) {
			o.Credentials = as("unknown", testkit.MemcachedPassword)
		})
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
	}
}

// An attacker who changes a message on the line does not get past the login, and the client believes no server that
// cannot prove that it knows the password.
func TestMemcachedSCRAMRefusesAChangedMessage(t *testing.T) {
	s := testkit.Memcached(t, true)
	// flip changes one character of the field's value.
	flip := func(v []byte, field string) {
		i := bytes.Index(v, []byte(field))
		require.GreaterOrEqual(t, i, 0, "%q has no %s", v, field)
		if i += len(field) + 2; v[i] == 'A' {
			v[i] = 'B'
		} else {
			v[i] = 'A'
		}
	}
	for name, tc := range map[string]struct {
		change  func(p *memd.Packet)
		step    handshake.Step
		refused bool // by the server; otherwise it is the client that ends it
	}{
		"signature": {func(p *memd.Packet) {
			if p.Opcode == memd.OpSASLStep {
				flip(p.Value, "v=")
			}
		}, handshake.StepAuthStep, false},
		"no signature": {func(p *memd.Packet) {
			if p.Opcode == memd.OpSASLStep {
				p.Value, p.Status = nil, memd.StatusSuccess
			}
		}, handshake.StepAuthStep, false},
		"nonce": {func(p *memd.Packet) {
			if p.Opcode == memd.OpSASLAuth {
				flip(p.Value, "r=")
			}
		}, handshake.StepAuth, false},
		"fewer iterations": {func(p *memd.Packet) {
			if p.Opcode == memd.OpSASLAuth {
				i := bytes.Index(p.Value, []byte("i="))
				p.Value = append(p.Value[:i:i], "i=1"...)
			}
		}, handshake.StepAuth, false},
		"salt": {func(p *memd.Packet) {
			if p.Opcode == memd.OpSASLAuth {
				flip(p.Value, "s=")
			}
		}, handshake.StepAuthStep, true},
	} {
		for _, m := range []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1"} {
			tap := &tapped{change: tc.change}
			_, err := signIn(t, s.Addr, tap, mechanisms(m))
			var ce *handshake.Error
			require.ErrorAs(t, err, &ce)
			require.Equal(t, tc.step, ce.Step, name)
			require.Equal(t, tc.refused, ce.Answered, name)
			if !tc.refused {
				// It is the line or the server that is not to be trusted, not the password that is wrong.
				require.NotErrorIs(t, err, cberr.AuthenticationFailure, name)
			}
			ops, _ := tap.seen("")
			require.Equal(t, tc.step == handshake.StepAuthStep, ops[len(ops)-1] == memd.OpSASLStep, "%s: %v", name, ops)
		}
	}
}

// PLAIN shows the password to the line, so it is spoken only where that is allowed.
func TestMemcachedSASLPlainOnlyWhenAllowed(t *testing.T) {
	s := testkit.Memcached(t, true)
	tap := &tapped{}
	_, err := signIn(t, s.Addr, tap, mechanisms("PLAIN"))
	require.ErrorContains(t, err, "no common authentication mechanism")
	ops, leaked := tap.seen(testkit.MemcachedPassword)
	require.Empty(t, ops)
	require.False(t, leaked)

	allowed := func(o *handshake.Options) { o.Mechanisms, o.AllowPlain = []string{"PLAIN"}, true }
	_, err = signIn(t, s.Addr, &tapped{}, allowed)
	require.NoError(t, err)
	_, err = signIn(t, s.Addr, &tapped{}, allowed, password("guessed"))
	require.ErrorIs(t, err, cberr.AuthenticationFailure)
}
