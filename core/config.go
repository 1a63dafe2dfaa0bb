package core

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// Config says how to reach a cluster and how to behave, in groups. Every zero value is usable: the cluster is then on
// this machine and wants no password. Open reads a Config and does not keep it. It refuses numbers out of the bounds
// that their fields name, and negative times where a field does not say what they mean, with a *ConfigError.
type Config struct {
	Seeds   SeedConfig    // where to begin
	Net     NetConfig     // how nodes are addressed and connected to
	Auth    AuthConfig    // who the client is
	TLS     TLSConfig     // encryption
	KV      KVConfig      // key-value operations and connections
	HTTP    HTTPConfig    // query, search, analytics, views and management
	Maps    MapConfig     // cluster maps
	Retry   RetryConfig   // what is sent again, and when
	Limits  LimitConfig   // what nodes and callers can make the client hold
	Observe ObserveConfig // logs, spans, durations, reports

	// Bucket is the bucket that the connection string named; Open does nothing with it.
	Bucket string
	// Agent names the application in the handshake, at most 200 bytes.
	Agent string
	// CloseTimeout is how long Close waits for what runs; 0 means 5 s.
	CloseTimeout time.Duration

	port       int  // for hosts that name none
	preferHTTP bool // HTTPHosts were asked for: they are tried when no other host can be reached
	ownDial    bool // Net.Dial is the default one
	breaker    *dispatch.BreakerOptions
}

// SeedConfig says which nodes give the first cluster map.
type SeedConfig struct {
	// Hosts are the nodes to ask, as "host" or "host:port" (IPv6 in brackets). Default: 127.0.0.1 at the default port.
	Hosts []string
	// SRV is the name of a DNS SRV record that names nodes too, as in "_couchbases._tcp.db.example.com"; connection
	// strings of one host without a port set it. It is looked up beside the hosts' own addresses, and again when no
	// node can be reached any more; that it does not exist is no error.
	SRV string
	// HTTPHosts are management services to ask for cluster maps over HTTP, as "host:port", where nodes give none over
	// key-value connections or cannot be connected to. Default: those of Hosts, and of the nodes once there is a map.
	// Without Hosts they are the only addresses. Without TLS such a request shows the password, so that nodes that have
	// not taken a login are asked with one only if HTTPHosts is set, Maps.Bootstrap is BootstrapHTTP, or
	// Auth.AllowPlain allows it.
	HTTPHosts []string
	// Resolver looks SRV up. Default: net.DefaultResolver.
	Resolver Resolver
}

// NetConfig says how nodes are addressed and connected to.
type NetConfig struct {
	// Network says which addresses of the nodes to use: "default", "external" or another name. "" or "auto" takes the
	// network on which a node has the address that gave the first cluster map, or that of another host of the
	// configuration; when none has, "external" if nodes have such addresses, otherwise "default".
	Network string
	// Dial opens sockets. Default: net.Dialer. Its network is "tcp", or "tcp4" with ForceIPv4. One that panics, or
	// gives neither a connection nor an error, has failed, and so has a callback of TLS that panics. For connections to
	// data nodes the context has the profiler labels (see runtime/pprof.Label) "couchcore.node", "couchcore.bucket",
	// empty for the cluster as a whole, and "couchcore.connection", the number among the node's.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// NodeFilter is asked before each dial of an address that a cluster map names, which is "host:port"; an error
	// refuses it. It must not block. The seeds are not asked about. Nil refuses loopback and link-local addresses
	// unless a seed has such an address, and unspecified and multicast ones; see AnyNode and AllowNodes.
	NodeFilter func(addr string) error
	// ForceIPv4 connects to IPv4 addresses only.
	ForceIPv4 bool
	// KeepAlive is after how long without traffic TCP looks whether the other end is still there: 0 means 60 s, a
	// negative time never. It is for the default Dial; another one decides for itself.
	KeepAlive time.Duration
	// ConnectTimeout bounds dial, TLS and handshake of a connection together; 0 means 10 s.
	ConnectTimeout time.Duration
	// ReconnectMax is the longest pause between two attempts to connect to a node; 0 means 4 s.
	ReconnectMax time.Duration
}

// AuthConfig says who the client is.
type AuthConfig struct {
	Username string
	Password Secret
	// Token is a bearer token, as in JWT, instead of Username and Password. It is sent over TLS only.
	Token Secret
	// Credentials overrides Username, Password and Token. It is called for each new connection and for each request to
	// a service, on goroutines of the client's, with a context that ends with the attempt, after Timeout at the latest.
	// A call that does not end then is left to itself. LoginTargetOf tells of the context whom they are for.
	Credentials func(ctx context.Context) (Credentials, error)
	Timeout     time.Duration // of Credentials; 0 means 5 s
	// Mechanisms are the SASL mechanisms to use, best first. Default: SCRAM-SHA512, SCRAM-SHA256, SCRAM-SHA1, and over
	// TLS also PLAIN. The first is tried; PLAIN follows a refusal, as of a user of LDAP or PAM, where the server lists
	// it and its certificate was verified (not with InsecureSkipVerify), or with AllowPlain.
	Mechanisms []string
	// AllowPlain allows PLAIN on an unencrypted socket, and passwords in HTTP requests to all nodes of a cluster map
	// without TLS. Both show the password to anyone who listens.
	AllowPlain bool
}

// TLSConfig says how connections are encrypted.
type TLSConfig struct {
	// Enabled encrypts all connections. A connection that fails to be encrypted is not made without. Setting Config
	// implies it.
	Enabled bool
	// Config sets roots, client certificates and the rest, for all protocols alike; no roots means the system's.
	// Certificates are verified, each for the host that was dialled unless Config names one, and nothing older than TLS
	// 1.2 is spoken. Verification is off only with InsecureSkipVerify.
	Config *tls.Config
	// Required refuses a configuration that would not encrypt. Requests to HTTP services show the password to anyone
	// who listens otherwise, unlike key-value connections: the log says so, once. Without TLS, or with
	// InsecureSkipVerify, only seeds are sent it over HTTP, and not those nodes that only a cluster map names, unless
	// Auth.AllowPlain is set.
	Required bool
}

// KVConfig is about key-value operations and their connections.
type KVConfig struct {
	Timeout        time.Duration // of an operation; 0 means 2.5 s
	DurableTimeout time.Duration // of a durable write; 0 means 10 s
	ScanTimeout    time.Duration // of each request of a kv.Scan that names none; 0 means 10 s
	// Connections is how many there are to each node for each bucket, 1 to 1024; 0 means 1. It does not change. A
	// key's calls always go over the same one, in the order in which they are made, as long as it can be connected. A
	// node has one more while kv.GetFailoverLog is in use, which servers refuse where execution is unordered; it ends
	// when it was idle for 10 s.
	Connections int
	// MaxPaths is how many paths a kv.LookupIn or kv.MutateIn may have, 16 to 256; 0 means 16. A server takes 16 unless
	// its setting subdoc_multi_max_paths is higher, which clients are not told of: it refuses more with
	// cberr.InvalidArgument. 256 is the most because an answer names a path by one byte.
	MaxPaths int
	// ReadBuffer is the size of a connection's read buffer, 256 KiB to 64 MiB, which then stays. 0 is for a buffer that
	// grows to 256 KiB while answers fill it and shrinks to 4 KiB at rest. A larger one saves a busy client some reads,
	// and a program whose memory is small otherwise many of its garbage collections.
	ReadBuffer int
	// Compression says which values are sent compressed. Its zero value compresses what is above 32 bytes when that
	// saves 17 percent.
	Compression Compression
	// NoMutationTokens keeps nodes from sending mutation tokens, NoServerDurations from sending how long they worked,
	// and NoUnordered from answering out of order. ResourceUnits asks for what operations cost, where clusters count
	// that.
	NoMutationTokens, NoServerDurations, NoUnordered, ResourceUnits bool
	// WithoutFeatures are features that HELLO does not ask for besides: to see what a program does without them, or for
	// a server that grants one and fails at it. What needs one of them fails as on a server that has it not.
	WithoutFeatures []memd.Feature
}

// HTTPConfig is about requests to the HTTP services.
type HTTPConfig struct {
	// QueryTimeout and the four after it are those of requests to a service, rows included, that have no deadline of
	// their own; 0 means 75 s. ManagementTimeout is that of all services that have none here.
	QueryTimeout, SearchTimeout, AnalyticsTimeout, ViewTimeout, ManagementTimeout time.Duration
	// MaxConnections bounds the connections to one node's service, 0 means no limit, and MaxIdle those of them that are
	// kept open unused; 0 means 64. MaxIdleTotal bounds the unused ones to all nodes together, 0 means no limit. Each
	// is 16777216 at most. IdleTimeout is for how long: 0 means 1 s. Services close such connections after about five
	// seconds themselves.
	MaxConnections, MaxIdle, MaxIdleTotal int
	IdleTimeout                           time.Duration
	ConnectTimeout                        time.Duration // of dialing, and of TLS; 0 means Net.ConnectTimeout
	// AllowEnterpriseAnalytics sends requests to the analytics service of an Enterprise Analytics cluster too.
	// Otherwise they fail with cberr.FeatureNotAvailable: its language differs.
	AllowEnterpriseAnalytics bool
}

// MapConfig says where cluster maps come from and how often they are looked for.
type MapConfig struct {
	// Bootstrap says over which protocol cluster maps come. Default: BootstrapBoth.
	Bootstrap    Bootstrap
	OverHTTP     MapsOverHTTP
	PollInterval time.Duration // between two looks for a newer cluster map; 0 means 2.5 s
	PollFloor    time.Duration // the least time between any two of them; 0 means 50 ms
	PollTimeout  time.Duration // how long one of them is waited for, at most PollInterval; 0 means 2.5 s
	// NoNotifications keeps nodes from telling of new cluster maps, so that they are asked at every PollInterval.
	NoNotifications bool
}

// RetryConfig says what is sent again, and when.
type RetryConfig struct {
	// Strategy is for calls that name none. Default: retry.FastFailOnTerminalError.
	Strategy retry.Strategy
	// Policy is a retry policy file, as ParsePolicy reads it: strategies, hedges and timeouts by operation, and a
	// throttle by node. What a call names itself wins over it, and it wins over Strategy, unless an entry is pinned;
	// the throttle binds every strategy.
	Policy *policy.Config
	// Classify may name a retry reason for an answer to a key-value call that the client has none for; retry.Unknown
	// leaves it a failure. It is asked only where sending the request again is safe: the operation is idempotent, or
	// the status is known to leave the document as it was. It runs on a goroutine of the client's that is no
	// connection's, so it may block, and holds up only its own call then.
	Classify func(Answer) retry.Reason
	// CircuitBreaker keeps calls from nodes that leave them without an answer; nil means none.
	CircuitBreaker *CircuitBreaker
	// Disabled leaves only the repetitions of requests that no server has looked at.
	Disabled bool
	// JitterSource gives numbers in [0,1) for the jitter of delays and for choosing nodes. It is called where a failure
	// was seen, and must not block or end its goroutine. Default: math/rand/v2.
	JitterSource func() float64
}

// LimitConfig has the limits of what nodes and callers can make the client hold.
type LimitConfig struct {
	Queue int // calls that wait for one connection, 1 to 16777216; 0 means 2048
	// calls in flight on one connection, 1 to 49152; 0 means 32768. Of the client's own requests (for maps, ids of
	// collections, logins and signs of life) 64 more may be. They do not count for Queue either.
	InFlight    int
	Parked      int   // calls that wait for their next attempt, 1 to 16777216; 0 means 32768
	ParkedBytes int64 // bytes that such calls keep in memory together; 0 means no limit
	CallBytes   int64 // bytes that each of them keeps; 0 means no limit
	Packet      int   // bytes of a packet's body, 64 KiB to 1 GiB; 0 means 32 MiB
	Inflated    int   // bytes that a compressed value may become, 1 to 1 GiB; 0 means 32 MiB
	// bytes of one row of a service, and of all in an answer that is no row, 1 to 1 GiB; 0 means 64 MiB
	Row int
	// levels of the JSON of one row, or of one other part of such an answer, 8 to 9000; 0 means 8192
	RowDepth int
	Map      int // bytes of a cluster map, 1 KiB to 1 GiB; 0 means 16 MiB
	MapDepth int // levels of its JSON, 8 to 10000; 0 means 128
	ErrorMap int // bytes of a node's error map, 1 KiB to 1 GiB; 0 means 1 MiB
	SRV      int // answers of one DNS SRV lookup that are used, 1 to 4096; 0 means 64
}

// ObserveConfig says who is told what the client does.
type ObserveConfig struct {
	// Log gets state changes and, at debug level, every retry decision; nil discards. Its handler gets the lines in
	// order, on a goroutine of the client's: one that blocks holds up no call. Up to 4096 lines wait for it, further
	// ones are lost, and a line "Log lines lost" says how many. Close waits for it for a second at most. That goroutine
	// also asks the handler's Enabled. Lines of a level that it has refused are left out; after 100 ms it is asked
	// again by one of them, and the others are left out until it has answered. Panics are contained.
	Log *slog.Logger
	// Retry is told of every attempt, decision and end of what has failed once, on whatever goroutine it happens, so
	// that it must not block. What it is given is its own, and stays as it is. Nil: no observer; a panic is contained.
	Retry retry.Observer
	// TracerProvider and MeterProvider get a span and a duration of each operation; nil means none, at no cost.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Conventions says under which names: the stable ones, those of older SDKs, or both. Default:
	// ConventionsOfEnvironment.
	Conventions Conventions
	// OuterIsCallers is for an SDK that makes a span and a duration of each of its operations itself: the client makes
	// those of attempts alone, below the span in the call's context, and counts no operation.
	OuterIsCallers bool
	// NoInnerSpans leaves out the spans of attempts and of encoding.
	NoInnerSpans bool
	// Instrumentation is the name that tracer and meter are got by, and its version, for an SDK that has its own.
	// Default: com.couchbase.client.go and Version.
	Instrumentation, InstrumentationVersion string
	// Hook is told of every operation when it begins and when it has ended, whatever form it has and whatever service
	// it is for. Its methods must not block. A panic is contained. Nil costs nothing.
	Hook OperationHook
	// NoThresholdReport leaves slow operations out of the log; otherwise there is a line about those of each
	// ThresholdInterval that had some, at level info, which describes the ThresholdSample slowest of each service.
	NoThresholdReport bool
	ThresholdInterval time.Duration // 0 means 10 s
	ThresholdSample   int           // 1 to 65536; 0 means 10
	Thresholds        Thresholds
	// NoOrphanReport leaves answers that came too late out of the log; otherwise there is such a line about them, at
	// level warn. Both reports are the JSON of SDK RFC 67; Close writes the last.
	NoOrphanReport bool
	OrphanInterval time.Duration // 0 means 10 s
	OrphanSample   int           // 1 to 65536; 0 means 10
	// AppTelemetry is what the client tells the cluster itself, where that asks.
	AppTelemetry AppTelemetryConfig
}

// OperationHook is told of operations; see ObserveConfig. Its methods:
//
//	// Begin is told of an operation before anything of it is sent, on its caller's goroutine. Attempts, and the
//	// parts of an operation that has parts, are made with the context that it gives: a span in it is their parent.
//	// Nil gives ctx.
//	Begin(ctx context.Context, of core.Operation) context.Context
//	// End is told how it has ended, once for each Begin, with the context that Begin has given. It may come on any
//	// goroutine, and comes before the operation's caller, or its callback, gets the outcome.
//	End(ctx context.Context, of core.Operation, how core.OperationEnd)
//
// An operation that fails before it is sent, for an argument say, is told of too. What the client does for itself, such
// as fetching cluster maps, is no operation.
type OperationHook = observe.Hook

// Operation is what an OperationHook is told of: the service ("kv", "query" ...), the name ("get", "query" ...), the
// bucket, the scope, the collection and the durability, each "" where it has no meaning. Parts says that it is made of
// operations that are told of as well: a batch, a scan, reads of all copies, a durability that is polled. Its fields:
//
//	Service, Operation, Bucket, Scope, Collection, Durability string
//	Parts bool
type Operation = observe.Target

// OperationEnd is how an operation has ended. Its fields:
//
//	Err      error              // nil for a success; what the caller gets otherwise
//	Took     time.Duration      // from Begin to End
//	Retries  int                // resends, hedges among them
//	Attempts []OperationAttempt // in the order of their ends; none of an operation with parts
type OperationEnd = observe.Ended

// OperationAttempt is one attempt of an operation. What is not known is zero. Its fields:
//
//	Endpoint     string        // the node's address
//	LocalAddr    string        // this end of the connection
//	ConnectionID string        // as in the HELLO of a key-value connection
//	OperationID  string        // a key-value request's opaque as 0x and hex digits, or a request's client context id
//	Status       string        // of an answer that is no success
//	ErrorName    string        // as the attribute error.type has it; "" for a success
//	Began        time.Time
//	Took, Server time.Duration // Server: that the server says it has worked
type OperationAttempt = observe.Tried

// Conventions are the names of spans, metrics and attributes.
type Conventions uint8

// The conventions. The environment's are those that OTEL_SEMCONV_STABILITY_OPT_IN names when the client is opened: both
// for database/dup, else the stable ones.
const (
	ConventionsOfEnvironment Conventions = iota
	ConventionsStable                    // OpenTelemetry's
	ConventionsLegacy                    // those of gocb and other SDKs before them
	ConventionsBoth                      // each attribute under both names, and durations in two histograms
)

// names are the conventions as the instruments know them.
func (c Conventions) names() observe.Conventions {
	switch c {
	case ConventionsLegacy:
		return observe.Legacy
	case ConventionsBoth:
		return observe.Both
	case ConventionsOfEnvironment:
		if optedInto(os.Getenv("OTEL_SEMCONV_STABILITY_OPT_IN")) == ConventionsBoth {
			return observe.Both
		}
	case ConventionsStable:
	}
	return observe.Stable
}

// optedInto reads a list of conventions, in the form of the environment or of the RFC's option; other members of it
// are about others.
func optedInto(list string) (c Conventions) {
	for opt := range strings.SplitSeq(strings.ToLower(list), ",") {
		switch strings.TrimSpace(opt) {
		case "database/dup", "database_dup":
			return ConventionsBoth
		case "database":
			c = ConventionsStable
		}
	}
	return c
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
	// Healthy says whether what has become of a call counts as a success: an answer that reports a failure, which is a
	// success otherwise, and the failures from above. It is asked on a goroutine where it may block; one that panics
	// counts nothing. Nil decides as said.
	Healthy func(err error) bool
}

// Compression says which values of documents are sent compressed. The zero value is what other clients do: values above
// 32 bytes, when that saves 17 percent. A connection that does not grant it sends values as they are.
type Compression struct {
	Off      bool
	MinSize  int     // only values that are larger; 0 means 32
	MinRatio float64 // compressed to original length at most; 0 means 0.83, more than 1 means 1
}
