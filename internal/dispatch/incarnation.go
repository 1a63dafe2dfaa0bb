package dispatch

import (
	"bytes"
	"errors"
	"slices"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/topology"
)

// A map is newer than another by epoch and revision, as long as both are of one bucket. A bucket that was deleted and
// created again, or a cluster that was set up anew at the same addresses, may count from the beginning: then the old
// map's version must not bar the new one. What tells the two from a node that lags behind is whether a connection still
// speaks for the bucket that we know. Every connection does that came with a map: one is used only while our map is of
// the bucket that it was made in. A node that has another one is not connected to; it is tried again and again, and
// when no connection is left that speaks for ours, the map that it shows replaces ours whatever its version is. A
// connection that came without one, as all do where maps come over HTTP, speaks for no bucket, and the source of the
// maps has the last word.

var errForeign = errors.New("the node has another bucket of that name, or is of another cluster, than those that our " +
	"cluster map is of")

// belongs gives an error for a connection that was made in another bucket than our map is of. It has that bucket's map
// considered before, and waits for that. The ids of collections that we know are those of ours; in the other one they
// may be other collections'.
func (p *pipeline) belongs(cn *conn.Conn) error {
	config := cn.Info().Config
	if !p.r.maps.foreign(config, p.node.addr) {
		return nil
	}
	p.r.maps.offers.forget() // it may have been shown before
	p.r.offerAndTell(config, p.node.addr)()
	if !p.r.maps.foreign(config, p.node.addr) {
		return nil
	}
	return &handshake.Error{Addr: p.node.addr, Bucket: p.r.o.Bucket, Step: handshake.StepConfig, Err: errForeign}
}

// foreign reports whether raw, the map of a handshake with the node at addr, is of another bucket than ours. Nothing,
// and what is no map, is of none.
func (m *maps) foreign(raw []byte, addr string) bool {
	pk := m.r.picker.Load()
	if raw == nil || pk == nil || identity(pk.snap) == "" || bytes.Contains(raw, []byte(identity(pk.snap))) {
		return false
	}
	s, err := m.parse(raw, 0, addr)
	return err == nil && m.ours(s) == nil && another(s, pk.snap)
}

// withdraw takes the connections to those nodes out of use that were made in our bucket, and gives them. One that came
// without a map does not say in which it was made: it may be the other one. The router's lock is held.
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

// suspect sees to it that maps that were refused are looked at again when no connection speaks for ours any more: nodes
// that belong to another bucket are connected to again, now.
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

// keeps reports whether our map has just replaced another bucket's, and its nodes have not had the time to speak for
// it: all connections were made in the other one.
func (m *maps) keeps() bool { return m.replaced != 0 && m.r.now()-m.replaced < int64(redialMax) }

// another reports whether s is known to be of another bucket than old.
func another(s, old *topology.Snapshot) bool {
	return identity(s) != "" && identity(s) != identity(old)
}

// identity is what a bucket keeps for life, or for a map of the whole cluster the cluster.
func identity(s *topology.Snapshot) string {
	if s.UUID != "" {
		return s.UUID
	}
	return s.ClusterUUID
}
