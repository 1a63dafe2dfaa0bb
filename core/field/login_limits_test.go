package field_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// saslPlainLogin logs in by PLAIN, which a scripted node takes.
func saslPlainLogin(c *core.Config) {
	c.Auth.Username, c.Auth.Password, c.Auth.Mechanisms, c.Auth.AllowPlain = "u", core.NewSecret("p"),
		[]string{"PLAIN"}, true
}

// TestALoginIsBounded_D142: what a node sends before the login has succeeded is anyone's, and takes no memory worth the
// name.
func TestALoginIsBounded_D142(t *testing.T) {
	const size = 8 << 20
	for _, op := range []memd.Opcode{memd.OpHello, memd.OpSASLListMechs, memd.OpSASLAuth, memd.OpSASLStep} {
		t.Run(op.String(), func(t *testing.T) {
			s := scripted.New(t, 1)
			huge := bytes.Repeat([]byte("A "), size/2)
			s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
				if op == memd.OpSASLStep && p.Opcode == memd.OpSASLAuth {
					nonce := p.Value[bytes.Index(p.Value, []byte("r="))+2:]
					s.Reply(p, memd.StatusAuthContinue, nil,
						[]byte("r="+string(nonce)+"x,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=4000"))
					return true
				}
				if p.Opcode != op {
					return false
				}
				head := memd.Header{Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque, BodyLen: size}
				s.Raw(memd.AppendHeader(nil, head))
				s.Raw(huge)
				return true
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c := open(t, s, saslPlainLogin, func(c *core.Config) {
				if op == memd.OpSASLStep {
					c.Auth.Mechanisms = []string{"SCRAM-SHA1"}
				}
			})
			err := c.Bucket("default").WaitReady(within(t, 300*time.Millisecond))
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, op.String())
			require.ErrorContains(t, err, "body length is 8388608")
			require.ErrorContains(t, err, "limit 4096")
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
		})
	}
}

// TestALoginGoesOnWithoutAHugeErrorMap_D142: the error map comes before the login too, and nothing depends on it.
func TestALoginGoesOnWithoutAHugeErrorMap_D142(t *testing.T) {
	s := scripted.New(t, 1)
	s.ErrorMap = `{"version":2,"revision":1,"errors":{}}` + string(bytes.Repeat([]byte(" "), 512<<10))
	b := ready(t, s, saslPlainLogin)
	require.NoError(t, upsert(t, b))
}
