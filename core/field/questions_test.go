package field_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// TestAPasswordWithoutAName: it was ignored, and the connection was made without a login.
func TestAPasswordWithoutAName(t *testing.T) {
	_, err := core.Open(t.Context(), core.Config{Auth: core.AuthConfig{Password: core.NewSecret("p")}})
	var ce *core.ConfigError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, "Auth.Username", ce.Field)
	s := scripted.New(t, 1)
	c := open(t, s, func(c *core.Config) {
		c.Auth.Credentials = func(context.Context) (core.Credentials, error) {
			return core.Credentials{Password: core.NewSecret("p")}, nil
		}
	})
	require.ErrorContains(t, c.Bucket("default").WaitReady(within(t, 300*time.Millisecond)),
		"a Password without a Username")
	named := open(t, s, saslPlainLogin)
	require.ErrorAs(t, named.SetCredentials(core.Credentials{Password: core.NewSecret("q")}), &ce)
	require.Equal(t, "Auth.Username", ce.Field)
}

// TestFormsSeenInTheWild: what means something else than it says is refused, what RFC 6874 has is read.
func TestFormsSeenInTheWild(t *testing.T) {
	for s, field := range map[string]string{
		"couchbases://h:18091": "port", "couchbase://h:18091": "port", "http://h:18091": "port",
		"http://h:8091/pools": "bucket", "http://h/pools/": "bucket",
	} {
		_, err := core.ParseSpec(s)
		var ce *core.ConnStringError
		require.ErrorAs(t, err, &ce, s)
		require.Equal(t, field, ce.Field, s)
	}
	spec, err := core.ParseSpec("couchbase://h/pools")
	require.NoError(t, err)
	require.Equal(t, "pools", spec.Bucket)
	for _, s := range []string{"couchbase://[fe80::1%25eth0]", "couchbase://[fe80::1%eth0]"} {
		spec, err := core.ParseSpec(s)
		require.NoError(t, err)
		require.Equal(t, "fe80::1%eth0", spec.Hosts[0].Host)
		again, err := core.ParseSpec(spec.String())
		require.NoError(t, err)
		require.Equal(t, spec, again)
		cfg, err := spec.Config()
		require.NoError(t, err)
		require.Equal(t, []string{"[fe80::1%eth0]"}, cfg.Seeds.Hosts)
	}
}

// TestRefusalsOfHello: a node that does not know HELLO has no features; one that refuses it otherwise may have some.
func TestRefusalsOfHello(t *testing.T) {
	for status, works := range map[memd.Status]bool{
		memd.StatusUnknownCommand: true, memd.StatusNotSupported: true, memd.StatusInvalid: false,
		memd.StatusTmpFail: false,
	} {
		s := scripted.New(t, 1)
		s.Nodes[0].SetHook(answers(status, memd.OpHello))
		b := open(t, s).Bucket("default")
		if works {
			require.NoError(t, b.WaitReady(within(t, 2*time.Second)), status)
			require.NoError(t, upsert(t, b), status)
			continue
		}
		require.ErrorContains(t, b.WaitReady(within(t, 200*time.Millisecond)), "HELLO answered", status)
	}
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != memd.OpHello {
			return false
		}
		s.Reply(p, memd.StatusSuccess, nil, []byte{0, 1, 0})
		return true
	})
	require.ErrorContains(t, open(t, s).Bucket("default").WaitReady(within(t, 200*time.Millisecond)), "HELLO")
}
