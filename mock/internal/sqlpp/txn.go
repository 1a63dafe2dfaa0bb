package sqlpp

import (
	"cmp"
	"maps"
	"slices"
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
}

type savepoint struct {
	name   string
	staged map[place]change
}

// NewTxn begins a transaction.
func NewTxn() *Txn { return &Txn{staged: map[place]change{}} }

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
		w := Write{Kind: Replace, Key: at.key, Value: c.value, CAS: c.was, Expiry: c.expiry}
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
