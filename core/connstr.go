package core

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/cberr"
)

// ConnSpec is a connection string, taken apart. Nothing is looked up or connected to.
type ConnSpec struct {
	// Scheme is "couchbase", "couchbases", "http" or, when the string names none, empty.
	Scheme string
	// Hosts are in the string's order. None means 127.0.0.1.
	Hosts []HostPort
	// Bucket is what stands in the path, unescaped. It may be empty.
	Bucket string
	// Options are in the string's order. Those that LookupOption knows have valid values; the others are kept as they
	// are.
	Options []ConnOption
}

// HostPort is a host and its port.
type HostPort struct {
	Host string // a name, or an address without brackets
	Port int    // 0 when the string names none
}

// String is the pair as a connection string has it: IPv6 addresses in brackets, no port where it has none.
func (h HostPort) String() string {
	s := h.Host
	if strings.Contains(s, ":") {
		s = "[" + s + "]"
	}
	if h.Port != 0 {
		s += ":" + strconv.Itoa(h.Port)
	}
	return s
}

// ConnOption is one key and value of a connection string, both unescaped.
type ConnOption struct{ Key, Value string }

// ConnStringError says what is wrong with a connection string and where. It repeats nothing of the string but the key
// of an option and the value of one that the client knows: a password may have slipped in anywhere else.
type ConnStringError struct {
	Pos    int    // the byte, counted from 0
	Field  string // "scheme", "user info", "host", "port", "bucket", "option" or the key of an option
	Reason string
}

func (e *ConnStringError) Error() string {
	return fmt.Sprintf("connection string: %s at byte %d %s", e.Field, e.Pos, e.Reason)
}

// Unwrap gives the kind.
func (e *ConnStringError) Unwrap() error { return cberr.InvalidArgument }

const (
	maxConnString = 64 << 10
	maxBucketName = 100
	maxHostName   = 253
	maxHostLabel  = 63

	schemeCouchbase  = "couchbase"
	schemeCouchbases = "couchbases"
	schemeHTTP       = "http"
)

// Default ports of the two protocols, plain and with TLS.
const (
	portKV      = 11210
	portKVTLS   = 11207
	portMgmt    = 8091
	portMgmtTLS = 18091
)

// schemes has every scheme that is recognised; a reason refuses it.
var schemes = map[string]string{
	schemeCouchbase: "", schemeCouchbases: "", schemeHTTP: "",
	"https":      "is https, which is not supported: use couchbases",
	"ns_server":  "is ns_server, which is for the server's own processes and not supported",
	"ns_servers": "is ns_servers, which is for the server's own processes and not supported",
}

// ParseSpec takes a connection string apart:
//
//	[scheme://] host[:port] {, host[:port]} [/bucket] [?key=value{&key=value}]
//
// A semicolon separates hosts too. IPv6 addresses stand in brackets. User info is refused. The error is a
// *ConnStringError.
func ParseSpec(s string) (ConnSpec, error) {
	if len(s) > maxConnString {
		return ConnSpec{}, &ConnStringError{
			maxConnString, "host", fmt.Sprintf("is out of bounds: limit %d bytes in all", maxConnString),
		}
	}
	main, query, hasQuery := strings.Cut(s, "?")
	if at := strings.IndexByte(main, '@'); at >= 0 {
		return ConnSpec{}, &ConnStringError{
			at, "user info", "is refused: credentials belong in the configuration, not in the string",
		}
	}
	var spec ConnSpec
	start, err := spec.parseScheme(main)
	if err != nil {
		return ConnSpec{}, err
	}
	hosts, path, hasPath := strings.Cut(main[start:], "/")
	if hasPath && strings.HasSuffix(hosts, ":") && strings.HasPrefix(path, "/") {
		return ConnSpec{}, &ConnStringError{
			start + len(hosts) - 1, "scheme", "is the second one: one stands before all hosts",
		}
	}
	if err := spec.parseHosts(hosts, start); err != nil {
		return ConnSpec{}, err
	}
	if spec.Scheme == schemeHTTP && strings.TrimRight(path, "/") == "pools" {
		return ConnSpec{}, &ConnStringError{
			start + len(hosts) + 1, "bucket",
			"is pools, a path of the cluster manager: leave it out, or set a bucket of that name in the configuration",
		}
	}
	if err := spec.parseBucket(path, start+len(hosts)+1); err != nil {
		return ConnSpec{}, err
	}
	if hasQuery && query != "" {
		if err := spec.parseOptions(query, len(main)+1); err != nil {
			return ConnSpec{}, err
		}
	}
	return spec, nil
}

// parseScheme gives the position after the scheme.
func (c *ConnSpec) parseScheme(s string) (int, error) {
	slash := strings.IndexByte(s, '/')
	if slash < 1 || s[slash-1] != ':' || !strings.HasPrefix(s[slash:], "//") {
		return 0, nil
	}
	name := s[:slash-1]
	if i := strings.IndexAny(name, ",;"); i >= 0 {
		return 0, &ConnStringError{i + 1, "scheme", "stands before a single host: one stands before all hosts"}
	}
	refused, ok := schemes[name]
	lowerRefused, okLower := schemes[strings.ToLower(name)]
	switch {
	case ok && refused == "":
		c.Scheme = name
		return slash + 2, nil
	case okLower && lowerRefused != "":
		return 0, &ConnStringError{0, "scheme", lowerRefused}
	case okLower:
		return 0, &ConnStringError{0, "scheme", "must be written in lower case"}
	}
	return 0, &ConnStringError{0, "scheme", "must be couchbase, couchbases or http"}
}

func (c *ConnSpec) parseHosts(s string, pos int) error {
	if s == "" {
		return nil
	}
	for {
		end := strings.IndexAny(s, ",;")
		one := s
		if end >= 0 {
			one = s[:end]
		}
		h, err := c.parseHost(one, pos)
		if err != nil {
			return err
		}
		c.Hosts = append(c.Hosts, h)
		if end < 0 {
			return nil
		}
		s, pos = s[end+1:], pos+end+1
	}
}

func (c *ConnSpec) parseHost(s string, pos int) (h HostPort, err error) {
	tail := ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return h, &ConnStringError{pos, "host", "has no closing bracket"}
		}
		if h.Host, err = ipv6(s[1:end], pos+1); err != nil {
			return h, err
		}
		tail = s[end+1:]
		pos += end + 1
		if tail != "" && tail[0] != ':' {
			return h, &ConnStringError{pos, "host", "goes on after the bracket"}
		}
	} else {
		colon := strings.IndexByte(s, ':')
		if colon < 0 {
			colon = len(s)
		}
		if strings.Count(s, ":") > 1 {
			return h, &ConnStringError{pos, "host", "has several colons: an IPv6 address stands in brackets"}
		}
		if err := checkHost(s[:colon], pos); err != nil {
			return h, err
		}
		h.Host, tail = s[:colon], s[colon:]
		pos += colon
	}
	if tail == "" {
		return h, nil
	}
	h.Port, err = c.parsePort(tail[1:], pos+1)
	return h, err
}

func (c *ConnSpec) parsePort(s string, pos int) (int, error) {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, &ConnStringError{pos + i, "port", "is not a number"}
		}
		n = min(n*10+int(s[i]-'0'), 1<<20)
	}
	switch {
	case s == "":
		return 0, &ConnStringError{pos, "port", "is empty"}
	case n < 1 || n > 65535:
		return 0, &ConnStringError{pos, "port", "is not in 1..65535"}
	case (n == portMgmt || n == portMgmtTLS) && (c.Scheme == schemeCouchbase || c.Scheme == schemeCouchbases):
		return 0, &ConnStringError{pos, "port", fmt.Sprintf("is %d, the management port: leave it out with %s://", n,
			c.Scheme)}
	case n == portMgmtTLS && c.Scheme == schemeHTTP:
		return 0, &ConnStringError{pos, "port", "is 18091, where the cluster manager speaks TLS: use couchbases:// " +
			"without a port"}
	case n != portMgmt && c.Scheme == "":
		return 0, &ConnStringError{pos, "port", "is ambiguous without a scheme: write couchbase://, couchbases:// or " +
			"http:// first"}
	}
	return n, nil
}

// checkHost accepts names and IPv4 addresses.
func checkHost(s string, pos int) error {
	if s == "" {
		return &ConnStringError{pos, "host", "is empty"}
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return &ConnStringError{pos + i, "host", "has a character that no host name has (international names: in " +
				"their ASCII form)"}
		}
	}
	if strings.Trim(s, "0123456789.") == "" {
		if _, err := netip.ParseAddr(s); err != nil {
			return &ConnStringError{pos, "host", "is neither a name nor an IPv4 address"}
		}
		return nil
	}
	name := strings.TrimSuffix(s, ".")
	if len(name) > maxHostName {
		return &ConnStringError{pos, "host", fmt.Sprintf("has %d characters, limit %d", len(name), maxHostName)}
	}
	at := pos
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxHostLabel {
			return &ConnStringError{at, "host", fmt.Sprintf("has a part of %d characters, limits 1 and %d", len(label),
				maxHostLabel)}
		}
		at += len(label) + 1
	}
	return nil
}

func nameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.'
}

// ipv6 gives the address in its shortest form; one that stands for an IPv4 address as that. The percent sign before a
// zone may be written as %25, as RFC 6874 has it.
func ipv6(s string, pos int) (string, error) {
	if address, zone, ok := strings.Cut(s, "%25"); ok && zone != "" {
		s = address + "%" + zone
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() {
		return "", &ConnStringError{pos, "host", "is not an IPv6 address"}
	}
	for i := range len(a.Zone()) {
		if !nameByte(a.Zone()[i]) {
			return "", &ConnStringError{pos, "host", "has a zone with a character that no interface name has"}
		}
	}
	return a.Unmap().String(), nil
}

func (c *ConnSpec) parseBucket(s string, pos int) error {
	name, err := url.PathUnescape(s)
	if err != nil {
		return &ConnStringError{pos, "bucket", "has an invalid escape"}
	}
	if len(name) > maxBucketName {
		return &ConnStringError{pos, "bucket", fmt.Sprintf("has %d bytes, limit %d", len(name), maxBucketName)}
	}
	for i := range len(name) {
		if !nameByte(name[i]) && name[i] != '%' {
			return &ConnStringError{pos, "bucket", "has a character other than letters, digits and -_.%"}
		}
	}
	c.Bucket = name
	return nil
}

// TLS reports whether the string asks for TLS, by its scheme or by enable_tls.
func (c ConnSpec) TLS() bool {
	if c.Scheme == schemeCouchbases {
		return true
	}
	v, ok := c.Option("enable_tls")
	return ok && v.Bool
}

// SRVEligible reports whether the host may stand for DNS SRV records: a scheme of the couchbase family, and exactly one
// host that is a name without a port.
func (c ConnSpec) SRVEligible() bool {
	if c.Scheme != schemeCouchbase && c.Scheme != schemeCouchbases || len(c.Hosts) != 1 || c.Hosts[0].Port != 0 {
		return false
	}
	_, err := netip.ParseAddr(c.Hosts[0].Host)
	return err != nil
}

// Addresses are where to ask for the first cluster map, with their ports: over the key-value protocol and over HTTP. A
// host with a port of its own has only the protocol that the scheme stands for.
func (c ConnSpec) Addresses() (kv, http []HostPort) {
	kvPort, mgmtPort := portKV, portMgmt
	if c.TLS() {
		kvPort, mgmtPort = portKVTLS, portMgmtTLS
	}
	hosts := c.Hosts
	if len(hosts) == 0 {
		hosts = []HostPort{{Host: "127.0.0.1"}}
	}
	memcached := c.Scheme == schemeCouchbase || c.Scheme == schemeCouchbases
	for _, h := range hosts {
		switch {
		case h.Port == 0, memcached && h.Port == kvPort, !memcached && h.Port == portMgmt:
			kv = append(kv, HostPort{h.Host, kvPort})
			http = append(http, HostPort{h.Host, mgmtPort})
		case memcached:
			kv = append(kv, h)
		default:
			http = append(http, h)
		}
	}
	return kv, http
}

// String is the connection string again: what ParseSpec makes of it equals c. It has the values of all options; for
// logs there is Redacted.
func (c ConnSpec) String() string {
	return c.text(func(o ConnOption) string { return url.QueryEscape(o.Value) })
}

// Redacted is as String, with stars for the values of options that the client does not know, and without user and
// password of an endpoint.
func (c ConnSpec) Redacted() string {
	return c.text(func(o ConnOption) string {
		if _, ok := LookupOption(o.Key); !ok {
			return "***"
		}
		if o.Key == optionTelemetryEndpoint {
			return url.QueryEscape(withoutUserinfo(o.Value))
		}
		return url.QueryEscape(o.Value)
	})
}

func (c ConnSpec) text(value func(ConnOption) string) string {
	var b strings.Builder
	if c.Scheme != "" {
		b.WriteString(c.Scheme + "://")
	}
	for i, h := range c.Hosts {
		if i > 0 {
			b.WriteByte(',')
		}
		host := h.String()
		if _, zone, _ := strings.Cut(h.Host, "%25"); zone != "" {
			host = strings.Replace(host, "%", "%25", 1) // or the zone's 25 would be taken for an escape
		}
		b.WriteString(host)
	}
	if c.Bucket != "" {
		b.WriteString("/" + url.PathEscape(c.Bucket))
	}
	for i, o := range c.Options {
		b.WriteByte("?&"[min(i, 1)])
		b.WriteString(o.Key + "=" + value(o))
	}
	return b.String()
}
