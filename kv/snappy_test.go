package kv_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"runtime"
	"strings"
	"testing"

	golden "github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// packed gives what the request of op looks like on a connection that compresses as p says.
func packed(t testing.TB, op subject, p call.Compression, w call.Wire) memd.Packet {
	t.Helper()
	var got memd.Packet
	f := newFake(func(c *call.Call) {
		for range 2 { // a retry packs nothing again
			c.Pack(&call.Packer{Compression: p})
			wire, err := wireOf(c, w)
			require.NoError(t, err)
			_, err = got.Parse(wire, 0)
			require.NoError(t, err)
		}
		c.Fail(errSeen)
	})
	_, err := op.do(testContext(t), f)
	require.ErrorIs(t, err, errSeen)
	return got
}

// B50: what is worth it is compressed, once, and what is not is sent as it is.
func TestCompressionOfRequests_B50(t *testing.T) {
	key, text := []byte("k"), []byte(strings.Repeat("0123456789", 10))
	noise := make([]byte, 4096)
	_, _ = rand.Read(noise)
	upsert := func(v []byte) subject { return on("", kv.Upsert{Key: key, Value: v, Datatype: memd.DatatypeJSON}) }
	whole := call.Wire{Features: allFeatures}
	for name, c := range map[string]struct {
		op     subject
		p      call.Compression
		w      call.Wire
		value  []byte
		packed bool
	}{
		"worth it":    {upsert(text), call.Compression{}, whole, text, true},
		"insert":      {on("", kv.Insert{Key: key, Value: text}), call.Compression{}, whole, text, true},
		"replace":     {on("", kv.Replace{Key: key, Value: text}), call.Compression{}, whole, text, true},
		"append":      {on("", kv.Append{Key: key, Value: text}), call.Compression{}, whole, text, true},
		"prepend":     {on("", kv.Prepend{Key: key, Value: text}), call.Compression{}, whole, text, true},
		"off":         {upsert(text), call.Compression{Off: true}, whole, text, false},
		"not granted": {upsert(text), call.Compression{}, withoutFeature(memd.FeatureSnappy), text, false},
		"32 bytes":    {upsert(text[:32]), call.Compression{}, whole, text[:32], false},
		"33 bytes": {
			upsert(bytes.Repeat([]byte("a"), 33)),
			call.Compression{},
			whole,
			bytes.Repeat([]byte("a"), 33), true,
		},
		"a larger limit":       {upsert(text), call.Compression{MinSize: 100}, whole, text, false},
		"noise":                {upsert(noise), call.Compression{}, whole, noise, false},
		"a stricter ratio":     {upsert(text), call.Compression{MinRatio: 0.01}, whole, text, false},
		"a ratio above 1 is 1": {upsert(noise), call.Compression{MinRatio: 3}, whole, noise, false},
		"not a document": {
			on("", kv.MutateIn{Key: key, Specs: []kv.MutateSpec{kv.UpsertPath("a", text)}}),
			call.Compression{},
			whole, nil, false,
		},
		"empty": {upsert(nil), call.Compression{}, whole, []byte{}, false},
	} {
		p := packed(t, c.op, c.p, c.w)
		require.Equal(t, c.packed, p.Datatype&memd.DatatypeSnappy != 0, name)
		if c.value == nil {
			continue
		}
		if !c.packed {
			require.Equal(t, c.value, p.Value, name)
			continue
		}
		require.Less(t, len(p.Value), len(c.value), name)
		original, err := golden.Decode(nil, p.Value) // another implementation
		require.NoError(t, err, name)
		require.Equal(t, c.value, original, name)
	}
	require.Equal(t, memd.DatatypeJSON|memd.DatatypeSnappy, packed(t, upsert(text), call.Compression{}, whole).Datatype)
}

// A value that the caller has compressed already is sent as it is, and marked.
func TestACompressedValueIsNotCompressedAgain(t *testing.T) {
	once := golden.Encode(nil, bytes.Repeat([]byte("abc"), 500))
	op := on("", kv.Upsert{Key: []byte("k"), Value: once, Datatype: memd.DatatypeSnappy})
	p := packed(t, op, call.Compression{MinSize: 1}, common)
	require.Equal(t, memd.DatatypeSnappy, p.Datatype)
	require.Equal(t, once, p.Value)
	features := allFeatures.Without(memd.FeatureSnappy).Without(memd.FeatureSnappyEverywhere)
	_, err := op.encoded(call.Wire{Features: features})
	require.ErrorIs(t, err, cberr.FeatureNotAvailable)
}

// The key and the value are the caller's again once the call has ended: nothing reads them then.
func TestAnEndedCallIsNotCompressed(t *testing.T) {
	f := newFake(func(c *call.Call) {
		c.Fail(errSeen)
		c.Pack(&call.Packer{})
		w := common
		_, ended, err := c.AppendTo(nil, &w)
		require.NoError(t, err)
		require.True(t, ended)
	})
	_, err := kv.Do(testContext(t), f, kv.Upsert{Key: []byte("k"), Value: bytes.Repeat([]byte("a"), 100)})
	require.ErrorIs(t, err, errSeen)
}

func TestCompressedAnswersAreInflated(t *testing.T) {
	text := bytes.Repeat([]byte("abc"), 500)
	answer := memd.Packet{Datatype: memd.DatatypeJSON | memd.DatatypeSnappy, Extras: be32, Value: golden.Encode(nil,
		text)}
	res, err := kv.Do(testContext(t), answering(answer), kv.Get{Key: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, text, res.Value)
	require.Equal(t, memd.DatatypeJSON, res.Datatype)
	require.Equal(t, len(res.Value), cap(res.Value), "allocated exactly")

	into := append(make([]byte, 0, 4096), "head:"...)
	res, err = kv.Do(testContext(t), answering(answer), kv.Get{Key: []byte("k"), Into: into})
	require.NoError(t, err)
	require.Equal(t, "head:"+string(text), string(res.Value))
	require.Same(t, &into[0], &res.Value[0])

	raw, err := kv.Do(testContext(t), answering(answer), kv.Get{Key: []byte("k"), KeepCompressed: true})
	require.NoError(t, err)
	require.Equal(t, answer.Value, raw.Value)
	require.Equal(t, answer.Datatype, raw.Datatype)

	answer.Value = nil // as servers answer for an empty document
	res, err = kv.Do(testContext(t), answering(answer), kv.Get{Key: []byte("k")})
	require.NoError(t, err)
	require.Empty(t, res.Value)

	looked := golden.Encode(nil, []byte("\x00\x00\x00\x00\x00\x01x"))
	l, err := kv.Do(testContext(t), answering(memd.Packet{Datatype: memd.DatatypeSnappy, Value: looked}),
		kv.LookupIn{Key: []byte("k"), Specs: []kv.LookupSpec{kv.GetPath("a")}})
	require.NoError(t, err, "every operation understands compressed answers")
	require.Equal(t, "x", string(l.Paths[0].Value))
}

// D7, D8: a value that is corrupt or claims too much ends its own call, at once, and allocates nothing.
// A call keeps memory for compressed values. No result that a caller has shows what comes into it later.
func TestResultsOfCompressedAnswersAreTheCallers(t *testing.T) {
	docs := [][]byte{
		bytes.Repeat([]byte("abcd"), 100), bytes.Repeat([]byte("wxyz"), 90),
		bytes.Repeat([]byte("0123456789"), 4000), nil,
	}
	large := make([]byte, 200<<10) // does not become smaller: too large to keep
	_, err := rand.Read(large)
	require.NoError(t, err)
	docs = append(docs, large)
	var sent [][]byte
	d := &recycling{fake: newFake(func(c *call.Call) {
		c.Pack(&call.Packer{})
		if c.Req.Opcode == memd.OpSet {
			w := common
			wire, _, err := c.AppendTo(nil, &w)
			require.NoError(t, err)
			sent = append(sent, wire)
			c.Succeed(&memd.Packet{Opcode: memd.OpSet, CAS: 7, Extras: make([]byte, 16)}, false)
			return
		}
		buf := golden.Encode(nil, docs[c.Req.Key[0]-'0'])
		c.Succeed(&memd.Packet{
			Opcode: memd.OpGet, CAS: 7, Extras: make([]byte, 4), Datatype: memd.DatatypeSnappy,
			Value: buf,
		}, false)
		clear(buf) // the reader's own
	})}
	var want, got [][]byte
	for range 3 {
		for i, doc := range docs {
			for _, g := range []kv.Get{{}, {KeepCompressed: true}, {Into: append(make([]byte, 0, 500), '>')}} {
				g.Key = []byte{'0' + byte(i)}
				res, err := kv.Do(testContext(t), d, g)
				require.NoError(t, err)
				switch got = append(got, res.Value); {
				case g.KeepCompressed:
					want = append(want, golden.Encode(nil, doc))
				default:
					want = append(want, append(bytes.Clone(g.Into), doc...))
				}
				_, err = kv.Do(testContext(t), d, kv.Upsert{Key: g.Key, Value: docs[0]})
				require.NoError(t, err)
			}
		}
	}
	for i := range want {
		require.True(t, bytes.Equal(want[i], got[i]), i)
	}
	for _, wire := range sent {
		var p memd.Packet
		_, err := p.Parse(wire, 0)
		require.NoError(t, err)
		value, err := golden.Decode(nil, p.Value)
		require.NoError(t, err)
		require.Equal(t, docs[0], value)
	}
	require.Len(t, d.pool, 1, "it is one call all the time")
	require.LessOrEqual(t, spareCap(d.pool[0]), 64<<10)
}

func TestCorruptAndOversizedValues_D7_D8(t *testing.T) {
	whole := golden.Encode(nil, bytes.Repeat([]byte("abc"), 500))
	for name, value := range map[string][]byte{
		"cut": whole[:len(whole)-1], "garbage": {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "no body": {0x05},
		"2 GiB": {0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0}, "one byte too many": {0x81, 0x80, 0x80, 0x10, 0},
	} {
		p := memd.Packet{Datatype: memd.DatatypeSnappy, Extras: be32, Value: value}
		d := answering(p)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := kv.Do(testContext(t), d, kv.Get{Key: []byte("k")})
		runtime.ReadMemStats(&after)
		e := kvError(t, err)
		require.ErrorIs(t, e, cberr.DecodingFailure, name)
		var ce *kv.CompressionError
		require.ErrorAs(t, e, &ce, name)
		require.Equal(t, len(value), ce.Len)
		require.False(t, e.Ambiguous())
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), name)
		_, err = kv.Do(testContext(t), answering(memd.Packet{Extras: be32}), kv.Get{Key: []byte("k")})
		require.NoError(t, err)
	}
	_, err := kv.Do(testContext(t), answering(memd.Packet{Datatype: memd.DatatypeSnappy, Value: whole[:9]}),
		kv.Increment{Key: []byte("k")})
	require.True(t, kvError(t, err).Ambiguous(), "a mutation was acknowledged with it")
}

func TestCompressedErrorBodies(t *testing.T) {
	text := golden.Encode(nil, []byte(body))
	_, err := kv.Do(testContext(t), refusing(memd.StatusInvalid, memd.DatatypeJSON|memd.DatatypeSnappy, string(text)),
		kv.Get{Key: []byte("k")})
	original := kvError(t, err)
	_, err = kv.Do(testContext(t), refusing(memd.StatusInvalid, memd.DatatypeJSON, body), kv.Get{Key: []byte("k")})
	require.Equal(t, kvError(t, err).Context, original.Context)
	require.NotEmpty(t, original.Context)
	_, err = kv.Do(testContext(t), refusing(memd.StatusInvalid, memd.DatatypeJSON|memd.DatatypeSnappy,
		"\xff\xff\xff\xff\x07"), kv.Get{Key: []byte("k")})
	require.Empty(t, kvError(t, err).Context)
}

func TestInflate(t *testing.T) {
	text := []byte("plain")
	got, err := call.Inflate(text, memd.DatatypeJSON, 1)
	require.NoError(t, err)
	require.Same(t, &text[0], &got[0])
	small := golden.Encode(nil, bytes.Repeat([]byte("a"), 100))
	_, err = call.Inflate(small, memd.DatatypeSnappy, 99)
	var ce *kv.CompressionError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, kv.CompressionError{Len: len(small), Size: 100, Limit: 99}, *ce)
	got, err = call.Inflate(small, memd.DatatypeSnappy, 100)
	require.NoError(t, err)
	require.Len(t, got, 100)
}

// FuzzInflate agrees with another implementation on everything that both accept, and never goes above the limit.
func FuzzInflate(f *testing.F) {
	f.Add(golden.Encode(nil, bytes.Repeat([]byte("abc"), 500)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0})
	f.Add([]byte{0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		const limit = 1 << 20
		got, err := call.Inflate(value, memd.DatatypeSnappy, limit)
		if err != nil {
			var ce *kv.CompressionError
			if !errors.As(err, &ce) || got != nil {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if len(got) > limit {
			t.Fatalf("%d bytes", len(got))
		}
		if theirs, err := golden.Decode(nil, value); err == nil && !bytes.Equal(got, theirs) {
			t.Fatal("another text")
		}
	})
}
