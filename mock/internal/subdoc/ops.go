package subdoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/couchcore/couchcore/memd"
)

// change is one command on one path of a document.
type change struct {
	parts []part
	value []byte
	mkdir bool // create the objects that lead to the path
}

// reader executes a command that reads: its result, when it has one.
type reader func(doc []byte, parts []part) (result []byte, st memd.Status)

// writer executes a command that changes: the document after it, and its result, when it has one.
type writer func(doc []byte, c *change) (next, result []byte, st memd.Status)

func readPath(doc []byte, parts []part) ([]byte, memd.Status) {
	at, st := find(doc, parts)
	if st != memd.StatusSuccess {
		return nil, st
	}
	return doc[at.value.from:at.value.to:at.value.to], st
}

func existsPath(doc []byte, parts []part) ([]byte, memd.Status) {
	_, st := find(doc, parts)
	return nil, st
}

func countPath(doc []byte, parts []part) ([]byte, memd.Status) {
	at, st := find(doc, parts)
	if st != memd.StatusSuccess {
		return nil, st
	}
	if isPrimitive(doc[at.value.from:]) {
		return nil, memd.StatusSubdocPathMismatch
	}
	n := int64(0)
	for range elements(doc, at.value.from) {
		n++
	}
	return strconv.AppendInt(nil, n, 10), st
}

// last is the path's last component.
func (c *change) last() *part { return &c.parts[len(c.parts)-1] }

// tooDeep reports whether a value would make the document deeper than the limit.
func (c *change) tooDeep(value []byte, above int) bool {
	return nesting(value)+above > maxDepth
}

// create puts value into doc at a path that is not there, whose first matched components exist; with them the objects
// that lead to it, if the command asks for that.
func (c *change) create(doc []byte, at place, value []byte) ([]byte, memd.Status) {
	missing := c.parts[at.matched:]
	if len(missing) > 1 && !c.mkdir {
		return nil, memd.StatusSubdocPathNotFound
	}
	var text, tail []byte
	for i := range missing {
		if missing[i].number { // no element can be made without those before it
			return nil, memd.StatusSubdocPathNotFound
		}
		if i > 0 {
			text, tail = append(text, '{'), append(tail, '}')
		}
		text = append(append(append(text, '"'), missing[i].key...), `":`...)
	}
	return appended(doc, at.value, text, value, tail), memd.StatusSuccess
}

func (c *change) checkValue() memd.Status {
	switch {
	case !json.Valid(c.value):
		return memd.StatusSubdocCantInsert
	case c.tooDeep(c.value, len(c.parts)):
		return memd.StatusSubdocValueTooDeep
	}
	return memd.StatusSuccess
}

func dictAdd(doc []byte, c *change) ([]byte, []byte, memd.Status) {
	return storeMember(doc, c, false)
}

func dictUpsert(doc []byte, c *change) ([]byte, []byte, memd.Status) {
	return storeMember(doc, c, true)
}

func storeMember(doc []byte, c *change, overwrite bool) (next, result []byte, st memd.Status) {
	if st := c.checkValue(); st != memd.StatusSuccess {
		return nil, nil, st
	}
	at, st := find(doc, c.parts)
	switch {
	case c.last().number && st != memd.StatusSubdocPathMismatch: // no name, but only if the path fits
		return nil, nil, memd.StatusSubdocPathInvalid
	case st == memd.StatusSubdocPathNotFound:
		next, st = c.create(doc, at, c.value)
		return next, nil, st
	case st != memd.StatusSuccess:
		return nil, nil, st
	case !overwrite:
		return nil, nil, memd.StatusSubdocPathExists
	}
	return replaced(doc, at.value, c.value), nil, st
}

func replacePath(doc []byte, c *change) (next, result []byte, st memd.Status) {
	if st := c.checkValue(); st != memd.StatusSuccess {
		return nil, nil, st
	}
	at, st := find(doc, c.parts)
	if st != memd.StatusSuccess {
		return nil, nil, st
	}
	return replaced(doc, at.value, c.value), nil, st
}

func deletePath(doc []byte, c *change) (next, result []byte, st memd.Status) {
	at, st := find(doc, c.parts)
	if st != memd.StatusSuccess {
		return nil, nil, st
	}
	return at.without(doc), nil, st
}

// array finds the array that a command adds to. When it is not there, it is made with the values, and next is not nil.
func (c *change) array(doc []byte) (at place, next []byte, st memd.Status) {
	if !isList(c.value) {
		return at, nil, memd.StatusSubdocCantInsert
	}
	if c.tooDeep(c.value, len(c.parts)+1) {
		return at, nil, memd.StatusSubdocValueTooDeep
	}
	at, st = find(doc, c.parts)
	switch {
	case st == memd.StatusSubdocPathNotFound && c.mkdir:
		list := append(append([]byte{'['}, c.value...), ']')
		next, st = c.create(doc, at, list)
		return at, next, st
	case st != memd.StatusSuccess:
		return at, nil, st
	case doc[at.value.from] != '[':
		return at, nil, memd.StatusSubdocPathMismatch
	}
	return at, nil, st
}

func pushLast(doc []byte, c *change) (next, result []byte, st memd.Status) {
	at, next, st := c.array(doc)
	if st == memd.StatusSuccess && next == nil {
		next = appended(doc, at.value, c.value)
	}
	return next, nil, st
}

func pushFirst(doc []byte, c *change) (next, result []byte, st memd.Status) {
	at, next, st := c.array(doc)
	if st != memd.StatusSuccess || next != nil {
		return next, nil, st
	}
	for _, e := range elements(doc, at.value.from) {
		return insertedBefore(doc, e, c.value), nil, st
	}
	return appended(doc, at.value, c.value), nil, st
}

func insertedBefore(doc []byte, e element, value []byte) []byte {
	return replaced(doc, span{e.whole.from, e.whole.from}, value, []byte{','})
}

func insertElement(doc []byte, c *change) (next, result []byte, st memd.Status) {
	switch {
	case !isList(c.value):
		return nil, nil, memd.StatusSubdocCantInsert
	case !c.last().number || c.last().index == lastElement:
		return nil, nil, memd.StatusSubdocPathInvalid
	case c.tooDeep(c.value, len(c.parts)):
		return nil, nil, memd.StatusSubdocValueTooDeep
	}
	at, st := find(doc, c.parts)
	switch {
	case st == memd.StatusSuccess:
		return insertedBefore(doc, at.elem, c.value), nil, st
	case st != memd.StatusSubdocPathNotFound || at.matched < len(c.parts)-1:
		return nil, nil, st
	}
	n := 0
	for range elements(doc, at.value.from) {
		n++
	}
	if c.last().index != n { // behind the end there is room for one place only
		return nil, nil, st
	}
	return appended(doc, at.value, c.value), nil, memd.StatusSuccess
}

func addUnique(doc []byte, c *change) (next, result []byte, st memd.Status) {
	value := bytes.TrimSpace(c.value)
	if !json.Valid(value) || !isPrimitive(value) {
		return nil, nil, memd.StatusSubdocCantInsert
	}
	at, next, st := c.array(doc)
	if st != memd.StatusSuccess || next != nil {
		return next, nil, st
	}
	for _, e := range elements(doc, at.value.from) {
		v := doc[e.value.from:e.value.to]
		if !isPrimitive(v) {
			return nil, nil, memd.StatusSubdocPathMismatch
		}
		if bytes.Equal(v, value) {
			return nil, nil, memd.StatusSubdocPathExists
		}
	}
	return appended(doc, at.value, value), nil, st
}

func countBy(doc []byte, c *change) (next, result []byte, st memd.Status) {
	delta, err := strconv.ParseInt(string(c.value), 10, 64)
	if err != nil || delta == 0 {
		return nil, nil, memd.StatusSubdocDeltaInvalid
	}
	at, st := find(doc, c.parts)
	if st == memd.StatusSubdocPathNotFound {
		result = strconv.AppendInt(nil, delta, 10)
		next, st = c.create(doc, at, result)
		return next, result, st
	}
	if st != memd.StatusSuccess {
		return nil, nil, st
	}
	n, err := strconv.ParseInt(string(doc[at.value.from:at.value.to]), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, nil, memd.StatusSubdocNumRange
	case err != nil:
		return nil, nil, memd.StatusSubdocPathMismatch
	case delta > 0 && n > math.MaxInt64-delta, delta < 0 && n < math.MinInt64-delta:
		return nil, nil, memd.StatusSubdocCantInsert
	}
	result = strconv.AppendInt(nil, n+delta, 10)
	return replaced(doc, at.value, result), result, st
}
