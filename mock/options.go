package mock

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/management"
	"github.com/couchcore/couchcore/mock/internal/subdoc"
)

// The account and the bucket that a cluster has when no option names others.
const (
	DefaultUser     = "Administrator"
	DefaultPassword = "password"
	DefaultBucket   = "default"
)

const (
	maxNodes        = 64
	maxVBuckets     = 1024
	maxReplicas     = 3
	defaultVBuckets = 64
)

// TB is the part of testing.TB that Start and Cluster.Expect need.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Option changes the cluster that Start or New builds.
type Option func(*settings)

// BucketOption changes one bucket.
type BucketOption func(*bucketSettings)

type settings struct {
	nodes, replicas, vbuckets int
	buckets                   []bucketSettings
	users                     []*user
	tls, virtual, frames      bool
	mechs                     []string
	iterations                int               // of SCRAM
	maxPaths                  int               // of a sub-document request
	userIterations            map[string]int    // of accounts with a count of their own
	tokens                    map[string]string // a bearer token's account
	refused                   memd.Features
	release                   release // of nodes that have none of their own
	nodeReleases              map[int]release
	releaseErr                error
	latency                   time.Duration
	groups                    []string
	units                     bool
	apart                     time.Duration
	services                  [serviceCount]bool
	http2                     bool
	nodeServices              map[int][serviceCount]bool
	views                     ViewEngine
	capabilities              map[string][]string // of services, instead of those of the release
	firstPort                 int
	defaultPorts              bool
	journal                   io.Writer
	logger                    *slog.Logger // nil: none
	fixtures                  []Fixtures
	seed                      *uint64       // of the ids that the cluster makes up; nil: they are random
	uuids                     atomic.Uint64 // ids so far
	inTheClear                func(net.Conn) net.Conn
	telemetry                 bool // application telemetry is on
}

type bucketSettings struct {
	name     string
	vbuckets int
	replicas int // -1: the cluster's
	kind     string
	level    memd.DurabilityLevel
	paths    []string
	lww      bool

	compression compression
	unknown     string                     // what an option did not understand
	full        *management.BucketSettings // all settings, of a bucket that is made over HTTP
}

// Nodes sets how many nodes the cluster starts with: 1 to 64, one unless told.
func Nodes(n int) Option { return func(s *settings) { s.nodes = n } }

// Replicas sets how many replicas each vbucket has: 0 to 3. Unless told it is one, or none on a single node. Replicas
// that find no node of their own are absent from the map.
func Replicas(n int) Option { return func(s *settings) { s.replicas = n } }

// VBuckets sets the number of vbuckets of every bucket that does not name its own: 1 to 1024, 64 unless told.
func VBuckets(n int) Option { return func(s *settings) { s.vbuckets = n } }

// Bucket adds a bucket; vbuckets 0 means the cluster's number. Without this option there is one, named "default".
func Bucket(name string, vbuckets int, opts ...BucketOption) Option {
	return func(s *settings) {
		b := bucketSettings{name: name, vbuckets: vbuckets, replicas: -1}
		for _, o := range opts {
			o(&b)
		}
		s.buckets = append(s.buckets, b)
	}
}

// NoBuckets starts the cluster without any bucket.
func NoBuckets() Option {
	return func(s *settings) { s.buckets = []bucketSettings{} }
}

// WithReplicas sets the bucket's own number of replicas.
func WithReplicas(n int) BucketOption { return func(b *bucketSettings) { b.replicas = n } }

// WithCollection creates scope.collection in the bucket from the start. Its ids count up from 8 in the order given.
func WithCollection(scope, collection string) BucketOption {
	return func(b *bucketSettings) { b.paths = append(b.paths, scope+"."+collection) }
}

// WithDurability sets the bucket's least durability level: weaker writes are raised to it silently.
func WithDurability(level memd.DurabilityLevel) BucketOption {
	return func(b *bucketSettings) { b.level = level }
}

// User adds an account. Without bucket names it is an administrator with access to every bucket, absent ones
// included; with names it gets no access (0x24) at SELECT_BUCKET for any other. An account with an empty name is for
// requests over HTTP without credentials. Without this option there is one administrator, Administrator with the
// password "password".
func User(name, password string, buckets ...string) Option {
	return func(s *settings) { s.users = append(s.users, newUser(name, password, buckets)) }
}

// ExternalUser adds an account of an external directory, such as LDAP or PAM: the cluster itself does not have its
// password, so that SASL takes PLAIN alone for it and refuses SCRAM with 0x20. Buckets are as in User.
func ExternalUser(name, password string, buckets ...string) Option {
	return func(s *settings) {
		u := newUser(name, password, buckets)
		u.external = true
		s.users = append(s.users, u)
	}
}

// Reader adds an account that may read the documents of the named buckets and nothing else, as the role data_reader
// allows it: it gets no access (0x24) for a change.
func Reader(name, password string, buckets ...string) Option {
	return func(s *settings) {
		u := newUser(name, password, buckets)
		u.admin, u.reads = false, true
		s.users = append(s.users, u)
	}
}

// Token makes the cluster take OAUTHBEARER, and the token for the account of that name. It does not expire.
func Token(token, name string) Option {
	return func(s *settings) {
		if s.tokens == nil {
			s.tokens = map[string]string{}
		}
		s.tokens[token] = name
	}
}

// TLS gives each node a second KV port and a second management port that speak TLS, under a certificate authority made
// for this cluster (see Cluster.CA). The certificates are valid from an hour before the start for a year, by the
// clock that the process, or the synctest bubble, has.
func TLS() Option { return func(s *settings) { s.tls = true } }

// Virtual puts the cluster on a network in memory, reached by Cluster.Dial only. Nodes have the addresses
// 10.0.0.1:11210, 10.0.0.2:11210 and so on. No socket is opened, so a testing/synctest bubble's clock can move.
func Virtual() Option { return func(s *settings) { s.virtual = true } }

// Seed makes the UUIDs of the cluster, its nodes and its buckets depend on the seed and on their order alone, so that
// the cluster maps of two runs are the same to the byte, and have the same length when they are compressed. The
// document that GET_RANDOM_KEY gives depends on the seed and the time.
func Seed(seed uint64) Option { return func(s *settings) { s.seed = &seed } }

// InTheClear gives the node's end of each KV connection over TLS to wrap, and uses what it returns: it sees what was
// sent before it was encrypted and after it was decrypted. wrap runs before the handshake and must not block.
func InTheClear(wrap func(net.Conn) net.Conn) Option {
	return func(s *settings) { s.inTheClear = wrap }
}

// Latency delays every delivery of the virtual network by d in each direction. It means nothing without Virtual.
func Latency(d time.Duration) Option { return func(s *settings) { s.latency = d } }

// SubdocMaxPaths sets how many paths a sub-document request may have, as ns_server's setting subdoc_multi_max_paths
// does: 16 and more, 16 unless told. Requests with more are refused with SUBDOC_INVALID_COMBO.
func SubdocMaxPaths(n int) Option { return func(s *settings) { s.maxPaths = n } }

// Mechanisms sets the SASL mechanisms offered and accepted, in the order listed. Unless told these are SCRAM-SHA512,
// SCRAM-SHA256, SCRAM-SHA1 and PLAIN.
func Mechanisms(names ...string) Option { return func(s *settings) { s.mechs = slices.Clone(names) } }

// Iterations sets the iteration count of SCRAM for the accounts named, or for all others when none is: 1 to 10,000,000
// as ns_server's setting scramShaIterations. Unless told it is 4,096. Servers 6.5 to 7.2 have 4,000, later ones 15,000.
func Iterations(n int, users ...string) Option {
	return func(s *settings) {
		if len(users) == 0 {
			s.iterations = n
		}
		if s.userIterations == nil {
			s.userIterations = map[string]int{}
		}
		for _, u := range users {
			s.userIterations[u] = n
		}
	}
}

// WithoutFeatures makes HELLO refuse features that it grants otherwise.
func WithoutFeatures(fs ...memd.Feature) Option {
	return func(s *settings) {
		for _, f := range fs {
			s.refused = s.refused.With(f)
		}
	}
}

// RecordFrames keeps a line for every request received, for Cluster.FrameLog and Cluster.KeyCounts. Without it only
// counters are kept. Cluster.LimitFrameLog bounds how many lines there are.
func RecordFrames() Option { return func(s *settings) { s.frames = true } }

func newSettings(opts []Option) (*settings, error) {
	s := &settings{nodes: 1, replicas: -1, vbuckets: defaultVBuckets, iterations: scramIterations}
	s.maxPaths = subdoc.MaxPaths
	s.mechs = []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", "PLAIN"}
	s.services, s.capabilities = allServices(), map[string][]string{}
	s.release = releases[len(releases)-1]
	for _, o := range opts {
		o(s)
	}
	if s.replicas < 0 {
		s.replicas = min(1, s.nodes-1)
	}
	if s.buckets == nil {
		s.buckets = []bucketSettings{{name: DefaultBucket, replicas: -1}}
	}
	if s.users == nil {
		s.users = []*user{newUser(DefaultUser, DefaultPassword, nil)}
	}
	if s.releaseErr != nil {
		return nil, s.releaseErr
	}
	if s.nodes < 1 || s.nodes > maxNodes {
		return nil, fmt.Errorf("mock: %d nodes, want 1 to %d", s.nodes, maxNodes)
	}
	if err := s.checkPorts(); err != nil {
		return nil, err
	}
	if len(s.buckets) > 0 && !s.runsKV() {
		return nil, fmt.Errorf("mock: no node is left to hold the buckets")
	}
	seen := map[string]bool{}
	for i := range s.buckets {
		b := &s.buckets[i]
		if err := s.complete(b); err != nil {
			return nil, err
		}
		if seen[b.name] {
			return nil, fmt.Errorf("mock: bucket %q is named twice", b.name)
		}
		seen[b.name] = true
	}
	if s.maxPaths < subdoc.MaxPaths {
		return nil, fmt.Errorf("mock: %d paths of a sub-document request, want %d or more", s.maxPaths, subdoc.MaxPaths)
	}
	for _, n := range append(slices.Collect(maps.Values(s.userIterations)), s.iterations) {
		if n < 1 || n > maxScramIterations {
			return nil, fmt.Errorf("mock: %d SCRAM iterations, want 1 to %d", n, maxScramIterations)
		}
	}
	if s.tokens != nil {
		s.mechs = append(s.mechs, "OAUTHBEARER")
	}
	for i, m := range s.mechs {
		s.mechs[i] = strings.ToUpper(m)
	}
	return s, nil
}

// complete fills in what b leaves to the cluster and checks it.
func (s *settings) complete(b *bucketSettings) error {
	if b.vbuckets == 0 {
		b.vbuckets = s.vbuckets
	}
	if b.replicas < 0 {
		b.replicas = s.replicas
	}
	switch {
	case b.name == "" || len(b.name) > 100 || strings.ContainsAny(b.name, "/ \x00"):
		return fmt.Errorf("mock: bucket name %q", b.name)
	case b.vbuckets < 1 || b.vbuckets > maxVBuckets:
		return fmt.Errorf("mock: bucket %q has %d vbuckets, want 1 to %d", b.name, b.vbuckets, maxVBuckets)
	case b.kind == kindMemcached && len(b.paths) > 0:
		return fmt.Errorf("mock: bucket %q is a memcached one and has no collections", b.name)
	case b.unknown != "":
		return fmt.Errorf("mock: bucket %q: unknown %s", b.name, b.unknown)
	case b.replicas > maxReplicas:
		return fmt.Errorf("mock: bucket %q has %d replicas, want at most %d", b.name, b.replicas, maxReplicas)
	}
	return nil
}

// user is one account. Its fields are guarded by the cluster's mutex after the start.
type user struct {
	name, password string
	admin          bool
	external       bool            // in a directory elsewhere
	reads          bool            // documents, and changes none
	looks          bool            // reads all that management shows, and changes nothing
	buckets        map[string]bool // "*" is all of them
}

func newUser(name, password string, buckets []string) *user {
	u := &user{name: name, password: password, admin: len(buckets) == 0, buckets: map[string]bool{}}
	for _, b := range buckets {
		u.buckets[b] = true
	}
	return u
}

func (u *user) may(bucket string) bool { return u.admin || u.buckets[bucket] || u.buckets["*"] }
