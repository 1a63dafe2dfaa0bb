package mock

import (
	"github.com/couchcore/couchcore/mock/internal/services"
	"github.com/couchcore/couchcore/mock/internal/store"
	"github.com/couchcore/couchcore/mock/internal/trigger"
	"github.com/couchcore/couchcore/mock/memnet"
)

// What users of this package name of the packages below it.

type (
	// Network is a network in memory, see Virtual and Cluster.Network.
	Network = memnet.Network
	// NetworkOptions are the properties of a Network.
	NetworkOptions = memnet.Options
	// Link is one connection of a Network, for faults.
	Link = memnet.Link
	// Flow is one direction of a Link, for faults.
	Flow = memnet.Flow
	// Record is a piece that one end of a Link has written.
	Record = memnet.Record

	// Injection is a fault in force, see Cluster.Inject: Fired and WaitFired say how many requests it has met, Release lets go
	// of those that it holds, Remove ends it.
	Injection = trigger.Trigger
	// Script is a list of answers in force, see Cluster.Script, with the same methods.
	Script = trigger.Trigger

	// Service is one of the services that a node can run.
	Service = services.Service
	// ServiceMatch says which requests a script answers; the documentation of its fields is in mock/internal/services, as for
	// the types below.
	ServiceMatch = services.Match
	// Answer is how a script answers one request: its rows and errors, and how they are delivered.
	Answer = services.Answer
	// ServiceError is an error or warning in an Answer.
	ServiceError = services.Error
	// ServiceRequest is one HTTP request as a node received it, see Cluster.ServiceLog.
	ServiceRequest = services.Request
	// ViewEngine compiles the functions of views, see Views. Package mock/viewjs has one for JavaScript.
	ViewEngine = services.ViewEngine
	// ViewFunctions are the functions of one view that a ViewEngine has compiled.
	ViewFunctions = services.ViewFunctions

	// Document is a document as its active node has it, see Cluster.Documents.
	Document = store.Document
	// Applied is one mutation as a node executed it, see Cluster.ApplyLog.
	Applied = store.Applied
	// CopyChange is what Cluster.ChangeCopies does, several of the constants together.
	CopyChange = store.Change
)

// The services. Every node runs the management service.
const (
	KVService         = services.KV
	ManagementService = services.Management
	ViewsService      = services.Views
	QueryService      = services.Query
	SearchService     = services.Search
	AnalyticsService  = services.Analytics

	serviceCount = services.Count
)

// ErrViewLimit is in the error of a ViewFunctions' method that used up what it may: time, memory, depth. It ends the
// query.
var ErrViewLimit = services.ErrViewLimit

// What Cluster.ChangeCopies does to what a node has of a document.
const (
	CacheCopy     = store.Cache     // it has the document in memory
	PersistCopy   = store.Persist   // it has the document on disk
	UncacheCopy   = store.Uncache   // it has it in memory no more
	UnpersistCopy = store.Unpersist // it has it on disk no more
)

// NewNetwork returns a network without listeners.
func NewNetwork(opts NetworkOptions) *Network { return memnet.New(opts) }
