package core

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/retry"
)

// Calls that need no bucket find their nodes in the cluster map of any bucket. When the buckets that were asked for
// have none, because they are misspelt, say, or the user may not open them, the cluster connects without a bucket: as
// Bucket("").

// seeToMap begins to get the cluster's map without a bucket, unless a bucket has a way to it or may still find one.
func (c *Cluster) seeToMap() {
	bs, stuck := c.all(), false
	for _, b := range bs {
		switch works, refused := b.router.MapState(); {
		case works || b.name == "":
			return
		case refused:
			stuck = true
		}
	}
	if stuck || len(bs) == 0 {
		c.Bucket("")
	}
}

// newestMap is the newest map that any bucket has, or that of the named one, with the name of the network that it is
// reached on; nil while no such node is known.
func (c *Cluster) newestMap(bucket string) (newest *topology.Snapshot, network string) {
	var from *Bucket
	for _, b := range c.all() {
		if s := b.router.Snapshot(); s != nil && (bucket == "" || b.name == bucket) && s.Newer(newest) {
			newest, from = s, b
		}
	}
	if newest == nil {
		return nil, ""
	}
	return newest, from.router.Network()
}

// awaitMap waits for the first map of any bucket, or of the named one: until it is there, ctx ends, or nothing that is
// under way can bring one.
func (c *Cluster) awaitMap(ctx context.Context, bucket string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, b := range c.all() {
		if bucket == "" || b.name == bucket {
			wg.Go(func() {
				if c.awaitMapOf(ctx, b, bucket == "") {
					cancel() // one is enough
				}
			})
		}
	}
	wg.Wait()
}

// whyNoMap is why there is no map of any bucket, or of the named one, and no newer one; nil when nothing is known.
func (c *Cluster) whyNoMap(bucket string) error {
	var all health.Conditions
	for _, b := range c.all() {
		if bucket != "" && b.name != bucket {
			continue
		}
		if err := b.router.WhyNoMap(); err != nil && !slices.ContainsFunc(all,
			func(o error) bool { return o.Error() == err.Error() }) {
			all = append(all, err)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// awaitMapOf waits for a bucket's first map, or if any will do for that of the cluster, once the bucket turns out to
// bring none. It says whether there is one.
func (c *Cluster) awaitMapOf(ctx context.Context, b *Bucket, anyone bool) bool {
	waiting, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		b.hopeForMap(waiting)
	}()
	defer func() {
		stop()
		<-over
	}()
	for ended := false; ; {
		changed := b.router.Changed()
		if b.router.Snapshot() != nil {
			return true
		}
		if _, refused := b.router.MapState(); refused && anyone && b.name != "" {
			own := c.Bucket("")
			own.hopeForMap(ctx)
			return own.router.Snapshot() != nil
		}
		if ended {
			return false
		}
		select {
		case <-changed:
		case <-over:
			ended = true
		}
	}
}

// hopeForMap waits for the bucket's first map until it is there, until ctx ends, or until no handshake that has not
// failed can bring it.
func (b *Bucket) hopeForMap(ctx context.Context) {
	limit := time.Minute
	if d, ok := ctx.Deadline(); ok {
		limit = max(time.Until(d), 1)
	}
	_, _ = b.router.AwaitMap(ctx, call.MapWait{Retry: call.Strict, Timeout: limit})
}

// awaitMap waits for the bucket's first map as a call does, whose strategy gives up for terminal conditions whatever
// the cluster's does, and no longer than until a node says that it does not open the bucket. The error says why there
// is no map.
func (b *Bucket) awaitMap(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan error, 1)
	go func() {
		_, err := b.router.AwaitMap(ctx, call.MapWait{Verb: "layout", Retry: retry.FastFailOnTerminalError{}})
		over <- err
	}()
	for {
		changed := b.router.Changed()
		if _, refused := b.router.MapState(); refused && b.name != "" {
			cancel(errRefusedBucket)
			return <-over
		}
		select {
		case <-changed:
		case err := <-over:
			return err
		}
	}
}

var errRefusedBucket = errors.New("no node opens the bucket")
