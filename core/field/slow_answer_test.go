package field_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// A long answer that arrives slowly holds up no other call's request on its connection.
func TestALongAnswerDelaysNoOtherRequest_D145(t *testing.T) {
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(session *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != memd.OpNoop {
			return false
		}
		var header [memd.HeaderLen]byte
		header[0], header[1] = byte(memd.MagicRes), byte(memd.OpNoop)
		binary.BigEndian.PutUint32(header[8:], 16<<20) // of a body that has not come yet
		session.Raw(header[:])
		return true
	})
	b := ready(t, s, func(c *core.Config) { c.KV.Connections, c.Maps.PollInterval = 1, time.Hour })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kv.Start(ctx, b, kv.Noop{Common: kv.Common{Timeout: time.Minute}})
	require.Eventually(t, func() bool { return s.Nodes[0].Requests(memd.OpNoop) == 1 }, 20*time.Second,
		time.Millisecond)
	time.Sleep(50 * time.Millisecond) // the header is read
	for n := range 3 {
		kv.Start(ctx, b, kv.Get{Common: kv.Common{Timeout: time.Minute}, Key: []byte("k")})
		require.Eventually(t, func() bool { return s.Nodes[0].Requests(memd.OpGet) == n+1 }, 20*time.Second,
			time.Millisecond, "request %d reaches the server", n)
	}
}
