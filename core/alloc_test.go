package core_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// cannedNode is a node of one that answers from prepared packets and allocates nothing once it runs.
func cannedNode(t *testing.T) string {
	return cannedNodeThat(t, func(memd.Opcode) bool { return false })
}

// cannedNodeThat is the same, but for the requests that it sends away with the map that everybody knows.
func cannedNodeThat(t *testing.T, moved func(memd.Opcode) bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	config := fmt.Appendf(nil, `{"rev":1,"revEpoch":1,"name":"default","uuid":"u","nodeLocator":"vbucket",
		"vBucketServerMap":{"numReplicas":0,"serverList":["$HOST:%s"],"vBucketMap":[[0],[0]]},
		"nodes":[{"hostname":"$HOST:1"}],"nodesExt":[{"services":{"kv":%s},"thisNode":true}]}`, port, port)
	answers := map[memd.Opcode]memd.Packet{
		memd.OpGetClusterConfig: {Value: config}, memd.OpGet: {CAS: 7, Extras: make([]byte, 4), Value: make([]byte, 256)},
		memd.OpSet:                 {CAS: 7, Extras: make([]byte, 16)},
		memd.OpSubdocMultiLookup:   {CAS: 7, Value: []byte("\x00\x00\x00\x00\x00\x01x\x00\x00\x00\x00\x00\x02yz")},
		memd.OpSubdocMultiMutation: {CAS: 7, Extras: make([]byte, 16), Value: []byte("\x01\x00\x00\x00\x00\x00\x017")},
	}
	serve := func(nc net.Conn) {
		buf, out, n := make([]byte, 64<<10), make([]byte, 0, 64<<10), 0
		var p memd.Packet
		for {
			m, err := nc.Read(buf[n:])
			if err != nil {
				return
			}
			n += m
			pos := 0
			out = out[:0]
			for {
				used, err := p.Parse(buf[pos:n], 0)
				if err != nil {
					break
				}
				pos += used
				rep := answers[p.Opcode]
				rep.Magic, rep.Opcode, rep.Opaque = memd.MagicRes, p.Opcode, p.Opaque
				switch {
				case p.Opcode == memd.OpHello:
					rep.Value = p.Value
				case moved(p.Opcode):
					rep.Status, rep.Extras, rep.Value = memd.StatusNotMyVBucket, nil, config
				}
				out, _ = rep.AppendTo(out)
			}
			n = copy(buf, buf[pos:n])
			if _, err := nc.Write(out); err != nil {
				return
			}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				serve(nc)
				_ = nc.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// The whole success path, from kv.Do through routing and the socket and back: the issue allows three allocations of a
// Get, and no goroutine of its own.
func TestAllocationsOfTheSuccessPath(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	c, err := core.Open(t.Context(), core.Config{Hosts: []string{cannedNode(t)}})
	require.NoError(t, err)
	defer c.Close()
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	key, value, bg := []byte("airline_10"), make([]byte, 256), context.Background()
	get := func() {
		if _, err := kv.Do(bg, b, &kv.Get{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	get()
	before := runtime.NumGoroutine()
	pointer := testing.AllocsPerRun(2000, get)
	requireGoroutines(t, before)
	byValue := testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(bg, b, kv.Get{Key: key}); err != nil {
			t.Fatal(err)
		}
	})
	upsert := testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(bg, b, kv.Upsert{Key: key, Value: value}); err != nil {
			t.Fatal(err)
		}
	})
	reads := []kv.LookupSpec{kv.GetPath("name"), kv.GetPath("address")}
	lookup := testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(bg, b, kv.LookupIn{Key: key, Specs: reads}); err != nil {
			t.Fatal(err)
		}
	})
	changes := []kv.MutateSpec{kv.UpsertPath("name", []byte(`"x"`)), kv.CountPathBy("visits", 1)}
	mutate := testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(bg, b, kv.MutateIn{Key: key, Specs: changes}); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("get %v by pointer, %v by value; upsert %v; lookup %v, mutation %v of two paths", pointer, byValue, upsert, lookup, mutate)
	require.LessOrEqual(t, pointer, 2.0)
	require.LessOrEqual(t, byValue, 1.0)
	require.Zero(t, upsert)
	require.LessOrEqual(t, lookup, 3.0)
	require.LessOrEqual(t, mutate, 3.0)
}

// A refusal with a map that is known costs what has to be remembered of it: the failure and the history, which the
// result keeps, and nothing else. The call itself is used again.
func TestAllocationsOfNotMyVBucket(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	gets := 0
	c, err := core.Open(t.Context(), core.Config{NoNotifications: true, Hosts: []string{cannedNodeThat(t, func(op memd.Opcode) bool {
		if op == memd.OpGet {
			gets++
		}
		return op == memd.OpGet && gets%2 == 1
	})}})
	require.NoError(t, err)
	defer c.Close()
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	key, bg := []byte("airline_10"), context.Background()
	n := testing.AllocsPerRun(300, func() {
		r, err := kv.Do(bg, b, kv.Get{Key: key})
		if err != nil || r.RetryInfo().Transparent != 1 {
			t.Fatal(err, r.RetryInfo())
		}
	})
	require.LessOrEqual(t, n, 1+2.0, "the value, and two")
}
