package field_test

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
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

// A node may tell of a newer map at any time of the handshake, cut into any segments: the client gets that map,
// although no poll asks nodes that tell by themselves.
func TestANotificationInTheHandshakeIsNotLost_D135(t *testing.T) {
	pieces := func(size int) func(s *scripted.Session, b []byte) {
		return func(s *scripted.Session, b []byte) {
			for ; len(b) > 0; b = b[min(size, len(b)):] {
				s.Raw(b[:min(size, len(b))])
				time.Sleep(time.Microsecond)
			}
		}
	}
	places := map[string]memd.Opcode{
		"before SELECT_BUCKET": memd.OpSelectBucket,
		"before the map":       memd.OpGetClusterConfig, "behind the map": 0,
	}
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

// notifies is a node whose first map is the older one: it tells of the newer one before the answer to op, or behind the
// first map if op is 0.
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

// notification tells of the map of that version, of bucket "default"; a brief one has no value.
func notification(rev uint64, value []byte) memd.Packet {
	p := memd.Packet{
		Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange, Key: []byte("default"),
		Value: value,
	}
	p.Extras = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1), rev)
	if value != nil {
		p.Datatype = memd.DatatypeJSON
	}
	return p
}

// Of several notifications in one handshake the newest map counts, wherever in the handshake each of them comes, and
// one that is too long for that place tells at least that there is a newer map.
func TestSeveralNotificationsInTheHandshake_D135(t *testing.T) {
	steps := []memd.Opcode{
		memd.OpHello, memd.OpGetErrorMap, memd.OpSASLListMechs, memd.OpSASLAuth, memd.OpSelectBucket,
		memd.OpGetClusterConfig,
	}
	type push struct {
		rev   uint64
		whole bool
		pad   int // bytes that the map has beside
	}
	for name, c := range map[string]struct {
		pushes []push
		newest int64
	}{
		"one":                         {[]push{{3, false, 0}}, 3},
		"growing":                     {[]push{{2, false, 0}, {3, false, 0}, {4, false, 0}}, 4},
		"the newest first":            {[]push{{4, false, 0}, {3, false, 0}, {2, false, 0}}, 4},
		"a version, and an older map": {[]push{{4, false, 0}, {2, true, 0}}, 4},
		"a map, and a newer version":  {[]push{{2, true, 0}, {4, false, 0}}, 4},
		"a map, and its version":      {[]push{{4, true, 0}, {4, false, 0}}, 4},
		"a long map":                  {[]push{{4, true, 100 << 10}}, 4},
		"another bucket's":            {nil, 1},
	} {
		for _, step := range steps {
			t.Run(name+" before the answer to "+step.String(), func(t *testing.T) {
				virtualScripted(t, 1, func(t *testing.T, s *scripted.Cluster, change func(*core.Config)) {
					s.Features[memd.FeatureClustermapChange], s.Features[memd.FeatureClustermapChangeBrief] = true, true
					var pushed, gave atomic.Bool
					s.Nodes[0].SetHook(func(session *scripted.Session, p *memd.Packet) bool {
						if p.Opcode == step && !pushed.Swap(true) {
							for _, n := range c.pushes {
								var value []byte
								if n.whole {
									value = append(s.Render(scripted.Spec{Bucket: "default", Rev: int64(n.rev)}),
										make([]byte, n.pad)...)
									for i := range n.pad {
										value[len(value)-1-i] = ' '
									}
								}
								session.Send(notification(n.rev, value))
							}
							other := notification(9, nil)
							other.Key = []byte("other")
							session.Send(other)
						}
						if p.Opcode == memd.OpGetClusterConfig && gave.Swap(true) { // only the first map is the old one
							session.ReplyTyped(p, 0, memd.DatatypeJSON, nil,
								s.Render(scripted.Spec{Bucket: "default", Rev: c.newest}))
							return true
						}
						return false
					})
					b := ready(t, s, change, func(cfg *core.Config) {
						cfg.Auth.Username, cfg.Auth.Password = "user", core.NewSecret("password")
						cfg.Auth.Mechanisms, cfg.Auth.AllowPlain = []string{"PLAIN"}, true
					})
					time.Sleep(time.Second)
					m, ok := b.Map()
					require.True(t, ok)
					require.Equal(t, c.newest, m.Rev)
				})
			})
		}
	}
}

// announcing is a cluster whose nodes have maps of versions of their own, and which notes whom the client asks for one.
type announcing struct {
	mu    sync.Mutex
	revs  []int64 // by node; 0 does not answer
	asked []int
}

func (a *announcing) hook(s *scripted.Session, p *memd.Packet) bool {
	if p.Opcode != memd.OpGetClusterConfig {
		return false
	}
	a.mu.Lock()
	rev := a.revs[s.Node.Index]
	a.asked = append(a.asked, s.Node.Index)
	a.mu.Unlock()
	if rev > 0 {
		s.ReplyTyped(p, 0, memd.DatatypeJSON, nil, s.Node.Cluster.Render(scripted.Spec{Bucket: "default", Rev: rev}))
	}
	return true
}

// set gives the nodes maps, and forgets whom the client has asked.
func (a *announcing) set(revs ...int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revs, a.asked = revs, nil
}

func (a *announcing) seen() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]int(nil), a.asked...)
}

// A notification may name a version only. The node that has named it is asked for that map before any other, which need
// not have it yet; when that node cannot give it, or gives an older one, the others are asked in turn, and each
// interval one until the map is there.
func TestTheNodeThatNamesAVersionIsAskedFirst_D136(t *testing.T) {
	const nodes = 4
	run := func(t *testing.T, f func(t *testing.T, a *announcing, b *core.Bucket, tell func(node int, rev uint64))) {
		virtualScripted(t, nodes, func(t *testing.T, s *scripted.Cluster, change func(*core.Config)) {
			s.Features[memd.FeatureClustermapChange], s.Features[memd.FeatureClustermapChangeBrief] = false, true
			a := &announcing{revs: []int64{1, 1, 1, 1}}
			for _, n := range s.Nodes {
				n.SetHook(a.hook)
			}
			b := ready(t, s, change)
			for vb := range 64 { // a connection to each node
				_, _ = kv.Do(fresh(t), b, kv.Get{Key: []byte{byte(vb)}})
			}
			time.Sleep(time.Second)
			f(t, a, b, func(node int, rev uint64) {
				for _, session := range s.Nodes[node].Sessions() {
					session.Send(notification(rev, nil))
				}
			})
		})
	}
	rev := func(t *testing.T, b *core.Bucket) int64 {
		m, ok := b.Map()
		require.True(t, ok)
		return m.Rev
	}
	for node := range nodes {
		t.Run("only that node has it", func(t *testing.T) {
			run(t, func(t *testing.T, a *announcing, b *core.Bucket, tell func(int, uint64)) {
				a.set(1, 1, 1, 1)
				a.revs[node] = 2
				tell(node, 2)
				time.Sleep(200 * time.Millisecond)
				require.Equal(t, []int{node}, a.seen())
				require.EqualValues(t, 2, rev(t, b))
			})
		})
		t.Run("the others are silent", func(t *testing.T) {
			run(t, func(t *testing.T, a *announcing, b *core.Bucket, tell func(int, uint64)) {
				a.set(0, 0, 0, 0)
				a.revs[node] = 2
				tell(node, 2)
				time.Sleep(200 * time.Millisecond)
				require.EqualValues(t, 2, rev(t, b))
			})
		})
		t.Run("the newest of two", func(t *testing.T) {
			run(t, func(t *testing.T, a *announcing, b *core.Bucket, tell func(int, uint64)) {
				next := (node + 1) % nodes
				a.set(1, 1, 1, 1)
				a.revs[node], a.revs[next] = 2, 3
				tell(node, 2)
				tell(next, 3)
				time.Sleep(200 * time.Millisecond)
				require.EqualValues(t, 3, rev(t, b))
			})
		})
		t.Run("the node has an older one", func(t *testing.T) {
			run(t, func(t *testing.T, a *announcing, b *core.Bucket, tell func(int, uint64)) {
				a.set(1, 1, 1, 1)
				a.revs[(node+3)%nodes] = 2
				tell(node, 2)
				time.Sleep(time.Second)
				require.Equal(t, node, a.seen()[0])
				require.EqualValues(t, 2, rev(t, b))
			})
		})
		t.Run("no node has it yet", func(t *testing.T) {
			run(t, func(t *testing.T, a *announcing, b *core.Bucket, tell func(int, uint64)) {
				a.set(1, 1, 1, 1)
				tell(node, 2)
				time.Sleep(time.Second)
				require.ElementsMatch(t, []int{0, 1, 2, 3}, a.seen())
				require.Equal(t, node, a.seen()[0])
				time.Sleep(10 * time.Second)
				require.LessOrEqual(t, len(a.seen()), 2*nodes, "one each interval")
				a.set(2, 2, 2, 2)
				time.Sleep(3 * time.Second)
				require.EqualValues(t, 2, rev(t, b))
				a.set(2, 2, 2, 2)
				time.Sleep(10 * time.Second)
				require.Empty(t, a.seen(), "nothing is announced any more")
			})
		})
	}
}
