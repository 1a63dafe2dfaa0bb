package core

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/tasks"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// Secret is text that no format, log or JSON shows.
type Secret = observe.Secret

// NewSecret hides a text.
func NewSecret(text string) Secret { return observe.NewSecret(text) }

// Credentials are what one connection authenticates with. Without a username nothing is sent: then a client certificate
// has to do.
type Credentials struct {
	Username string
	Password Secret
	// Token is a bearer token, as in JWT, instead of a name and a password. It is sent over TLS only.
	Token Secret
	// Mechanisms take the place of Config.Auth.Mechanisms for a login with these; nil leaves those.
	Mechanisms []string
	// Expires is when they become useless, as a token's claim says. Connections that used them get new ones when three
	// quarters of the time until then are over: the provider is asked again. Zero is never.
	Expires time.Time
}

// Cluster is the client of one cluster. It is safe for concurrent use. Close ends it.
type Cluster struct {
	cfg     Config
	base    time.Time
	orch    *retry.Orchestrator
	health  health.Record
	http    *httpx.Client
	sql     *query.Service
	log     observe.Log
	reports reports
	filter  *nodeFilter
	logins  *logins
	instr   *observe.Instruments
	door    *tasks.Door // the operations under way

	telemetry appTelemetry
	keys      handshake.Keyring
	id        string
	conns     atomic.Uint64
	tls       atomic.Pointer[tls.Config]    // in force; nil: no TLS
	policy    atomic.Pointer[policy.Config] // in force; nil: no policy file

	replacing sync.Mutex // one SetPolicy, SetTLS or EndTLS at a time; nothing that blocks is done under it

	noMeters func() // ends the export of the meters

	mu      sync.Mutex
	buckets map[string]*Bucket
	waits   []*Bucket     // the unnamed ones, in the order in which they were made
	closed  chan struct{} // closed by Close
}

// Open makes a client. It checks the configuration and does not wait for the cluster: WaitReady does, and so does the
// first call. It fails only for a configuration that cannot be used, with a *ConfigError, or for a context that has
// ended.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Retry.Policy = cfg.Retry.Policy.WithJitterSource(cfg.Retry.JitterSource)
	c := &Cluster{
		cfg: cfg, base: time.Now(), buckets: map[string]*Bucket{}, id: randomID(), log: observe.NewLog(cfg.Observe.Log),
		door: tasks.NewDoor(), closed: make(chan struct{}),
	}
	c.policy.Store(cfg.Retry.Policy)
	if cfg.TLS.Enabled {
		c.tls.Store(cfg.TLS.Config)
	}
	c.orch = retry.New(retry.Options{
		Default: cfg.Retry.Policy.Throttled(cfg.Retry.Strategy), Inherited: cfg.Retry.Strategy,
		MaxParked: cfg.Limits.Parked, MaxBytes: cfg.Limits.ParkedBytes, MaxOpBytes: cfg.Limits.CallBytes,
		DisableRetries: cfg.Retry.Disabled, JitterSource: cfg.Retry.JitterSource, Observer: c.observer(),
		DispatchAll: dispatch.DispatchAll,
	})
	c.logins = newLogins(&cfg, c.log, c.encrypted)
	c.filter = newNodeFilter(&cfg)
	c.cfg.Net.Dial = c.filter.dial
	c.instr = observe.New(observe.Options{
		TracerProvider: cfg.Observe.TracerProvider, MeterProvider: cfg.Observe.MeterProvider, Log: c.log,
		Conventions: cfg.Observe.Conventions.names(), OuterIsCallers: cfg.Observe.OuterIsCallers,
		NoInnerSpans: cfg.Observe.NoInnerSpans, Hook: cfg.Observe.Hook, Scope: cfg.Observe.Instrumentation,
		ScopeVersion: cfg.Observe.InstrumentationVersion, Version: Version,
	})
	c.health.OnSet, c.health.Log = c.explained, c.log
	c.reports.start(&c.cfg.Observe, c.log)
	c.telemetry.open(c)
	c.http = c.newHTTP()
	c.telemetry.start(c)
	c.sql = c.newQueries()
	c.noMeters = c.instr.Export(c.readMeters)
	c.log.Info(ctx, observe.MsgClusterOpened, slog.String(observe.KeyClientID, c.id),
		slog.String(observe.KeyHosts, strings.Join(cfg.Seeds.Hosts, ",")))
	if cfg.TLS.Enabled && cfg.TLS.Config.InsecureSkipVerify {
		c.log.Warn(ctx, observe.MsgTLSUnverified)
	}
	return c, nil
}

func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// features are what HELLO asks for: what this client makes use of.
var features = []memd.Feature{
	memd.FeatureXattr, memd.FeatureXError, memd.FeatureSelectBucket, memd.FeatureJSON, memd.FeatureMutationSeqno,
	memd.FeatureTracing, memd.FeatureUnorderedExecution, memd.FeatureAltRequest, memd.FeatureSyncReplication,
	memd.FeatureCollections, memd.FeaturePreserveTTL, memd.FeatureGetClusterConfigWithVersion,
	memd.FeatureDedupeNotMyVBucket, memd.FeatureSnappy, memd.FeatureSnappyEverywhere, memd.FeatureVAttr,
	memd.FeatureSubdocCreateAsDeleted, memd.FeatureSubdocDocumentMacro, memd.FeatureSubdocReplaceBodyWithXattr,
	memd.FeatureSubdocReplicaRead, memd.FeatureSubdocMultipleXattrKeys, memd.FeatureSubdocBinaryXattr,
	memd.FeatureRangeScanIncludeXattr, memd.FeatureSubdocReplicaReadDeleted, memd.FeatureGetRandomKeyIncludeXattr,
	memd.FeatureDuplex, memd.FeatureClustermapChange, memd.FeatureClustermapChangeBrief, memd.FeatureReportUnitUsage,
}

// wanted are the features that the configuration does not switch off.
func (c *Cluster) wanted() []memd.Feature {
	off := map[memd.Feature]bool{
		memd.FeatureSnappy: c.cfg.KV.Compression.Off, memd.FeatureSnappyEverywhere: c.cfg.KV.Compression.Off,
		// A server refuses a HELLO with this one and without SnappyEverywhere (kv_engine, hello_packet_executor.cc).
		memd.FeatureGetRandomKeyIncludeXattr: c.cfg.KV.Compression.Off,

		memd.FeatureDuplex: c.cfg.Maps.NoNotifications, memd.FeatureClustermapChange: c.cfg.Maps.NoNotifications,
		memd.FeatureClustermapChangeBrief: c.cfg.Maps.NoNotifications,
		memd.FeatureMutationSeqno:         c.cfg.KV.NoMutationTokens,
		memd.FeatureTracing:               c.cfg.KV.NoServerDurations,
		memd.FeatureUnorderedExecution:    c.cfg.KV.NoUnordered,
		memd.FeatureReportUnitUsage:       !c.cfg.KV.ResourceUnits,
	}
	for _, f := range c.cfg.KV.WithoutFeatures {
		off[f] = true
	}
	return slices.DeleteFunc(slices.Clone(features), func(f memd.Feature) bool { return off[f] })
}

// connectOptions are those of the next connection.
func (c *Cluster) connectOptions() conn.Options {
	id := fmt.Sprintf("%s/%016x", c.id, c.conns.Add(1))
	generation := c.logins.newest()
	encryption := c.tls.Load()
	return conn.Options{
		Options: handshake.Options{
			Dial: c.cfg.Net.Dial, TLS: encryption, Mechanisms: c.cfg.Auth.Mechanisms,
			AllowPlain: c.cfg.Auth.AllowPlain, SCRAM: &c.keys,
			Credentials: func(ctx context.Context, addr string) (handshake.Credentials, error) {
				cr, err := c.logins.connection(ctx, addr, encryption != nil)
				cr.Login.Generation = generation // TLS may be older than what is newest now
				return cr, err
			},
			Agent: helloKey(id, c.agent()), ID: id, Features: c.wanted(),
			Timeout: c.cfg.Net.ConnectTimeout, FrameLimit: c.cfg.Limits.Packet, ConfigLimit: c.cfg.Limits.Map,
		},
		Compression: call.Compression(c.cfg.KV.Compression), MaxInFlight: c.cfg.Limits.InFlight, Slow: c.slowCall(),
		ReadBuffer: c.cfg.KV.ReadBuffer,
		Telemetry:  c.telemetry.meter,
	}
}

// slowCall is the time after which connections see to it that a call is reported; 0: never.
func (c *Cluster) slowCall() time.Duration {
	if c.reports.slow == nil {
		return 0
	}
	return min(c.cfg.Observe.Thresholds.KV, c.cfg.Observe.Thresholds.Scan)
}

// helloKey is the key of HELLO, by which servers name the client in their logs.
func helloKey(id, agent string) string {
	key, _ := json.Marshal(struct { // texts cannot fail
		ID    string `json:"i"`
		Agent string `json:"a"`
	}{id, agent})
	return string(key)
}

// Bucket gives the bucket of that name and begins to connect to it at the first request for it. It does not
// wait, and the bucket need not exist yet: its calls say what is wrong. The same name gives the same object.
func (c *Cluster) Bucket(name string) *Bucket {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.buckets[name]; b != nil {
		return b
	}
	b := c.newBucket(name)
	if c.hasClosed() {
		go func() { _ = b.close(context.Background(), retry.ErrClosed) }()
	}
	c.buckets[name] = b
	return b
}

// hasClosed reports whether Close was called. The lock is held.
func (c *Cluster) hasClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// all are the buckets in the order of their names.
func (c *Cluster) all() []*Bucket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.buckets), func(a, b *Bucket) int { return cmp.Compare(a.name, b.name) })
}

// unnamed makes a bucket without a name for one WaitReady, which ends it; nil after Close. It is not among all: no call
// goes by it, and no other wait waits for it.
func (c *Cluster) unnamed() *Bucket {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasClosed() {
		return nil
	}
	b := c.newBucket("")
	c.waits = append(c.waits, b)
	return b
}

func (c *Cluster) endUnnamed(ctx context.Context, b *Bucket) {
	_ = b.close(ctx, retry.ErrClosed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = slices.DeleteFunc(c.waits, func(o *Bucket) bool { return o == b })
}

// every is all with those that no call goes by: what changes for connections changes for those, too.
func (c *Cluster) every() []*Bucket {
	bs := c.all()
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(bs, c.waits...)
}

// explained lets calls look again: a terminal condition may explain now what they wait for.
func (c *Cluster) explained() {
	for _, b := range c.every() {
		b.router.Explained()
	}
	c.orch.Wake(func(retry.Op) bool { return true })
}

// WaitReady blocks until every bucket that was asked for is ready, or, when none was, until the cluster's nodes can be
// reached. It ends early with a terminal failure (a refused login, an untrusted certificate, a bucket without access)
// unless the strategy, which is asked, goes on for it, and at ctx's end with the last failure. want says what ready
// means: everything must be connected, unless it says Degraded; services that it names must answer too.
func (c *Cluster) WaitReady(ctx context.Context, want ...Ready) error {
	if len(want) == 0 {
		want = []Ready{{}}
	}
	bs := c.all()
	if len(bs) == 0 && slices.ContainsFunc(want, func(w Ready) bool { return w.Bucket == "" }) {
		b := c.unnamed()
		if b == nil {
			return &NotReadyError{Err: retry.ErrClosed}
		}
		defer c.endUnnamed(ctx, b)
		bs = append(bs, b)
	}
	for _, w := range want {
		if err := w.check(); err != nil {
			return err
		}
		of := bs
		if w.Bucket != "" {
			of = []*Bucket{c.Bucket(w.Bucket)}
		}
		for _, b := range of {
			if err := b.router.WaitReady(ctx, w.State == Degraded, w.Strategy); err != nil {
				return err
			}
		}
		if err := c.waitServices(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// Shutdown closes the client when the operations under way have ended. New ones are refused at once, as after Close:
// with cberr.RequestCanceled and retry.ErrClosed. What has begun may finish, with its retries: calls, their callbacks'
// outcomes, scans and batches with all their requests, rows and bodies until they are read to their end or closed. It
// waits for them at most until ctx ends. Then those that are left end as Close ends them, and the error, which wraps
// ctx's, says how many they were. Either way Close is called at the end, and takes at most the configuration's
// CloseTimeout. A Close by another goroutine ends the wait.
func (c *Cluster) Shutdown(ctx context.Context) error {
	c.door.Shut()
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.closed:
			cancel(retry.ErrClosed)
		case <-wait.Done():
		}
	}()
	var err error
	if left := c.door.Wait(wait); left > 0 {
		err = ended(wait)
		err = fmt.Errorf("operations that were under way and have not finished: %d: %w", left, err)
	}
	return errors.Join(err, c.Close())
}

// Close ends the client at once; Shutdown lets operations finish before. Every call that has not ended fails with
// cberr.RequestCanceled and retry.ErrClosed, and so does every later one. It waits, at most for the configuration's
// CloseTimeout, until no goroutine and no socket is left and every line is in the log; for a log handler that blocks at
// most a second of that. What was left running is an error, which names the nodes that it is for: a Dial, a resolver or
// a method of a connection that does not return. Later calls of Close do nothing.
func (c *Cluster) Close() error {
	c.mu.Lock()
	if c.hasClosed() {
		c.mu.Unlock()
		return nil
	}
	close(c.closed)
	c.mu.Unlock()
	c.door.Shut()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.CloseTimeout)
	defer cancel()
	c.noMeters()
	c.orch.Close(retry.ErrClosed)
	c.telemetry.close()
	c.http.Close()
	var errs []error
	for _, b := range c.every() {
		if err := b.close(ctx, retry.ErrClosed); err != nil {
			errs = append(errs, fmt.Errorf("bucket %q: %w", b.Name(), err))
		}
	}
	if err := c.http.Wait(ctx); err != nil {
		errs = append(errs, fmt.Errorf("services: %w", err))
	}
	if err := c.telemetry.wait(ctx); err != nil {
		errs = append(errs, fmt.Errorf("application telemetry: %w", err))
	}
	c.reports.stop()
	c.log.Info(ctx, observe.MsgClusterClosed, slog.String(observe.KeyClientID, c.id),
		slog.Duration(observe.KeyElapsed, time.Since(c.base)))
	errs = append(errs, c.log.Close(ctx)) // last: the others write to it
	return ofKind(cberr.Timeout, errors.Join(errs...))
}

// Loop is what retry.Do needs to repeat a program's own work beside the client's: it waits where the client's calls
// wait, its retries are in RetryStats under retry.Own and the name, and Close ends it. Its other fields may be set
// before use.
func (c *Cluster) Loop(name string) retry.Loop { return retry.Loop{Name: name, Orchestrator: c.orch} }

// RetryStats are the counts of all retries so far.
func (c *Cluster) RetryStats() retry.Stats { return c.orch.Stats() }

// NodeStatus is how one node of a bucket is reached: one of its connections. Its fields:
//
//	Addr             string
//	Connected        bool
//	Err              error         // the last failure to connect; nil when connected or not yet tried
//	Queued, InFlight int           // calls that wait for the connection, and for an answer
//	Mechanism        string        // of the login
//	Features         memd.Features // that the node has granted
//	ID, Local        string        // of the connection, and its own address; "" without one
//	State            string        // "connected", "connecting", "disconnected" or "disconnecting"
//	Activity         time.Time     // when something was last read on it; zero when nothing was
//	Breaker          string        // "closed", "open" or "half-open"; "" without a circuit breaker
type NodeStatus = dispatch.NodeStatus

// MapError is a cluster map that a node, at Addr, has given and that is not used, and in Err why: errors of calls that
// wait for a map, or for a node that the map in use does not have, wrap it, and WaitReady's does.
type MapError = dispatch.MapError

// NotReadyError is a WaitReady that ended before the bucket was ready. Its fields:
//
//	Nodes []string // addresses without a connection
//	Cause error    // why it is not ready; nil when nothing is known
//	Err   error    // what ended the wait: the context's cause; nil when the strategy gave up because of Cause
type NotReadyError = dispatch.NotReadyError

// ConnectError is a node that is not connected. Errors of calls that wait for a connection have one in their trees, and
// WaitReady's has. Its fields:
//
//	Addr, Bucket string
//	Step         string      // "dial", "TLS", "HELLO" and so on
//	Answered     bool        // Status, and Context if there is one, are the node's answer to the step
//	Status       memd.Status
//	Context      string
//	Kind         *cberr.Kind // nil where no kind fits
//	Err          error       // what the step has met, in words
//	Anonymous    bool        // the attempt had no credentials
//	Generation   uint64      // of the credentials: SetCredentials and RenewLogins count
type ConnectError = handshake.Error
