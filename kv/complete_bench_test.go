package kv_test

import (
	"context"
	"testing"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// BenchmarkDo is an operation without routing and wire: a call from the pool, encoding, completion, the token,
// decoding.
func BenchmarkDo(b *testing.B) {
	read := &memd.Packet{Opcode: memd.OpGet, CAS: 7, Extras: make([]byte, 4), Value: make([]byte, 256)}
	write := &memd.Packet{Opcode: memd.OpSet, CAS: 7, Extras: make([]byte, 16)}
	buf := make([]byte, 0, 4096)
	d := &recycling{fake: newFake(func(c *call.Call) {
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
	for name, do := range map[string]func() error{
		"get":      func() error { _, err := kv.Do(ctx, d, kv.Get{Key: key}); return err },
		"get into": func() error { _, err := kv.Do(ctx, d, kv.Get{Key: key, Into: into}); return err },
		"upsert":   func() error { _, err := kv.Do(ctx, d, kv.Upsert{Key: key, Value: value}); return err },
		"future": func() error {
			_, err := kv.Start(ctx, d, kv.Get{Key: key}).Wait(ctx)
			return err
		},
		"callback": func() error {
			var err error
			kv.Go(ctx, d, kv.Get{Key: key}, func(_ kv.GetResult, e error) { err = e })
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMulti is the bulk form on the same ground: 16 keys a call.
func BenchmarkMulti(b *testing.B) {
	d := answering(memd.Packet{CAS: 7, Extras: make([]byte, 4), Value: make([]byte, 256)})
	ctx := context.Background()
	keys := make([][]byte, 16)
	for i := range keys {
		keys[i] = []byte("airline_10")
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, out := range kv.GetMulti(ctx, d, kv.Common{}, keys) {
			if out.Err != nil {
				b.Fatal(out.Err)
			}
		}
	}
}
