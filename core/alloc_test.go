package core_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// cannedNode is a node of one that answers from prepared packets and allocates nothing once it runs.
func cannedNode(t testing.TB) string {
	return cannedNodeThat(t, func(memd.Opcode) memd.Status { return memd.StatusSuccess })
}

// cannedNodeThat is the same, but for the requests that it refuses; one that it sends away gets the map that everybody
// knows.
func cannedNodeThat(t testing.TB, status func(memd.Opcode) memd.Status) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	config := fmt.Appendf(nil, `{"rev":1,"revEpoch":1,"name":"default","uuid":"u","nodeLocator":"vbucket",
		"vBucketServerMap":{"numReplicas":0,"serverList":["$HOST:%s"],"vBucketMap":[[0],[0]]},
		"nodes":[{"hostname":"$HOST:1"}],"nodesExt":[{"services":{"kv":%s},"thisNode":true}]}`, port, port)
	answers := map[memd.Opcode]memd.Packet{
		memd.OpGetClusterConfig: {Value: config}, memd.OpGet: {
			CAS: 7, Extras: make([]byte, 4),
			Value: make([]byte, 256),
		},
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
				if p.Opcode == memd.OpHello {
					rep.Value = p.Value
				} else if st := status(p.Opcode); st != memd.StatusSuccess {
					if rep.Status, rep.Extras, rep.Value = st, nil, nil; st == memd.StatusNotMyVBucket {
						rep.Value = config
					}
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
	c, err := core.Open(t.Context(), core.Config{Seeds: core.SeedConfig{Hosts: []string{cannedNode(t)}}})
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
	changes := []kv.MutateSpec{kv.UpsertPath("name", []byte(`"x"`)), kv.IncrementPath("visits", 1)}
	mutate := testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(bg, b, kv.MutateIn{Key: key, Specs: changes}); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("get %v by pointer, %v by value; upsert %v; lookup %v, mutation %v of two paths", pointer, byValue, upsert,
		lookup, mutate)
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
	c, err := core.Open(t.Context(), core.Config{
		Seeds: core.SeedConfig{
			Hosts: []string{cannedNodeThat(t, func(op memd.Opcode) memd.Status {
				if op == memd.OpGet {
					if gets++; gets%2 == 1 {
						return memd.StatusNotMyVBucket
					}
				}
				return memd.StatusSuccess
			})},
		},
		Maps: core.MapConfig{NoNotifications: true},
	})
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

// That there is no such document, or that there is one, is an answer as frequent as any: it costs the error, and the
// call is used again.
func TestAllocationsOfARefusal(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	c, err := core.Open(t.Context(), core.Config{
		Seeds: core.SeedConfig{
			Hosts: []string{cannedNodeThat(t, func(op memd.Opcode) memd.Status {
				switch op {
				case memd.OpGet:
					return memd.StatusKeyNotFound
				case memd.OpSet, memd.OpSubdocMultiMutation:
					return memd.StatusKeyExists
				default:
					return memd.StatusSuccess
				}
			})},
		},
	})
	require.NoError(t, err)
	defer c.Close()
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	key, value, bg := []byte("airline_10"), make([]byte, 256), context.Background()
	get := testing.AllocsPerRun(300, func() {
		if _, err := kv.Do(bg, b, kv.Get{Key: key}); !errors.Is(err, cberr.DocumentNotFound) {
			t.Fatal(err)
		}
	})
	upsert := testing.AllocsPerRun(300, func() {
		if _, err := kv.Do(bg, b, kv.Upsert{Key: key, Value: value, CAS: 1}); !errors.Is(err, cberr.CASMismatch) {
			t.Fatal(err)
		}
	})
	keys := slices.Repeat([][]byte{key}, 64)
	many := testing.AllocsPerRun(100, func() {
		for _, o := range kv.GetMulti(bg, b, kv.Common{}, keys) {
			if !errors.Is(o.Err, cberr.DocumentNotFound) {
				t.Fatal(o.Err)
			}
		}
	}) / float64(len(keys))
	require.LessOrEqual(t, get, 1.0)
	require.LessOrEqual(t, upsert, 1.0)
	require.Less(t, many, 1.2, "per key, and some for all of them")
}
