package core

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// Config says how to reach a cluster and how to behave. Every zero value is usable: the cluster is then on this machine
// and wants no password. A Config is read by Open and not kept.
type Config struct {
	// Hosts are the nodes to ask for the first cluster map, as "host" or "host:port" (IPv6 in brackets). Default:
	// 127.0.0.1 at the default port.
	Hosts []string
	// SRV is the name of a DNS SRV record that names nodes too, as in "_couchbases._tcp.db.example.com"; connection
	// strings of one host without a port set it. It is looked up beside the hosts' own addresses, and again when no
	// node can be reached any more; that it does not exist is no error.
	SRV string
	// HTTPHosts are management services to ask for cluster maps over HTTP, as "host:port", where nodes give none over
	// key-value connections or cannot be connected to. Default: those of Hosts, and of the nodes once there is a map.
	// Without Hosts they are the only addresses. Without TLS such a request shows the password, so that nodes that have
	// not taken a login are asked with one only if HTTPHosts is set, Bootstrap is BootstrapHTTP, or AllowPlain allows
	// it.
	HTTPHosts []string
	// Bootstrap says over which protocol cluster maps come. Default: BootstrapBoth.
	Bootstrap    Bootstrap
	MapsOverHTTP MapsOverHTTP
	// Resolver looks SRV up. Default: net.DefaultResolver.
	Resolver Resolver
	// UseTLS encrypts all connections. TLS may then set roots, client certificates and the rest, for all protocols
	// alike; no roots means the system's. Setting TLS implies UseTLS. Certificates are verified, each for the host that
	// was dialled unless TLS names one, and nothing older than TLS 1.2 is spoken. Verification is off only with
	// TLS.InsecureSkipVerify. A connection that fails to be encrypted is not made without.
	UseTLS bool
	TLS    *tls.Config
	// RequireTLS refuses a configuration that would not encrypt. Requests to HTTP services show the password to anyone
	// who listens otherwise, unlike key-value connections: the log says so, once. Without TLS, or with
	// TLS.InsecureSkipVerify, only hosts of Hosts, HTTPHosts and SRV are sent it over HTTP, and not those that only a
	// cluster map names, unless AllowPlain is set.
	RequireTLS bool

	Username string
	Password Secret
	// Token is a bearer token, as in JWT, instead of Username and Password. It is sent over TLS only.
	Token Secret
	// Credentials overrides Username, Password and Token. It is called for each new connection and for each request to
	// a service, on goroutines of the client's, with a context that ends with the attempt, after CredentialsTimeout at
	// the latest. A call that does not end then is left to itself.
	Credentials        func(ctx context.Context) (Credentials, error)
	CredentialsTimeout time.Duration // 0 means 5 s
	// Mechanisms are the SASL mechanisms to use, best first. Default: SCRAM-SHA512, SCRAM-SHA256, SCRAM-SHA1, and over
	// TLS also PLAIN. The first is tried; PLAIN follows a refusal, as of a user of LDAP or PAM, where the server lists
	// it and its certificate was verified (not with TLS.InsecureSkipVerify), or with AllowPlain.
	Mechanisms []string
	// AllowPlain allows PLAIN on an unencrypted socket, and passwords in HTTP requests to all nodes of a cluster map
	// without TLS. Both show the password to anyone who listens.
	AllowPlain bool

	// Bucket is the bucket that the connection string named; Open does nothing with it.
	Bucket string

	// Retry is the strategy of calls that name none. Default: retry.FastFailOnTerminalError.
	Retry retry.Strategy
	// Policy is a retry policy file, as ParsePolicy reads it: strategies, hedges and timeouts by operation, and a
	// throttle by node. What a call names itself wins over it, and it wins over Retry, unless an entry is pinned; the
	// throttle binds every strategy.
	Policy *policy.Config
	// Classify may name a retry reason for an answer to a key-value call that the client has none for; retry.Unknown
	// leaves it a failure. It is asked only where sending the request again is safe: the operation is idempotent, or
	// the status is known to leave the document as it was. It runs on a goroutine of the client's that is no
	// connection's, so it may block, and holds up only its own call then.
	Classify func(Answer) retry.Reason
	// CircuitBreaker keeps calls from nodes that leave them without an answer; nil means none.
	CircuitBreaker *CircuitBreaker
	// DisableRetries leaves only the repetitions of requests that no server has looked at.
	DisableRetries bool
	// MaxParked bounds the calls that wait for their next attempt; 0 means 32768.
	MaxParked int
	// MaxParkedBytes and MaxCallBytes bound what such calls keep in memory, together and each; 0 means no limit.
	MaxParkedBytes, MaxCallBytes int64

	KVTimeout        time.Duration // of a key-value call; 0 means 2.5 s
	KVDurableTimeout time.Duration // of a durable write; 0 means 10 s
	ScanTimeout      time.Duration // of each request of a kv.Scan that names none; 0 means 10 s
	// QueryTimeout and the four after it are those of requests to a service, rows included, that have no deadline of
	// their own; 0 means 75 s. ManagementTimeout is that of all services that have none here.
	QueryTimeout, SearchTimeout, AnalyticsTimeout, ViewTimeout, ManagementTimeout time.Duration

	ConnectTimeout time.Duration // of dial, TLS and bootstrap together; 0 means 10 s
	ReconnectMax   time.Duration // the longest pause between two attempts to connect to a node; 0 means 4 s
	PollInterval   time.Duration // between two looks for a newer cluster map; 0 means 2.5 s
	PollFloor      time.Duration // the least time between any two of them; 0 means 50 ms
	PollTimeout    time.Duration // how long one of them is waited for, at most PollInterval; 0 means 2.5 s
	CloseTimeout   time.Duration // how long Close waits for what runs; 0 means 5 s

	// MaxHTTPConnections bounds the connections to one node's service, 0 means no limit, and MaxIdleHTTPConnections
	// those of them that are kept open unused; 0 means 64. MaxIdleHTTPTotal bounds the unused ones to all nodes
	// together, 0 means no limit. HTTPIdleTimeout is for how long: 0 means 1 s. Services close such connections after
	// about five seconds themselves.
	MaxHTTPConnections, MaxIdleHTTPConnections, MaxIdleHTTPTotal int
	HTTPIdleTimeout                                              time.Duration
	// of dialing, and of TLS; 0 means ConnectTimeout
	HTTPConnectTimeout time.Duration

	// Connections is how many there are to each node for each bucket, at most 1024; 0 means 1. It does not change. A
	// key's calls always go over the same one, in the order in which they are made, as long as it can be connected. A
	// node has one more while kv.GetFailoverLog is in use, which servers refuse where execution is unordered; it ends
	// when it was idle for 10 s.
	Connections int

	// Limits of what nodes and callers can make the client hold. 0 means the default; a value out of bounds is refused.
	QueueLimit   int // calls that wait for one connection; 0 means 2048
	MaxInFlight  int // calls in flight on one connection; 0 means 32768, at most 49152
	FrameLimit   int // bytes of a packet's body; 0 means 32 MiB
	InflateLimit int // bytes that a compressed value may become; 0 means 32 MiB
	RowLimit     int // bytes of one row of a service, and of all in an answer that is no row; 0 means 64 MiB
	// levels of the JSON of one row, or of one other part of such an answer; 0 means 8192, at most 9000
	RowDepth      int
	ConfigLimit   int // bytes of a cluster map; 0 means 16 MiB
	ConfigDepth   int // levels of its JSON; 0 means 64
	ErrorMapLimit int // bytes of a node's error map; 0 means 1 MiB
	SRVLimit      int // answers of one DNS SRV lookup that are used; 0 means 64

	// NoNotifications keeps nodes from telling of new cluster maps, so that they are asked at every PollInterval.
	NoNotifications bool
	// NoMutationTokens keeps nodes from sending mutation tokens, NoServerDurations from sending how long they worked,
	// and NoUnordered from answering out of order. ResourceUnits asks for what operations cost, where clusters count
	// that.
	NoMutationTokens, NoServerDurations, NoUnordered, ResourceUnits bool
	// Compression says which values are sent compressed. Its zero value compresses what is above 32 bytes when that
	// saves 17 percent.
	Compression kv.Compression

	// Network says which addresses of the nodes to use: "default", "external" or another name. "" or "auto" takes the
	// network on which a node has the address that gave the first cluster map, or that of another host of the
	// configuration; when none has, "external" if nodes have such addresses, otherwise "default".
	Network string
	// Dial opens sockets. Default: net.Dialer. Its network is "tcp", or "tcp4" with ForceIPv4. One that panics, or
	// gives neither a connection nor an error, has failed, and so has a callback of TLS that panics.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// NodeFilter is asked before each dial of an address that a cluster map names, which is "host:port"; an error
	// refuses it. It must not block. Hosts, HTTPHosts and what SRV names are not asked about. Nil refuses loopback and
	// link-local addresses unless one of those hosts has such an address, and unspecified and multicast ones; see
	// AnyNode and AllowNodes.
	NodeFilter func(addr string) error
	// ForceIPv4 connects to IPv4 addresses only.
	ForceIPv4 bool
	// KeepAlive is after how long without traffic TCP looks whether the other end is still there: 0 means 60 s, less
	// than that never. It is for the default Dial; another one decides for itself.
	KeepAlive time.Duration
	// Dice gives numbers in [0,1) for jitter and for choosing nodes. Default: math/rand/v2.
	Dice func() float64

	// Log gets state changes and, at debug level, every retry decision; nil discards. Its handler gets the lines in
	// order, on a goroutine of the client's: one that blocks holds up no call. Up to 4096 lines wait for it, further
	// ones are lost, and a line "Log lines lost" says how many. Close waits for it for a second at most. Only the
	// handler's Enabled runs where a line would be written, connections' readers among the places, and must not block.
	// Panics are contained.
	Log *slog.Logger
	// RetryObserver is told of every attempt, decision and end of what has failed once, on whatever goroutine it
	// happens, so that it must not block. What it is given is its own, and stays as it is. Nil: no observer; a panic is
	// contained.
	RetryObserver retry.Observer
	// TracerProvider and MeterProvider get a span and a duration of each operation; nil means none, at no cost.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// NoOrphanReport leaves answers that came too late out of the log; otherwise there is a line about those of each
	// OrphanInterval or PollInterval, whichever is longer, which describes OrphanSample of them. 0 means 10 s, and 10.
	NoOrphanReport bool
	OrphanInterval time.Duration
	OrphanSample   int
	// AllowEnterpriseAnalytics sends requests to the analytics service of an Enterprise Analytics cluster too.
	// Otherwise they fail with cberr.FeatureNotAvailable: its language differs.
	AllowEnterpriseAnalytics bool
	// Agent names the application in the handshake, at most 200 bytes.
	Agent string

	port       int  // for hosts that name none
	preferHTTP bool // HTTPHosts were asked for: they are tried when no other host can be reached
	ownDial    bool // Dial is the default one
	breaker    *dispatch.BreakerOptions
}

// CircuitBreaker says when calls are kept from a node: then they fail to be sent with retry.CircuitBreakerOpen, and
// their strategy decides. Of a call that timed out in flight or lost its connection it counts a failure, of any answer
// a success. After SleepWindow it sends a NOOP of its own, never a call; an answer to that closes it again. Zero values
// mean the defaults.
type CircuitBreaker struct {
	Volume        int           // calls without which nothing is decided; 0 means 20
	Percentage    int           // of failures from which it opens, 1 to 100; 0 means 50
	RollingWindow time.Duration // over which is counted; 0 means 60 s
	SleepWindow   time.Duration // between attempts to close it; 0 means 5 s
	CanaryTimeout time.Duration // of the NOOP; 0 means 5 s
}

func (b *CircuitBreaker) options() (*dispatch.BreakerOptions, error) {
	if b == nil {
		return nil, nil
	}
	if b.Percentage < 0 || b.Percentage > 100 {
		return nil, &ConfigError{"CircuitBreaker.Percentage", "is not between 0 and 100"}
	}
	for name, v := range map[string]int64{
		"Volume": int64(b.Volume), "RollingWindow": int64(b.RollingWindow), "SleepWindow": int64(b.SleepWindow),
		"CanaryTimeout": int64(b.CanaryTimeout),
	} {
		if v < 0 {
			return nil, &ConfigError{"CircuitBreaker." + name, "is negative"}
		}
	}
	return &dispatch.BreakerOptions{
		Volume: cmp.Or(b.Volume, 20), Percentage: cmp.Or(b.Percentage, 50), RollingWindow: cmp.Or(b.RollingWindow, time.Minute),
		SleepWindow: cmp.Or(b.SleepWindow, 5*time.Second), CanaryTimeout: cmp.Or(b.CanaryTimeout, 5*time.Second),
	}, nil
}

const maxAgent = 200

// ConfigError names the field of a Config that cannot be used.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string { return "configuration: " + e.Field + " " + e.Reason }

// withDefaults checks the configuration and fills in what is left out.
func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"KVTimeout", &c.KVTimeout, 2500 * time.Millisecond},
		{"KVDurableTimeout", &c.KVDurableTimeout, 10 * time.Second},
		{"QueryTimeout", &c.QueryTimeout, httpTimeout},
		{"SearchTimeout", &c.SearchTimeout, httpTimeout},
		{"AnalyticsTimeout", &c.AnalyticsTimeout, httpTimeout},
		{"ViewTimeout", &c.ViewTimeout, httpTimeout},
		{"ManagementTimeout", &c.ManagementTimeout, httpTimeout},
		{"HTTPIdleTimeout", &c.HTTPIdleTimeout, time.Second},
		{"ConnectTimeout", &c.ConnectTimeout, 10 * time.Second},
		{"CredentialsTimeout", &c.CredentialsTimeout, 5 * time.Second},
		{"ReconnectMax", &c.ReconnectMax, 4 * time.Second},
		{"ScanTimeout", &c.ScanTimeout, 10 * time.Second},
		{"PollInterval", &c.PollInterval, 2500 * time.Millisecond},
		{"PollFloor", &c.PollFloor, 50 * time.Millisecond},
		{"PollTimeout", &c.PollTimeout, 2500 * time.Millisecond},
		{"MapsOverHTTP.Timeout", &c.MapsOverHTTP.Timeout, 5 * time.Second},
		{"MapsOverHTTP.IdleTimeout", &c.MapsOverHTTP.IdleTimeout, 5 * time.Minute},
		{"MapsOverHTTP.RedialPeriod", &c.MapsOverHTTP.RedialPeriod, 0},
		{"MapsOverHTTP.RetryMax", &c.MapsOverHTTP.RetryMax, 10 * time.Second},
		{"OrphanInterval", &c.OrphanInterval, observe.OrphanInterval},
		{"HTTPConnectTimeout", &c.HTTPConnectTimeout, cmp.Or(max(c.ConnectTimeout, 0), 10*time.Second)},
		{"CloseTimeout", &c.CloseTimeout, 5 * time.Second},
	} {
		if *d.v < 0 {
			return c, &ConfigError{d.name, "is negative"}
		}
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if err := c.limitDefaults(); err != nil {
		return c, err
	}
	var err error
	if c.breaker, err = c.CircuitBreaker.options(); err != nil {
		return c, err
	}
	if len(c.Agent) > maxAgent {
		return c, &ConfigError{"Agent", fmt.Sprintf("has %d bytes, limit %d", len(c.Agent), maxAgent)}
	}
	c.UseTLS = c.UseTLS || c.TLS != nil
	if c.Username == "" && !c.Password.Empty() && c.Credentials == nil {
		return c, &ConfigError{"Username", "is empty, and Password is set"}
	}
	if c.RequireTLS && !c.UseTLS {
		return c, &ConfigError{"RequireTLS", "is set, and UseTLS is not"}
	}
	if c.UseTLS {
		c.TLS = c.TLS.Clone() // of nil, too
		if c.TLS == nil {
			c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		c.TLS.MinVersion = max(c.TLS.MinVersion, tls.VersionTLS12)
		containedTLS(c.TLS)
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	c.ownDial = c.Dial == nil
	c.Dial = c.dialer()
	if c.Dice == nil {
		c.Dice = rand.Float64
	} else {
		c.Dice = fairDice(c.Dice)
	}
	if c.port == 0 {
		c.port = 11210
		if c.UseTLS {
			c.port = 11207
		}
	}
	switch c.Bootstrap {
	case "":
		c.Bootstrap = BootstrapBoth
	case BootstrapBoth, BootstrapKV, BootstrapHTTP:
	default:
		return c, &ConfigError{"Bootstrap", "must be cccp or http"}
	}
	c.seeds()
	return c, nil
}

// seeds completes the addresses to begin with. The management service of a host whose port is not the usual one is not
// known.
func (c *Config) seeds() {
	c.preferHTTP = len(c.HTTPHosts) > 0
	if len(c.Hosts) == 0 && !c.preferHTTP {
		c.Hosts = []string{"127.0.0.1"}
	}
	usual := strconv.Itoa(c.port)
	seeds, http := make([]string, 0, len(c.Hosts)), slices.Clone(c.HTTPHosts)
	for _, h := range c.Hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			host, port = trimBrackets(h), usual
		}
		seed := net.JoinHostPort(host, port)
		if addr, ok := c.management(seed); ok && !slices.Contains(http, addr) {
			http = append(http, addr)
		}
		seeds = append(seeds, seed)
	}
	c.Hosts, c.HTTPHosts = seeds, http
	if c.Bootstrap == BootstrapHTTP {
		c.Hosts = nil // nodes are connected to once a map has named them
	}
}

// management is the management service beside a data service; false when that has a port of its own.
func (c *Config) management(addr string) (string, bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port != strconv.Itoa(c.port) {
		return "", false
	}
	if c.UseTLS {
		return net.JoinHostPort(host, strconv.Itoa(portMgmtTLS)), true
	}
	return net.JoinHostPort(host, strconv.Itoa(portMgmt)), true
}

func trimBrackets(h string) string {
	if len(h) > 2 && h[0] == '[' && h[len(h)-1] == ']' {
		return h[1 : len(h)-1]
	}
	return h
}

var _ kv.Dispatcher = (*Bucket)(nil)
