package mock

import (
	"encoding/json"
	"io"
	"time"

	"github.com/couchcore/couchcore/mock/internal/store"
)

// Entry is a line of a Journal: a request for a document that a node has received, or a mutation that it has executed.
type Entry struct {
	What   string    `json:"what"` // "received" or "applied"
	At     time.Time `json:"at"`
	Node   int       `json:"node"`
	Conn   uint64    `json:"conn,omitempty"` // of "received"
	Opcode string    `json:"opcode"`
	Key    string    `json:"key"`
	Token  string    `json:"token"` // the first bytes of the value
}

// The kinds of entries.
const (
	EntryReceived = "received"
	EntryApplied  = "applied"
)

// Journal writes a line of JSON, an Entry, for each request for a document when it has come, and for each mutation when
// it has been executed and before it is answered. So a journal in a file tells what happened to a cluster whose process
// has been killed. Requests wait while w does. Journal calls w.Write once for a line or a few, never two at once;
// errors are dropped.
func Journal(w io.Writer) Option { return func(s *settings) { s.journal = w } }

// journalRequest notes a request for a document.
func (c *Cluster) journalRequest(rq *request) {
	if c.set.journal == nil || rq.spec == nil || rq.spec.key != keyDocument {
		return
	}
	c.write(func() []Entry {
		return []Entry{{
			What: EntryReceived, At: rq.at, Node: rq.k.n.index, Conn: rq.k.id, Opcode: rq.p.Opcode.String(),
			Key:   string(rq.key),
			Token: string(rq.value[:min(len(rq.value), store.MaxToken)]),
		}}
	})
}

// journalApplied notes what the request's bucket has executed and not noted yet. It returns when that is written,
// from every process.
func (c *Cluster) journalApplied(rq *request) {
	if c.set.journal == nil || rq.b == nil || rq.spec == nil || !rq.spec.mutates {
		return
	}
	c.write(func() []Entry {
		c.mu.Lock()
		list := rq.b.store.TakeUnwritten()
		c.mu.Unlock()
		var es []Entry
		for _, a := range list {
			es = append(es, Entry{
				What: EntryApplied, At: a.At, Node: a.Node, Opcode: a.Opcode.String(), Key: a.Key,
				Token: a.Token,
			})
		}
		return es
	})
}

// write writes the entries that f gives, one writer at a time.
func (c *Cluster) write(f func() []Entry) {
	c.journaling <- struct{}{}
	defer func() { <-c.journaling }()
	var lines []byte
	for _, e := range f() {
		line, err := json.Marshal(e)
		if err != nil {
			continue // strings and numbers cannot fail
		}
		lines = append(append(lines, line...), '\n')
	}
	if len(lines) > 0 {
		_, _ = c.set.journal.Write(lines) // a journal that is full loses lines
	}
}
