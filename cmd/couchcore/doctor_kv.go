package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
)

// connect goes the client's own way to a node: to the login, and with a bucket to its map.
func (d *doctor) connect(ctx context.Context, addr, bucket string) (*handshake.Info, error) {
	o := &handshake.Options{
		Dial: d.dial, Mechanisms: d.cfg.Auth.Mechanisms, AllowPlain: d.cfg.Auth.AllowPlain, Agent: `{"a":"couchcore doctor"}`, Timeout: d.limit,
		Features: []memd.Feature{memd.FeatureXError, memd.FeatureSelectBucket, memd.FeatureJSON}, Bucket: bucket,
		WantConfig: bucket != "",
		Credentials: func(context.Context, string) (handshake.Credentials, error) {
			return handshake.Credentials{Username: d.cfg.Auth.Username, Password: d.cfg.Auth.Password}, nil
		},
	}
	if d.cfg.TLS.Enabled {
		o.TLS = d.tlsConfig(addr)
	}
	made, err := handshake.Connect(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	_ = made.Conn.Close()
	return &made.Info, nil
}

// authentication logs in.
func (d *doctor) authentication(ctx context.Context) finding {
	if d.cfg.Auth.Username == "" {
		f := finding{detail: "not tried: there is no user name"}
		if len(d.mechs) > 0 {
			f.warning("give --username and --password",
				"the server offers logins, and will refuse most requests without one")
		}
		return f
	}
	addr := d.up[0]
	began := time.Now()
	info, err := d.connect(ctx, addr, "")
	if err == nil {
		f := finding{detail: fmt.Sprintf("%s as %s", info.Mechanism, d.cfg.Auth.Username)}
		f.slow(probed{addr: addr, took: time.Since(began)})
		return f
	}
	return broken(addr+": "+stepReason(err), d.loginAdvice(err))
}

// stepReason is a failure to connect without the address, which stands before it.
func stepReason(err error) string {
	var ce *handshake.Error
	if errors.As(err, &ce) {
		return ce.Reason()
	}
	return reasonOf(err)
}

// loginAdvice says what to do about a login that failed.
func (d *doctor) loginAdvice(err error) string {
	var ce *handshake.Error
	switch {
	case errors.As(err, &ce) && ce.Answered && errors.Is(err, cberr.AuthenticationFailure):
		advice := fmt.Sprintf("check --username (%s) and --password: the server does not know them together",
			d.cfg.Auth.Username)
		// kv_engine says so where external authentication is on.
		if strings.Contains(ce.Context, "external user") && (!d.cfg.TLS.Enabled || d.cfg.TLS.Config != nil &&
			d.cfg.TLS.Config.InsecureSkipVerify) {
			advice += "; a user of LDAP or PAM needs TLS with a verified certificate"
		}
		return advice
	case len(d.mechs) > 0 && !slices.ContainsFunc(d.mechs, func(m string) bool {
		return strings.HasPrefix(m,
			"SCRAM-")
	}):
		if slices.Contains(d.mechs, "PLAIN") {
			return "the server takes PLAIN only, which shows the password: use TLS (couchbases://), or --allow-plain " +
				"where no other program can read the traffic"
		}
		return "the server offers " + strings.Join(d.mechs, ", ") +
			", and this client has none of these: switch SCRAM on, there"
	}
	return "see the server's log; the network and the handshake are well"
}

// selectBucket opens the bucket and keeps the map that comes with it.
func (d *doctor) selectBucket(ctx context.Context) finding {
	for _, addr := range d.up {
		info, err := d.connect(ctx, addr, d.bucket)
		if err != nil {
			return broken(addr+": "+stepReason(err), d.bucketAdvice(err))
		}
		d.source, d.raw = addr, info.Config
		if d.raw != nil {
			break
		}
	}
	return finding{detail: fmt.Sprintf("%q can be opened", d.bucket)}
}

func (d *doctor) bucketAdvice(err error) string {
	var ce *handshake.Error
	switch {
	case errors.Is(err, cberr.BucketAccess):
		return fmt.Sprintf("give the user %s a role for the bucket %q, such as Data Reader, or name another with "+
			"--bucket; the bucket may also not exist", or(d.cfg.Auth.Username, "without a name"), d.bucket)
	case errors.As(err, &ce) && ce.Answered && ce.Status == memd.StatusKeyNotFound:
		return fmt.Sprintf("there is no bucket %q on that node: check --bucket, or create it", d.bucket)
	case errors.As(err, &ce) && ce.Answered:
		return "the bucket may be warming up: try again in a while, and see the server's log"
	}
	return "see the server's log; the login has worked"
}

// config reads the map.
func (d *doctor) config(ctx context.Context) finding {
	if d.raw == nil {
		return d.configOverHTTP(ctx)
	}
	host, _, _ := net.SplitHostPort(d.source)
	var err error
	if d.snap, err = topology.Parse(d.raw, host, topology.Options{
		MaxBytes: d.cfg.Limits.Map,
		MaxDepth: d.cfg.Limits.MapDepth, TLS: d.cfg.TLS.Enabled,
	}); err != nil {
		return broken(d.source+": "+err.Error(), "see whether something in between changes what the server says")
	}
	networks := append([]string{topology.DefaultNetwork}, d.snap.Networks()...)
	switch d.network = d.cfg.Net.Network; d.network {
	case "", "auto":
		d.network = d.snap.Network(d.source)
	default:
		if !slices.Contains(networks, d.network) {
			return broken(fmt.Sprintf("the nodes have no addresses on the network %q", d.network),
				"leave ?network= out, or name one of "+strings.Join(networks, ", "))
		}
	}
	f := finding{detail: fmt.Sprintf("epoch %d rev %d, %s, %s, network %s", d.snap.Epoch, d.snap.Rev,
		plural(len(d.snap.Nodes), "node"),
		plural(d.snap.NumVBuckets(), "vbucket"), d.network)}
	for _, e := range d.snap.Endpoints(topology.KV, d.network, d.cfg.TLS.Enabled) {
		d.nodesKV = append(d.nodesKV, e.Addr)
	}
	d.copies(&f)
	return f
}

// copies warns of vbuckets that lack some.
func (d *doctor) copies(f *finding) {
	orphaned, thin := 0, 0
	for vb := range d.snap.NumVBuckets() {
		if d.snap.NodeIndex(uint16(vb), 0) < 0 {
			orphaned++
			continue
		}
		for r := 1; r <= d.snap.Replicas; r++ {
			if d.snap.NodeIndex(uint16(vb), r) < 0 {
				thin++
				break
			}
		}
	}
	if orphaned > 0 {
		f.warning("bring the node back, or fail it over and rebalance",
			"%d of %d vbuckets have no active copy: calls for their documents wait in vain", orphaned,
			d.snap.NumVBuckets())
	}
	if thin > 0 {
		f.warning("rebalance, or add a node", "%d of %d vbuckets lack replicas: durable writes there may be impossible",
			thin, d.snap.NumVBuckets())
	}
}

// configOverHTTP lets the client get the map that the nodes do not give by themselves.
func (d *doctor) configOverHTTP(ctx context.Context) finding {
	m, err := d.mapOfClient(ctx)
	if err != nil {
		return broken("no host gives a cluster map, over the key-value protocol or over HTTP: "+err.Error(),
			"see whether the bucket is warming up; "+d.mapAdvice(err))
	}
	d.nodesKV = m.Nodes
	f := finding{detail: fmt.Sprintf("epoch %d rev %d, %s, %s, over HTTP", m.Epoch, m.Rev, plural(len(m.Nodes), "node"),
		plural(m.VBuckets, "vbucket"))}
	f.warning("nothing, if the server is old or something else than a server; maps over HTTP come later than others",
		"the nodes give no map over the key-value protocol")
	return f
}

// mapOfClient is the map that the client comes to, in whatever way.
func (d *doctor) mapOfClient(ctx context.Context) (core.Map, error) {
	c, err := d.open()
	if err != nil {
		return core.Map{}, err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	b := c.Bucket(d.bucket)
	if _, err = b.Layout(ctx); err != nil {
		return core.Map{}, err
	}
	m, _ := b.Map()
	if len(m.Nodes) == 0 {
		return m, errors.New("the map names no node")
	}
	return m, nil
}

func (d *doctor) mapAdvice(err error) string {
	switch {
	case errors.Is(err, cberr.AuthenticationFailure):
		return fmt.Sprintf("check --username (%s) and --password: the server does not know them together",
			d.cfg.Auth.Username)
	case errors.Is(err, cberr.BucketNotFound):
		return fmt.Sprintf("check --bucket (%s), or create it", d.bucket)
	}
	return "see whether the port is the management service's (usually 8091)"
}
