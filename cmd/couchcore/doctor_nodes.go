package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/topology"
)

// nodes connects to every node of the map as the client does. One that cannot be reached fails the step, and none the
// examination.
func (d *doctor) nodes(ctx context.Context) finding {
	addrs := d.nodesKV
	if len(addrs) == 0 {
		kind := "without encryption: write couchbases://"
		if d.cfg.TLS.Enabled {
			kind = "with TLS: write couchbase://, or switch TLS on, there"
		}
		return broken("no node of the map has a key-value port on the network "+d.network,
			"the nodes may have such ports "+kind)
	}
	all := each(addrs, func(addr string) (string, error) {
		_, err := d.connect(ctx, addr, d.bucket)
		return "", err
	})
	for i := range all {
		if all[i].err != nil {
			all[i].err = &nodeError{stepReason(all[i].err), all[i].err}
		}
	}
	other := d.otherNetwork(ctx)
	detail, up, bad := split(all, func(p probed) string {
		if other != "" {
			return fmt.Sprintf("the nodes can be reached from here on the network %q: add ?network=%s to the "+
				"connection string", other, other)
		}
		return d.nodeAdvice(p)
	})
	f := finding{detail: detail, bad: bad, stop: len(up) == 0}
	f.slow(all...)
	return f
}

// nodeError is a failure to connect with a shorter text.
type nodeError struct {
	text string
	err  error
}

func (e *nodeError) Error() string { return e.text }

// Unwrap gives the failure.
func (e *nodeError) Unwrap() error { return e.err }

func (d *doctor) nodeAdvice(p probed) string {
	var ce *handshake.Error
	if errors.As(p.err, &ce) && ce.Step == handshake.StepDial {
		return d.dialAdvice(p) + "; the client needs a way to every address in the map, also from within containers " +
			"and through address translation"
	}
	switch {
	case errors.Is(p.err, cberr.TLSFailure):
		return d.tlsAdvice(p)
	case errors.Is(p.err, cberr.BucketNotFound), errors.Is(p.err, cberr.BucketAccess):
		return d.bucketAdvice(p.err)
	case errors.Is(p.err, cberr.AuthenticationFailure):
		return d.loginAdvice(p.err)
	}
	return d.helloAdvice(p.err)
}

// otherNetwork is one on which every node can be connected to, "" without one, or when the present one will do.
func (d *doctor) otherNetwork(ctx context.Context) string {
	if d.snap == nil {
		return ""
	}
	reachable := func(network string) bool {
		var addrs []string
		for _, e := range d.snap.Endpoints(topology.KV, network, d.cfg.TLS.Enabled) {
			addrs = append(addrs, e.Addr)
		}
		_, _, bad := split(each(addrs, func(addr string) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, d.limit)
			defer cancel()
			nc, err := d.dial(ctx, "tcp", addr)
			if err != nil {
				return "", err
			}
			return "", nc.Close()
		}), func(probed) string { return "" })
		return len(addrs) > 0 && len(bad) == 0
	}
	networks := append([]string{topology.DefaultNetwork}, d.snap.Networks()...)
	if len(networks) == 1 || reachable(d.network) {
		return ""
	}
	for _, n := range networks {
		if n != d.network && reachable(n) {
			return n
		}
	}
	return ""
}

// open makes a client that goes where the examination has gone.
func (d *doctor) open() (*core.Cluster, error) {
	cfg := d.cfg
	cfg.Seeds.SRV, cfg.Net.ConnectTimeout, cfg.KV.Timeout = "", d.limit, d.limit
	if !d.http {
		cfg.Seeds.Hosts = d.up
	}
	if cfg.TLS.Enabled {
		cfg.TLS.Config = d.tlsConfig("")
		cfg.TLS.Config.ServerName = ""
		if d.cfg.TLS.Config != nil {
			cfg.TLS.Config.ServerName = d.cfg.TLS.Config.ServerName
		}
	}
	d.cmd.tell(d.app, &cfg)
	d.keepLog(&cfg)
	c, _, err := open(&cfg)
	return c, err
}

const skewWarning = time.Minute // from which on it matters

// services pings all of them on every node that offers them, by the client's own ways.
func (d *doctor) services(ctx context.Context) finding {
	c, err := d.open()
	if err != nil {
		return broken(err.Error(), "")
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 4*d.limit)
	defer cancel()
	r, err := c.Ping(ctx, core.PingOptions{Services: serviceNames[:], Timeout: d.limit})
	if err != nil {
		return broken(err.Error(), "the nodes answer, and the client gets no map from them: see its log")
	}
	var f finding
	var parts, missing []string
	for _, name := range serviceNames {
		ok := 0
		for _, p := range r.Services[name] {
			if p.State == "ok" {
				ok++
				f.slow(probed{addr: name + " " + p.Remote, took: time.Duration(p.LatencyUS) * time.Microsecond})
				continue
			}
			f.bad = append(f.bad, problem{fmt.Sprintf("%s %s: %s", name, p.Remote, p.Error), serviceAdvice(p.Error)})
		}
		if n := len(r.Services[name]); n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d of %d", name, ok, n))
		} else {
			missing = append(missing, name)
		}
	}
	f.detail = or(strings.Join(parts, ", "), "the map names no services")
	if len(missing) > 0 {
		f.detail += "; no node offers " + strings.Join(missing, ", ")
	}
	return f
}

func serviceAdvice(text string) string {
	if strings.Contains(text, "node filter refuses") {
		return "correct the address that the node gives of itself; or name a host with such an address in the " +
			"connection string, if it is meant"
	}
	return "see whether the service runs on that node, and whether a firewall lets its port through"
}

// clock compares this machine's with that of a node, as it stands in an answer of the management service.
func (d *doctor) clock(ctx context.Context) finding {
	const unknown = "unknown: no management service says what time it is"
	c, err := d.open()
	if err != nil {
		return broken(err.Error(), "")
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	if _, err = c.Bucket(d.bucket).Layout(ctx); err != nil || len(c.Endpoints(core.Management)) == 0 {
		return finding{detail: unknown}
	}
	began := d.now()
	resp, err := c.Do(ctx, &core.HTTPRequest{
		Service: core.Management, Method: http.MethodGet, Path: "/whoami",
		Timeout: d.limit,
	})
	if err != nil {
		return finding{detail: unknown}
	}
	_ = resp.Body.Close()
	ended := d.now()
	theirs, err := http.ParseTime(http.Header(resp.Header).Get("Date"))
	if err != nil {
		return finding{detail: "unknown: " + resp.Endpoint + " does not say what time it is"}
	}
	var skew time.Duration // whole seconds are all that the answer has
	switch {
	case theirs.Before(began.Add(-time.Second)):
		skew = began.Sub(theirs)
	case theirs.After(ended):
		skew = theirs.Sub(ended)
	}
	skew = skew.Round(time.Second)
	f := finding{detail: fmt.Sprintf("this machine's and %s's are %v apart", resp.Endpoint, skew)}
	if skew > skewWarning {
		f.warning("set the clocks by NTP: expiry times and certificates depend on them",
			"this machine's clock and that of %s differ by %v", resp.Endpoint, skew)
	}
	return f
}
