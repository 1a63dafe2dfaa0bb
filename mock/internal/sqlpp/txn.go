package sqlpp

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
)

// Txn is a transaction: its writes are kept here until COMMIT, and only its own statements see them. A statement takes
// it for itself, and another one that comes meanwhile fails.
type Txn struct {
	mu     sync.Mutex
	staged map[place]change
	saved  []savepoint
}

type place struct {
	ks  Keyspace
	key string
}

// change is what a transaction has done to a document. was is the CAS that the document had before it, 0 for none.
type change struct {
	value  []byte
	gone   bool
	was    uint64
	fresh  uint64 // a CAS that only the transaction sees
	expiry uint32
	marked bool // a client has staged it in the document itself
}

type savepoint struct {
	name   string
	staged map[place]change
}

// NewTxn begins a transaction.
func NewTxn() *Txn { return &Txn{staged: map[place]change{}} }

// Stage takes over a write that a client's transaction has staged in a document. was is the document's CAS, 0 for one
// that does not exist yet; seen is the one that the transaction has.
func (t *Txn) Stage(k Keyspace, key string, value []byte, gone bool, was, seen uint64) {
	t.staged[place{k, key}] = change{value: value, gone: gone, was: was, fresh: seen, marked: true}
}

// txnStore is a store as a transaction sees it.
type txnStore struct {
	Store
	t *Txn
}

func (s txnStore) Documents(ks Keyspace) []Document {
	base := s.Store.Documents(ks)
	if len(s.t.staged) == 0 {
		return base
	}
	out := make([]Document, 0, len(base))
	for _, d := range base {
		if _, changed := s.t.staged[place{ks, d.Key}]; !changed {
			out = append(out, d)
		}
	}
	for at, c := range s.t.staged {
		if at.ks == ks && !c.gone {
			out = append(out, c.document(at.key))
		}
	}
	slices.SortFunc(out, func(a, b Document) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

func (c change) document(key string) Document {
	return Document{Key: key, Value: c.value, CAS: c.fresh, Expiry: c.expiry}
}

func (s txnStore) Document(ks Keyspace, key string) (Document, bool) {
	c, changed := s.t.staged[place{ks, key}]
	switch {
	case !changed:
		return s.Store.Document(ks, key)
	case c.gone:
		return Document{}, false
	}
	return c.document(key), true
}

func (s txnStore) Write(ks Keyspace, w Write) (uint64, *Error) {
	at := place{ks, w.Key}
	d, has := s.Document(ks, w.Key)
	switch {
	case w.Kind == Insert && has:
		return 0, fail(CodeDuplicateKey, "Duplicate Key: %s", w.Key)
	case (w.Kind == Replace || w.Kind == Delete) && !has:
		return 0, fail(CodeKeyNotFound, "Key not found: %s", w.Key)
	case has && w.CAS != 0 && w.CAS != d.CAS:
		return 0, fail(CodeCASMismatch, "CAS mismatch")
	}
	c, again := s.t.staged[at]
	if !again {
		old, _ := s.Store.Document(ks, w.Key)
		c = change{was: old.CAS, fresh: old.CAS}
	}
	c.value, c.gone, c.expiry = w.Value, w.Kind == Delete, w.Expiry
	c.fresh++
	s.t.staged[at] = c
	return c.fresh, nil
}

// commit writes what is staged. When a document has changed since, nothing is written.
func (t *Txn) commit(s Store) *Error {
	places := slices.SortedFunc(maps.Keys(t.staged), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.ks.String(), b.ks.String()), cmp.Compare(a.key, b.key))
	})
	for _, at := range places {
		if d, _ := s.Document(at.ks, at.key); d.CAS != t.staged[at].was {
			return fail(CodeTxnCommit, "Commit Transaction statement error: document %s has changed", at.key)
		}
	}
	for _, at := range places {
		c := t.staged[at]
		w := Write{Kind: Replace, Key: at.key, Value: c.value, CAS: c.was, Expiry: c.expiry, Unstage: c.marked}
		switch {
		case c.gone && c.was == 0:
			continue
		case c.gone:
			w.Kind, w.Value = Delete, nil
		case c.was == 0:
			w.Kind = Insert
		}
		if _, err := s.Write(at.ks, w); err != nil {
			return fail(CodeTxnCommit, "Commit Transaction statement error: %s", err.Message)
		}
	}
	return nil
}

// transact executes a statement about a transaction.
func (r *run) transact(x *txn, out *Result) {
	t := r.Txn
	if x.verb == "BEGIN" {
		if t != nil {
			r.fail(fail(CodeTxnStatement, "BEGIN TRANSACTION statement is not supported within the transaction"))
			return
		}
		out.Begin = true
		return
	}
	if t == nil {
		r.fail(fail(CodeTxnStatement, "%s statement is not supported outside the transaction", x.verb))
		return
	}
	at := slices.IndexFunc(t.saved, func(s savepoint) bool { return s.name == x.savepoint })
	switch {
	case x.verb == "COMMIT":
		out.End = true
		if err := t.commit(r.base); err != nil {
			r.fail(err)
		}
	case x.verb == "SAVEPOINT":
		t.saved = append(t.saved, savepoint{x.savepoint, maps.Clone(t.staged)})
	case x.verb == "ROLLBACK" && x.savepoint == "":
		out.End = true
	case x.verb == "ROLLBACK" && at < 0:
		r.fail(fail(CodeNoSavepoint, "%s savepoint is not defined", x.savepoint))
	case x.verb == "ROLLBACK":
		t.staged = maps.Clone(t.saved[at].staged)
		t.saved = t.saved[:at+1]
	}
}

// What clients send in a transaction for their key-value operations once it has begun to query: EXECUTE __get and so
// on, with a keyspace, a key, a value and options as arguments.
var keyValueKinds = map[string]WriteKind{"__insert": Insert, "__update": Replace, "__delete": Delete}

// IsKeyValue reports whether EXECUTE of a name stands for a key-value operation of a transaction.
func IsKeyValue(name string) bool {
	_, writes := keyValueKinds[name]
	return writes || name == "__get"
}

// KeyValue executes a key-value operation of a transaction. cas is the one that the client has seen, 0 for none.
func KeyValue(name string, cas uint64, o *Options) Result {
	t := o.Txn
	wrong := func(e *Error) Result { return Result{Errors: []*Error{e}} }
	switch {
	case t == nil:
		return wrong(fail(CodeTxnStatement, "EXECUTE %s statement is not supported outside the transaction", name))
	case !t.mu.TryLock():
		return wrong(inUse())
	}
	defer t.mu.Unlock()
	ks, key, err := keyValuePlace(o)
	if err != nil {
		return wrong(err)
	}
	r := &run{Options: *o, limits: DefaultLimits}
	r.Store = txnStore{o.Store, t}
	out := Result{}
	if kind, writes := keyValueKinds[name]; writes {
		w := Write{Kind: kind, Key: key, CAS: cas}
		if len(o.Args) > 2 && kind != Delete {
			w.Value = []byte(r.encode(o.Args[2]))
		}
		if _, err := r.Store.Write(ks, w); err != nil {
			if err.Code == CodeCASMismatch {
				err = fail(CodeStagedMismatch, "cas mismatch for key: %s", key)
			}
			return wrong(err)
		}
		out.Mutated++
	}
	d, has := r.Store.Document(ks, key)
	switch {
	case has:
		row := map[string]any{"scas": strconv.FormatUint(d.CAS, 10), "doc": r.document(&d).value}
		out.Rows = []string{r.encode(row)}
	case name == "__get":
		return wrong(fail(CodeKeyNotFound, "Key not found: %s", key))
	}
	return out
}

// keyValuePlace is the document that the arguments of a key-value operation name.
func keyValuePlace(o *Options) (Keyspace, string, *Error) {
	refused := fail(CodeExecution, "The operation needs a keyspace and a key")
	if len(o.Args) < 2 {
		return Keyspace{}, "", refused
	}
	name, ok := o.Args[0].(string)
	key, ok2 := o.Args[1].(string)
	toks, err := lex(name)
	if err != nil || !ok || !ok2 {
		return Keyspace{}, "", refused
	}
	p := &parser{text: name, toks: toks}
	path := p.keyspace()
	if p.err != nil || p.peek().kind != tokEnd {
		return Keyspace{}, "", refused
	}
	ks, err := o.Store.Keyspace(path.parts)
	return ks, key, err
}

func inUse() *Error {
	return fail(CodeTxnInUse, "Parallel execution of the statements are not allowed within the transaction")
}
