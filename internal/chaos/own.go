package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
)

// own is a document that one worker calls for, and no other one. It has parts: each is the token of the call that has
// added it, or has made it the value. So what a read finds in it is known but for what is in doubt.
type own struct {
	kind  ownKind
	key   string
	parts map[string]outcome
	set   string // the value that a register was given last, as a call has said
}

// ownKind is what a worker does with a document of its own.
type ownKind int

const (
	text     ownKind = iota // calls append and prepend to it
	array                   // of JSON: calls add to it by its path
	register                // calls replace it
	ownKinds
)

const (
	maxParts  = 64 // of a document; then there is another one
	partEnd   = ";"
	touchedBy = time.Hour // long after the run
)

// part is a token as a document has it.
func (k ownKind) part(token string) []byte {
	switch k {
	case text:
		return []byte(token + partEnd)
	case array:
		return []byte(strconv.Quote(token))
	default:
		return []byte(token)
	}
}

// tokens are the parts of a value.
func tokens(value []byte) []string {
	return strings.FieldsFunc(string(value), func(c rune) bool { return strings.ContainsRune(`[]",`+partEnd, c) })
}

// wrong names the property that a value of the document does not have, and says why. A copy that may be behind may miss
// what was acknowledged.
func (o *own) wrong(value []byte, behind bool) (property string, number counter, what string) {
	count := map[string]int{}
	for _, token := range tokens(value) {
		count[token]++
	}
	for token, n := range count {
		switch how, known := o.parts[token]; {
		case !known:
			return "P5", "", fmt.Sprintf("no call has written %q", token)
		case n > 1:
			return "P2", appliedTwice, fmt.Sprintf("%q is in it %d times", token, n)
		case how == refused:
			return "P4", "", fmt.Sprintf("%q is in it, whose call has failed and said that it was not applied", token)
		case o.kind == register && how == applied && token != o.set && !behind:
			return "P3", lost, fmt.Sprintf("it is %q, and was replaced by %q", token, o.set)
		}
	}
	if o.kind == register {
		if len(count) != 1 {
			return "P5", "", fmt.Sprintf("it has %d values", len(count))
		}
		return "", "", ""
	}
	for token, how := range o.parts {
		if how == applied && count[token] == 0 && !behind {
			return "P3", lost, fmt.Sprintf("%q was acknowledged, and is not in it", token)
		}
	}
	return "", "", ""
}

// document is the worker's own one of a kind; nil when the attempt makes it.
func (a *attempt) document(kind ownKind) *own {
	if o := a.w.own[kind]; o != nil && len(o.parts) < maxParts {
		return o
	}
	key := a.w.newDocument().key
	o := &own{kind: kind, key: key, parts: map[string]outcome{key: applied}, set: key}
	value := kind.part(key)
	if kind == array {
		value = slices.Concat([]byte("["), value, []byte("]"))
	}
	_, err := perform[kv.MutationResult](a, kv.Insert{
		Common: a.in, Key: []byte(key), Value: value, Durability: a.durable,
	})
	if a.ended("insert", key, err) {
		a.w.own[kind] = o
	}
	return nil
}

// extend adds a part to a text.
func (a *attempt) extend() {
	o := a.document(text)
	if o == nil {
		return
	}
	token, verb := a.w.newDocument().key, "append"
	op := kv.Append{Common: a.in, Key: []byte(o.key), Value: text.part(token), Durability: a.durable}
	var err error
	if a.w.r.IntN(2) == 0 {
		verb = "prepend"
		_, err = perform[kv.MutationResult](a, kv.Prepend(op))
	} else {
		_, err = perform[kv.MutationResult](a, op)
	}
	o.parts[token] = outcomeOf(err)
	if a.ended(verb, "+"+token, err) && a.w.o.Plant == plantTwice {
		_, _ = perform[kv.MutationResult](a, op) // planted
	}
}

// push adds a part to an array, by its path.
func (a *attempt) push() {
	o := a.document(array)
	if o == nil {
		return
	}
	token := a.w.newDocument().key
	_, err := perform[kv.MutateInResult](a, kv.MutateIn{
		Common: a.in, Key: []byte(o.key), Durability: a.durable,
		Specs: []kv.MutateSpec{kv.ArrayAppend("", array.part(token))},
	})
	o.parts[token] = outcomeOf(err)
	a.ended("mutate-in", "+"+token, err)
}

// replace gives a register another value. One that is in doubt may be applied after the next one was acknowledged.
func (a *attempt) replace() {
	o := a.document(register)
	if o == nil {
		return
	}
	token := a.w.newDocument().key
	_, err := perform[kv.MutationResult](a, kv.Replace{
		Common: a.in, Key: []byte(o.key), Value: register.part(token), Durability: a.durable,
	})
	if o.parts[token] = outcomeOf(err); err == nil {
		o.set = token
	}
	a.ended("replace", "="+token, err)
}

// readOwn reads a document of the worker's own: whole, by its path, or from a replica.
func (a *attempt) readOwn() {
	o, key := a.w.own[a.w.r.IntN(int(ownKinds))], []byte(nil)
	if o == nil {
		a.write(false)
		return
	}
	key = []byte(o.key)
	switch how := a.w.r.IntN(3); {
	case how == 0:
		res, err := perform[kv.GetResult](a, kv.GetReplica{Common: a.in, Key: key, Replica: 1})
		a.ended("get-replica", "", err)
		a.judgeOwn(o, res.Value, err, true)
	case how == 1 && o.kind == array:
		res, err := perform[kv.LookupInResult](a, kv.LookupIn{
			Common: a.in, Key: key, Specs: []kv.LookupSpec{kv.CountPath(""), kv.WholeDocument()},
		})
		a.ended("lookup-in", "", err)
		if err != nil {
			a.judgeOwn(o, nil, err, false)
			return
		}
		n, whole := string(res.Paths[0].Value), res.Paths[1].Value
		if n != strconv.Itoa(len(tokens(whole))) {
			a.w.violate("P5", "", "%q has %s parts by its path, and is %.200q", o.key, n, whole)
		}
		a.judgeOwn(o, whole, nil, false)
	default:
		res, err := perform[kv.GetResult](a, kv.Get{Common: a.in, Key: key})
		a.ended("get", "", err)
		a.judgeOwn(o, res.Value, err, false)
	}
}

// judgeOwn judges what was read of a document of the worker's own.
func (a *attempt) judgeOwn(o *own, value []byte, err error, behind bool) {
	switch {
	case errors.Is(err, cberr.DocumentNotFound) && !behind:
		a.w.violate("P3", lost, "%q was acknowledged, and is not found", o.key)
	case err == nil:
		if property, number, what := o.wrong(value, behind); property != "" {
			a.w.violate(property, number, "%q: %s: %.200q", o.key, what, value)
		}
	}
}

// touch gives a document an expiry. Each has one such call at most: the log does not tell them apart.
func (a *attempt) touch() {
	i := slices.IndexFunc(a.w.docs, func(d document) bool { return !d.touched })
	if i < 0 {
		a.write(false)
		return
	}
	a.w.docs[i].touched = true
	d := a.w.docs[i]
	if a.w.r.IntN(2) == 0 {
		_, err := perform[kv.MutationResult](a, kv.Touch{
			Common: a.in, Key: []byte(d.key), Expiry: kv.ExpireAfter(touchedBy),
		})
		a.ended("touch", "~"+d.key, err)
		return
	}
	res, err := perform[kv.GetResult](a, kv.GetAndTouch{
		Common: a.in, Key: []byte(d.key), Expiry: kv.ExpireAfter(touchedBy),
	})
	a.ended("get-and-touch", "~"+d.key, err)
	a.judgeRead(d, res, err)
}
