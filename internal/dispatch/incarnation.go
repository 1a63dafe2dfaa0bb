package dispatch

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/topology"
)

// Epoch and revision say which of two maps is newer, as long as both are of one bucket. A bucket that was deleted and
// created again, or a cluster that was set up anew at the same addresses, may count from the beginning. Then the
// version of the old map must not bar the new one; but a node that lags behind looks the same. The client tells them
// apart by its connections:
//
//   - A connection whose handshake brought a map speaks for the bucket of that map. It is used only while our map is of
//     that bucket.
//   - A node whose handshake shows another bucket is not connected to. It is tried again and again.
//   - When no connection is left that speaks for our bucket, the map that such a node shows replaces ours, whatever its
//     version is.
//   - A connection whose handshake brought no map speaks for no bucket. Where maps come over HTTP all are of that kind,
//     and the newest map of that source counts.

var errForeign = errors.New("the node has another bucket of that name, or is of another cluster, than those that our " +
	"cluster map is of")

// belongs gives an error for a connection that was made in another bucket than our map is of: there the ids of
// collections that we know may belong to other collections. Before it decides, it offers the map of the handshake to
// the map goroutine, and waits until that has considered it.
func (p *pipeline) belongs(cn *conn.Conn) error {
	config := cn.Info().Config
	if !p.r.maps.foreign(config, p.node.addr) {
		return nil
	}
	p.r.maps.offers.forget() // or the same map, if it was refused before, would not be considered again
	p.r.offerAndTell(config, p.node.addr)()
	if !p.r.maps.foreign(config, p.node.addr) {
		return nil
	}
	return &handshake.Error{Addr: p.node.addr, Bucket: p.r.o.Bucket, Step: handshake.StepConfig, Err: errForeign}
}

// foreign reports whether raw, the map of a handshake with the node at addr, is of another bucket than ours. It is
// false for a handshake without a map, and for bytes that are not a map.
func (m *maps) foreign(raw []byte, addr string) bool {
	pk := m.r.picker.Load()
	if raw == nil || pk == nil || identity(pk.snap) == "" || bytes.Contains(raw, []byte(identity(pk.snap))) {
		return false
	}
	s, err := m.parse(raw, 0, addr)
	return err == nil && m.ours(s) == nil && another(s, pk.snap)
}

// withdraw takes the connections to the nodes out of use that speak for the bucket which a new map replaces, and gives
// them. A connection that came without a map stays: it may have been made in either bucket. The router's lock is held.
func withdraw(nodes map[*node]bool) (all []*conn.Conn) {
	for n := range nodes {
		for p := range n.pipelines() {
			if cn := p.conn.Load(); cn != nil && p.confirms.Load() && p.conn.CompareAndSwap(cn, nil) {
				all = append(all, cn)
			}
		}
	}
	return all
}

// confirmed reports whether a connection speaks for the bucket that we know.
func (r *Router) confirmed() bool {
	speaks := func(p *pipeline) bool { return p.conn.Load() != nil && p.confirms.Load() }
	return slices.ContainsFunc(r.nodes.list(), speaks)
}

// suspect is called when a connection has ended. When no connection speaks for our bucket any more, maps that were
// refused are considered again, and the nodes that have another bucket are connected to again at once.
func (m *maps) suspect() {
	if m.r.picker.Load() != nil && !m.r.confirmed() {
		m.offers.forget()
		m.unconfirmed.happens()
	}
}

// replaces reports whether s is to be used instead of the old map, which may be nil.
func (m *maps) replaces(s, old *topology.Snapshot) bool {
	return old == nil || s.Newer(old) || another(s, old) && !m.keeps() && !m.r.confirmed()
}

// keepTime is how long a map that has replaced another bucket's is kept although no connection speaks for it: all were
// made in the other bucket, and connecting again takes a while.
const keepTime = 4 * time.Second

// keeps reports whether our map has replaced another bucket's less than keepTime ago.
func (m *maps) keeps() bool { return m.replaced != 0 && m.r.now()-m.replaced < int64(keepTime) }

// another reports whether s is known to be of another bucket than old.
func another(s, old *topology.Snapshot) bool {
	return identity(s) != "" && identity(s) != identity(old)
}

// identity is the id that a bucket has from its creation to its deletion; in a map of the whole cluster it is the id of
// the cluster.
func identity(s *topology.Snapshot) string {
	if s.UUID != "" {
		return s.UUID
	}
	return s.ClusterUUID
}
