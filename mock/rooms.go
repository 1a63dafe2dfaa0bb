package mock

import (
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

	// Document is a document as its active node has it, see Cluster.Documents.
	Document = store.Document
	// Applied is one mutation as a node executed it, see Cluster.ApplyLog.
	Applied = store.Applied
	// CopyChange is what Cluster.ChangeCopies does, several of the constants together.
	CopyChange = store.Change
)

// What Cluster.ChangeCopies does to what a node has of a document.
const (
	CacheCopy     = store.Cache     // it has the document in memory
	PersistCopy   = store.Persist   // it has the document on disk
	UncacheCopy   = store.Uncache   // it has it in memory no more
	UnpersistCopy = store.Unpersist // it has it on disk no more
)

// NewNetwork returns a network without listeners.
func NewNetwork(opts NetworkOptions) *Network { return memnet.New(opts) }
