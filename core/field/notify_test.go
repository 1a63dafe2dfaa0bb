package field_test

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// encoded is packets in one piece.
func encoded(t *testing.T, ps ...memd.Packet) (all []byte) {
	t.Helper()
	for _, p := range ps {
		var err error
		all, err = p.AppendTo(all)
		require.NoError(t, err)
	}
	return all
}

// A node may tell of a newer map at any time of the handshake, cut into any segments: the client gets that map, although no poll asks
// nodes that tell by themselves.
func TestANotificationInTheHandshakeIsNotLost_D135(t *testing.T) {
	pieces := func(size int) func(s *scripted.Session, b []byte) {
		return func(s *scripted.Session, b []byte) {
			for ; len(b) > 0; b = b[min(size, len(b)):] {
				s.Raw(b[:min(size, len(b))])
				time.Sleep(time.Microsecond)
			}
		}
	}
	places := map[string]memd.Opcode{"before SELECT_BUCKET": memd.OpSelectBucket, "before the map": memd.OpGetClusterConfig, "behind the map": 0}
	segments := map[string]func(s *scripted.Session, b []byte){
		"in one": (*scripted.Session).Raw, "of a byte": pieces(1), "of seven bytes": pieces(7),
	}
	for where, op := range places {
		for how, write := range segments {
			for kind, whole := range map[string]bool{"brief": false, "whole": true} {
				t.Run(kind+" "+where+", segments "+how, func(t *testing.T) { notifies(t, op, whole, write) })
			}
		}
	}
}

// notifies is a node whose first map is the older one: it tells of the newer one before the answer to op, or behind the first map
// if op is 0.
func notifies(t *testing.T, op memd.Opcode, whole bool, write func(s *scripted.Session, b []byte)) {
	answer := func(p *memd.Packet, value []byte) memd.Packet {
		a := memd.Packet{Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque, Value: value}
		if value != nil {
			a.Datatype = memd.DatatypeJSON
		}
		return a
	}
	virtualScripted(t, 1, func(t *testing.T, s *scripted.Cluster, change func(*core.Config)) {
		s.Features[memd.FeatureClustermapChange], s.Features[memd.FeatureClustermapChangeBrief] = whole, !whole
		first, newest := s.Render(scripted.Spec{Bucket: "default"}), s.Render(scripted.Spec{Bucket: "default", Rev: 2})
		push := memd.Packet{Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange, Key: []byte("default")}
		push.Extras = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1), 2)
		if whole {
			push.Value, push.Datatype = newest, memd.DatatypeJSON
		}
		var gave atomic.Bool // the first map
		s.Nodes[0].SetHook(func(session *scripted.Session, p *memd.Packet) bool {
			switch {
			case p.Opcode == memd.OpSelectBucket && op == p.Opcode && !gave.Load():
				write(session, encoded(t, push, answer(p, nil)))
			case p.Opcode == memd.OpGetClusterConfig && gave.Swap(true):
				session.ReplyTyped(p, 0, memd.DatatypeJSON, nil, newest)
			case p.Opcode == memd.OpGetClusterConfig && op == 0:
				write(session, encoded(t, answer(p, first), push))
			case p.Opcode == memd.OpGetClusterConfig && op == p.Opcode:
				write(session, encoded(t, push, answer(p, first)))
			case p.Opcode == memd.OpGetClusterConfig:
				write(session, encoded(t, answer(p, first)))
			default:
				return false
			}
			return true
		})
		b := ready(t, s, change)
		time.Sleep(time.Second)
		m, ok := b.Map()
		require.True(t, ok)
		require.EqualValues(t, 2, m.Rev)
	})
}
