package kv_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// FuzzDecode gives every operation whatever a server could send: it becomes a result or a *kv.Error, and no result has
// more of a value than the packet had.
func FuzzDecode(f *testing.F) {
	f.Add(uint16(0), uint8(0), []byte{}, []byte{}, []byte{})
	f.Add(uint16(0), uint8(1), duration, be32, []byte("doc"))
	f.Add(uint16(0), uint8(0), duration, tokenOf, eight)
	f.Add(uint16(0), uint8(0), []byte{}, meta, []byte{})
	f.Add(uint16(0), uint8(0), []byte{0xff}, idOf, []byte{})
	f.Add(uint16(0x88), uint8(1), []byte{}, []byte{}, []byte(`{"manifest_uid":"1f"}`))
	f.Add(uint16(0xa1), uint8(1), []byte{}, []byte{}, []byte(body))
	f.Add(uint16(0), uint8(0x1b), duration, be32, []byte{0}) // compressed, and empty
	f.Add(uint16(0x7ff0), uint8(7), []byte{0x02, 0}, []byte{1}, []byte{0})
	all := subjects()
	f.Fuzz(func(t *testing.T, status uint16, datatype uint8, frames, extras, value []byte) {
		for _, op := range all {
			d := newFake(func(c *call.Call) {
				p := &memd.Packet{
					Magic: memd.MagicRes, Opcode: c.Req.Opcode, Status: memd.Status(status),
					Datatype: memd.Datatype(datatype),
					Frames:   frames, Extras: extras, Value: value,
				}
				disposition := call.Classify(p.Opcode, p.Status, c.Req.CAS != 0)
				if disposition.Class == call.ClassSuccess {
					c.Succeed(p, false)
					return
				}
				e := c.StatusError(p, disposition)
				e.ManifestUID()
				c.Fail(e)
			})
			res, err := op.do(context.Background(), d)
			if err == nil {
				want, bad := value, error(nil)
				if dt := memd.Datatype(datatype); dt&memd.DatatypeSnappy != 0 {
					want, bad = call.Inflate(value, dt, 0)
				}
				switch g, ok := res.(kv.GetResult); {
				case ok && g.Absent:
					if memd.Status(status) != memd.StatusKeyNotFound || g.Value != nil {
						t.Fatalf("%s: absent, with status %#x and value %q", op.name, status, g.Value)
					}
				case ok && (bad != nil || !bytes.Equal(g.Value, want)):
					t.Fatalf("%s: another value", op.name)
				}
				continue
			}
			e, ok := err.(*kv.Error) //nolint:errorlint // the error itself must be one
			if !ok || e.Err == nil || e.Error() == "" {
				t.Fatalf("%s: %T %v", op.name, err, err)
			}
			var p *retry.PanicError
			if errors.As(err, &p) {
				t.Fatalf("%s: %v\n%s", op.name, p, p.Stack)
			}
		}
	})
}

// FuzzEncode gives operations arbitrary arguments: what is encoded reads back as the same, or the error is typed.
func FuzzEncode(f *testing.F) {
	f.Add([]byte("abc"), []byte(doc), "", "", uint32(0), uint8(0), uint64(0), uint64(allFeatures))
	f.Add([]byte("abc"), []byte(doc), "inventory", "jane", uint32(0x555), uint8(2), uint64(7), uint64(allFeatures))
	f.Add([]byte{}, []byte{}, "a.b", strings.Repeat(longUser, 9), uint32(1), uint8(9), uint64(1), uint64(0))
	f.Add(bytesOf('k', 250), []byte{}, "_default", longUser, uint32(1<<32-1), uint8(3), uint64(1), uint64(allFeatures))
	f.Fuzz(func(t *testing.T, key, value []byte, collection, user string, id uint32, level uint8, cas,
		features uint64,
	) {
		shared := kv.Common{Collection: collection, OnBehalfOf: user}
		dur := memd.DurabilityLevel(level)
		w := call.Wire{
			Features: memd.Features(features), Opaque: 0x2a, VBucket: 115, CollectionID: id,
			DurabilityMS: uint32(cas),
		}
		for _, op := range []subject{
			on("get", kv.Get{Common: shared, Key: key}),
			on("upsert", kv.Upsert{
				Common: shared, Key: key, Value: value, CAS: cas, Durability: dur,
				PreserveExpiry: level&1 > 0,
			}),
			on("append", kv.Append{Common: shared, Key: key, Value: value, CAS: cas, Durability: dur}),
			on("increment", kv.Increment{Common: shared, Key: key, Delta: cas, Durability: dur}),
			on("unlock", kv.Unlock{Common: shared, Key: key, CAS: cas}),
			on("get-collection-id", kv.GetCollectionID{Path: string(value)}),
		} {
			wire, err := op.encoded(w)
			if err != nil {
				var a *kv.ArgumentError
				var fe *kv.FeatureError
				if !errors.As(err, &a) && !errors.As(err, &fe) {
					t.Fatalf("%s: %T %v", op.name, err, err)
				}
				if user != "" && len(user) > 4 && strings.Contains(err.Error(), user) {
					t.Fatalf("%s: the user's name is in %q", op.name, err)
				}
				continue
			}
			requireReadsBack(t, op.name, wire, w, key, value, user)
		}
	})
}

func requireReadsBack(t *testing.T, name string, wire []byte, w call.Wire, key, value []byte, user string) {
	t.Helper()
	var p memd.Packet
	n, err := p.Parse(wire, 0)
	if err != nil || n != len(wire) {
		t.Fatalf("%s: took %d of %d: %v", name, n, len(wire), err)
	}
	if p.Opaque != 0x2a || p.VBucket != 115 || !p.Magic.IsRequest() {
		t.Fatalf("%s: header %+v", name, p)
	}
	row := call.SpecOf(p.Opcode)
	if row.Has(call.Keyed) {
		got := p.Key
		if w.Features.Has(memd.FeatureCollections) {
			id, tail, err := memd.ParseLEB128(got)
			if err != nil || id != w.CollectionID {
				t.Fatalf("%s: collection %x: %v", name, id, err)
			}
			got = tail
		}
		if !bytes.Equal(got, key) {
			t.Fatalf("%s: key %x, want %x", name, got, key)
		}
	}
	switch p.Opcode {
	case memd.OpSet, memd.OpAppend, memd.OpCollectionsGetID:
		if !bytes.Equal(p.Value, value) {
			t.Fatalf("%s: another value", name)
		}
	}
	seen := ""
	for tail := p.Frames; len(tail) > 0; {
		id, data, next, err := memd.NextFrame(tail)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if tail = next; id == memd.FrameImpersonateUser {
			seen = string(data)
		}
	}
	if p.Opcode != memd.OpCollectionsGetID && seen != user {
		t.Fatalf("%s: on behalf of %q, want %q", name, seen, user)
	}
}

// FuzzAnswers gives every operation whole answers of several packets: each becomes a result or a *kv.Error.
func FuzzAnswers(f *testing.F) {
	for _, d := range scanDecodings() {
		var wire []byte
		for _, p := range d.with {
			p.Magic = memd.MagicRes
			wire, _ = p.AppendTo(wire)
		}
		f.Add(wire)
	}
	all := subjects()
	f.Fuzz(func(t *testing.T, wire []byte) {
		for _, op := range all {
			d := newFake(func(c *call.Call) {
				for tail := wire; !c.Ended(); {
					var p memd.Packet
					n, err := p.Parse(tail, 1<<20)
					if err != nil {
						c.Fail(err)
						return
					}
					p.Opcode, tail = c.Req.Opcode, tail[n:]
					give(c, &p)
				}
			})
			_, err := op.do(context.Background(), d)
			var p *retry.PanicError
			if err != nil && (kvError(t, err).Error() == "" || errors.As(err, &p)) {
				t.Fatalf("%s: %v", op.name, err)
			}
		}
	})
}
