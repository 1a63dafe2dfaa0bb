package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/couchcore/couchcore/internal/topology"
)

type hashCmd struct {
	clusterFlags
	Key      string `arg:"" help:"The key, without a collection."`
	VBuckets int    `name:"vbuckets" placeholder:"N" help:"Ask no cluster; count with this many vbuckets (default: the cluster's, or 1024 if none is named)."`
}

// hashResult is where a key is, as JSON. Active and Replicas are null without a cluster.
type hashResult struct {
	Key      string   `json:"key"`
	VBucket  uint16   `json:"vbucket"`
	VBuckets int      `json:"vbuckets"`
	Active   *string  `json:"active"`
	Replicas []string `json:"replicas"`
}

// Run implements the command. It asks the cluster that the flags or the environment name.
func (c *hashCmd) Run(a *app) error {
	if c.VBuckets < 0 || c.VBuckets > 1024 {
		return usagef("--vbuckets %d: 1 to 1024", c.VBuckets)
	}
	if c.VBuckets > 0 && c.Connect != "" {
		return usagef("--vbuckets is for no cluster, and --connect names one")
	}
	n := cmp.Or(c.VBuckets, 1024)
	res := hashResult{Key: c.Key, VBuckets: n, VBucket: topology.Hash([]byte(c.Key), n)}
	if c.VBuckets == 0 && or(c.Connect, a.env("COUCHCORE_CONNECT")) != "" {
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

// locate asks the cluster's map. The nodes in it need not be up.
func (c *hashCmd) locate(a *app, res *hashResult) error {
	cl, b, err := c.openTold(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(c.Timeout, healthPatience))
	defer cancel()
	if _, err := b.Layout(ctx); err != nil {
		_ = cl.Close() // why there is no map is what matters
		return fmt.Errorf("hash: %w", err)
	}
	m, _ := b.Map()
	vb, nodes, _ := b.Locate([]byte(c.Key))
	res.VBucket, res.VBuckets = vb, m.VBuckets
	if len(nodes) > 0 {
		res.Active, res.Replicas = &nodes[0], nodes[1:]
	}
	return cl.Close()
}
