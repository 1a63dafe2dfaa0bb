package mock

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/mock/internal/management"
	"github.com/couchcore/couchcore/mock/internal/services"
	"github.com/couchcore/couchcore/mock/internal/trigger"
	"github.com/couchcore/couchcore/mock/memnet"
)

// Cluster is a running cluster. All methods may be called from several goroutines at once and none of them waits for
// a client. Nodes are counted from 0 and keep their number for the cluster's life, also when they leave it.
//
// Goroutines: each listener has one that accepts, each connection one that reads, and each answer that a fault or a
// durable write holds back one more. Close stops all of them and waits for them.
type Cluster struct {
	set        *settings
	net        *memnet.Network // nil on real TCP
	ca         *authority
	done       chan struct{}
	admin      chan struct{} // holds one token while an action runs that must be alone
	journaling chan struct{} // holds one token while the journal is written
	wg         sync.WaitGroup
	frames     [256]atomic.Int64
	connID     atomic.Uint64
	errorID    atomic.Uint64
	travelled  atomic.Int64       // see TimeTravel
	watchers   watchers[Frame]    // see Watch
	answered   watchers[Answered] // see WatchAnswers
	injections trigger.List[injection]
	counts     trigger.List[Match]
	services   *services.State
	management *management.State

	// mu guards what follows, and every field of nodes, buckets, users and connections that says so. It is never held
	// across I/O, a channel operation or a callback.
	mu           sync.Mutex
	closed       bool
	nodes        []*Node
	users        map[string]*user
	builtIn      string // the administrator of the domain "admin"
	buckets      map[string]*bucket
	version      version
	changed      chan struct{} // closed and replaced when version changes
	uuid         string
	name         string
	profiles     map[release]*profile
	capabilities map[string][]string // of services, instead of the release's; replaced, never changed in place
	frameLog     []Frame
	framesKept   int // of frameLog; 0: all
	switches     switches
	handlers     map[string]http.Handler // of the management ports, by prefix
	telemetry    telemetryKept
}

// Start builds a cluster for a test and closes it at the test's end. It ends the test if that fails.
func Start(t TB, opts ...Option) *Cluster {
	t.Helper()
	c, err := New(opts...)
	if err != nil {
		t.Fatalf("mock: %v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Logf("mock: close: %v", err)
		}
	})
	return c
}

// New builds a cluster without a test. The caller ends it with Close.
func New(opts ...Option) (*Cluster, error) {
	set, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		set: set, done: make(chan struct{}), admin: make(chan struct{}, 1),
		journaling: make(chan struct{}, 1),
		users:      map[string]*user{}, buckets: map[string]*bucket{},
		capabilities: set.capabilities, changed: make(chan struct{}),
		version: version{epoch: 1, rev: 1}, uuid: set.newUUID(), name: "mock", profiles: set.profiles(),
		switches: newSwitches(), builtIn: firstAdministrator(set.users),
		handlers: map[string]http.Handler{},
	}
	c.services, c.management = services.NewState(host{c}, set.views), management.NewState(manager{c})
	c.management.Set(telemetryPage, "enabled", set.telemetry)
	if set.virtual {
		c.net = memnet.New(memnet.Options{Latency: set.latency})
	}
	if set.tls {
		newKey := commonKey
		if set.virtual {
			newKey = evenKey
		}
		if c.ca, err = newAuthority(time.Now(), newKey); err != nil {
			return nil, err
		}
	}
	for _, u := range set.users {
		c.users[u.name] = u
	}
	for range set.nodes {
		if err := c.startNode(memberActive); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for i := range set.buckets {
		if err := c.addBucket(&set.buckets[i]); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	for _, f := range set.fixtures {
		if err := c.Load(f); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close ends every connection and listener and waits until the cluster's goroutines have ended. It waits for a Func
// of a Match or a Fault that is running. A second Close does nothing.
func (c *Cluster) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.done)
	var all []remains
	for _, n := range c.nodes {
		all = append(all, n.detach())
	}
	c.mu.Unlock()
	for _, r := range all {
		r.close()
	}
	c.wg.Wait()
	return nil
}

// Done is closed when Close begins.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// spawn runs f on a goroutine that Close waits for. It reports false, and runs nothing, once Close has begun.
func (c *Cluster) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(f)
	return true
}

// Dial connects to a node's address: over the virtual network, or over TCP, where network is used as in net.Dialer.
// It has the form of a client's dialer.
func (c *Cluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.net != nil {
		return c.net.Dial(ctx, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// Network is the network in memory that the cluster is on; nil without Virtual.
func (c *Cluster) Network() *Network { return c.net }

// CA returns the certificate authority's certificate in PEM, for a client to trust; nil without TLS.
func (c *Cluster) CA() []byte {
	if c.ca == nil {
		return nil
	}
	return slices.Clone(c.ca.pem)
}

// ConnString is a connection string that names the KV port of every node that is a member of the cluster.
func (c *Cluster) ConnString() string {
	return "couchbase://" + c.hosts(func(n *Node) string { return n.kv })
}

// TLSConnString is as ConnString, for the TLS ports; empty without TLS.
func (c *Cluster) TLSConnString() string {
	if c.ca == nil {
		return ""
	}
	return "couchbases://" + c.hosts(func(n *Node) string { return n.kvTLS })
}

func (c *Cluster) hosts(addr func(*Node) string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var hs []string
	for _, n := range c.nodes {
		if n.member != memberOut && n.runs[KVService] {
			hs = append(hs, addr(n))
		}
	}
	return strings.Join(hs, ",")
}

// Nodes returns the nodes in the order of their numbers, those that have left included.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// Node returns node i. It panics when there is no such node.
func (c *Cluster) Node(i int) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// ApplyLog returns the mutations that the bucket's nodes have executed, in order; nil for a bucket that does not
// exist. It is the judge of how often a write was applied.
func (c *Cluster) ApplyLog(bucket string) []Applied {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[bucket]
	if b == nil {
		return nil
	}
	return b.store.Log()
}

// SetPassword changes an account's password. Connections that are logged in stay so.
func (c *Cluster) SetPassword(name, password string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[name]
	if u == nil {
		return fmt.Errorf("mock: no user %q", name)
	}
	u.password = password
	return nil
}

// scramAccount looks an account up for SCRAM. The cluster has nothing to prove an external one by.
func (c *Cluster) scramAccount(name string) (a scramAccount, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[name]
	if u == nil || u.external {
		return a, false
	}
	a = scramAccount{u.password, c.set.iterations}
	if n := c.set.userIterations[name]; n != 0 {
		a.iterations = n
	}
	return a, true
}

// password looks an account up for PLAIN.
func (c *Cluster) password(name string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[name]
	if u == nil {
		return "", false
	}
	return u.password, true
}

// newUUID returns 32 hex digits: random ones, or with the option Seed the next of its seed.
func (s *settings) newUUID() string {
	var b [16]byte
	if s.seed == nil {
		rand.Read(b[:]) // never fails
	} else {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", *s.seed, s.uuids.Add(1)))
		copy(b[:], sum[:])
	}
	return hex.EncodeToString(b[:])
}
