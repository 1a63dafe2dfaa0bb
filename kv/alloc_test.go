package kv_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

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
	buf := make([]byte, 0, 4096)
	d := &recycling{fake: newFake(func(c *kv.Call) {
		w := common
		if _, _, err := c.AppendTo(buf, &w); err != nil {
			c.Fail(err)
			return
		}
		p := write
		if c.Req.Opcode == memd.OpGet {
			p = read
		}
		c.Succeed(p, false)
	})}
	ctx, key, value, into := context.Background(), []byte("airline_10"), make([]byte, 256), make([]byte, 0, 256)
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
		{"upsert", 0, func() { _, err := kv.Do(ctx, d, kv.Upsert{Key: key, Value: value}); note(err) }},
		{"durable upsert", 0, func() {
			_, err := kv.Do(ctx, d, kv.Upsert{Key: key, Value: value, Durability: memd.DurabilityMajority, PreserveExpiry: true})
			note(err)
		}},
		{"on behalf of", 1, func() {
			_, err := kv.Do(ctx, d, kv.Get{Common: kv.Common{OnBehalfOf: "jane.doe@example.com"}, Key: key})
			note(err)
		}},
		{"remove", 0, func() { _, err := kv.Do(ctx, d, kv.Remove{Key: key}); note(err) }},
	} {
		c.run()
		require.InDelta(t, c.want, testing.AllocsPerRun(200, c.run), 0, c.name)
		require.NoError(t, failed, c.name)
	}
}
