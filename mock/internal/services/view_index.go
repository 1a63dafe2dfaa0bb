package services

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/couchcore/couchcore/mock/internal/store"
)

// viewRow is one row that a map function has emitted.
type viewRow struct {
	id         string
	key, value []byte // JSON
	sort       any    // the key, decoded
}

// viewIndex is what a view's map function made of the documents at one time, in order.
type viewIndex struct{ rows []viewRow }

func (r *viewRow) compare(o *viewRow) int {
	return cmp.Or(collate(r.sort, o.sort), cmp.Compare(r.id, o.id))
}

// viewRun is the use of one view by one request.
type viewRun struct {
	s      *State
	ctx    context.Context
	bucket string
	d      *design
	view   string
	source viewSource
	f      ViewFunctions
}

var errNoViewEngine = errors.New("the mock has no engine for the functions of views")

// open compiles the functions and waits for the cluster's turn: one request at a time runs them.
func (rn *viewRun) open() (err error) {
	e := rn.s.engine
	if e == nil {
		return errNoViewEngine
	}
	if rn.f, err = e.Compile(rn.source.Map, rn.source.custom()); err != nil {
		return err
	}
	select {
	case rn.s.turn <- struct{}{}:
		return nil
	case <-rn.ctx.Done():
		return rn.ctx.Err()
	}
}

func (rn *viewRun) close() { <-rn.s.turn }

// rows are those of the index as it is, which is empty before the first update.
func (rn *viewRun) rows() []viewRow {
	rn.s.mu.Lock()
	defer rn.s.mu.Unlock()
	if ix := rn.d.indexes[rn.view]; ix != nil {
		return ix.rows
	}
	return nil
}

// update makes the index again from the documents of the default collection.
func (rn *viewRun) update() error {
	docs := rn.s.host.Documents(rn.bucket)
	ix := &viewIndex{}
	for i := range docs {
		d := &docs[i]
		if d.Collection != 0 {
			continue
		}
		doc, meta := viewDocument(d)
		var rows []viewRow
		err := rn.f.Map(rn.ctx, doc, meta, func(key, value []byte) {
			r := viewRow{id: d.Key, key: bytes.Clone(key), value: bytes.Clone(value)}
			if json.Unmarshal(key, &r.sort) == nil {
				rows = append(rows, r)
			}
		})
		switch {
		case errors.Is(err, ErrViewLimit), rn.ctx.Err() != nil:
			return fmt.Errorf("map function on %s: %w", d.Key, cmp.Or(rn.ctx.Err(), err))
		case err == nil:
			ix.rows = append(ix.rows, rows...)
		}
	}
	slices.SortStableFunc(ix.rows, func(a, b viewRow) int { return a.compare(&b) })
	rn.s.mu.Lock()
	rn.d.indexes[rn.view] = ix
	rn.s.mu.Unlock()
	return nil
}

// viewDocument is what a map function gets: a document that is not JSON is a string in base64.
func viewDocument(d *store.Document) (doc, meta []byte) {
	kind := "json"
	doc = d.Value
	if !json.Valid(doc) {
		kind = "base64"
		doc = []byte(quote(base64.StdEncoding.EncodeToString(d.Value)))
	}
	meta = fmt.Appendf(nil, `{"id":%s,"rev":"%d-%016x","type":%q,"flags":%d,"expiration":%d}`,
		quote(d.Key), d.Seqno, d.CAS, kind, d.Flags, d.Expiry)
	return doc, meta
}
