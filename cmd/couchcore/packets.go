package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/packets"
	"github.com/couchcore/couchcore/retry"
)

type packetsCmd struct {
	File             string `arg:"" optional:"" placeholder:"FILE" help:"A capture in the form of pcap or pcapng; - reads standard input."`
	Node             string `placeholder:"HOST:PORT" help:"Instead of a file: be a proxy between clients and the cluster of this node, without TLS."`
	Listen           string `placeholder:"HOST:PORT" help:"Where clients connect to (default: 127.0.0.1 and a free port)."`
	Ports            []int  `placeholder:"PORT" help:"Ports of nodes in the capture (default: 11210, 11207 and 12000)."`
	Failures         bool   `help:"Only answers that are failures, and notes (default: everything)."`
	ExitOnStdinClose bool   `help:"End the proxy when standard input ends (default: when interrupted)."`
	Redact           bool   `help:"Leave out documents' keys and what nodes say of failures (default: show them)."`
}

// Run implements the command.
func (c *packetsCmd) Run(a *app) error {
	switch {
	case (c.File == "") == (c.Node == ""):
		return usagef("packets: name a capture, or a node with --node")
	case c.Node == "" && c.Listen != "":
		return usagef("packets: --listen belongs to --node")
	case c.Node != "" && len(c.Ports) > 0:
		return usagef("packets: --ports belongs to a capture")
	case c.Node != "":
		return c.proxy(a)
	}
	in := a.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	return c.capture(a, in)
}

// capture shows what a capture holds.
func (c *packetsCmd) capture(a *app, in io.Reader) error {
	ports := c.Ports
	if len(ports) == 0 {
		ports = packets.DefaultPorts()
	}
	seen := 0
	err := packets.ReadCapture(in, ports, func(r packets.Record) error {
		seen++
		return c.show(a, &r)
	})
	if err == nil && seen == 0 {
		text := fmt.Sprintf("packets: no connection with a port of %v is in the capture", ports)
		return &shownError{exitFailed, text + ": name the nodes' ports with --ports"}
	}
	return err
}

// mostUnshown is how many records wait for an output that is slow; those behind them are counted.
const mostUnshown = 8192

// proxy shows what is said through a proxy until it is interrupted.
func (c *packetsCmd) proxy(a *app) error {
	records := make(chan packets.Record, mostUnshown)
	var missed atomic.Int64
	p := proxied{node: c.Node, listen: c.Listen, exitOnStdinClose: c.ExitOnStdinClose}
	p.each = func(r packets.Record) {
		select {
		case records <- r:
		default:
			missed.Add(1)
		}
	}
	p.next = func(ctx context.Context) error {
		select {
		case r := <-records:
			if err := c.show(a, &r); err != nil {
				return err
			}
		case <-ctx.Done():
			for len(records) > 0 {
				r := <-records
				if err := c.show(a, &r); err != nil {
					return err
				}
			}
			return io.EOF
		}
		if n := missed.Swap(0); n > 0 {
			text := fmt.Sprintf("%d packets are not shown, because the output is too slow", n)
			return c.show(a, &packets.Record{Time: time.Now(), Kind: packets.Note, Detail: text})
		}
		return nil
	}
	return p.run(a)
}

// proxied is a proxy that runs until it is interrupted.
type proxied struct {
	node, listen     string
	exitOnStdinClose bool

	each func(packets.Record)            // gets each record and does not block: that would hold a client's calls up
	next func(ctx context.Context) error // shows something, again and again until an error; io.EOF is no error
}

func (c *proxied) run(a *app) error {
	if host, port, err := net.SplitHostPort(c.node); err != nil || host == "" || port == "" {
		return usagef("--node %q is not a host and a port, as in 127.0.0.1:11210", c.node)
	}
	listen := c.listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	p, addr, err := packets.NewProxy(c.node, listen, c.each)
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.exitOnStdinClose {
		go endWith(a.stdin, func(error) { stop() }) // until the input ends, as it does with the process
	}
	if a.json {
		err = a.emit(map[string]string{"listening": addr, "node": c.node})
	} else {
		err = a.print("listening at %s for %s: connect to couchbase://%s", addr, c.node, addr)
	}
	for err == nil {
		err = c.next(ctx)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// packetJSON is a record with --json.
type packetJSON struct {
	Time       string   `json:"time"`
	Connection int      `json:"connection"`
	Client     string   `json:"client"`
	Node       string   `json:"node"`
	Kind       string   `json:"kind"`
	Opcode     string   `json:"opcode,omitempty"`
	Opaque     *uint32  `json:"opaque,omitempty"`
	Status     string   `json:"status,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Key        *string  `json:"key,omitempty"`
	Collection *string  `json:"collection_id,omitempty"`
	VBucket    *uint16  `json:"vbucket,omitempty"`
	CAS        string   `json:"cas,omitempty"`
	ValueLen   int      `json:"value_bytes,omitempty"`
	Datatype   string   `json:"datatype,omitempty"`
	TookUS     *float64 `json:"took_us,omitempty"`
	ServerUS   *float64 `json:"server_us,omitempty"`
	Frames     []string `json:"frames,omitempty"`
	Detail     string   `json:"detail,omitempty"`
}

func (c *packetsCmd) show(a *app, r *packets.Record) error {
	if c.Failures && r.Kind != packets.Note && !r.Failed() {
		return nil
	}
	if c.Redact && r.Failed() {
		r.Detail = ""
	}
	if a.json {
		return a.emit(c.object(r))
	}
	return a.print("%s", c.line(r))
}

// retryReason is why the client may send the request of an answer again.
func retryReason(r *packets.Record) string {
	if !r.Failed() {
		return ""
	}
	why, ok := core.ReasonOf(retry.KV, uint32(r.Status))
	if !ok {
		return ""
	}
	return why.String()
}

// key is a document's key as it is shown: in quotes where it is not plain text.
func (c *packetsCmd) key(r *packets.Record) string {
	switch {
	case c.Redact && r.Document:
		return fmt.Sprintf("(%d bytes)", len(r.Key))
	case !utf8.Valid(r.Key) || strings.ContainsFunc(string(r.Key), func(x rune) bool { return x <= ' ' || x == 0x7f }):
		return fmt.Sprintf("%q", r.Key)
	}
	return string(r.Key)
}

func (c *packetsCmd) line(r *packets.Record) string {
	arrow := map[packets.Kind]string{
		packets.Request: "->", packets.Answer: "<-", packets.Push: "<-", packets.Note: "--",
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s #%d %s ", r.Time.Format("15:04:05.000000"), r.Conn, arrow[r.Kind])
	if r.Kind == packets.Note {
		if r.Node == "" {
			return b.String() + r.Detail
		}
		return b.String() + r.Client + " " + r.Node + ": " + r.Detail
	}
	fmt.Fprintf(&b, "%s 0x%x", r.Name(), r.Opaque)
	if r.Kind == packets.Answer {
		b.WriteString(" " + r.Status.String())
		if why := retryReason(r); why != "" {
			b.WriteString(" (" + why + ")")
		}
	}
	if len(r.Key) > 0 {
		b.WriteString(" " + c.key(r))
	}
	if r.Kind == packets.Request && r.HasCollection {
		fmt.Fprintf(&b, " vb %d collection 0x%x", r.VBucket, r.Collection)
	}
	if r.ValueLen > 0 {
		fmt.Fprintf(&b, " %d B", r.ValueLen)
	}
	if r.CAS != 0 {
		fmt.Fprintf(&b, " cas 0x%x", r.CAS)
	}
	for _, f := range r.Frames {
		b.WriteString(" [" + f + "]")
	}
	if r.Detail != "" {
		b.WriteString(" " + r.Detail)
	}
	if r.Answered {
		b.WriteString(" " + short(r.Took))
		if r.Server > 0 {
			b.WriteString(" of which the node " + short(r.Server))
		}
	}
	return b.String()
}

func (c *packetsCmd) object(r *packets.Record) packetJSON {
	o := packetJSON{
		Time: r.Time.UTC().Format(time.RFC3339Nano), Connection: r.Conn, Client: r.Client, Node: r.Node,
		Kind: string(r.Kind), Detail: r.Detail, Frames: r.Frames, Reason: retryReason(r),
	}
	if r.Kind == packets.Note {
		return o
	}
	o.Opcode, o.Opaque, o.ValueLen = r.Name(), &r.Opaque, r.ValueLen
	if r.Datatype != 0 {
		o.Datatype = r.Datatype.String()
	}
	if r.Kind == packets.Answer {
		o.Status = r.Status.String()
	}
	if len(r.Key) > 0 {
		key := c.key(r)
		o.Key = &key
	}
	if r.HasCollection {
		id := fmt.Sprintf("0x%x", r.Collection)
		o.Collection, o.VBucket = &id, &r.VBucket
	}
	if r.CAS != 0 {
		o.CAS = fmt.Sprintf("0x%x", r.CAS)
	}
	if r.Answered {
		took := float64(r.Took) / 1e3
		o.TookUS = &took
	}
	if r.Server > 0 {
		us := float64(r.Server) / 1e3
		o.ServerUS = &us
	}
	return o
}
