package sim

import (
	"slices"

	"github.com/couchcore/couchcore/memd"
)

// verb is what a call does.
type verb uint8

const (
	read verb = iota
	upsert
	insert
	replace
	swap // replace, of the version that was read before
	remove
	increment
	decrement
	appendTo
	prependTo
	pushTo // at the end of an array, by its path
	lookUp // by paths
	touch
	getTouch
	lock
	unlock
	readCopy // of a replica
	readAny  // of the active copy and, when that takes long, of replicas

	// what follows is asked of documents of visits, see inquiries.go
	hasDocument
	readOrNull
	readEx // with its attributes
	readExCopy
	readPath
	hasPath
	countPath
	lookUpCopy
	readFirst // of all copies
	readEach
	lookUpFirst
	lookUpEach
	pushLast // by a path, as a request of its own
	pushFirst
	insertAt
	addUnique
	setMeta
	addMeta
	deleteMeta

	// and this of nodes
	askRandom
	askState
	askSeqno
	askFailovers
	askStat
	askNoop
	askVersion
	askManifest
	askScope
	verbs
)

// verbTable has a row for each verb.
var verbTable = [verbs]struct {
	name      string // in a history
	operation string // by which the client counts
	op        memd.Opcode
	durable   bool // its calls may ask to be durable
	once      bool // no two of them have one key
	reads     bool // it changes nothing, so it may go again without the answer to an earlier request
	extends   bool // it adds a part to a document that has several
	copies    bool // it asks a replica
	parts     bool // it consists of several calls, whose retries it does not tell
	unseen    bool // its requests are not looked at: they are not about a document, or do not have its key
}{
	read:      {name: "get", operation: "get", op: memd.OpGet, reads: true},
	upsert:    {name: "upsert", operation: "upsert", op: memd.OpSet, durable: true},
	insert:    {name: "insert", operation: "insert", op: memd.OpAdd, durable: true},
	replace:   {name: "replace", operation: "replace", op: memd.OpReplace, durable: true},
	swap:      {name: "replace with CAS", operation: "replace", op: memd.OpReplace, durable: true},
	remove:    {name: "remove", operation: "remove", op: memd.OpDelete},
	increment: {name: "increment", operation: "increment", op: memd.OpIncrement, once: true},
	decrement: {name: "decrement", operation: "decrement", op: memd.OpDecrement, once: true},
	appendTo:  {name: "append", operation: "append", op: memd.OpAppend, extends: true},
	prependTo: {name: "prepend", operation: "prepend", op: memd.OpPrepend, extends: true},
	pushTo: {
		name: "mutate-in", operation: "mutate-in", op: memd.OpSubdocMultiMutation, durable: true, extends: true,
	},
	lookUp:   {name: "lookup-in", operation: "lookup-in", op: memd.OpSubdocMultiLookup, once: true, reads: true},
	touch:    {name: "touch", operation: "touch", op: memd.OpTouch},
	getTouch: {name: "get-and-touch", operation: "get-and-touch", op: memd.OpGAT},
	lock:     {name: "get-and-lock", operation: "get-and-lock", op: memd.OpGetLocked, once: true},
	unlock:   {name: "unlock", operation: "unlock", op: memd.OpUnlockKey, once: true},
	readCopy: {
		name: "get from a replica", operation: "get-replica", op: memd.OpGetReplica, reads: true, copies: true,
	},
	readAny: {name: "hedged get", operation: "get", op: memd.OpGet, reads: true, parts: true},

	hasDocument: {name: "exists", operation: "exists", op: memd.OpGetMeta, once: true, reads: true},
	readOrNull:  {name: "get or null", operation: "get-or-null", op: memd.OpGet, reads: true},
	readEx:      {name: "get with attributes", operation: "get-ex", op: memd.OpGetEx, once: true, reads: true},
	readExCopy: {
		name: "get with attributes from a replica", operation: "get-ex-replica", op: memd.OpGetExReplica, once: true,
		reads: true, copies: true,
	},
	readPath:  {name: "get of a path", operation: "path-get", op: memd.OpSubdocGet, once: true, reads: true},
	hasPath:   {name: "exists of a path", operation: "path-exists", op: memd.OpSubdocExists, once: true, reads: true},
	countPath: {name: "count of a path", operation: "path-count", op: memd.OpSubdocGetCount, once: true, reads: true},
	lookUpCopy: {
		name: "lookup-in of a replica", operation: "lookup-in", op: memd.OpSubdocMultiLookup, once: true, reads: true,
		copies: true,
	},
	readFirst: {name: "get of any copy", operation: "get-any-replica", op: memd.OpGet, reads: true, parts: true},
	readEach:  {name: "get of all copies", operation: "get-all-replicas", op: memd.OpGet, reads: true, parts: true},
	lookUpFirst: {
		name: "lookup-in of any copy", operation: "lookup-in-any-replica", op: memd.OpSubdocMultiLookup, reads: true,
		parts: true,
	},
	lookUpEach: {
		name: "lookup-in of all copies", operation: "lookup-in-all-replicas", op: memd.OpSubdocMultiLookup,
		reads: true, parts: true,
	},
	pushLast: {
		name: "array append", operation: "path-array-append", op: memd.OpSubdocArrayPushLast, durable: true,
		extends: true,
	},
	pushFirst: {
		name: "array prepend", operation: "path-array-prepend", op: memd.OpSubdocArrayPushFirst, durable: true,
		extends: true,
	},
	insertAt: {
		name: "array insert", operation: "path-array-insert", op: memd.OpSubdocArrayInsert, durable: true,
		extends: true,
	},
	addUnique: {
		name: "array add unique", operation: "path-array-add-unique", op: memd.OpSubdocArrayAddUnique, durable: true,
		extends: true,
	},
	setMeta:    {name: "set with metadata", operation: "set-with-meta", op: memd.OpSetWithMeta},
	addMeta:    {name: "add with metadata", operation: "add-with-meta", op: memd.OpAddWithMeta},
	deleteMeta: {name: "delete with metadata", operation: "delete-with-meta", op: memd.OpDelWithMeta, once: true},

	askRandom: {name: "get random", operation: "get-random", op: memd.OpGetRandomKey, reads: true, unseen: true},
	askState:  {name: "observe", operation: "observe", op: memd.OpObserve, reads: true, unseen: true},
	askSeqno: {
		name: "observe seqno", operation: "observe-seqno", op: memd.OpObserveSeqno, reads: true, unseen: true,
	},
	askFailovers: {
		name: "failover log", operation: "failover-log", op: memd.OpGetFailoverLog, reads: true, unseen: true,
	},
	askStat:    {name: "stat", operation: "stat", op: memd.OpStat, reads: true, unseen: true},
	askNoop:    {name: "noop", operation: "noop", op: memd.OpNoop, reads: true, unseen: true},
	askVersion: {name: "version", operation: "version", op: memd.OpVersion, reads: true, unseen: true},
	askManifest: {
		name: "manifest", operation: "get-manifest", op: memd.OpCollectionsGetManifest, reads: true, unseen: true,
	},
	askScope: {
		name: "scope id", operation: "get-scope-id", op: memd.OpCollectionsGetScopeID, reads: true, unseen: true,
	},
}

func (v verb) String() string { return verbTable[v].name }

func (v verb) op() memd.Opcode { return verbTable[v].op }

// composed reports whether the verb's calls consist of others that are measured. A hedged read is one.
func (v verb) composed() bool { return verbTable[v].parts && v != readAny }

// onlyReads reports whether what has the opcode changes nothing.
func onlyReads(op memd.Opcode) bool {
	for v := range verbs {
		if v.op() == op {
			return verbTable[v].reads
		}
	}
	return false
}

// documentOps are the opcodes of all verbs whose requests are looked at.
func documentOps() []memd.Opcode { return opsOf(func(v verb) bool { return !verbTable[v].unseen }) }

// nodeOps are the opcodes of the others.
func nodeOps() []memd.Opcode { return opsOf(func(v verb) bool { return verbTable[v].unseen }) }

// opsOf are the opcodes of the verbs that which takes, each once.
func opsOf(which func(verb) bool) (ops []memd.Opcode) {
	for v := range verbs {
		if which(v) && !slices.Contains(ops, v.op()) {
			ops = append(ops, v.op())
		}
	}
	return ops
}
