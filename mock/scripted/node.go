package scripted

import (
	"net"
	"sync"

	"github.com/couchcore/couchcore/memd"
)

// Hook sees every request before the default answers do. It returns true when it has dealt with the request: answered
// it, several times or not at all. It runs on the goroutine of the session, so that a hook that blocks delays that
// session alone.
type Hook func(s *Session, p *memd.Packet) (handled bool)

// Node is one scripted server process.
type Node struct {
	Cluster *Cluster
	Index   int // in Cluster.Nodes

	listener net.Listener
	running  sync.WaitGroup // serve and the sessions; Close waits for them

	mu       sync.Mutex
	hook     Hook
	sessions map[*Session]bool
	requests map[memd.Opcode]int
	accepted int
	closed   bool
}

// Addr is host:port of the node's listener.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// Port is the number in Addr.
func (n *Node) Port() int {
	_, port := hostPort(n.listener)
	return port
}

// SetHook replaces the node's hook; nil removes it. Requests that are read later meet the new one.
func (n *Node) SetHook(h Hook) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hook = h
}

// Requests is how many requests of an opcode the node has read.
func (n *Node) Requests(op memd.Opcode) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests[op]
}

// Accepted is how many connections the node has accepted since it started.
func (n *Node) Accepted() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.accepted
}

// Sessions are the open connections.
func (n *Node) Sessions() []*Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*Session, 0, len(n.sessions))
	for s := range n.sessions {
		all = append(all, s)
	}
	return all
}

// Disconnect closes all open connections; the node goes on to accept new ones.
func (n *Node) Disconnect() {
	for _, s := range n.Sessions() {
		_ = s.Conn.Close()
	}
}

// Close ends the node and waits for its goroutines. A hook must return when its session's connection is closed.
func (n *Node) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	_ = n.listener.Close()
	n.Disconnect()
	n.running.Wait()
}

// serve accepts connections until Close closes the listener.
func (n *Node) serve() {
	defer n.running.Done()
	for {
		nc, err := n.listener.Accept()
		if err != nil {
			return
		}
		s := &Session{Node: n, Conn: nc}
		n.mu.Lock()
		closed := n.closed
		if !closed {
			n.sessions[s] = true
			n.accepted++
			n.running.Add(1)
		}
		n.mu.Unlock()
		if closed {
			_ = nc.Close()
			return
		}
		go s.serve()
	}
}

// saw counts a request and gives the hook that is in force.
func (n *Node) saw(op memd.Opcode) Hook {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests[op]++
	return n.hook
}

func (n *Node) forget(s *Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.sessions, s)
}
