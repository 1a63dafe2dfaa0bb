package field_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// silentNodes is a dialer to whose nodes, but for the known ones, no connection ever comes.
type silentNodes struct {
	known map[string]bool

	mu        sync.Mutex
	now, most int
	dialled   map[string]bool
}

func (d *silentNodes) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.known[addr] {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	d.mu.Lock()
	d.now++
	d.most = max(d.most, d.now)
	d.dialled[addr] = true
	d.mu.Unlock()
	<-ctx.Done()
	d.mu.Lock()
	d.now--
	d.mu.Unlock()
	return nil, ctx.Err()
}

func (d *silentNodes) counts() (most, dialled int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.most, len(d.dialled)
}

// crowdedMap is a newer map of the cluster's nodes that are live, with that many others before the last of them.
func crowdedMap(s *scripted.Cluster, rev, more int) string {
	var ext, nodes []string
	add := func(host string, port int) {
		ext = append(ext, fmt.Sprintf(`{"services":{"kv":%d},"hostname":%q}`, port, host))
		nodes = append(nodes, "{}")
	}
	add("127.0.0.1", s.Nodes[0].Port())
	for i := range more {
		add(fmt.Sprintf("10.9.%d.%d", i/250, i%250), 11210)
	}
	add("127.0.0.1", s.Nodes[1].Port())
	return fmt.Sprintf(`{"rev":%d,"revEpoch":1,"name":"default","uuid":"aaaa","nodeLocator":"vbucket","nodesExt":[%s],"nodes":[%s],`+
		`"vBucketServerMap":{"numReplicas":0,"vBucketMap":[%s[0]]}}`, rev, strings.Join(ext, ","), strings.Join(nodes, ","), strings.Repeat("[0],", 63))
}

// A map of thousands of nodes that are not there starts some of the attempts to connect to them, and the others after
// these; a node that is there has its turn.
func TestAMapOfThousandsOfDeadNodes_D141(t *testing.T) {
	const more = 3000
	s := scripted.New(t, 2)
	s.Features[memd.FeatureClustermapChange] = true
	d := &silentNodes{
		known:   map[string]bool{s.Nodes[0].Addr(): true, s.Nodes[1].Addr(): true},
		dialled: map[string]bool{},
	}
	s.Map = func(_ *scripted.Node, bucket string) []byte {
		return s.Render(scripted.Spec{Bucket: bucket, Live: []int{0}})
	}
	c := open(t, s, func(cfg *core.Config) {
		cfg.Seeds.Hosts, cfg.Net.Dial, cfg.Net.ConnectTimeout = []string{s.Nodes[0].Addr()}, d.dial,
			100*time.Millisecond
	})
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
	before := runtime.NumGoroutine()
	toAll(s, push("default", 1, 2, crowdedMap(s, 2, more)))
	require.Eventually(t, func() bool { m, _ := b.Map(); return m.Rev == 2 }, 10*time.Second, time.Millisecond)
	most := 0
	seen := func() bool {
		most = max(most, runtime.NumGoroutine()-before)
		_, dialled := d.counts()
		return dialled > 300
	}
	require.Eventually(t, seen, 120*time.Second, 5*time.Millisecond, "all have their turns")
	require.Less(t, most, 1000, "goroutines")
	parallel, _ := d.counts()
	require.LessOrEqual(t, parallel, 256, "dials at a time")
	require.NoError(t, upsert(t, b), "the nodes that are there work")

	toAll(s, push("default", 1, 3, string(s.Render(scripted.Spec{Bucket: "default", Rev: 3}))))
	require.Eventually(t, func() bool { m, _ := b.Map(); return m.Rev == 3 }, 10*time.Second, time.Millisecond)
	require.Less(t, runtime.NumGoroutine()-before, 1000, "nor when they leave")
	require.NoError(t, b.WaitReady(within(t, 60*time.Second)))
	require.NoError(t, c.Close())
}
