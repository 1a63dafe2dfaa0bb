package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// dns looks up what the connection string names.
func (d *doctor) dns(ctx context.Context) finding {
	if len(d.names) == 0 {
		return finding{detail: "nothing to look up: the hosts are addresses"}
	}
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	var f finding
	var parts []string
	if d.cfg.Seeds.SRV != "" {
		_, records, err := d.resolve.LookupSRV(ctx, "", "", d.cfg.Seeds.SRV)
		for _, r := range records {
			if host := strings.TrimSuffix(r.Target, "."); host != "" && r.Port != 0 {
				d.seeds = append(d.seeds, net.JoinHostPort(host, strconv.Itoa(int(r.Port))))
			}
		}
		var no *net.DNSError
		switch {
		case len(records) > 0:
			parts = append(parts, fmt.Sprintf("SRV %s", plural(len(records), "target")))
		case errors.As(err, &no) && no.IsNotFound, err == nil:
			parts = append(parts, "no SRV record")
		default:
			f.warning("see whether the DNS server answers, or name the hosts in the connection string",
				"the SRV record %s cannot be looked up: %v", d.cfg.Seeds.SRV, err)
		}
	}
	for _, name := range d.names {
		addrs, err := d.resolve.LookupHost(ctx, name)
		if err == nil {
			parts = append(parts, fmt.Sprintf("%s is %s", name, strings.Join(addrs, ", ")))
			continue
		}
		d.seeds = slices.DeleteFunc(d.seeds, func(addr string) bool {
			host, _,
				_ := net.SplitHostPort(addr)
			return host == name
		})
		if len(d.seeds) > 0 && d.cfg.Seeds.SRV != "" { // the SRV record has named others
			continue
		}
		f.warning(nameAdvice(err), "%s cannot be looked up: %v", name, err)
	}
	f.detail = strings.Join(parts, "; ")
	if len(d.seeds) == 0 {
		f.bad, f.warn, f.stop, f.detail = f.warn, nil, true, ""
	}
	return f
}

func nameAdvice(err error) string {
	var no *net.DNSError
	if errors.As(err, &no) && no.IsNotFound {
		return "check the spelling of the host name, and whether the DNS server of this machine knows it"
	}
	return "see whether this machine's DNS server answers"
}

// probed is one address that was tried.
type probed struct {
	addr string
	took time.Duration
	note string
	err  error
}

// each tries all addresses at the same time, a few of them at once, and gives what came of it in their order.
func each(addrs []string, try func(addr string) (note string, err error)) []probed {
	all := make([]probed, len(addrs))
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			began := time.Now()
			note, err := try(addr)
			all[i] = probed{addr, time.Since(began), note, err}
		})
	}
	wg.Wait()
	return all
}

// split is what is known of those that answered, as text, and who they are; and the problems of the others.
func split(all []probed, advice func(probed) string) (detail string, up []string, bad []problem) {
	var parts []string
	note := ""
	for _, p := range all {
		if p.err != nil {
			bad = append(bad, problem{p.addr + ": " + reasonOf(p.err), advice(p)})
			continue
		}
		if note != "" && note != p.note { // what is the same for several is said behind the last
			parts = append(parts, note)
		}
		note = p.note
		up = append(up, p.addr)
		parts = append(parts, p.addr+" "+short(p.took))
	}
	if note != "" {
		parts = append(parts, note)
	}
	return strings.Join(parts, ", "), up, bad
}

// dial connects like the client does.
func (d *doctor) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	network := "tcp"
	if d.cfg.Net.ForceIPv4 {
		network = "tcp4"
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

// tcp connects to each host. One that answers is enough to go on.
func (d *doctor) tcp(ctx context.Context) finding {
	all := each(d.seeds, func(addr string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, d.limit)
		defer cancel()
		nc, err := d.dial(ctx, "tcp", addr)
		if err != nil {
			return "", err
		}
		return "", nc.Close()
	})
	return d.reached(all, func(p probed) string { return d.dialAdvice(p) })
}

// reached makes a finding of which hosts are left: the others are a warning while there is one.
func (d *doctor) reached(all []probed, advice func(probed) string) finding {
	detail, up, bad := split(all, advice)
	d.up = up
	if len(up) == 0 {
		return finding{bad: bad, stop: true}
	}
	f := finding{detail: detail, warn: bad}
	f.slow(all...)
	return f
}

// slowAnswer is from when on an answer is too late for operations, which have 2.5 s with all their retries.
const slowAnswer = 500 * time.Millisecond

// slow warns of nodes that have answered late.
func (f *finding) slow(all ...probed) {
	for _, p := range all {
		if p.err == nil && p.took >= slowAnswer {
			f.warning("see whether the node has too much to do, and whether the network in between is slow or far",
				"%s took %s, and operations time out after 2.5 s", p.addr, short(p.took))
		}
	}
}

// portsOfHTTP are ports that people take for the key-value service's.
var portsOfHTTP = map[string]string{
	"8091": "management", "18091": "management with TLS", "8092": "views", "18092": "views with TLS", "8093": "query",
	"18093": "query with TLS",
	"8094":  "search", "18094": "search with TLS", "8095": "analytics", "18095": "analytics with TLS",
}

func (d *doctor) dialAdvice(p probed) string {
	_, port, _ := net.SplitHostPort(p.addr)
	if service := portsOfHTTP[port]; service != "" && !d.http {
		return fmt.Sprintf("port %s is the %s service's: leave the port out, or give the key-value service's, %s", port,
			service, d.defaultPort())
	}
	switch {
	case errors.Is(p.err, syscall.ECONNREFUSED) && d.http:
		return "nothing listens there: see whether the server is up, and whether the port is its management port " +
			"(usually 8091)"
	case errors.Is(p.err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens there: see whether the server is up, and whether the port is its "+
			"key-value port (usually %s)", d.defaultPort())
	case isTimeout(p.err):
		return "nothing comes back: see whether a firewall drops packets, and whether the address is right and " +
			"reachable from here"
	case errors.Is(p.err, syscall.EHOSTUNREACH) || errors.Is(p.err, syscall.ENETUNREACH):
		return "there is no way to that network from here: check the address, routes and VPN"
	}
	return "check the address, and whether it is reachable from here"
}

func (d *doctor) defaultPort() string {
	if d.cfg.TLS.Enabled {
		return "11207"
	}
	return "11210"
}

// reasonOf is an error without what the line says already: the address and the operation.
func reasonOf(err error) string {
	var op *net.OpError
	if d := (*documentError)(nil); errors.As(err, &d) {
		return d.Error()
	}
	if errors.As(err, &op) && op.Op == "dial" {
		err = op.Err
		var sys syscall.Errno
		if errors.As(err, &sys) {
			return sys.Error()
		}
	}
	if isTimeout(err) {
		return "no answer in time"
	}
	return strings.ReplaceAll(err.Error(), "\n", ": ")
}

const certWarning = 30 * 24 * time.Hour // before a certificate's end

// tls shakes hands with each host.
func (d *doctor) tls(ctx context.Context) finding {
	if !d.cfg.TLS.Enabled {
		return finding{detail: "not used: " + or(d.spec.Scheme, "couchbase") + " is not encrypted"}
	}
	var mu sync.Mutex
	ends := map[string]time.Time{}
	all := each(d.up, func(addr string) (string, error) {
		s, err := d.handshake(ctx, addr)
		if err != nil {
			return "", err
		}
		note := tls.VersionName(s.Version)
		if len(s.PeerCertificates) > 0 {
			c := s.PeerCertificates[0]
			note += fmt.Sprintf(" (%s, until %s)", certName(c), c.NotAfter.UTC().Format(time.DateOnly))
			mu.Lock()
			ends[addr] = c.NotAfter
			mu.Unlock()
		}
		return note, nil
	})
	f := d.reached(all, d.tlsAdvice)
	if f.stop {
		return f
	}
	if d.cmd.TLSSkipVerify {
		f.warning("leave out --tls-skip-verify and give the CA with --tls-ca",
			"certificates are not checked: a machine in between can read and change everything")
		return f
	}
	for _, addr := range d.up {
		if left := ends[addr].Sub(d.now()); left < certWarning {
			f.warning("renew the certificate", "the certificate of %s ends in %d days", addr, int(left.Hours()/24))
		}
	}
	return f
}

// handshake connects with TLS by this machine's clock.
func (d *doctor) handshake(ctx context.Context, addr string) (*tls.ConnectionState, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	nc, err := d.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	tc := tls.Client(nc, d.tlsConfig(addr))
	defer func() { _ = tc.Close() }()
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	s := tc.ConnectionState()
	return &s, nil
}

// tlsConfig is that of the client for one host.
func (d *doctor) tlsConfig(addr string) *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.cfg.TLS.Config != nil {
		t = d.cfg.TLS.Config.Clone()
	}
	if t.ServerName == "" {
		t.ServerName, _, _ = net.SplitHostPort(addr)
	}
	t.Time = d.now
	return t
}

func certName(c *x509.Certificate) string {
	if c.Subject.CommonName != "" {
		return "CN=" + c.Subject.CommonName
	}
	return "for " + strings.Join(certNames(c), ", ")
}

// certNames are the hosts that a certificate is for.
func certNames(c *x509.Certificate) []string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return []string{"no host"}
	}
	return names
}

// tlsAdvice says what to do about a handshake that failed.
func (d *doctor) tlsAdvice(p probed) string {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(p.err, &unknown):
		issuer := "its issuer"
		if unknown.Cert != nil {
			issuer = fmt.Sprintf("%q", or(unknown.Cert.Issuer.CommonName, unknown.Cert.Issuer.String()))
		}
		return "give the certificate of " + issuer + ": --tls-ca FILE, or ?truststorepath=FILE in the connection string"
	case errors.As(p.err, &host):
		return "connect to a name that the certificate is for: " + strings.Join(certNames(host.Certificate), ", ")
	case errors.As(p.err, &invalid) && invalid.Reason == x509.Expired:
		now := d.now()
		if invalid.Cert != nil && now.Before(invalid.Cert.NotBefore) {
			return fmt.Sprintf("it is valid from %s on, and this machine's clock says %s: correct the clock",
				date(invalid.Cert.NotBefore), date(now))
		}
		ended := "some time ago"
		if invalid.Cert != nil {
			ended = date(invalid.Cert.NotAfter)
		}
		return fmt.Sprintf("it ended at %s, and this machine's clock says %s: renew the certificate, or correct the "+
			"clock", ended, date(now))
	case errors.As(p.err, &record), isEnd(p.err):
		return "that port seems not to speak TLS: give the TLS port (usually 11207), or write couchbase:// to go " +
			"without encryption"
	case isAlert(p.err):
		return "the server ended the handshake: it may want a client certificate, or another version of TLS"
	}
	return "see whether a firewall or proxy is in between, and whether the port is the TLS port (usually 11207)"
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
