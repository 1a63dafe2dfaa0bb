package call

import "github.com/couchcore/couchcore/memd"

// Traits are what is true of an opcode whatever its arguments are.
type Traits uint16

// Traits of operations. Idempotent follows the retry RFC's list plus the pure reads that it does not mention: GET_META,
// STAT, GET_RANDOM_KEY, GET_EX and GET_EX_REPLICA, GET_FAILOVER_LOG, VERSION. GET_SCOPE_ID is not on the list. Whatever
// is not listed is not idempotent.
const (
	Idempotent      Traits = 1 << iota // sending it twice does no harm
	Keyed                              // has a document key and is routed by it
	CollectionAware                    // needs the id of its collection, most with the key
	Durable                            // accepts a durability frame
	PreservesExpiry                    // accepts a preserve-expiry frame
	Mutates                            // changes a document when it succeeds
	FromReplica                        // answered by a replica
	AnyNode                            // has no key: any node may answer
	NoRetry                            // never retried (DCP, a scan's continuation)
	WantsCAS                           // must name a CAS
	OfVBucket                          // has no key, and is routed by the vbucket that it names
	Compressible                       // its value is a document's and may be sent compressed
	Ordered                            // servers refuse it on a connection with unordered execution
)

// Spec is an opcode's row in the table of operations.
type Spec struct {
	Name      string // the command's verb: "get-and-touch"
	Opcode    memd.Opcode
	Traits    Traits
	ReqExtras []int // allowed lengths of the request's extras
	ResExtras []int // lengths of a successful response's extras that are understood
	// Datatypes are the marks that a request's value may have.
	Datatypes memd.Datatype
}

// Has reports whether every given trait is set.
func (s *Spec) Has(t Traits) bool { return s.Traits&t == t }

var (
	none      = []int{0}
	flagsOnly = []int{4}
	token     = []int{0, 16}
)

const (
	read  = Keyed | CollectionAware
	write = Keyed | CollectionAware | Mutates

	// Datatypes of values.
	document = memd.DatatypeJSON | memd.DatatypeSnappy
	anything = memd.DatatypeJSON | memd.DatatypeSnappy | memd.DatatypeXattr
)

// Extras that have optional parts.
var (
	withMeta   = []int{24, 26, 28, 30} // options and extended metadata
	pathRead   = []int{3, 4}           // flags of the document
	pathChange = []int{3, 4, 7, 8}     // the same, expiry
)

// specs is the one table of operations. Sources: kv_engine's BinaryProtocol.md and mcbp_validators.cc for extras and
// frames, SDK RFC 0049 for idempotency. docs/protocol.md says what servers want and answer, row by row.
var specs = [256]*Spec{
	memd.OpGet: {Name: "get", Traits: read | Idempotent, ReqExtras: none, ResExtras: flagsOnly},
	memd.OpGetReplica: {
		Name: "get-replica", Traits: read | Idempotent | FromReplica, ReqExtras: none, ResExtras: flagsOnly,
	},
	memd.OpGetEx: {Name: "get-ex", Traits: read | Idempotent, ReqExtras: none, ResExtras: flagsOnly},
	memd.OpGetExReplica: {
		Name: "get-ex-replica", Traits: read | Idempotent | FromReplica, ReqExtras: none, ResExtras: flagsOnly,
	},
	memd.OpGetMeta: {Name: "exists", Traits: read | Idempotent, ReqExtras: []int{0, 1}, ResExtras: []int{20, 21}},
	memd.OpGetRandomKey: {
		Name: "get-random", Traits: CollectionAware | AnyNode | Idempotent, ReqExtras: []int{4, 5},
		ResExtras: flagsOnly,
	},
	memd.OpSet: {
		Name: "upsert", Traits: write | Durable | PreservesExpiry | Compressible, ReqExtras: []int{8},
		ResExtras: token, Datatypes: document,
	},
	memd.OpAdd: {
		Name: "insert", Traits: write | Durable | Compressible, ReqExtras: []int{8}, ResExtras: token,
		Datatypes: document,
	},
	memd.OpReplace: {
		Name: "replace", Traits: write | Durable | PreservesExpiry | Compressible,
		ReqExtras: []int{8}, ResExtras: token, Datatypes: document,
	},
	memd.OpDelete: {Name: "remove", Traits: write | Durable, ReqExtras: none, ResExtras: token},
	memd.OpAppend: {
		Name: "append", Traits: write | Durable | PreservesExpiry | Compressible, ReqExtras: none,
		ResExtras: token, Datatypes: document,
	},
	memd.OpPrepend: {
		Name: "prepend", Traits: write | Durable | PreservesExpiry | Compressible, ReqExtras: none,
		ResExtras: token, Datatypes: document,
	},
	memd.OpIncrement: {
		Name: "increment", Traits: write | Durable | PreservesExpiry, ReqExtras: []int{20}, ResExtras: token,
	},
	memd.OpDecrement: {
		Name: "decrement", Traits: write | Durable | PreservesExpiry, ReqExtras: []int{20}, ResExtras: token,
	},
	memd.OpTouch:     {Name: "touch", Traits: write, ReqExtras: []int{4}, ResExtras: token},
	memd.OpGAT:       {Name: "get-and-touch", Traits: write, ReqExtras: []int{4}, ResExtras: flagsOnly},
	memd.OpGetLocked: {Name: "get-and-lock", Traits: write, ReqExtras: []int{0, 4}, ResExtras: flagsOnly},
	memd.OpUnlockKey: {Name: "unlock", Traits: write | WantsCAS, ReqExtras: none, ResExtras: none},
	memd.OpSetWithMeta: {
		Name: "set-with-meta", Traits: write, ReqExtras: withMeta, ResExtras: token, Datatypes: anything,
	},
	memd.OpAddWithMeta: {
		Name: "add-with-meta", Traits: write, ReqExtras: withMeta, ResExtras: token, Datatypes: anything,
	},
	memd.OpDelWithMeta: {
		Name: "delete-with-meta", Traits: write, ReqExtras: withMeta, ResExtras: token, Datatypes: anything,
	},

	memd.OpSubdocMultiLookup: {Name: "lookup-in", Traits: read | Idempotent, ReqExtras: []int{0, 1}, ResExtras: none},
	memd.OpSubdocMultiMutation: {Name: "mutate-in", Traits: write | Durable | PreservesExpiry, ReqExtras: []int{
		0, 1, 4, 5, 8, 9,
	}, ResExtras: token},

	// One path, as a request of its own.
	memd.OpSubdocGet:      {Name: "path-get", Traits: read | Idempotent, ReqExtras: pathRead, ResExtras: none},
	memd.OpSubdocExists:   {Name: "path-exists", Traits: read | Idempotent, ReqExtras: pathRead, ResExtras: none},
	memd.OpSubdocGetCount: {Name: "path-count", Traits: read | Idempotent, ReqExtras: pathRead, ResExtras: none},
	memd.OpSubdocDictAdd: {
		Name: "path-insert", Traits: write | Durable | PreservesExpiry, ReqExtras: pathChange, ResExtras: token,
	},
	memd.OpSubdocDictUpsert: {
		Name: "path-upsert", Traits: write | Durable | PreservesExpiry, ReqExtras: pathChange, ResExtras: token,
	},
	memd.OpSubdocDelete: {
		Name: "path-remove", Traits: write | Durable | PreservesExpiry, ReqExtras: pathChange, ResExtras: token,
	},
	memd.OpSubdocReplace: {
		Name: "path-replace", Traits: write | Durable | PreservesExpiry, ReqExtras: pathChange, ResExtras: token,
	},
	memd.OpSubdocArrayPushLast: {
		Name: "path-array-append", Traits: write | Durable | PreservesExpiry, ReqExtras: pathChange, ResExtras: token,
	},
	memd.OpSubdocArrayPushFirst: {
		Name: "path-array-prepend", Traits: write | Durable | PreservesExpiry, ReqExtras: pathChange, ResExtras: token,
	},
	memd.OpSubdocArrayInsert: {
		Name: "path-array-insert", Traits: write | Durable | PreservesExpiry, ReqExtras: pathChange, ResExtras: token,
	},
	memd.OpSubdocArrayAddUnique: {
		Name: "path-array-add-unique", Traits: write | Durable | PreservesExpiry,
		ReqExtras: pathChange, ResExtras: token,
	},
	memd.OpSubdocCounter: {
		Name: "path-counter", Traits: write | Durable | PreservesExpiry, ReqExtras: pathChange, ResExtras: token,
	},
	memd.OpSubdocReplaceBodyWithXattr: {
		Name: "path-replace-body", Traits: write | Durable | PreservesExpiry, ReqExtras: pathChange, ResExtras: token,
	},

	memd.OpObserve:      {Name: "observe", Traits: read | Idempotent, ReqExtras: none, ResExtras: none},
	memd.OpObserveSeqno: {Name: "observe-seqno", Traits: OfVBucket | Idempotent, ReqExtras: none, ResExtras: none},
	memd.OpGetFailoverLog: {
		Name: "failover-log", Traits: OfVBucket | Idempotent | Ordered, ReqExtras: none, ResExtras: none,
	},
	memd.OpRangeScanCreate: {
		Name: "range-scan-create", Traits: OfVBucket | CollectionAware, ReqExtras: none,
		ResExtras: none, Datatypes: memd.DatatypeJSON,
	},
	memd.OpRangeScanContinue: {
		Name: "range-scan-continue", Traits: OfVBucket | NoRetry, ReqExtras: []int{28}, ResExtras: flagsOnly,
	},
	memd.OpRangeScanCancel: {
		Name: "range-scan-cancel", Traits: OfVBucket | NoRetry, ReqExtras: []int{16}, ResExtras: none,
	},

	memd.OpNoop: {Name: "noop", Traits: Idempotent | AnyNode, ReqExtras: none, ResExtras: none},
	memd.OpStat: {
		Name: "stat", Traits: Idempotent | AnyNode, ReqExtras: none, ResExtras: none, Datatypes: memd.DatatypeJSON,
	},
	memd.OpVersion: {Name: "version", Traits: Idempotent | AnyNode, ReqExtras: none, ResExtras: none},

	memd.OpCollectionsGetManifest: {
		Name: "get-manifest", Traits: Idempotent | AnyNode, ReqExtras: none, ResExtras: none,
	},
	memd.OpCollectionsGetScopeID: {Name: "get-scope-id", Traits: AnyNode, ReqExtras: none, ResExtras: []int{12}},

	// What the client itself asks.
	memd.OpGetClusterConfig: {
		Name: "get-cluster-config", Traits: Idempotent | AnyNode, ReqExtras: []int{0, 16}, ResExtras: []int{0, 16},
	},
	memd.OpCollectionsGetID: {
		Name: "get-collection-id", Traits: Idempotent | AnyNode, ReqExtras: none, ResExtras: []int{12},
	},
}

func init() {
	for op, s := range specs {
		if s != nil {
			s.Opcode = memd.Opcode(op)
		}
	}
}

// SpecOf gives an opcode's row, or nil when no operation uses it.
func SpecOf(op memd.Opcode) *Spec { return specs[op] }

// SpecByName finds a row by its verb, or gives nil.
func SpecByName(name string) *Spec {
	for _, s := range specs {
		if s != nil && s.Name == name {
			return s
		}
	}
	return nil
}
