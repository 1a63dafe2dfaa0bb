package dispatch

import (
	"errors"

	"github.com/couchcore/couchcore/internal/conn"
)

// Probe watches the connection to one node while a request to it is under way. Its zero value watches nothing.
type Probe struct {
	cn   *conn.Conn
	seen int64
}

var errSilent = errors.New("the node has answered nothing since it was asked for its cluster map")

// Probe begins to watch a connection to the node with index i, in turn those that it has. A request that is sent over
// the connection of that ID belongs to it.
func (r *Router) Probe(i, turn int) Probe {
	pk := r.picker.Load()
	if pk == nil || i < 0 || i >= len(pk.nodes) || pk.nodes[i] == nil {
		return Probe{}
	}
	p := pk.nodes[i]
	if p.pool != nil {
		p = p.pool[turn%len(p.pool)]
	}
	cn := p.conn.Load()
	if cn == nil {
		return Probe{}
	}
	return Probe{cn, answers(cn)}
}

// Connection is the watched connection's id, "" when nothing is watched.
func (p Probe) Connection() string {
	if p.cn == nil {
		return ""
	}
	return p.cn.Info().ID
}

func answers(cn *conn.Conn) int64 { return cn.Stats.Answers.Load() + cn.Stats.Orphans.Load() }

// Unanswered is called when the request has timed out. A connection on which no other answer came meanwhile either is
// closed: its other end may be gone without a word, or the stream is out of step. Its pipeline makes a new one, and the
// calls in flight on it end as those of a lost connection do.
func (p Probe) Unanswered() {
	if p.cn != nil && answers(p.cn) == p.seen {
		p.cn.Close(errSilent)
	}
}
