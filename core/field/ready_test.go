package field_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// refuses answers an opcode with a status on a node.
func refuses(n *scripted.Node, op memd.Opcode, status memd.Status) {
	n.SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != op {
			return false
		}
		s.Reply(p, status, nil, nil)
		return true
	})
}

// One seed is not of the cluster any more and refuses, another one works and is slower: waiting ends when that one is
// ready.
func TestOneSeedThatRefusesDoesNotEndWaitReady_D130(t *testing.T) {
	for name, refusal := range map[string]struct {
		op     memd.Opcode
		status memd.Status
	}{
		"the bucket": {memd.OpSelectBucket, memd.StatusAccess},
		"the login":  {memd.OpSASLAuth, memd.StatusAuthError},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New(t, 2)
			s.Map = func(_ *scripted.Node, bucket string) []byte {
				return s.Render(scripted.Spec{Bucket: bucket, Live: []int{1}})
			}
			refuses(s.Nodes[0], refusal.op, refusal.status)
			s.Nodes[1].SetHook(func(_ *scripted.Session, p *memd.Packet) bool {
				if p.Opcode == memd.OpHello {
					time.Sleep(100 * time.Millisecond)
				}
				return false
			})
			c := open(t, s, saslPlainOnly("pw"))
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(within(t, 2*time.Second)))
			require.NoError(t, upsert(t, b))
			require.NoError(t, c.WaitReady(within(t, 2*time.Second)))
		})
	}
}

func saslPlainOnly(password string) func(*core.Config) {
	return func(cfg *core.Config) {
		cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.AllowPlain, cfg.Auth.Mechanisms = "u", core.NewSecret(password),
			true, []string{"PLAIN"}
	}
}

// Credentials that replace refused ones are used at once, and the refusals are forgotten.
func TestNewCredentialsAfterRefusals_D130(t *testing.T) {
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != memd.OpSASLAuth || bytes.HasSuffix(p.Value, []byte("new")) {
			return false
		}
		s.Reply(p, memd.StatusAuthError, nil, nil)
		return true
	})
	c := open(t, s, saslPlainOnly("old"))
	b := c.Bucket("default")
	require.Eventually(t, func() bool { return s.Nodes[0].Accepted() > 4 }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, c.SetCredentials(core.Credentials{Username: "u", Password: core.NewSecret("new")}))
	require.NoError(t, upsert(t, b))
	require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
	require.NoError(t, c.WaitReady(context.Background()))
}
