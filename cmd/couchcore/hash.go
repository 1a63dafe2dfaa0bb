package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/topology"
)

type hashCmd struct {
	connectFlags
	Key      string `arg:"" help:"The key, without a collection."`
	VBuckets int    `name:"vbuckets" default:"1024" help:"How many vbuckets there are when no cluster is named (default: 1024)."`
}

// hashResult is where a key is, as JSON. Active and Replicas are null without a cluster.
type hashResult struct {
	Key      string   `json:"key"`
	VBucket  uint16   `json:"vbucket"`
	VBuckets int      `json:"vbuckets"`
	Active   *string  `json:"active"`
	Replicas []string `json:"replicas"`
}

// Run implements the command. Only --connect makes it ask a cluster: it works offline wherever the environment points.
func (c *hashCmd) Run(a *app) error {
	if c.VBuckets < 1 || c.VBuckets > 1024 {
		return usagef("--vbuckets %d: 1 to 1024", c.VBuckets)
	}
	res := hashResult{Key: c.Key, VBuckets: c.VBuckets, VBucket: topology.Hash([]byte(c.Key), c.VBuckets)}
	if c.Connect != "" {
		if err := c.locate(a, &res); err != nil {
			return err
		}
	}
	if a.json {
		return a.emit(res)
	}
	if res.VBuckets == 0 {
		return a.print("a memcached bucket has no vbuckets: a ring of its nodes places the key")
	}
	line := fmt.Sprintf("vbucket %d of %d", res.VBucket, res.VBuckets)
	if res.Active != nil {
		line += "   active " + or(*res.Active, "none")
		for i, r := range res.Replicas {
			line += fmt.Sprintf("   replica %d %s", i+1, or(r, "none"))
		}
	}
	return a.print("%s", strings.TrimSpace(line))
}

// locate asks the cluster's map.
func (c *hashCmd) locate(a *app, res *hashResult) error {
	cl, b, err := c.openTold(a)
	if err != nil {
		return err
	}
	limit := c.Timeout
	if limit == 0 {
		limit = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	if err := b.WaitReady(ctx); err != nil {
		_ = cl.Close() // why it is not ready is what matters
		return waitError("hash", err, time.Since(began))
	}
	m, _ := b.Map()
	vb, nodes, _ := b.Locate([]byte(c.Key))
	res.VBucket, res.VBuckets = vb, m.VBuckets
	if len(nodes) > 0 {
		res.Active, res.Replicas = &nodes[0], nodes[1:]
	}
	return cl.Close()
}
