package sim

import "fmt"

// Calls that are set apart: most reads and removals are for documents that other calls read and remove too, so their
// requests cannot be told from those. One in four is for a document of which no other call asks for the same, and is
// judged by its requests as calls are that have a token, see entry.identity. In half of these cases, as far as there is
// one, it is a document that the worker itself has written. So it is known what the call has to find.

// memory is what a worker knows of its calls before.
type memory struct {
	seen map[string]*entry // the newest version of a key that it has read
	own  *entry            // its last call that alone has written a document, until another one asks for that
}

// notes keeps what later calls need of one that has ended.
func (m *memory) notes(e *entry) {
	switch {
	case e.verb == read && e.shared && e.outcome == done:
		m.seen[e.key] = e
	case (e.verb == upsert || e.verb == insert) && !e.shared:
		m.own = e
	}
}

// setApart gives some reads and removals a document of their own. Whether it does depends on the seed and the call.
func (w *world) setApart(e *entry, m *memory) {
	throw := w.d.below(8, text("apart"), uint64(e.worker), uint64(e.number))
	if e.verb != read && e.verb != remove || throw > 1 {
		return
	}
	e.key, e.alone, e.shared = fmt.Sprintf("r-%d-%d", e.worker, e.number), true, false // there is no such document
	if throw == 0 && m.own != nil {
		e.of, m.own = m.own, nil
		e.key, e.named = e.of.key, e.of.named
	}
}

// checkOwn judges what such a call has found of the document that another one had written when it began (P5). A
// document may go with its bucket or its collection.
func (w *world) checkOwn(e *entry) {
	if !e.alone || !e.succeeded() {
		return
	}
	bad := func(what string) {
		w.report.violateWith("P5", func() []string { return w.history(e.key) }, "%s: %s", e, what)
	}
	found, written := e.outcome == done, e.of != nil && e.of.outcome == done
	switch {
	case found && !written && (e.of == nil || e.of.outcome != doubtful):
		bad("no call has written it")
	case found && e.verb == read && e.got != e.of.token:
		bad("it was written as " + e.of.token)
	case !found && written && !e.named && !w.loses():
		bad("it was written before, and is not there")
	}
}
