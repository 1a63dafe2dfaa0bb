package packets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Proxy stands between clients and the nodes of one cluster: it listens for each node that a cluster map names, and
// hands maps on with its own addresses in place of the nodes'. Those maps have the key-value service alone.
type Proxy struct {
	each func(Record)
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu        sync.Mutex
	listeners map[string]net.Listener // by the node's address
	conns     int
	closed    bool
}

// maxNodes is how many nodes a proxy listens for: a map that names more is handed on as it is.
const maxNodes = 256

// NewProxy makes a proxy of the cluster that has a node, "host:port", and listens for that one at an address of this
// machine ("127.0.0.1:0" chooses a port). It says where. Each packet is given to each, on the goroutine that hands it
// on: what blocks there slows the connection down. Close ends it.
func NewProxy(node, at string, each func(Record)) (p *Proxy, addr string, err error) {
	p = &Proxy{each: each, listeners: map[string]net.Listener{}, dial: (&net.Dialer{}).DialContext}
	p.ctx, p.stop = context.WithCancel(context.Background())
	if addr, err = p.listen(node, at); err != nil {
		p.stop()
		return nil, "", err
	}
	return p, addr, nil
}

// listen stands in for a node and says where. A node has one stand-in: for a second time it gives the first.
func (p *Proxy) listen(node, at string) (string, error) {
	p.mu.Lock()
	l, ok := p.listeners[node]
	full := len(p.listeners) >= maxNodes
	p.mu.Unlock()
	switch {
	case ok:
		return l.Addr().String(), nil
	case full:
		return "", fmt.Errorf("more than %d nodes", maxNodes)
	}
	l, err := (&net.ListenConfig{}).Listen(p.ctx, "tcp", at)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, ok := p.listeners[node]; ok || p.closed {
		l.Close()
		if p.closed {
			return "", net.ErrClosed
		}
		return first.Addr().String(), nil
	}
	p.listeners[node] = l
	p.wg.Go(func() { p.accept(l, node) }) // ends with the listener
	return l.Addr().String(), nil
}

// Close ends all connections and waits for their goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.listeners {
		l.Close()
	}
	p.mu.Unlock()
	p.stop()
	p.wg.Wait()
}

func (p *Proxy) accept(l net.Listener, node string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns++
		t := &Talk{Conn: p.conns, Client: client.RemoteAddr().String(), Node: node}
		p.mu.Unlock()
		p.wg.Go(func() { p.serve(client, t) }) // ends with either socket, and with the proxy
	}
}

// serve hands on what the two ends of one connection say.
func (p *Proxy) serve(client net.Conn, t *Talk) {
	defer client.Close()
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	node, err := p.dial(ctx, "tcp", t.Node)
	cancel()
	if err != nil {
		p.each(t.note(time.Now(), "the node cannot be connected to: "+err.Error()))
		return
	}
	defer node.Close()
	p.each(t.note(time.Now(), "connected"))
	end := context.AfterFunc(p.ctx, func() {
		client.Close()
		node.Close()
	})
	defer end()
	var both sync.WaitGroup
	both.Go(func() {
		err := p.requests(t, client, node)
		p.each(t.note(time.Now(), "the client ends the connection"+because(err)))
		node.Close()
	})
	both.Go(func() {
		err := p.answers(t, node, client)
		p.each(t.note(time.Now(), "the node ends the connection"+because(err)))
		client.Close()
	})
	both.Wait()
}

func because(err error) string {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return ""
	}
	return ": " + err.Error()
}

// requests hands on what the client sends, as it is.
func (p *Proxy) requests(t *Talk, client, node net.Conn) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		for _, r := range t.Take(FromClient, buf[:n], time.Now()) {
			p.each(r)
		}
		if n > 0 {
			if _, err := node.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return ended(err)
		}
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// answers hands on what the node sends, packet by packet, with the proxy's addresses in its maps. What is not the
// protocol is handed on as it is.
func (p *Proxy) answers(t *Talk, node, client net.Conn) error {
	host, _, err := net.SplitHostPort(t.Node)
	if err != nil {
		return err
	}
	var in, out []byte
	buf := make([]byte, 64<<10)
	for raw := false; ; {
		n, err := node.Read(buf)
		for _, r := range t.Take(FromNode, buf[:n], time.Now()) {
			p.each(r)
		}
		if in = append(in, buf[:n]...); raw {
			in, out = in[:0], append(out[:0], in...)
		} else {
			in, out, raw = p.hand(host, in, out[:0])
		}
		if len(out) > 0 {
			if _, err := client.Write(out); err != nil {
				return err
			}
		}
		if err != nil {
			return ended(err)
		}
	}
}

// hand appends to out what is to be handed on of in, from the node of that host, and gives what is left of it. raw says
// that in is not the protocol.
func (p *Proxy) hand(host string, in, out []byte) (kept, handed []byte, raw bool) {
	left := in
	for {
		var pkt memd.Packet
		n, err := pkt.Parse(left, maxPacket)
		switch {
		case errors.Is(err, memd.ErrShort):
			return append(in[:0], left...), out, false
		case err != nil:
			return in[:0], append(out, left...), true
		}
		if whole, err := p.changed(host, &pkt); err == nil && whole != nil {
			out = append(out, whole...)
		} else {
			out = append(out, left[:n]...)
		}
		left = left[n:]
	}
}

// changed is a packet as the client is to see it; nil when that is as it came.
func (p *Proxy) changed(host string, pkt *memd.Packet) ([]byte, error) {
	kind := Answer
	if pkt.Magic == memd.MagicServerReq {
		kind = Push
	}
	switch {
	case isMap(pkt, kind):
		value, err := p.readdress(host, pkt.Value)
		if err != nil {
			return nil, err
		}
		pkt.Value = value
	case kind == Answer && pkt.Opcode == memd.OpHello && pkt.Status == memd.StatusSuccess:
		pkt.Value = without(pkt.Value, memd.FeatureSnappyEverywhere) // a compressed map could not be changed
	default:
		return nil, nil
	}
	return pkt.AppendTo(nil)
}

// without takes a feature out of those that HELLO has agreed on.
func without(value []byte, f memd.Feature) (kept []byte) {
	for ; len(value) >= 2; value = value[2:] {
		if memd.Feature(be(value[:2])) != f {
			kept = append(kept, value[:2]...)
		}
	}
	return kept
}
