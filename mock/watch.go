package mock

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// watchers are functions that want to know of something. Without one, telling costs one load.
type watchers[T any] struct {
	mu   sync.Mutex // of those who change the list
	list atomic.Pointer[[]*func(T)]
}

// add calls f from now on until stop is called.
func (w *watchers[T]) add(f func(T)) (stop func()) {
	w.change(func(list []*func(T)) []*func(T) { return append(list, &f) })
	return func() {
		w.change(func(list []*func(T)) []*func(T) {
			return slices.DeleteFunc(list, func(o *func(T)) bool { return o == &f })
		})
	}
}

func (w *watchers[T]) change(change func([]*func(T)) []*func(T)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*func(T)
	if old := w.list.Load(); old != nil {
		list = slices.Clone(*old)
	}
	if list = change(list); len(list) == 0 {
		w.list.Store(nil)
		return
	}
	w.list.Store(&list)
}

// any reports whether there is one.
func (w *watchers[T]) any() bool { return w.list.Load() != nil }

func (w *watchers[T]) tell(v T) {
	if list := w.list.Load(); list != nil {
		for _, f := range *list {
			(*f)(v)
		}
	}
}

// Answered is a request of the key-value service that a node has dealt with, see WatchAnswers.
type Answered struct {
	Node       int
	Conn       uint64 // as in Frame
	Opcode     memd.Opcode
	Opaque     uint32
	VBucket    uint16
	Bucket     string // that the connection has selected
	Collection string // "scope.collection"; empty for requests without a document
	Document   string // the document's key; empty for requests without one

	Status memd.Status   // of the answer as it goes out
	Silent bool          // no answer goes out: a fault keeps it, or the command is a quiet one
	Closed bool          // the node closes the connection
	Fault  string        // that has acted, as Fault.String names it; empty without one
	At     time.Time     // when the request came
	Took   time.Duration // from then to its answer, which is not yet written
}

// WatchAnswers calls f for every request that a node has dealt with from now on, when its answer is about to be
// written, until stop is called. A request that a node takes while it is suspended, or that a fault holds when its
// connection ends, is not dealt with. f runs as Watch's does. Without such a function nodes pay nothing for it.
func (c *Cluster) WatchAnswers(f func(Answered)) (stop func()) { return c.answered.add(f) }

// tellAnswered tells the watchers of answers. wire is the answer's bytes, empty when none goes out.
func (rq *request) tellAnswered(rep *reply, wire []byte, f *Fault, closes bool) {
	if !rq.k.c.answered.any() {
		return
	}
	a := Answered{
		Node: rq.k.n.index, Conn: rq.k.id, Opcode: rq.p.Opcode, Opaque: rq.p.Opaque, VBucket: rq.vb, Status: rep.status,
		Silent: len(wire) == 0, Closed: closes, Fault: f.name, At: rq.at, Took: time.Since(rq.at),
	}
	if len(wire) >= memd.HeaderLen {
		a.Status = memd.Status(binary.BigEndian.Uint16(wire[6:]))
	}
	if rq.b != nil {
		a.Bucket = rq.b.name
	}
	if rq.spec != nil && rq.spec.key == keyDocument && rq.keyErr == "" {
		a.Collection, a.Document = rq.path(), string(rq.key)
	}
	rq.k.c.answered.tell(a)
}

// Connection is a connection to a node's key-value service.
type Connection struct {
	Conn   uint64 // as in Frame
	Node   int
	Peer   string // the client's address
	Agent  string // what the client's last HELLO calls it, an SDK and its version for example
	User   string // who is logged in; empty before that
	Bucket string // that it has selected
	TLS    bool
}

// Connections are the connections to all nodes at present, oldest first.
func (c *Cluster) Connections() []Connection {
	out := []Connection{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		for k := range n.conns {
			o := Connection{Conn: k.id, Node: n.index, Peer: k.nc.RemoteAddr().String(), TLS: k.secure}
			if agent := k.agent.Load(); agent != nil {
				o.Agent = *agent
			}
			if u := k.user.Load(); u != nil {
				o.User = u.name
			}
			if b := k.bucket.Load(); b != nil {
				o.Bucket = b.name
			}
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b Connection) int { return cmp.Compare(a.Conn, b.Conn) })
	return out
}

// Map is where the copies of each vbucket of a bucket are: the numbers of its nodes, the active one first, then the
// replicas; -1 for a copy that has no node. It is nil for a bucket that does not exist or has no vbuckets.
func (c *Cluster) Map(bucketName string) (rows [][]int) {
	_ = c.withBucket(bucketName, func(b *bucket) { // without a bucket it stays nil
		if !b.memcached() {
			rows = make([][]int, len(b.rows))
			for vb, row := range b.rows {
				rows[vb] = slices.Clone(row)
			}
		}
	})
	return rows
}
