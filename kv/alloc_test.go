package kv_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// A call that is answered inline and used again: only the value is new.
func TestAllocationsOfDo(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	read := &memd.Packet{Opcode: memd.OpGet, CAS: 7, Extras: make([]byte, 4), Value: make([]byte, 256)}
	write := &memd.Packet{Opcode: memd.OpSet, CAS: 7, Extras: make([]byte, 16)}
	looked := &memd.Packet{
		Opcode: memd.OpSubdocMultiLookup, CAS: 7,
		Value: []byte("\x00\x00\x00\x00\x00\x01x\x00\x00\x00\x00\x00\x02yz"),
	}
	counted := &memd.Packet{
		Opcode: memd.OpSubdocMultiMutation, CAS: 7, Extras: make([]byte, 16),
		Value: []byte("\x01\x00\x00\x00\x00\x00\x017"),
	}
	packed := &memd.Packet{
		Opcode: memd.OpGet, CAS: 7, Extras: make([]byte, 4), Datatype: memd.DatatypeSnappy,
		Value: snappy.Encode(nil, bytes.Repeat([]byte("abc"), 80)),
	}
	reads := []kv.LookupSpec{kv.GetPath("name"), kv.ExistsPath("address.city")}
	changes := []kv.MutateSpec{kv.UpsertPath("name", []byte(`"x"`)), kv.IncrementPath("visits", 1)}
	buf := make([]byte, 0, 4096)
	packer := &call.Packer{}
	d := &recycling{fake: newFake(func(c *call.Call) {
		w := common
		c.Pack(packer)
		if _, _, err := c.AppendTo(buf, &w); err != nil {
			c.Fail(err)
			return
		}
		p := write
		switch c.Req.Opcode {
		case memd.OpGet:
			if p = read; string(c.Req.Key) == "packed" {
				p = packed
			}
		case memd.OpSubdocMultiLookup:
			p = looked
		case memd.OpSubdocMultiMutation:
			p = counted
		}
		c.Succeed(p, false)
	})}
	ctx, key, pressed, value, into := context.Background(), []byte("airline_10"), []byte("packed"), make([]byte, 256),
		make([]byte, 0, 256)
	long := bytes.Repeat([]byte("abc"), 1000)
	failed := error(nil)
	note := func(err error) {
		if err != nil {
			failed = err
		}
	}
	for _, c := range []struct {
		name string
		want float64
		run  func()
	}{
		{"get", 1, func() { _, err := kv.Do(ctx, d, kv.Get{Key: key}); note(err) }},
		{"get into a buffer", 0, func() { _, err := kv.Do(ctx, d, kv.Get{Key: key, Into: into}); note(err) }},
		{"compressed get", 1, func() { _, err := kv.Do(ctx, d, kv.Get{Key: pressed}); note(err) }},
		{
			"compressed get into a buffer", 0,
			func() { _, err := kv.Do(ctx, d, kv.Get{Key: pressed, Into: into}); note(err) },
		},
		{"upsert", 0, func() { _, err := kv.Do(ctx, d, kv.Upsert{Key: key, Value: value}); note(err) }},
		{"durable upsert", 0, func() {
			_, err := kv.Do(ctx, d, kv.Upsert{
				Key: key, Value: value, Durability: memd.DurabilityMajority,
				PreserveExpiry: true,
			})
			note(err)
		}},
		{"on behalf of", 1, func() {
			_, err := kv.Do(ctx, d, kv.Get{Common: kv.Common{OnBehalfOf: "jane.doe@example.com"}, Key: key})
			note(err)
		}},
		{"compressed upsert", 0, func() { _, err := kv.Do(ctx, d, kv.Upsert{Key: key, Value: long}); note(err) }},
		{"lookup of two paths", 3, func() { _, err := kv.Do(ctx, d, kv.LookupIn{Key: key, Specs: reads}); note(err) }},
		{
			"mutation of two paths", 3,
			func() { _, err := kv.Do(ctx, d, kv.MutateIn{Key: key, Specs: changes}); note(err) },
		},
		{"touch", 0, func() { _, err := kv.Do(ctx, d, kv.Touch{Key: key}); note(err) }},
		{"remove", 0, func() { _, err := kv.Do(ctx, d, kv.Remove{Key: key}); note(err) }},
	} {
		c.run()
		require.InDelta(t, c.want, testing.AllocsPerRun(200, c.run), 0, c.name)
		require.NoError(t, failed, c.name)
	}
}
