package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/memd"
)

// lacks are features without which something does not work, and what that is.
var lacks = []struct {
	feature memd.Feature
	what    string
}{
	{memd.FeatureSelectBucket, "buckets cannot be chosen"},
	{memd.FeatureXError, "errors are not explained"},
	{memd.FeatureJSON, "no document is known to be JSON"},
	{memd.FeatureMutationSeqno, "no mutation tokens"},
	{memd.FeatureXattr, "no extended attributes"},
	{memd.FeatureSnappy, "no compression"},
	{memd.FeatureCollections, "only the default collection"},
	{memd.FeatureAltRequest, "no durable writes"},
	{memd.FeatureSyncReplication, "no durable writes"},
	{memd.FeaturePreserveTTL, "writes cannot preserve the expiry"},
}

// helloWanted are the features that the step asks for.
func helloWanted() []memd.Feature {
	var fs []memd.Feature
	for f := range memd.Feature(64) {
		if f.Known() && f != memd.FeatureTLS && f != memd.FeatureTCPDelay { // which say nothing any more
			fs = append(fs, f)
		}
	}
	return fs
}

// hello asks each host what it can do and how one may log in.
func (d *doctor) hello(ctx context.Context) finding {
	if d.http {
		m, err := d.mapOfClient(ctx)
		if err != nil {
			return broken("no host gives a cluster map over HTTP: "+err.Error(), d.mapAdvice(err))
		}
		d.up = m.Nodes
	}
	var mu sync.Mutex
	known := map[string]greeting{}
	all := each(d.up, func(addr string) (string, error) {
		g, err := d.greet(ctx, addr)
		if err != nil {
			return "", err
		}
		mu.Lock()
		known[addr] = g
		mu.Unlock()
		return fmt.Sprintf("%s, logins %s", plural(g.granted(), "feature"), or(strings.Join(g.mechs, " "), "none")), nil
	})
	f := d.reached(all, func(p probed) string { return d.helloAdvice(p.err) })
	for i, addr := range d.up {
		g := known[addr]
		if i == 0 {
			d.mechs = g.mechs
		}
		for _, l := range lacks {
			if !g.features.Has(l.feature) {
				f.warning("it may be too old, or something in between that speaks for it", "%s does not grant %v: %s",
					addr, l.feature, l.what)
			}
		}
	}
	return f
}

// greeting is what a node says of itself to everybody.
type greeting struct {
	features memd.Features
	mechs    []string
}

func (g greeting) granted() (n int) {
	for _, f := range helloWanted() {
		if g.features.Has(f) {
			n++
		}
	}
	return n
}

func (d *doctor) helloAdvice(err error) string {
	switch {
	case isAlert(err):
		return "the server refused the connection after the handshake: it may want a client certificate"
	case errors.Is(err, handshake.ErrSpeaksTLS):
		return "write couchbases:// instead of couchbase://, or give the port without TLS (usually 11210)"
	case errors.Is(err, handshake.ErrSpeaksHTTP):
		return "that is the management or another service: leave the port out, or give the key-value service's " +
			"(usually " + d.defaultPort() + ")"
	case isEnd(err):
		if d.cfg.TLS.Enabled {
			return "the server closed the connection instead of answering: see whether the port is the key-value " +
				"port with TLS (usually 11207)"
		}
		return "the server closed the connection instead of answering: if the port speaks TLS, write couchbases://; " +
			"otherwise see whether it is the key-value port (usually 11210)"
	case errors.Is(err, errUnknownHello):
		return "the server is too old, or not a Couchbase server"
	case isTimeout(err):
		return "nothing comes back: see whether the port is the key-value port, and whether the server is overloaded " +
			"or frozen"
	}
	return "what listens there is not a key-value service: check the port (usually " + d.defaultPort() + ")"
}

// isAlert reports what the other side of TLS has said no with.
func isAlert(err error) bool {
	var alert tls.AlertError
	var remote *net.OpError
	return errors.As(err, &alert) || errors.As(err, &remote) && remote.Op == "remote error"
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// isEnd reports a connection that the other side has closed or reset.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// greet says HELLO and asks for the list of mechanisms, which needs no login.
func (d *doctor) greet(ctx context.Context, addr string) (g greeting, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	nc, err := d.dial(ctx, "tcp", addr)
	if err != nil {
		return g, err
	}
	defer func() { _ = nc.Close() }()
	deadline, _ := ctx.Deadline()
	if err := nc.SetDeadline(deadline); err != nil {
		return g, err
	}
	if d.cfg.TLS.Enabled {
		nc = tls.Client(nc, d.tlsConfig(addr))
	}
	rep, err := ask(nc, memd.OpHello, []byte("couchcore doctor"), memd.AppendFeatures(nil, helloWanted()...))
	if err != nil {
		return g, err
	}
	if rep.Status == memd.StatusUnknownCommand || rep.Status == memd.StatusNotSupported {
		return g, fmt.Errorf("%w: HELLO answered %s %v", errUnknownHello, statusText(rep.Status), rep.Status)
	}
	g.features, err = memd.ParseFeatures(rep.Value)
	if err != nil || rep.Status != memd.StatusSuccess {
		return g, errors.Join(err, fmt.Errorf("HELLO was answered with %v", rep.Status))
	}
	if rep, err = ask(nc, memd.OpSASLListMechs, nil, nil); err != nil {
		return g, err
	}
	if rep.Status == memd.StatusSuccess {
		g.mechs = strings.Fields(string(rep.Value))
	}
	return g, nil
}

var errUnknownHello = errors.New("the server does not know HELLO, the first request of every connection")

const answerLimit = 1 << 20 // of an answer to HELLO, in bytes

// ask sends one request and gives its answer.
func ask(nc net.Conn, op memd.Opcode, key, value []byte) (*memd.Packet, error) {
	req := memd.Packet{Magic: memd.MagicReq, Opcode: op, Key: key, Value: value}
	out, err := req.AppendTo(nil)
	if err == nil {
		_, err = nc.Write(out)
	}
	if err != nil {
		return nil, err
	}
	var in []byte
	part := make([]byte, 4096)
	for {
		if err := handshake.Foreign(in); err != nil {
			return nil, err
		}
		var p memd.Packet
		_, err := p.Parse(in, answerLimit)
		switch {
		case err == nil && p.Magic.IsResponse() && p.Opcode == op:
			return &p, nil
		case err == nil:
			return nil, fmt.Errorf("the answer to %v is one to %v", op, p.Opcode)
		case !errors.Is(err, memd.ErrShort):
			return nil, err
		}
		n, err := nc.Read(part)
		in = append(in, part[:n]...)
		if n == 0 && err != nil {
			return nil, err
		}
	}
}
