package sim

import "github.com/couchcore/couchcore/memd"

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
}{
	read:      {name: "get", operation: "get", op: memd.OpGet, reads: true},
	upsert:    {name: "upsert", operation: "upsert", op: memd.OpSet, durable: true},
	insert:    {name: "insert", operation: "insert", op: memd.OpAdd, durable: true},
	replace:   {name: "replace", operation: "replace", op: memd.OpReplace, durable: true},
	swap:      {name: "replace with CAS", operation: "replace", op: memd.OpReplace, durable: true},
	remove:    {name: "remove", operation: "remove", op: memd.OpDelete},
	increment: {name: "increment", operation: "increment", op: memd.OpIncrement, once: true},
	decrement: {name: "decrement", operation: "decrement", op: memd.OpDecrement, once: true},
	appendTo:  {name: "append", operation: "append", op: memd.OpAppend},
	prependTo: {name: "prepend", operation: "prepend", op: memd.OpPrepend},
	pushTo:    {name: "mutate-in", operation: "mutate-in", op: memd.OpSubdocMultiMutation, durable: true},
	lookUp:    {name: "lookup-in", operation: "lookup-in", op: memd.OpSubdocMultiLookup, once: true, reads: true},
	touch:     {name: "touch", operation: "touch", op: memd.OpTouch},
	getTouch:  {name: "get-and-touch", operation: "get-and-touch", op: memd.OpGAT},
	lock:      {name: "get-and-lock", operation: "get-and-lock", op: memd.OpGetLocked, once: true},
	unlock:    {name: "unlock", operation: "unlock", op: memd.OpUnlockKey, once: true},
	readCopy:  {name: "get from a replica", operation: "get-replica", op: memd.OpGetReplica, reads: true},
	readAny:   {name: "hedged get", operation: "get", op: memd.OpGet, reads: true},
}

func (v verb) String() string { return verbTable[v].name }

func (v verb) op() memd.Opcode { return verbTable[v].op }

// onlyReads reports whether what has the opcode changes nothing.
func onlyReads(op memd.Opcode) bool {
	for v := range verbs {
		if v.op() == op {
			return verbTable[v].reads
		}
	}
	return false
}

// extends reports whether the verb adds a part to a document that has several.
func (v verb) extends() bool { return v == appendTo || v == prependTo || v == pushTo }

// documentOps are the opcodes of all verbs.
func documentOps() (ops []memd.Opcode) {
	for v := range verbs {
		if v != swap && v != readAny { // they have those of replace and get
			ops = append(ops, v.op())
		}
	}
	return ops
}
