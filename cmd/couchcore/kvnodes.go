package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/kv"
)

// kvNodeVerbs are what nodes and vbuckets are asked, and scans over all of them.
type kvNodeVerbs struct {
	Scan         kvScan         `cmd:"" help:"Find the documents of a collection."`
	Observe      kvObserve      `cmd:"" help:"Ask whether a node has a document in memory and on disk."`
	ObserveSeqno kvObserveSeqno `cmd:"" help:"Ask which sequence numbers of a vbucket a node has."`
	FailoverLog  kvFailoverLog  `cmd:"" help:"The histories of a vbucket."`
	Stats        kvStats        `cmd:"" help:"Statistics of the nodes."`
	Version      kvVersion      `cmd:"" help:"The version of a node."`
	GetManifest  kvGetManifest  `cmd:"" help:"The bucket's scopes and collections."`
	GetScopeID   kvGetScopeID   `cmd:"" name:"get-scope-id" help:"The id of a scope."`
	Noop         kvNoop         `cmd:"" help:"Send a NOOP to a node."`
}

// nodeFlag names a node by its index in the cluster map.
type nodeFlag struct {
	Node *int `placeholder:"N" help:"The node with this index in the cluster map, from 0 (default: any)."`
}

func (f nodeFlag) pinned() bool { return f.Node != nil }

func (f nodeFlag) node() int {
	if f.Node == nil {
		return 0
	}
	return *f.Node
}

type kvNoop struct{}

// Run implements the command.
func (c *kvNoop) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "noop", "", func(o kv.Common) (kv.Noop, error) { return kv.Noop{Common: o}, nil }, viewText)
}

type kvVersion struct{ nodeFlag }

// Run implements the command.
func (c *kvVersion) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "version", "", func(o kv.Common) (kv.GetVersion, error) {
		return kv.GetVersion{Common: o, Pinned: c.pinned(), Node: c.node()}, nil
	}, func(r kv.GetResult) view {
		return view{Result: r.Result, lines: []string{string(r.Value)}, more: []extra{{"version", string(r.Value)}}}
	})
}

type kvGetManifest struct{ nodeFlag }

// Run implements the command.
func (c *kvGetManifest) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get-manifest", "", func(o kv.Common) (kv.GetManifest, error) {
		return kv.GetManifest{Common: o, Pinned: c.pinned(), Node: c.node()}, nil
	}, func(r kv.Manifest) view {
		v := view{Result: r.Result, more: []extra{{"manifest", json.RawMessage(r.JSON)}}}
		v.lines = []string{fmt.Sprintf("manifest 0x%x", r.UID)}
		for _, s := range r.Scopes {
			v.lines = append(v.lines, fmt.Sprintf("%s  scope 0x%x", s.Name, s.ID))
			for _, col := range s.Collections {
				v.lines = append(v.lines, fmt.Sprintf("%s.%s  collection 0x%x", s.Name, col.Name, col.ID))
			}
		}
		return v
	})
}

type kvGetScopeID struct {
	nodeFlag
	Name string `arg:"" help:"The scope."`
}

// Run implements the command.
func (c *kvGetScopeID) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get-scope-id", "", func(o kv.Common) (kv.GetScopeID, error) {
		return kv.GetScopeID{Common: o, Name: c.Name, Pinned: c.pinned(), Node: c.node()}, nil
	}, func(r kv.IDResult) view {
		id, uid := fmt.Sprintf("0x%x", r.ID), fmt.Sprintf("0x%x", r.ManifestUID)
		return view{
			Result: r.Result, lines: []string{"scope " + id + "  manifest " + uid},
			more: []extra{{"scope_id", id}, {"manifest_uid", uid}},
		}
	})
}

type copyFlag struct {
	Replica int `placeholder:"N" help:"Which replica, from 1; 0 is the active copy (default: 0)."`
}

type kvObserve struct {
	keyArg
	copyFlag
}

// Run implements the command.
func (c *kvObserve) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "observe", c.Key, func(o kv.Common) (kv.Observe, error) {
		return kv.Observe{Common: o, Key: []byte(c.Key), Replica: c.Replica}, nil
	}, func(r kv.ObserveResult) view {
		return view{
			Result: r.Result, lines: []string{fmt.Sprintf("%s  cas 0x%016x  %s", r.State, r.CAS, r.Endpoint())},
			more: []extra{{"state", r.State.String()}, {"persist_hint_ms", r.PersistHint.Milliseconds()}},
		}
	})
}

type vbucketArg struct {
	VBucket uint16 `arg:"" name:"vbucket" help:"The vbucket; couchcore hash prints the one of a key."`
}

type kvObserveSeqno struct {
	vbucketArg
	copyFlag
	UUID string `name:"uuid" required:"" placeholder:"N" help:"The history, as a mutation token or failover-log names it: decimal, or hexadecimal with 0x."`
}

// Run implements the command.
func (c *kvObserveSeqno) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "observe-seqno", "", func(o kv.Common) (kv.ObserveSeqno, error) {
		uuid, err := strconv.ParseUint(c.UUID, 0, 64)
		if err != nil {
			return kv.ObserveSeqno{}, usagef("--uuid %s is neither a decimal number nor a hexadecimal one with 0x",
				c.UUID)
		}
		return kv.ObserveSeqno{Common: o, VBucket: c.VBucket, UUID: uuid, Replica: c.Replica}, nil
	}, func(r kv.SeqnoResult) view {
		v := view{Result: r.Result}
		v.lines = []string{fmt.Sprintf("vbucket %d  uuid %s  persisted %d  current %d", r.VBucket, hex64(r.UUID),
			r.Persisted, r.Current)}
		v.more = []extra{
			{"vbucket", r.VBucket},
			{"uuid", hex64(r.UUID)},
			{"persisted", fmt.Sprint(r.Persisted)},
			{"current", fmt.Sprint(r.Current)},
			{"failed_over", r.FailedOver},
		}
		if r.FailedOver {
			v.lines = append(v.lines, fmt.Sprintf("failed over: history %s ended at %d", hex64(r.OldUUID), r.OldSeqno))
			v.more = append(v.more, extra{"old_uuid", hex64(r.OldUUID)}, extra{"old_seqno", fmt.Sprint(r.OldSeqno)})
		}
		return v
	})
}

type kvFailoverLog struct {
	vbucketArg
	copyFlag
}

// Run implements the command.
func (c *kvFailoverLog) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "failover-log", "", func(o kv.Common) (kv.GetFailoverLog, error) {
		return kv.GetFailoverLog{Common: o, VBucket: c.VBucket, Replica: c.Replica}, nil
	}, func(r kv.FailoverLog) view {
		v := view{Result: r.Result, lines: []string{}}
		list := []map[string]string{}
		for _, e := range r.Entries {
			v.lines = append(v.lines, fmt.Sprintf("uuid %s  from seqno %d", hex64(e.UUID), e.Seqno))
			list = append(list, map[string]string{"uuid": hex64(e.UUID), "seqno": fmt.Sprint(e.Seqno)})
		}
		v.more = []extra{{"entries", list}}
		return v
	})
}

type kvStats struct {
	nodeFlag
	Group   string  `arg:"" optional:"" help:"The group of statistics (default: the general one)."`
	VBucket *uint16 `name:"vbucket" placeholder:"N" help:"Ask the node that has this vbucket (default: all nodes)."`
	Args    string  `placeholder:"JSON" help:"Arguments, for groups that take some."`
}

// Run implements the command: with --json one object a node.
func (c *kvStats) Run(a *app, k *kvCmd) error {
	if c.Node != nil && c.VBucket != nil {
		return usagef("--node and --vbucket exclude each other")
	}
	args, err := jsonFlag("--args", c.Args)
	if err != nil {
		return err
	}
	op := kv.Stat{Common: k.common(), Group: c.Group, Args: args, Pinned: c.pinned(), Node: c.node()}
	if c.VBucket != nil {
		op.ByVBucket, op.VBucket = true, *c.VBucket
	}
	cl, b, err := k.openBucket(a)
	if err != nil {
		return err
	}
	began, ctx := time.Now(), context.Background()
	all := map[int]kv.Outcome[kv.StatResult]{}
	if op.Pinned || op.ByVBucket {
		var s kv.StatResult
		if s, err = kv.Do(ctx, b, op); err == nil {
			all[op.Node] = kv.Outcome[kv.StatResult]{Result: s}
		}
	} else {
		all, err = kv.StatAll(ctx, b, op)
	}
	if err != nil {
		return k.failed(a, cl, b, "stats", c.Group, err, time.Since(began))
	}
	err = c.show(a, all, time.Since(began))
	if err != nil {
		_ = cl.Close()
		return err
	}
	return cl.Close()
}

// show writes the statistics of each node. The error is that of the nodes that have failed.
func (c *kvStats) show(a *app, all map[int]kv.Outcome[kv.StatResult], took time.Duration) (failed error) {
	for _, n := range slices.Sorted(maps.Keys(all)) {
		s := all[n]
		failed = errors.Join(failed, s.Err)
		if a.json {
			stats := map[string]string{}
			for _, e := range s.Result.Stats {
				stats[e.Name] = e.Value
			}
			v := view{Result: s.Result.Result, failed: s.Err, more: []extra{{"stats", stats}}}
			if c.VBucket == nil {
				v.more = append(v.more, extra{"node", n})
			}
			if err := a.emit(v.json("stats", c.Group, took)); err != nil {
				return err
			}
			continue
		}
		var rows [][]string
		for _, e := range s.Result.Stats {
			rows = append(rows, []string{s.Result.Endpoint(), e.Name, e.Value})
		}
		if err := a.table(rows); err != nil {
			return err
		}
	}
	return failed
}
