package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// kvPathVerbs are the operations on parts of documents.
type kvPathVerbs struct {
	LookupIn kvLookupIn `cmd:"" help:"Read paths of a document."`
	MutateIn kvMutateIn `cmd:"" help:"Change paths of a document, all or none."`

	PathGet           kvPathRead  `cmd:"" help:"One path: read it."`
	PathExists        kvPathRead  `cmd:"" help:"One path: say whether it exists."`
	PathCount         kvPathRead  `cmd:"" help:"One path: count its elements."`
	PathInsert        kvPathWrite `cmd:"" help:"One path: set it if it does not exist."`
	PathUpsert        kvPathWrite `cmd:"" help:"One path: set it."`
	PathReplace       kvPathWrite `cmd:"" help:"One path: set it if it exists."`
	PathRemove        kvPathWrite `cmd:"" help:"One path: remove it."`
	PathArrayAppend   kvPathWrite `cmd:"" help:"One path: add at the end of its array."`
	PathArrayPrepend  kvPathWrite `cmd:"" help:"One path: add at the start of its array."`
	PathArrayInsert   kvPathWrite `cmd:"" help:"One path: add before this element of an array."`
	PathArrayAddUniq  kvPathWrite `cmd:"" name:"path-array-add-unique" help:"One path: add to its array what is not in it."`
	PathCounter       kvPathWrite `cmd:"" help:"One path: add to its number."`
	PathReplaceBodyBy kvPathWrite `cmd:"" name:"path-replace-body" help:"One path: make this extended attribute the body."`
}

// pathOps are the words for what is done at a path.
var pathOps = map[string]memd.Opcode{
	"get": memd.OpSubdocGet, "exists": memd.OpSubdocExists, "count": memd.OpSubdocGetCount,
	"insert": memd.OpSubdocDictAdd, "upsert": memd.OpSubdocDictUpsert, "replace": memd.OpSubdocReplace,
	"remove":       memd.OpSubdocDelete,
	"array-append": memd.OpSubdocArrayPushLast, "array-prepend": memd.OpSubdocArrayPushFirst,
	"array-insert": memd.OpSubdocArrayInsert, "array-add-unique": memd.OpSubdocArrayAddUnique,
	"counter":      memd.OpSubdocCounter,
	"replace-body": memd.OpSubdocReplaceBodyWithXattr,
}

// pathSpec is a path as it is written on the command line: words with colons behind them, and the path itself.
type pathSpec struct {
	op                    string // "" is the verb's usual one
	xattr, macros, binary bool
	path                  string
}

// parsePathSpec reads a path. The words that it may begin with are operations and properties; the first that is not one
// of them begins the path.
func parsePathSpec(text string) (p pathSpec) {
	for {
		word, tail, ok := strings.Cut(text, ":")
		if !ok {
			break
		}
		switch _, isOp := pathOps[word]; {
		case isOp && p.op == "":
			p.op = word
		case word == "xattr":
			p.xattr = true
		case word == "macros":
			p.macros = true
		case word == "binary":
			p.binary = true
		default:
			p.path = text
			return p
		}
		text = tail
	}
	p.path = text
	return p
}

// lookup is the spec of a read.
func (p pathSpec) lookup() (kv.LookupSpec, error) {
	if p.op == "" || p.op == "get" {
		if p.path == "" && !p.xattr {
			return kv.WholeDocument(), nil
		}
		return kv.LookupSpec{Op: memd.OpSubdocGet, Path: p.path, Xattr: p.xattr, Binary: p.binary}, p.noMacros()
	}
	if p.op != "exists" && p.op != "count" {
		return kv.LookupSpec{}, usagef("%s: of what a lookup does there are get, exists and count", p.op)
	}
	return kv.LookupSpec{Op: pathOps[p.op], Path: p.path, Xattr: p.xattr, Binary: p.binary}, p.noMacros()
}

func (p pathSpec) noMacros() error {
	if p.macros {
		return usagef("macros: a lookup has no values to expand them in")
	}
	return nil
}

// mutation is the spec of a change.
func (p pathSpec) mutation(value string, createParents bool) (kv.MutateSpec, error) {
	s := kv.MutateSpec{
		Path: p.path, Value: []byte(value), Xattr: p.xattr || p.op == "replace-body", ExpandMacros: p.macros,
		Binary: p.binary,
	}
	switch p.op {
	case "get", "exists", "count":
		return s, usagef("%s: that is a lookup", p.op)
	case "":
		p.op = "upsert"
	}
	s.Op = pathOps[p.op]
	if p.path == "" && !p.xattr { // the document itself
		switch p.op {
		case "upsert", "replace":
			s.Op = memd.OpSet
		case "remove":
			s.Op = memd.OpDelete
		}
	}
	switch p.op {
	case "upsert", "insert", "array-append", "array-prepend", "array-add-unique", "counter":
		s.CreateParents = createParents && p.path != ""
	}
	if _, err := strconv.ParseInt(value, 10, 64); p.op == "counter" && err != nil {
		return s, usagef("counter: %q is not a whole number of 64 bits", value)
	}
	return s, nil
}

// takesValue reports whether the operation has one.
func (p pathSpec) takesValue() bool { return p.op != "remove" && p.op != "replace-body" }

type kvLookupIn struct {
	keyArg
	Path          []string `required:"" sep:"none" placeholder:"[WORD:]PATH" help:"A path. In front of it get:, exists: or count: says what to ask (default: get:), xattr: that it is in an extended attribute, binary: that its bytes are wanted. get: alone is the whole document. Can be repeated."`
	AccessDeleted bool     `help:"Also of a deleted document (default: no)."`
	Replica       int      `xor:"copy" placeholder:"N" help:"Read from this replica, from 1 (default: the active copy)."`
	AnyReplica    bool     `xor:"copy" help:"Read from whichever copy answers first (default: the active copy)."`
	AllReplicas   bool     `xor:"copy" help:"Read from all copies (default: the active copy)."`
	ServerGroup   string   `placeholder:"GROUP" help:"With replicas: the only group of nodes that may answer (default: any)."`
}

// specs are the paths as they are asked for.
func (c *kvLookupIn) specs() (list []kv.LookupSpec, err error) {
	for _, text := range c.Path {
		s, err := parsePathSpec(text).lookup()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Run implements the command.
func (c *kvLookupIn) Run(a *app, k *kvCmd) error {
	specs, err := c.specs()
	if err != nil {
		return err
	}
	op := kv.LookupIn{
		Common: k.common(), Key: []byte(c.Key), Specs: specs, AccessDeleted: c.AccessDeleted,
		ServerGroup: c.ServerGroup,
	}
	show := func(r kv.LookupInResult) view { return viewPaths(specs, r) }
	switch {
	case c.AllReplicas:
		all := func(ctx context.Context, b *core.Bucket) (*kv.Replicas[kv.LookupInResult], error) {
			return kv.LookupInAllReplicas(ctx, b, op)
		}
		return runCopies(a, k, "lookup-in", c.Key, all, func(r kv.LookupInResult) view {
			v := show(r)
			for i, l := range v.lines {
				v.lines[i] = r.Endpoint() + "  " + l
			}
			return v
		})
	case c.AnyReplica:
		return runCall(a, k, "lookup-in", c.Key, func(ctx context.Context, b *core.Bucket) (kv.LookupInResult, error) {
			return kv.LookupInAnyReplica(ctx, b, op)
		}, show)
	}
	op.Replica = c.Replica
	return runKV(a, k, "lookup-in", c.Key, func(kv.Common) (kv.LookupIn, error) { return op, nil }, show)
}

// pathJSON is what became of one path.
type pathJSON struct {
	Path     string  `json:"path"`
	Exists   *bool   `json:"exists,omitempty"`
	Value    *string `json:"value"`
	Encoding string  `json:"encoding,omitempty"`
	Error    *string `json:"error"` // the failure's kind
}

// viewPaths shows what was found: a lone value as it is, several with their paths. A path that cannot be read fails the
// command, but not before everything else was shown.
func viewPaths(specs []kv.LookupSpec, r kv.LookupInResult) view {
	v := view{Result: r.Result}
	var list []pathJSON
	for i, p := range r.Paths {
		out := pathJSON{Path: p.Path}
		line := cmp.Or(p.Path, "(document)") + "  "
		exists, err := p.Exists()
		if specs[i].Op == memd.OpSubdocExists && err == nil {
			out.Exists = &exists
			line += yesNo(exists)
		} else if err = p.Err(); err == nil {
			text, encoding := textOf(p.Value)
			out.Value, out.Encoding = &text, encoding
			line += string(p.Value)
		}
		if err != nil {
			kind := cberr.KindOf(err).Name()
			out.Error = &kind
			line += kind
			v.failed = errors.Join(v.failed, err)
		}
		if len(specs) == 1 {
			_, line, _ = strings.Cut(line, "  ")
		}
		list, v.lines = append(list, out), append(v.lines, line)
	}
	if len(specs) == 1 && v.failed != nil {
		v.lines = []string{}
	}
	v.more = append(v.more, extra{"paths", list}, extra{"deleted", r.Deleted})
	return v
}

// changeFlags are those of changes to paths.
type changeFlags struct {
	casFlag
	expiryFlag
	levelFlag
	preserveFlag
	CreateParents   bool   `help:"Create the objects that lead to a path (default: no)."`
	Store           string `enum:"replace,upsert,insert" default:"replace" placeholder:"HOW" help:"How to store the document: replace (it exists), upsert or insert (default: replace)."`
	AccessDeleted   bool   `help:"Also of a deleted document (default: no)."`
	CreateAsDeleted bool   `help:"Create the document as a deleted one, with extended attributes alone (default: no)."`
	Revive          bool   `help:"Bring a deleted document back (default: no)."`
}

// semantics are what --store names.
func (f *changeFlags) semantics() kv.StoreSemantics {
	return map[string]kv.StoreSemantics{"upsert": kv.StoreUpsert, "insert": kv.StoreInsert}[f.Store]
}

type kvMutateIn struct {
	keyArg
	Value string   `arg:"" optional:"" help:"The value of paths that name none; - reads standard input."`
	Path  []string `required:"" sep:"none" placeholder:"[WORD:]PATH[=JSON]" help:"A path and what to do with it: insert:, upsert:, replace:, remove:, array-append:, array-prepend:, array-insert:, array-add-unique:, counter: or replace-body: (default: upsert:), xattr: for an extended attribute, macros: to expand them. No path is the whole document. Can be repeated."`
	Flags *uint32  `help:"The flags of the document afterwards (default: those that it has)."`
	changeFlags
}

// specs are the changes as they are asked for.
func (c *kvMutateIn) specs(a *app) (list []kv.MutateSpec, err error) {
	value, err := valueOf(a, c.Value)
	if err != nil {
		return nil, err
	}
	for _, text := range c.Path {
		path, own, named := cutValue(text)
		p := parsePathSpec(path)
		switch {
		case !p.takesValue():
			if named {
				return nil, usagef("%s: it takes no value", text)
			}
		case !named:
			own = string(value)
		}
		s, err := p.mutation(own, c.CreateParents)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// cutValue takes a path and its value apart at the first = outside of back-ticks.
func cutValue(text string) (path, value string, ok bool) {
	quoted := false
	for i := range len(text) {
		switch text[i] {
		case '`':
			quoted = !quoted
		case '=':
			if !quoted {
				return text[:i], text[i+1:], true
			}
		}
	}
	return text, "", false
}

// Run implements the command.
func (c *kvMutateIn) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "mutate-in", c.Key, func(o kv.Common) (kv.MutateIn, error) {
		cas, err := c.cas()
		if err != nil {
			return kv.MutateIn{}, err
		}
		specs, err := c.specs(a)
		return kv.MutateIn{
			Common: o, Key: []byte(c.Key), Specs: specs, Store: c.semantics(), Expiry: c.expiry(), CAS: cas,
			Durability:     c.level(),
			PreserveExpiry: c.PreserveExpiry, AccessDeleted: c.AccessDeleted, CreateAsDeleted: c.CreateAsDeleted,
			Revive: c.Revive,
			Flags:  c.Flags,
		}, err
	}, func(r kv.MutateInResult) view {
		v := viewMutation(r.MutationResult)
		var list []pathJSON
		for _, p := range r.Paths {
			out := pathJSON{Path: p.Path}
			if p.Value != nil {
				text, encoding := textOf(p.Value)
				out.Value, out.Encoding = &text, encoding
				v.lines = append(v.lines, fmt.Sprintf("%s  %s", p.Path, p.Value))
			}
			list = append(list, out)
		}
		if v.lines != nil { // counters
			v.lines = append([]string{mutationLine(v)}, v.lines...)
		}
		v.more = append(v.more, extra{"paths", list}, extra{"deleted", r.Deleted})
		return v
	})
}

type kvPathRead struct {
	keyArg
	Path          string `arg:"" help:"The path; xattr: in front says that it is one of an extended attribute."`
	AccessDeleted bool   `help:"Also of a deleted document (default: no)."`
}

// Run implements the command for each of the verbs.
func (c *kvPathRead) Run(a *app, k *kvCmd, verb selected) error {
	p := parsePathSpec(strings.TrimPrefix(string(verb), "path-") + ":" + c.Path)
	spec, err := p.lookup()
	if err != nil {
		return err
	}
	op := kv.LookupPath{Common: k.common(), Key: []byte(c.Key), Spec: spec, AccessDeleted: c.AccessDeleted}
	missing := false
	return runCall(a, k, string(verb), c.Key, func(ctx context.Context, b *core.Bucket) (kv.LookupInResult, error) {
		r, err := kv.Do(ctx, b, op)
		var e *kv.Error
		if p.op == "exists" && errors.Is(err, cberr.PathNotFound) && errors.As(err, &e) {
			missing = true // which is an answer
			r.Result, err = kv.ResultOf(e), nil
		}
		return r, err
	}, func(r kv.LookupInResult) view {
		v := view{Result: r.Result, more: []extra{{"deleted", r.Deleted}}}
		if p.op == "exists" {
			there := !missing
			v.exists, v.lines = &there, []string{yesNo(there)}
			return v
		}
		v.value, v.hasValue = r.Paths[0].Value, true
		return v
	})
}

type kvPathWrite struct {
	keyArg
	Path  string `arg:"" help:"The path; xattr: in front says that it is one of an extended attribute."`
	Value string `arg:"" optional:"" help:"The value as JSON; - reads standard input."`
	changeFlags
}

// Run implements the command for each of the verbs.
func (c *kvPathWrite) Run(a *app, k *kvCmd, verb selected) error {
	return runKV(a, k, string(verb), c.Key, func(o kv.Common) (kv.MutatePath, error) {
		cas, err := c.cas()
		if err != nil {
			return kv.MutatePath{}, err
		}
		value, err := valueOf(a, c.Value)
		if err != nil {
			return kv.MutatePath{}, err
		}
		s, err := parsePathSpec(strings.TrimPrefix(string(verb), "path-")+":"+c.Path).mutation(string(value),
			c.CreateParents)
		return kv.MutatePath{
			Common: o, Key: []byte(c.Key), Spec: s, Store: c.semantics(), Expiry: c.expiry(), CAS: cas,
			Durability:     c.level(),
			PreserveExpiry: c.PreserveExpiry, AccessDeleted: c.AccessDeleted, CreateAsDeleted: c.CreateAsDeleted,
			Revive: c.Revive,
		}, err
	}, func(r kv.MutateInResult) view {
		v := viewMutation(r.MutationResult)
		v.more = []extra{{"deleted", r.Deleted}}
		if value := r.Paths[0].Value; len(value) > 0 {
			v.value, v.hasValue = value, true
		}
		return v
	})
}
