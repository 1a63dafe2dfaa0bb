package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// kvMetaVerbs are the operations with what a server keeps beside a document's value.
type kvMetaVerbs struct {
	GetMeta        kvGetMeta      `cmd:"" help:"Read what the server keeps about a document."`
	GetEx          kvGetEx        `cmd:"" help:"Read a document with its extended attributes."`
	GetExReplica   kvGetExReplica `cmd:"" help:"Read a document with its extended attributes from a replica."`
	GetRandom      kvGetRandom    `cmd:"" help:"Read a random document."`
	SetWithMeta    kvSetWithMeta  `cmd:"" help:"Write a document with the metadata of another cluster."`
	AddWithMeta    kvSetWithMeta  `cmd:"" help:"Write a document that does not exist, with the metadata of another cluster."`
	DeleteWithMeta kvDelWithMeta  `cmd:"" help:"Delete a document with the metadata of another cluster."`
}

// timeOf is a time as JSON shows it; nil for none.
func timeOf(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format(time.RFC3339)
	return &text
}

type kvGetMeta struct {
	keyArg
	V1 bool `name:"v1" help:"Ask for the older form of the answer, without the datatype (default: no)."`
}

// Run implements the command.
func (c *kvGetMeta) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get-meta", c.Key, func(o kv.Common) (kv.GetMeta, error) {
		return kv.GetMeta{Common: o, Key: []byte(c.Key), V1: c.V1}, nil
	}, func(r kv.MetaResult) view {
		expiry := timeOf(r.Expiry)
		until := "never"
		if expiry != nil {
			until = *expiry
		}
		v := view{Result: r.Result, flags: &r.Flags}
		v.lines = []string{fmt.Sprintf("cas 0x%016x  rev %d  flags %d  expiry %s  deleted %s", r.CAS, r.RevSeqno,
			r.Flags, until, yesNo(r.Deleted))}
		v.more = []extra{{"rev_seqno", fmt.Sprint(r.RevSeqno)}, {"expiry", expiry}, {"deleted", r.Deleted}}
		if r.HasDatatype {
			v.more = append(v.more, extra{"datatype", r.Datatype.String()})
			v.lines[0] += "  " + r.Datatype.String()
		}
		return v
	})
}

type kvGetEx struct{ keyArg }

// viewEx shows a document, and its extended attributes in JSON.
func viewEx(r kv.GetExResult) view {
	v := view{Result: r.Result, value: r.Value, hasValue: true, flags: &r.Flags, datatype: r.Datatype}
	v.more = []extra{{"xattrs", xattrsOf(r.Xattrs)}}
	return v
}

// xattrsOf are extended attributes by name: what is JSON as it is.
func xattrsOf(x memd.Xattrs) map[string]any {
	m := map[string]any{}
	for name, value := range x.All() {
		m[name] = string(value)
		if json.Valid(value) {
			m[name] = json.RawMessage(value)
		}
	}
	return m
}

// Run implements the command.
func (c *kvGetEx) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get-ex", c.Key, func(o kv.Common) (kv.GetEx, error) {
		return kv.GetEx{Common: o, Key: []byte(c.Key)}, nil
	}, viewEx)
}

type kvGetExReplica struct {
	keyArg
	replicaFlags
}

// Run implements the command.
func (c *kvGetExReplica) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get-ex-replica", c.Key, func(o kv.Common) (kv.GetEx, error) {
		return kv.GetEx{
			Common: o, Key: []byte(c.Key), Replica: c.Replica, Wrap: c.Wrap,
			ServerGroup: c.ServerGroup,
		}, nil
	}, viewEx)
}

type kvGetRandom struct {
	nodeFlag
	WithXattrs bool `help:"With its extended attributes (default: no)."`
}

// Run implements the command. A node that holds nothing says so, which is no reason to end when there are others.
func (c *kvGetRandom) Run(a *app, k *kvCmd) error {
	op := kv.GetRandom{Common: k.common(), WithXattrs: c.WithXattrs, Pinned: true, Node: c.node()}
	return runCall(a, k, "get-random", "", func(ctx context.Context, b *core.Bucket) (kv.RandomResult, error) {
		if c.pinned() {
			return kv.Do(ctx, b, op)
		}
		l, err := b.Layout(ctx)
		if err != nil {
			return kv.RandomResult{}, err
		}
		nodes := l.DataNodes()
		rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		op.Pinned = len(nodes) > 0
		for i := 0; ; i++ {
			if op.Pinned {
				op.Node = nodes[i]
			}
			r, err := kv.Do(ctx, b, op)
			if !errors.Is(err, cberr.DocumentNotFound) || i+1 >= len(nodes) {
				return r, err
			}
		}
	}, func(r kv.RandomResult) view {
		v := view{Result: r.Result, value: r.Value, hasValue: true, flags: &r.Flags, datatype: r.Datatype}
		key, encoding := textOf(r.Key)
		v.more = []extra{{"found", key}}
		if encoding != "" {
			v.more = append(v.more, extra{"found_encoding", encoding})
		}
		if r.Datatype&memd.DatatypeXattr != 0 {
			if x, body, err := memd.SplitXattrs(r.Value); err != nil {
				v.failed = err
			} else {
				v.value, v.more = body, append(v.more, extra{"xattrs", xattrsOf(x)})
			}
		}
		v.lines = []string{key + "  " + string(v.value)}
		return v
	})
}

// metaFlags are what a write with metadata says about the document.
type metaFlags struct {
	flagsFlag
	ExpireAt      time.Time `placeholder:"TIME" help:"When it expires, as in 2030-01-02T15:04:05Z (default: never)."`
	RevSeqno      uint64    `default:"1" placeholder:"N" help:"The document's revision: how often it was changed (default: 1)."`
	StoreCAS      string    `name:"store-cas" required:"" placeholder:"N" help:"The document's new CAS: decimal, or hexadecimal with 0x."`
	SkipConflict  bool      `name:"skip-conflict-resolution" help:"Write even if the server has a newer document (default: no)."`
	ForceAccept   bool      `help:"Write even if the bucket resolves conflicts by time (default: no)."`
	RegenerateCAS bool      `name:"regenerate-cas" help:"Let the server make the CAS; needs --skip-conflict-resolution (default: no)."`
}

func (f *metaFlags) meta() (kv.Meta, error) {
	cas, err := casFlag{f.StoreCAS}.cas()
	if err != nil {
		return kv.Meta{}, usagef("--store-cas %s is neither a decimal number nor a hexadecimal one with 0x", f.StoreCAS)
	}
	return kv.Meta{
		Flags: f.Flags, Expiry: f.ExpireAt, RevSeqno: f.RevSeqno, StoreCAS: cas,
		SkipConflictResolution: f.SkipConflict, ForceAccept: f.ForceAccept, RegenerateCAS: f.RegenerateCAS,
	}, nil
}

type kvSetWithMeta struct {
	keyArg
	valueArg
	casFlag
	metaFlags
}

// Run implements the command for both verbs.
func (c *kvSetWithMeta) Run(a *app, k *kvCmd, verb selected) error {
	m, err := c.meta()
	if err != nil {
		return err
	}
	cas, err := c.cas()
	if err != nil {
		return err
	}
	value, err := valueOf(a, c.Value)
	if err != nil {
		return err
	}
	if verb == "add-with-meta" {
		if cas != 0 {
			return usagef("--cas: a document that does not exist has no CAS")
		}
		return runKV(a, k, string(verb), c.Key, func(o kv.Common) (kv.AddWithMeta, error) {
			return kv.AddWithMeta{Common: o, Key: []byte(c.Key), Value: value, Datatype: datatypeOf(value), Meta: m},
				nil
		}, viewMutation)
	}
	return runKV(a, k, string(verb), c.Key, func(o kv.Common) (kv.SetWithMeta, error) {
		return kv.SetWithMeta{
			Common: o, Key: []byte(c.Key), Value: value, Datatype: datatypeOf(value), Meta: m,
			CheckCAS: cas,
		}, nil
	}, viewMutation)
}

type kvDelWithMeta struct {
	keyArg
	casFlag
	metaFlags
	IsExpiration bool `help:"The document expired and was not removed (default: no)."`
}

// Run implements the command.
func (c *kvDelWithMeta) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "delete-with-meta", c.Key, func(o kv.Common) (kv.DeleteWithMeta, error) {
		m, err := c.meta()
		if err != nil {
			return kv.DeleteWithMeta{}, err
		}
		m.IsExpiration = c.IsExpiration
		cas, err := c.cas()
		return kv.DeleteWithMeta{Common: o, Key: []byte(c.Key), Meta: m, CheckCAS: cas}, err
	}, viewMutation)
}
