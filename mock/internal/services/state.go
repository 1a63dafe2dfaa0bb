package services

import (
	"encoding/json"
	"sync"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
	"github.com/couchcore/couchcore/mock/internal/store"
	"github.com/couchcore/couchcore/mock/internal/trigger"
)

// Host is what the services ask of the cluster that runs them. Its methods may be called from several goroutines at
// once.
type Host interface {
	// UUID is the cluster's.
	UUID() string
	// ServiceAddr is host and port of a node's service, empty when it runs none.
	ServiceAddr(node int, s Service) string
	// Capable reports whether the configuration lists a capability.
	Capable(service, capability string) bool
	// Scans reports whether a node's query service reads a bucket's collection without an index.
	Scans(node int, bucket string) bool
	// FunctionStates reports whether a node's eventing service has the states of 8.0.
	FunctionStates(node int) bool
	// Running is how many nodes run a service.
	Running(s Service) int
	// Reasons reports whether a node's query service gives reasons for errors.
	Reasons(node int) bool
	// Parameter reports whether a node's query service knows a parameter of requests.
	Parameter(node int, name string) bool
	// MissingKeyspace reports whether a node's query service has a status of its own for keyspaces that do not exist.
	MissingKeyspace(node int) bool
	// BucketUUID is the uuid of a bucket, empty for one that does not exist.
	BucketUUID(bucket string) string
	// HasScope reports whether a bucket has a scope.
	HasScope(bucket, scope string) bool
	// Collection is the id of a collection, false for one that does not exist.
	Collection(bucket, scope, collection string) (id uint32, ok bool)
	// Buckets are the names of the buckets, in order.
	Buckets() []string
	// Scopes are the scopes of a bucket with their collections.
	Scopes(bucket string) []store.Scope
	// Documents are a bucket's documents.
	Documents(bucket string) []store.Document
	// Apply executes an operation on one document, where its active copy is. It fails with memd.StatusNoBucket for a
	// bucket that does not exist.
	Apply(bucket string, o *store.Op) store.Result
	// Define creates ("CREATE"), removes ("DROP") or empties ("FLUSH") the scope or the collection that is the last of
	// bucket, scope and collection.
	Define(verb string, path []string, maxTTL int32) error
	// ViewsOf says where the views of a bucket are: here, when the node has active vbuckets of it; otherwise at the
	// address of a node that has some, which is empty without one.
	ViewsOf(bucket string, node int) (here bool, elsewhere string)
	// Tell writes a line about something to the cluster's logger.
	Tell(message string, args ...any)
}

// State is what the HTTP services of one cluster have: scripts, a log, prepared statements, indexes, datasets and
// design documents.
type State struct {
	host    Host
	engine  ViewEngine    // nil: no view can be queried
	turn    chan struct{} // holds one token while functions of a view run
	scripts trigger.List[script]

	eventing eventing

	mu            sync.Mutex // guards what follows; the host is not asked under it
	log           []Request
	unsupported   []Unsupported
	prepared      map[string]*prepared
	indexes       []queryIndex
	txns          map[string]*sqlpp.Txn      // of the query service, by their ids
	searchIndexes map[string]json.RawMessage // definitions by name
	analytics     analytics
	designs       map[string]map[string]*design // by the bucket's uuid and the name
}

// NewState returns the state of a cluster that has just begun. engine may be nil.
func NewState(h Host, engine ViewEngine) *State {
	return &State{
		host: h, engine: engine, turn: make(chan struct{}, 1), prepared: map[string]*prepared{},
		txns:          map[string]*sqlpp.Txn{},
		searchIndexes: map[string]json.RawMessage{}, analytics: newAnalytics(),
		designs:  map[string]map[string]*design{},
		eventing: eventing{functions: map[functionPlace]*function{}},
	}
}
