package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// unconnected is a router whose nodes never connect: what is measured is its own.
func unconnected(b testing.TB) *Router {
	r := New(Options{
		Bucket: "b", Seeds: []string{"127.0.0.1:1"}, Base: time.Now(), Orchestrator: retry.New(retry.Options{}),
		Health:    &health.Record{},
		ErrorMaps: &errormap.Store{}, Timeout: time.Second, JitterSource: func() float64 { return 0.5 },
		Connect: func() conn.Options {
			return conn.Options{Options: handshake.Options{
				Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
				Credentials: func(context.Context, string) (handshake.Credentials, error) {
					return handshake.Credentials{}, nil
				},
			}}
		},
	})
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(b, r.Close(ctx, errors.New("the benchmark is over")))
		r.o.Orchestrator.Close(retry.ErrClosed)
	})
	return r
}

// mapHead is how the map begins; its revision always has as many digits.
const mapHead = `{"rev":1000000000,`

// largeMap is a map of 100 nodes, 1,024 vbuckets and 3 replicas, about 300 KB with the pads that servers indent with.
func largeMap() []byte {
	var list, nodes, ext, rows []string
	for i := range 100 {
		host := fmt.Sprintf("node-%03d.example.com", i)
		list = append(list, fmt.Sprintf(`"%s:11210"`, host))
		nodes = append(nodes, fmt.Sprintf(`{"hostname":"%s:8091","ports":{"direct":11210}}`, host))
		ext = append(ext, fmt.Sprintf(`{"services":{"mgmt":8091,"mgmtSSL":18091,"kv":11210,"kvSSL":11207,"capi":8092,"capiSSL":18092,"n1ql":8093},
			"hostname":"%s","nodeUUID":"%032x","serverGroup":"Group 1"}`, host, i))
	}
	pad := "\n" + strings.Repeat(" ", 60)
	for vb := range 1024 {
		rows = append(rows, fmt.Sprintf("[%s%d,%s%d,%s%d,%s%d]", pad, vb%100, pad, (vb+1)%100, pad, (vb+2)%100, pad,
			(vb+3)%100))
	}
	return []byte(mapHead + `"revEpoch":1,"name":"b","uuid":"u","nodeLocator":"vbucket","vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":3,"serverList":[` +
		strings.Join(list, ",") + `],"vBucketMap":[` + strings.Join(rows, ",") + `]},"nodes":[` + strings.Join(nodes, ",") + `],"nodesExt":[` + strings.Join(ext, ",") + `]}`)
}

func rev(raw []byte, n int) {
	copy(raw[len(`{"rev":`):], fmt.Appendf(nil, "%010d", 1_000_000_000+n))
}

// offerUntilApplied is one new map, from its bytes to the picker that calls use.
func offerUntilApplied(b *testing.B, r *Router, raw []byte, n int) {
	rev(raw, n)
	r.maps.offers.offer(raw, 0, "127.0.0.1:1", nil)
	for {
		changed := r.Changed()
		if s := r.Snapshot(); s != nil && s.Rev == uint64(1_000_000_000+n) {
			return
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			_, err := topology.Parse(raw, "h", topology.Options{})
			b.Fatal("the map is not in use: ", err)
		}
	}
}

// BenchmarkApply is a newer map of 100 nodes, 1,024 vbuckets and 3 replicas: parsed, compared and in use, below 5 ms.
func BenchmarkApply(b *testing.B) {
	r, raw := unconnected(b), largeMap()
	offerUntilApplied(b, r, raw, 1) // starts the nodes' pipelines
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	n := 1
	for b.Loop() {
		n++
		offerUntilApplied(b, r, raw, n)
	}
}

// BenchmarkOfferKnown is the same map again, as in the answers of a thousand calls: it is compared and dropped.
func BenchmarkOfferKnown(b *testing.B) {
	r, raw := unconnected(b), largeMap()
	offerUntilApplied(b, r, raw, 1)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		r.maps.offers.offer(raw, 0, "127.0.0.1:1", nil)
	}
}

// BenchmarkPick is the choice of a call's node: the snapshot, the vbucket, the pipeline.
func BenchmarkPick(b *testing.B) {
	r, raw := unconnected(b), largeMap()
	offerUntilApplied(b, r, raw, 1)
	pk := r.picker.Load()
	caught := &catcher{}
	kv.Start(b.Context(), caught, kv.Get{Key: []byte("airline_10")})
	c := caught.c
	c.Route.Hash = 0x5c2f6a01 // any key's
	b.ReportAllocs()
	for b.Loop() {
		if r.pick(pk, c).node == nil {
			b.Fatal("no node")
		}
	}
}

// catcher keeps the call that it is given.
type catcher struct{ c *call.Call }

func (k *catcher) Runner() call.Runner   { return k }
func (*catcher) NewCall() *call.Call     { return call.NewCall() }
func (k *catcher) Dispatch(c *call.Call) { k.c = c }
func (*catcher) Release(*call.Call)      {}
