package kv

import "github.com/couchcore/couchcore/memd"

// Traits are what is true of an opcode whatever its arguments are.
type Traits uint16

// Traits of operations. Idempotent follows the retry RFC's list plus the pure reads GET_META, STAT and GET_RANDOM_KEY;
// whatever is not listed is not idempotent.
const (
	Idempotent      Traits = 1 << iota // sending it twice does no harm
	Keyed                              // has a document key and is routed by it
	CollectionAware                    // its key carries a collection id
	Durable                            // accepts a durability frame
	PreservesExpiry                    // accepts a preserve-expiry frame
	Mutates                            // changes a document when it succeeds
	FromReplica                        // answered by a replica
	AnyNode                            // has no key: any node may answer
	NoRetry                            // never retried (DCP, a scan's continuation)
	WantsCAS                           // must name a CAS
)

// Spec is an opcode's row in the table of operations.
type Spec struct {
	Name      string // the command's verb: "get-and-touch"
	Opcode    memd.Opcode
	Traits    Traits
	ReqExtras []int // allowed lengths of the request's extras
	ResExtras []int // lengths of a successful response's extras that are understood
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
)

// specs is the one table of operations. Sources: kv_engine's BinaryProtocol.md and mcbp_validators.cc for extras and
// frames, SDK RFC 0049 for idempotency.
var specs = [256]*Spec{
	memd.OpGet:        {Name: "get", Traits: read | Idempotent, ReqExtras: none, ResExtras: flagsOnly},
	memd.OpGetReplica: {Name: "get-replica", Traits: read | Idempotent | FromReplica, ReqExtras: none, ResExtras: flagsOnly},
	memd.OpGetMeta:    {Name: "exists", Traits: read | Idempotent, ReqExtras: []int{0, 1}, ResExtras: []int{20, 21}},
	memd.OpSet:        {Name: "upsert", Traits: write | Durable | PreservesExpiry, ReqExtras: []int{8}, ResExtras: token},
	memd.OpAdd:        {Name: "insert", Traits: write | Durable, ReqExtras: []int{8}, ResExtras: token},
	memd.OpReplace:    {Name: "replace", Traits: write | Durable | PreservesExpiry, ReqExtras: []int{8}, ResExtras: token},
	memd.OpDelete:     {Name: "remove", Traits: write | Durable, ReqExtras: none, ResExtras: token},
	memd.OpAppend:     {Name: "append", Traits: write | Durable | PreservesExpiry, ReqExtras: none, ResExtras: token},
	memd.OpPrepend:    {Name: "prepend", Traits: write | Durable | PreservesExpiry, ReqExtras: none, ResExtras: token},
	memd.OpIncrement:  {Name: "increment", Traits: write | Durable | PreservesExpiry, ReqExtras: []int{20}, ResExtras: token},
	memd.OpDecrement:  {Name: "decrement", Traits: write | Durable | PreservesExpiry, ReqExtras: []int{20}, ResExtras: token},
	memd.OpTouch:      {Name: "touch", Traits: write | Durable, ReqExtras: []int{4}, ResExtras: token},
	memd.OpGAT:        {Name: "get-and-touch", Traits: write | Durable, ReqExtras: []int{4}, ResExtras: flagsOnly},
	memd.OpGetLocked:  {Name: "get-and-lock", Traits: write, ReqExtras: []int{0, 4}, ResExtras: flagsOnly},
	memd.OpUnlockKey:  {Name: "unlock", Traits: write | WantsCAS, ReqExtras: none, ResExtras: none},
	memd.OpNoop:       {Name: "noop", Traits: Idempotent | AnyNode, ReqExtras: none, ResExtras: none},

	// What the client itself asks.
	memd.OpGetClusterConfig: {Name: "get-cluster-config", Traits: Idempotent | AnyNode, ReqExtras: []int{0, 16}, ResExtras: []int{0, 16}},
	memd.OpCollectionsGetID: {Name: "get-collection-id", Traits: Idempotent | AnyNode, ReqExtras: none, ResExtras: []int{12}},
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
