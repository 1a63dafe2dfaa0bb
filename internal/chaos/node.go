package chaos

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// nodeOptions are what a node's process is told.
type nodeOptions struct {
	Ports  []port `json:"ports"`
	Buffer int    `json:"buffer"` // bytes of the buffers of the clients' sockets; 0: the system's
	Racy   bool   `json:"racy"`   // a planted defect
	// Mock makes the process one of a mock of its own, which it carries bytes to. Without it the supervisor has it.
	Mock *mockOptions `json:"mock,omitempty"`
}

// port is where clients connect to, and where the cluster listens.
type port struct{ Listen, To string }

// What the supervisor writes to a node's process.
const (
	nodeReset = "reset" // end each connection with a reset
	nodeSlow  = "slow"  // read little at a time
	nodeFast  = "fast"  // do not
)

const (
	slowBytes = 512 // of a read of a slow node
	slowPause = 2 * time.Millisecond
)

// node has the sockets of a node.
type node struct {
	o      nodeOptions
	secure *tls.Config // of the second port, where the mock is in this process
	slow   atomic.Bool
	wg     sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]struct{}
}

// pair are the two ends of a connection.
type pair struct {
	client, cluster *net.TCPConn
	once            sync.Once
}

// end closes both, the client's with a reset if it is to be one.
func (p *pair) end(reset bool) {
	p.once.Do(func() {
		if reset {
			_ = p.client.SetLinger(0)
		}
		_ = p.client.Close()
		_ = p.cluster.Close()
	})
}

// Node is a node's process: it listens where it is told to, says that it does, and carries bytes until in ends.
func Node(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	n := &node{pairs: map[*pair]struct{}{}}
	if !lines.Scan() {
		return fmt.Errorf("a node without options: %w", io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(lines.Bytes(), &n.o); err != nil {
		return err
	}
	if n.o.Racy {
		fmt.Fprintln(os.Stderr, "WARNING: DATA RACE")
	}
	if n.o.Mock != nil {
		m, err := n.holdMock()
		if err != nil {
			return err
		}
		defer func() { _ = m.Close() }()
	}
	for i, p := range n.o.Ports {
		l, err := listen(p.Listen)
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		secure := n.secure
		if i == 0 {
			secure = nil
		}
		n.wg.Go(func() { n.accept(l, p.To, secure) })
	}
	w := newWire(out)
	w.send(message{Ready: true})
	w.flush()
	for lines.Scan() {
		switch lines.Text() {
		case nodeReset:
			n.reset()
		case nodeSlow:
			n.slow.Store(true)
		case nodeFast:
			n.slow.Store(false)
		}
	}
	return lines.Err()
}

// listen tries for a while: the port of a node that was killed may be in use for a moment.
func listen(addr string) (l net.Listener, err error) {
	for range 100 {
		if l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", addr); err == nil {
			return l, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}

func (n *node) accept(l net.Listener, to string, secure *tls.Config) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		client, ok := nc.(*net.TCPConn)
		if !ok {
			continue
		}
		n.wg.Go(func() { n.connect(client, to, secure) })
	}
}

func (n *node) connect(client *net.TCPConn, to string, secure *tls.Config) {
	nc, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
	cluster, ok := nc.(*net.TCPConn)
	if err != nil || !ok {
		_ = client.Close()
		return
	}
	if n.o.Buffer > 0 {
		for _, c := range []*net.TCPConn{client, cluster} {
			_ = c.SetReadBuffer(n.o.Buffer)
			_ = c.SetWriteBuffer(n.o.Buffer)
		}
	}
	p := &pair{client: client, cluster: cluster}
	var clear net.Conn = client
	if secure != nil {
		clear = tls.Server(client, secure)
	}
	n.mu.Lock()
	n.pairs[p] = struct{}{}
	n.mu.Unlock()
	n.wg.Go(func() { n.carry(p, cluster, clear) })
	n.carry(p, clear, cluster)
	n.mu.Lock()
	delete(n.pairs, p)
	n.mu.Unlock()
}

// carry moves bytes one way until one of the ends is over.
func (n *node) carry(p *pair, to, from net.Conn) {
	defer p.end(false)
	buf := make([]byte, 32<<10)
	for {
		b := buf
		if n.slow.Load() {
			time.Sleep(slowPause)
			b = buf[:slowBytes]
		}
		k, err := from.Read(b)
		if k > 0 {
			if _, err := to.Write(b[:k]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (n *node) reset() {
	n.mu.Lock()
	all := make([]*pair, 0, len(n.pairs))
	for p := range n.pairs {
		all = append(all, p)
	}
	n.mu.Unlock()
	for _, p := range all {
		p.end(true)
	}
}
