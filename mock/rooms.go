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
	// NetworkOptions are the properties of a Network: Latency, Buffer, Record.
	NetworkOptions = memnet.Options
	// Link is one connection of a Network, for faults.
	Link = memnet.Link
	// Flow is one direction of a Link, for faults.
	Flow = memnet.Flow
	// Effects are what faults have done to a Flow.
	Effects = memnet.Effects
	// Record is a piece that one end of a Link has written.
	Record = memnet.Record

	// Injection is a fault in force, see Cluster.Inject: Fired and WaitFired say how many requests it has met, Release
	// lets go of those that it holds, Remove ends it.
	Injection = trigger.Trigger
	// Counter counts requests, see Cluster.Count and Cluster.Expect, with the same methods: Fired says how many have
	// come.
	Counter = trigger.Trigger
	// Script is a list of answers in force, see Cluster.Script, with the same methods.
	Script = trigger.Trigger

	// Service is one of the services that a node can run.
	Service = services.Service
	// ServiceMatch says which requests a script answers. Each of its fields that is set must fit: Service, Nodes,
	// Method, Path, Statement, Pattern, Index, Preparing, Func. Skip and Times count what matches.
	ServiceMatch = services.Match
	// Answer is how a script answers one request. What: Status, Header, Rows or Stream, Errors, Warnings, Mutated,
	// Members, Early, or a whole Body, or Default. How: Hold, Delay, RowDelay, Chunk, Trickle, CutRows, CutBytes,
	// StallRows, StallBytes, Never, Close, Deadline. Func makes one for each request, Rewrite changes the whole body.
	Answer = services.Answer
	// ServiceError is an error or warning in an Answer: Code, Message, Retry, Reason, Cause, or all of it as Raw.
	ServiceError = services.Error
	// ServiceRequest is one HTTP request as a node received it, see Cluster.ServiceLog: Node, Service, Method, Path,
	// Query, Header, Body, User, Login, At, and what a service has found in it: Statement, Prepared, Preparing, Index,
	// Member.
	ServiceRequest = services.Request
	// Unsupported is a statement that the mock does not support, see Cluster.Unsupported: Service, Statement, Message,
	// Requests.
	Unsupported = services.Unsupported
	// ViewEngine compiles the functions of views, see Views. Package mock/viewjs has one for JavaScript.
	ViewEngine = services.ViewEngine
	// ViewFunctions are the functions of one view that a ViewEngine has compiled.
	ViewFunctions = services.ViewFunctions

	// Document is a document as a node has it, see Cluster.Documents: Node, VBucket, Collection, Key, Value, Flags,
	// Datatype, Expiry, CAS, Seqno, Locked.
	Document = store.Document
	// Applied is one mutation as a node executed it, see Cluster.ApplyLog: Node, VBucket, Opcode, Collection, Key,
	// Token (the first 64 bytes of the value), CASBefore, CASAfter, At.
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
	EventingService   = services.Eventing

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
