package management

import "time"

// Host is the cluster that the service manages. Its methods may be called from several goroutines at once. An error
// that is a *Refusal says with which status the service answers it.
type Host interface {
	// Cluster is the cluster as it is now, shown by the node with the number self. The caller may keep it.
	Cluster(self int) *Cluster
	// Version is the cluster's version, as node self tells it.
	Version(self int) Version
	// Terse is the short configuration of a bucket, or of the cluster for an empty name, as node self hands it out. It
	// is nil for a bucket that does not exist.
	Terse(bucket string, self int) []byte
	// BucketPart is what only a bucket's short configuration has, a JSON object; nil for one that does not exist.
	BucketPart(bucket string, self int) []byte
	// Usage is how many documents a bucket has, and how many bytes their values are.
	Usage(bucket string) (documents, bytes int)
	// Manifest are the scopes and collections of a bucket in JSON, with their uid.
	Manifest(bucket string) (text []byte, uid uint64)
	// Designs are the design documents of a bucket.
	Designs(bucket string) []Design

	// Apart is how long a stream of maps waits after a change, so that it sends one map for all changes of an instant.
	Apart() time.Duration

	// SettingsChanged says that settings of a page were changed by a request.
	SettingsChanged(page string)
	// SetClusterName gives the cluster another name.
	SetClusterName(name string)
	// CreateBucket makes a bucket; vbuckets 0 means the cluster's number.
	CreateBucket(set *BucketSettings, vbuckets int) error
	// FillSample gives a bucket that was made for sample data its documents, where there are any.
	FillSample(bucket string) error
	// UpdateBucket gives the bucket of that name other settings.
	UpdateBucket(set *BucketSettings) error
	// DropBucket removes a bucket.
	DropBucket(name string) error
	// FlushBucket removes the documents of a bucket.
	FlushBucket(name string) error
	// ChangeManifest changes scopes and collections, and returns the manifest's new uid.
	ChangeManifest(bucket string, change ManifestChange) (uid uint64, err error)

	// Accounts are those that can log in, by name.
	Accounts() []Account
	// SetAccount makes an account or changes what it may do. A nil password keeps the one it has.
	SetAccount(a *Account, password *string)
	// DropAccount removes an account.
	DropAccount(name string)

	// AddNode starts a node for the next rebalance, with services of the configuration's names, or the cluster's own
	// without any, and returns its number.
	AddNode(services []string, group string) (int, error)
	// Failover takes nodes out of the cluster; graceful loses no document and fails when it would.
	Failover(nodes []int, graceful bool) error
	// Rebalance spreads the vbuckets over the nodes that stay, with those that have been added or recovered. The nodes
	// named leave the cluster.
	Rebalance(leaving []int) error
	// Eject removes a node that is not active.
	Eject(node int) error
	// Recover lets a node that was failed over join again at the next rebalance, in one way, "full" or "delta". Without
	// one it ends that.
	Recover(node int, how string) error
	// SetGroup puts a node into a server group.
	SetGroup(node int, group string)
	// SetExternal sets the address at which a node is known outside of its network; nil for none.
	SetExternal(node int, external *External)

	// Documents are the keys of a collection, in order.
	Documents(place Place) []string
	// Get reads a document.
	Get(place Place, key string) (Document, bool)
	// Put stores a document; Delete removes it.
	Put(place Place, key string, value []byte, flags uint32) error
	Delete(place Place, key string) error
}

// Refusal is an error with the HTTP status of its answer.
type Refusal struct {
	Status int
	Text   string
}

func (r *Refusal) Error() string { return r.Text }

// Cluster is a cluster at one moment.
type Cluster struct {
	Name, UUID    string
	Rev, RevEpoch int64
	Version       Version // the compatibility, and what the node that answers is
	Admin         string  // name of the built-in administrator
	CA            string  // certificate of the cluster's authority in PEM, empty without TLS
	Nodes         []Node  // that belong to it, in the order of their numbers
	Buckets       []Bucket
	Rebalanced    bool // no node waits for a rebalance
	// Changed is closed when the cluster has another revision.
	Changed <-chan struct{}

	counted map[string][2]int // what usage has asked the Host
}

// usage is Host.Usage, which is asked once.
func (c *Cluster) usage(s *State, bucket string) (documents, bytes int) {
	u, known := c.counted[bucket]
	if !known {
		u[0], u[1] = s.host.Usage(bucket)
		if c.counted == nil {
			c.counted = map[string][2]int{}
		}
		c.counted[bucket] = u
	}
	return u[0], u[1]
}

// Membership is what the cluster thinks of a node.
type Membership string

// The memberships.
const (
	Active         Membership = "active"
	InactiveAdded  Membership = "inactiveAdded"
	InactiveFailed Membership = "inactiveFailed"
)

// Node is one node.
type Node struct {
	Index      int
	Name       string // such as ns_1@10.0.0.1
	Host       string
	Hostname   string // host and port of the management service
	UUID       string
	Group      string
	Version    string
	Self, Up   bool
	Membership Membership
	Recovery   string         // full or delta, empty without
	Services   []string       // as objects of nodes list them
	Ports      map[string]int // by the configuration's names
	Views      [2]string      // addresses of its views, plain and TLS; empty without
	External   *External
}

// External is the address of a node outside of its network.
type External struct {
	Hostname string
	Ports    map[string]int // by the configuration's names; without any the node's own ports are in force
}

// Bucket is one bucket.
type Bucket struct {
	BucketSettings
	UUID     string
	Nodes    []int // numbers of those that hold it
	VBuckets int
}

// Account is an account that can log in, with what it may do.
type Account struct {
	Name     string
	External bool
	BuiltIn  bool // the administrator that every cluster has
	Rights
}

// Rights are what an account may do.
type Rights struct {
	Admin   bool     // everything
	Looks   bool     // reads everything but documents
	Reads   bool     // of documents: reads, and changes none
	Buckets []string // what Reads is about; for others everything in them
}

// ManifestChange is one change of a manifest. Without a collection it is about the scope.
type ManifestChange struct {
	Do                ManifestVerb
	Scope, Collection string
	MaxTTL            *int32
	History           *bool
}

// ManifestVerb is what a ManifestChange does.
type ManifestVerb uint8

// The changes of a manifest.
const (
	Add ManifestVerb = iota
	Drop
	Modify
)

// Place names a collection.
type Place struct{ Bucket, Scope, Collection string }

// Document is a document of a collection.
type Document struct {
	Value    []byte
	JSON     bool
	Flags    uint32
	Expiry   uint32
	CAS, Rev uint64
	ID       string
}

// Design is a design document.
type Design struct {
	Name string
	Rev  int
	JSON []byte
}

// Version is the server's version: what a node says of itself, and what the cluster is compatible with.
type Version struct {
	Text         string // such as 7.6.2-1234-enterprise
	Major, Minor int
}

// At reports whether the version is that one or later.
func (v Version) At(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// Compat is the number by which nodes tell the version: 65536 for each major one.
func (v Version) Compat() int { return v.Major<<16 | v.Minor }
