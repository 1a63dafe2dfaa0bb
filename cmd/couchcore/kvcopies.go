package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
)

// kvReplicaVerbs are the reads from replicas.
type kvReplicaVerbs struct {
	GetReplica     kvGetReplica     `cmd:"" help:"Read a document from a replica."`
	GetAnyReplica  kvGetAnyReplica  `cmd:"" help:"Read a document from whichever copy answers first."`
	GetAllReplicas kvGetAllReplicas `cmd:"" help:"Read a document from all of its copies."`
}

type replicaFlags struct {
	Replica     int    `default:"1" help:"Which replica, from 1 (default: 1)."`
	Wrap        bool   `help:"Read another replica when this one does not exist (default: no)."`
	ServerGroup string `placeholder:"GROUP" help:"The only group of nodes that may answer (default: any)."`
}

type kvGetReplica struct {
	keyArg
	replicaFlags
}

// Run implements the command.
func (c *kvGetReplica) Run(a *app, k *kvCmd) error {
	return runKV(a, k, "get-replica", c.Key, func(o kv.Common) (kv.GetReplica, error) {
		return kv.GetReplica{
			Common: o, Key: []byte(c.Key), Replica: c.Replica, Wrap: c.Wrap,
			ServerGroup: c.ServerGroup,
		}, nil
	}, viewGet)
}

type groupFlag struct {
	ServerGroup string `placeholder:"GROUP" help:"The only group of nodes that is asked (default: all)."`
}

type kvGetAnyReplica struct {
	keyArg
	groupFlag
}

// Run implements the command.
func (c *kvGetAnyReplica) Run(a *app, k *kvCmd) error {
	op := kv.GetReplica{Common: k.common(), Key: []byte(c.Key), ServerGroup: c.ServerGroup}
	return runCall(a, k, "get-any-replica", c.Key, func(ctx context.Context, b *core.Bucket) (kv.GetResult, error) {
		return kv.GetAnyReplica(ctx, b, op)
	}, viewGet)
}

type kvGetAllReplicas struct {
	keyArg
	groupFlag
}

// Run implements the command.
func (c *kvGetAllReplicas) Run(a *app, k *kvCmd) error {
	op := kv.GetReplica{Common: k.common(), Key: []byte(c.Key), ServerGroup: c.ServerGroup}
	all := func(ctx context.Context, b *core.Bucket) (*kv.Replicas[kv.GetResult], error) {
		return kv.GetAllReplicas(ctx, b, op)
	}
	return runCopies(a, k, "get-all-replicas", c.Key, all, func(r kv.GetResult) view {
		v := viewGet(r)
		from := "active"
		if r.FromReplica {
			from = "replica"
		}
		v.lines = []string{fmt.Sprintf("%s  %s  cas 0x%016x  %s", r.Endpoint(), from, r.CAS, r.Value)}
		return v
	})
}

// runCopies connects, asks all copies and shows each answer as it comes. That none has answered is a failure.
func runCopies[R interface{ Endpoint() string }](a *app, k *kvCmd, name, key string,
	all func(context.Context, *core.Bucket) (*kv.Replicas[R], error), show func(R) view,
) error {
	c, b, err := k.openBucket(a)
	if err != nil {
		return err
	}
	began, n := time.Now(), 0
	ctx := context.Background()
	copies, err := all(ctx, b)
	if err != nil {
		return k.failed(a, c, b, name, key, err, time.Since(began))
	}
	defer copies.Close()
	var failed error
	for r, ok := copies.Next(ctx); ok; r, ok = copies.Next(ctx) {
		n++
		v := show(r)
		failed = errors.Join(failed, v.failed)
		if err := a.showKV(name, key, v, time.Since(began)); err != nil {
			_ = c.Close()
			return err
		}
	}
	if err := copies.Err(); err != nil {
		return k.failed(a, c, b, name, key, err, time.Since(began))
	}
	left := copies.Errors()
	if n == 0 {
		err := &kv.Error{
			Op: name, Scope: k.Scope, Collection: k.Collection, Err: cberr.DocumentUnretrievable,
			Cause: errors.Join(left...),
		}
		return k.failed(a, c, b, name, key, err, time.Since(began))
	}
	if k.Verbose {
		for _, err := range left {
			_, _ = fmt.Fprintf(a.stderr, "left out  %v\n", err)
		}
	}
	if failed != nil {
		_ = c.Close()
		return failed
	}
	return c.Close()
}
