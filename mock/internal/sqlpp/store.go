package sqlpp

import "time"

// Keyspace is a collection.
type Keyspace struct{ Bucket, Scope, Collection string }

// Document is a document as the store has it. Value is only read.
type Document struct {
	Key    string
	Value  []byte
	CAS    uint64
	Flags  uint32
	Expiry uint32 // unix seconds, 0 for none
}

// WriteKind says what a Write does.
type WriteKind uint8

// The kinds of writes. Replace and Delete need a document, and one with the CAS unless that is 0.
const (
	Insert WriteKind = iota
	Upsert
	Replace
	Delete
)

// Write is a change of one document.
type Write struct {
	Kind           WriteKind
	Key            string
	Value          []byte
	Expiry         uint32 // as in the protocol of key-value
	CAS            uint64
	PreserveExpiry bool
	Unstage        bool // take away the marks of a client's transaction that the document has
}

// Index is an index of the query service. Nothing is looked up in it.
type Index struct {
	Name      string
	Keyspace  Keyspace
	Keys      []string // texts of expressions; none for a primary index
	Condition string   // text of WHERE
	Primary   bool
	Deferred  bool
}

// Store is what statements work on. Its methods may be called from several goroutines at once.
type Store interface {
	// Keyspace is the collection that a name of one to three parts stands for.
	Keyspace(parts []string) (Keyspace, *Error)
	// Documents are the documents of a collection, by key.
	Documents(k Keyspace) []Document
	// Document is one of them.
	Document(k Keyspace, key string) (Document, bool)
	// Write changes a document and returns its CAS. The error's code is CodeDuplicateKey, CodeKeyNotFound,
	// CodeCASMismatch or CodeExecution.
	Write(k Keyspace, w Write) (uint64, *Error)
	// Indexes are the indexes in order of their creation.
	Indexes() []Index
	// CreateIndex adds an index; false for a name that its keyspace has.
	CreateIndex(ix Index) bool
	// DropIndex removes an index; false without one.
	DropIndex(k Keyspace, name string) bool
	// BuildIndex ends the deferral of an index; false without one.
	BuildIndex(k Keyspace, name string) bool
	// Define executes CREATE, DROP and FLUSH of a scope or collection. The last part of parts is its name.
	Define(verb, what string, parts []string, maxTTL int32, lenient bool) *Error
	// System are the rows of a system keyspace, false for one that does not exist.
	System(name string) ([]map[string]any, bool)
}

// Options are a request.
type Options struct {
	Store          Store
	Context        []string // bucket and scope of the query context; none without it
	Named          map[string]any
	Args           []any
	Now            time.Time
	UUID           func() string
	ReadOnly       bool
	PreserveExpiry bool
	Scans          func(Keyspace) bool // the keyspace is scanned where no index serves; nil for none
	NoWrites       bool                // analytics: statements only read
	Txn            *Txn
	Limits         Limits // zero for DefaultLimits
}

// Result is what a statement made.
type Result struct {
	Rows      []string // JSON texts
	Signature string   // of the rows, JSON; empty for a statement that cannot be read
	Errors    []*Error
	Mutated   int
	Begin     bool
	End       bool // of the transaction
}

// run is a statement while it runs.
type run struct {
	Options
	base   Store // what a transaction commits to
	limits Limits
	steps  int
	bytes  int
	err    *Error
	cached map[string]any // regular expressions by pattern
	read   map[Keyspace][]row
}

// scope is a chain of names, the newest first.
type scope struct {
	up    *scope
	name  string
	value any
	doc   *Document // of a document of a keyspace
	ks    string    // the full name of that keyspace
	sole  string    // a SELECT begins here, with one term in FROM of this name
	begin bool      // a SELECT begins here
	aggs  map[*expr]any
}

func (s *scope) with(name string, value any) *scope { return &scope{up: s, name: name, value: value} }

// find is the newest scope of a name, or nil.
func (s *scope) find(name string) *scope {
	for ; s != nil; s = s.up {
		if s.name == name {
			return s
		}
	}
	return nil
}

// frame is where the innermost SELECT begins, or nil.
func (s *scope) frame() *scope {
	for ; s != nil; s = s.up {
		if s.begin {
			return s
		}
	}
	return nil
}

// ParseContext are the bucket and the scope of a query context, such as default:`bucket`.`scope`; nil for any other
// text.
func ParseContext(s string) []string {
	toks, err := lex(s)
	if err != nil {
		return nil
	}
	p := &parser{text: s, toks: toks}
	k := p.keyspace()
	if p.err != nil || p.peek().kind != tokEnd || len(k.parts) != 2 || k.namespace != "" && k.namespace != "default" {
		return nil
	}
	return k.parts
}
