package management

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
)

// Documents over HTTP, after menelaus_web_crud.erl.

// randomKey is the key of some document.
func (x *call) randomKey() {
	keys := x.s.host.Documents(x.place())
	if len(keys) == 0 {
		x.json(http.StatusNotFound, object{"ok": false, "error": "fallback_to_all_docs"})
		return
	}
	x.send(object{"ok": true, "key": keys[rand.IntN(len(keys))]})
}

// meta is what a document's JSON says beside its value.
func (d *Document) meta() object {
	return object{
		"id": d.ID, "rev": fmt.Sprintf("%d-%016x%08x%08x", max(1, d.Rev), d.CAS, d.Expiry, d.Flags),
		"expiration": d.Expiry, "flags": d.Flags,
	}
}

func (x *call) getDocument() {
	d, ok := x.s.host.Get(x.place(), x.value("key"))
	if !ok {
		x.answer(http.StatusNotFound, jsonKind, nil)
		return
	}
	out := object{"meta": d.meta(), "xattrs": object{}}
	if d.JSON {
		out["json"] = string(d.Value)
	} else {
		meta, _ := out["meta"].(object) // made here
		meta["att_reason"], out["base64"] = "invalid_json", base64.StdEncoding.EncodeToString(d.Value)
	}
	x.send(out)
}

func (x *call) putDocument() {
	flags, err := strconv.ParseUint(x.form.Get("flags"), 10, 32)
	if _, given := x.given("flags"); given && err != nil {
		x.json(http.StatusBadRequest, object{"error": "bad_request", "reason": "bad request"})
		return
	}
	x.finish(x.s.host.Put(x.place(), x.value("key"), []byte(x.form.Get("value")), uint32(flags)))
}

func (x *call) dropDocument() { x.finish(x.s.host.Delete(x.place(), x.value("key"))) }

const defaultDocuments = 1000

// listDocuments lists documents in the order of their keys.
func (x *call) listDocuments() {
	query := x.r.URL.Query()
	number := func(name string, otherwise int) (int, bool) {
		text := query.Get(name)
		if text == "" {
			return otherwise, true
		}
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= 0
	}
	limit, ok1 := number("limit", defaultDocuments)
	skip, ok2 := number("skip", 0)
	first, ok3 := keyOf(query.Get("startkey"))
	last, ok4 := keyOf(query.Get("endkey"))
	if !ok1 || !ok2 || !ok3 || !ok4 {
		x.json(http.StatusBadRequest, fields{"error": "bad_request", "reason": "bad request"})
		return
	}
	rows := []object{}
	for _, key := range x.s.host.Documents(x.place()) {
		if key < first || last != "" && (key > last || key == last && query.Get("inclusive_end") == "false") {
			continue
		}
		if skip--; skip >= 0 {
			continue
		}
		if len(rows) == limit {
			break
		}
		row := object{"id": key}
		if query.Get("include_docs") == "true" {
			if d, ok := x.s.host.Get(x.place(), key); ok {
				row["doc"] = d.object()
			}
		}
		rows = append(rows, row)
	}
	x.send(object{"rows": rows})
}

func (d *Document) object() object {
	if d.JSON {
		return object{"meta": d.meta(), "json": json.RawMessage(d.Value)}
	}
	return object{"meta": d.meta(), "base64": base64.StdEncoding.EncodeToString(d.Value)}
}

// keyOf is a key that a query has as JSON text; empty for none.
func keyOf(text string) (string, bool) {
	if text == "" {
		return "", true
	}
	var key string
	return key, json.Unmarshal([]byte(text), &key) == nil
}
