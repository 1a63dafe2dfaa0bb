package kv_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

func lookupOf(specs ...kv.LookupSpec) subject {
	return on("lookup-in", kv.LookupIn{Key: []byte("k"), Specs: specs})
}

func mutateOf(specs ...kv.MutateSpec) subject {
	return on("mutate-in", kv.MutateIn{Key: []byte("k"), Specs: specs})
}

// B57 and its like: what is wrong with the specs is said before anything is sent, with the caller's index.
func TestSubdocArguments_B57(t *testing.T) {
	key, one := []byte("k"), []byte("1")
	x := func(s kv.MutateSpec, change func(*kv.MutateSpec)) subject { change(&s); return mutateOf(s) }
	flagged := func(m kv.MutateIn) subject { m.Key = key; return on("mutate-in", m) }
	attr := kv.MutateSpec{Op: memd.OpSubdocDictUpsert, Path: "x", Value: one, Xattr: true}
	body := kv.UpsertPath("a", one)
	for _, c := range []struct {
		op   subject
		text string
	}{
		{lookupOf(), "paths: are missing, 1 to 16 allowed"},
		{mutateOf(), "paths: are missing, 1 to 16 allowed"},
		{lookupOf(slices.Repeat([]kv.LookupSpec{kv.GetPath("a")}, 17)...), "number of paths is 17, limit 16"},
		{mutateOf(slices.Repeat([]kv.MutateSpec{body}, 17)...), "number of paths is 17, limit 16"},
		{
			lookupOf(kv.GetPath("a"), kv.LookupSpec{Op: memd.OpSubdocGet}),
			"path 1: is empty, which SUBDOC_GET does not take",
		},
		{lookupOf(kv.ExistsPath("")), "path 0: is empty"},
		{
			lookupOf(kv.LookupSpec{Op: memd.OpGet, Path: "a"}),
			"path 0: is not empty, but the command is for the whole document",
		},
		{lookupOf(kv.LookupSpec{Op: memd.OpSubdocDictAdd, Path: "a"}), "not one of its commands"},
		{lookupOf(kv.LookupSpec{Op: memd.OpSet}), "path 0: SET is not one of its commands"},
		{lookupOf(kv.GetPath(strings.Repeat("a", 1025))), "path 0 length is 1025, limit 1024"},
		{lookupOf(kv.LookupSpec{Op: memd.OpSubdocGet, Path: "a", Binary: true}), "path 0: is binary, which only"},
		{
			lookupOf(kv.LookupSpec{Op: memd.OpSubdocExists, Path: "a", Xattr: true, Binary: true}),
			"does not take the flag: binary",
		},
		{lookupOf(kv.LookupSpec{Op: memd.OpGet, Xattr: true}), "does not take the flag: xattr"},
		{
			on("lookup-in", kv.LookupIn{Key: key, Specs: []kv.LookupSpec{kv.GetPath("a")}, Replica: 4}),
			"replica is 4, limit 3",
		},
		{mutateOf(body, kv.InsertPath("", one)), "path 1: is empty"},
		{mutateOf(kv.UpsertPath("", one)), "path 0: is empty"},
		{mutateOf(kv.UpsertPath("a", nil)), "path 0: has no value"},
		{x(kv.RemovePath("a"), func(s *kv.MutateSpec) { s.Value = one }), "path 0: has a value"},
		{mutateOf(kv.MutateSpec{Op: memd.OpSubdocGet, Path: "a"}), "is not one of its commands"},
		{mutateOf(kv.MutateSpec{Op: memd.OpAppend, Path: "a"}), "is not one of its commands"},
		{
			x(body, func(s *kv.MutateSpec) { s.ExpandMacros = true }),
			"expands macros without being an extended attribute",
		},
		{
			x(attr, func(s *kv.MutateSpec) { s.ExpandMacros, s.Binary = true, true }),
			"is binary, which only an extended attribute without macros",
		},
		{
			x(kv.RemovePath("a"), func(s *kv.MutateSpec) { s.CreateParents = true }),
			"does not take the flag: create parents",
		},
		{
			x(kv.ArrayAddUnique("a", one), func(s *kv.MutateSpec) { s.Xattr, s.ExpandMacros = true, true }),
			"does not take the flag: expand macros",
		},
		{x(kv.ReplaceBody("a"), func(s *kv.MutateSpec) { s.Xattr = false }), "that is not an extended attribute"},
		{mutateOf(kv.RemovePath(""), body), "change the body beside its removal"},
		{flagged(kv.MutateIn{Specs: []kv.MutateSpec{body}, Store: 3}), "store semantics: are unknown"},
		{
			flagged(kv.MutateIn{Specs: []kv.MutateSpec{body}, Store: kv.StoreInsert, CAS: 1}),
			"cas: given for a document that must not exist",
		},
		{
			on("path-upsert", kv.MutatePath{Key: key, Spec: attr, CreateAsDeleted: true}),
			"create as deleted: needs upsert or insert",
		},
		{flagged(kv.MutateIn{Specs: []kv.MutateSpec{attr}, Revive: true}), "revive: needs access to deleted documents"},
		{flagged(kv.MutateIn{
			Specs: []kv.MutateSpec{attr}, Revive: true, AccessDeleted: true, CreateAsDeleted: true,
			Store: kv.StoreUpsert,
		}), "revive: given together with create as deleted"},
		{
			flagged(kv.MutateIn{Specs: []kv.MutateSpec{body}, PreserveExpiry: true, Expiry: kv.ExpireAfter(1e9)}),
			"preserve expiry: given together",
		},
		{flagged(kv.MutateIn{Specs: []kv.MutateSpec{body}, Expiry: kv.ExpireAfter(-1)}), "expiry: is negative"},
		{on("GET", kv.LookupPath{Key: key, Spec: kv.WholeDocument()}), "path 0: GET is not a request of its own"},
		{
			on("SUBDOC_MULTI_LOOKUP", kv.LookupPath{Key: key, Spec: kv.LookupSpec{Op: memd.OpSubdocMultiLookup}}),
			"not a request of its own",
		},
		{
			on("path-remove", kv.MutatePath{Key: key, Spec: kv.RemovePath("a"), Store: kv.StoreUpsert}),
			"SUBDOC_DELETE does not take them all",
		},
		{
			on("path-upsert", kv.MutatePath{Key: key, Spec: body, Store: kv.StoreUpsert, CreateAsDeleted: true}),
			"the path is one of the body",
		},
		{on("path-upsert", kv.MutatePath{Key: key, Spec: body, Revive: true}), "revive: needs access"},
	} {
		f := newFake(nil)
		_, err := c.op.do(testContext(t), f)
		e := kvError(t, err)
		require.ErrorContains(t, e, c.text)
		require.ErrorIs(t, e, cberr.InvalidArgument)
		require.Zero(t, f.dispatched.Load(), c.text)
	}
}

// K21: the error names the caller's index and path, whatever the order on the wire was.
func TestAPathThatFailsIsNamed(t *testing.T) {
	one := []byte("1")
	attr := func(path string) kv.MutateSpec {
		return kv.MutateSpec{Op: memd.OpSubdocDictUpsert, Path: path, Value: one, Xattr: true}
	}
	specs := []kv.MutateSpec{kv.UpsertPath("a", one), attr("x"), kv.RemovePath("b.c"), attr("y")}
	for place, want := range []int{1, 3, 0, 2} { // attributes first
		for _, st := range []memd.Status{memd.StatusSubdocMultiPathFailure, memd.StatusSubdocMultiPathFailureDeleted} {
			body := binary.BigEndian.AppendUint16([]byte{byte(place)}, uint16(memd.StatusSubdocPathNotFound))
			f := refusing(st, 0, string(body))
			_, err := kv.Do(testContext(t), f, kv.MutateIn{Key: []byte("k"), Specs: specs})
			e := kvError(t, err)
			require.ErrorIs(t, e, cberr.PathNotFound)
			require.Equal(t, "path_not_found", e.Kind())
			require.Equal(t, st, e.Status)
			require.False(t, e.Ambiguous(), "nothing was applied")
			var pe *kv.PathError
			require.ErrorAs(t, e, &pe)
			require.Equal(t, kv.PathError{
				Index: want, Path: specs[want].Path, Status: memd.StatusSubdocPathNotFound,
				Kind: cberr.PathNotFound,
			}, *pe)
			require.ErrorContains(t, e, fmt.Sprintf("path %d %q: path not found", want, specs[want].Path))
			js, err := json.Marshal(e)
			require.NoError(t, err)
			require.Contains(t, string(js), fmt.Sprintf(`"index":%d`, want))
		}
	}
	for _, body := range []string{"", "\x00", "\x00\x00", "\x04\x00\xc0", "\xff\xff\xff\xff"} {
		_, err := mutateOf(specs...).do(testContext(t), refusing(memd.StatusSubdocMultiPathFailure, 0, body))
		e := kvError(t, err)
		require.Equal(t, "couchbase", e.Kind(), "an answer that names no path of ours")
	}
}

func TestAPathOfItsOwnThatFailsIsNamed(t *testing.T) {
	f := refusing(memd.StatusSubdocPathMismatch, 0, "")
	_, err := kv.Do(testContext(t), f, kv.MutatePath{Key: []byte("k"), Spec: kv.UpsertPath("a.b", []byte("12"))})
	e := kvError(t, err)
	require.ErrorIs(t, e, cberr.PathMismatch)
	var pe *kv.PathError
	require.ErrorAs(t, e, &pe)
	require.Equal(t, "a.b", pe.Path)
	_, err = kv.Do(testContext(t), refusing(memd.StatusKeyNotFound, 0, ""), kv.LookupPath{
		Key:  []byte("k"),
		Spec: kv.GetPath("a"),
	})
	require.ErrorIs(t, err, cberr.DocumentNotFound)
	require.False(t, errors.As(err, &pe) && pe.Path == "a", "the document is missing, not its path")
}

// Every status that a path can have is typed; the table is the one of whole answers, but for the access to attributes.
func TestEveryPathStatusIsTyped_D99(t *testing.T) {
	want := map[memd.Status]*cberr.Kind{
		0xc0: cberr.PathNotFound, 0xc1: cberr.PathMismatch, 0xc2: cberr.PathInvalid, 0xc3: cberr.PathTooBig,
		0xc4: cberr.PathTooDeep,
		0xc5: cberr.ValueInvalid, 0xc6: cberr.DocumentNotJSON, 0xc7: cberr.NumberTooBig, 0xc8: cberr.DeltaInvalid,
		0xc9: cberr.PathExists,
		0xca: cberr.ValueTooDeep, 0xcb: cberr.InvalidArgument, 0xce: cberr.InvalidArgument,
		0xcf: cberr.XattrInvalidKeyCombo,
		0xd0: cberr.XattrUnknownMacro, 0xd1: cberr.XattrUnknownVirtualAttribute,
		0xd2: cberr.XattrCannotModifyVirtualAttribute,
		0xd4: cberr.InvalidArgument, 0xd5: cberr.XattrUnknownMacro, 0xd6: cberr.DocumentExists,
		0xd7: cberr.InvalidArgument, 0xd8: cberr.PathMismatch,
		0x24: cberr.XattrNoAccess, 0x87: cberr.InvalidArgument, 0x7f: cberr.Couchbase, 0xffff: cberr.Couchbase,
	}
	for st, kind := range want {
		value := append(binary.BigEndian.AppendUint16(nil, uint16(st)), 0, 0, 0, 0)
		f := answering(memd.Packet{Status: memd.StatusSubdocMultiPathFailure, Value: value})
		res, err := kv.Do(testContext(t), f, kv.LookupIn{Key: []byte("k"), Specs: []kv.LookupSpec{kv.GetPath("a")}})
		require.NoError(t, err, "one path's failure is its own")
		err = res.Paths[0].Err()
		require.ErrorIs(t, err, kind, "0x%x", uint16(st))
		require.Same(t, kind, cberr.KindOf(err))
		require.ErrorContains(t, err, fmt.Sprintf("0x%02x", uint16(st)), "D100: the number is in the text")
		exists, err := res.Paths[0].Exists()
		require.False(t, exists)
		require.Equal(t, st == memd.StatusSubdocPathNotFound, err == nil)
	}
	ok, err := kv.PathResult{}.Exists()
	require.True(t, ok)
	require.NoError(t, err)
}

func TestMalformedSubdocAnswers(t *testing.T) {
	lookup := lookupOf(kv.GetPath("a"), kv.GetPath("b"))
	whole := "\x00\x00\x00\x00\x00\x01x" + "\x00\x00\x00\x00\x00\x02yz"
	for n := range len(whole) {
		_, err := lookup.do(testContext(t), answering(memd.Packet{Value: []byte(whole[:n])}))
		require.ErrorIs(t, err, cberr.DecodingFailure)
		require.False(t, kvError(t, err).Ambiguous(), "a read changes nothing")
	}
	_, err := lookup.do(testContext(t), answering(memd.Packet{Value: []byte(whole + "!")}))
	require.ErrorIs(t, err, cberr.DecodingFailure)
	_, err = lookup.do(testContext(t), answering(memd.Packet{Value: []byte("\x00\x00\xff\xff\xff\xffx")}))
	require.ErrorIs(t, err, cberr.DecodingFailure)

	mutate := mutateOf(kv.IncrementPath("a", 1))
	for _, value := range []string{
		"\x00", "\x00\x00\x00\x00\x00\x00\x02x", "\x00\x00\x00\xff\xff\xff\xff",
		"\x01\x00\x00\x00\x00\x00\x01x",
	} {
		_, err := mutate.do(testContext(t), answering(memd.Packet{Value: []byte(value)}))
		require.ErrorIs(t, err, cberr.DecodingFailure, "%q", value)
		require.True(t, kvError(t, err).Ambiguous(), "the mutation was acknowledged")
	}
}

// B55: whatever the order of the specs, the server sees attributes first and the caller gets results in its own order.
func TestResultsComeInTheCallersOrder_B55(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, kv.MaxPaths).Draw(rt, "n")
		specs := make([]kv.LookupSpec, n)
		for i := range specs {
			specs[i] = kv.LookupSpec{Op: memd.OpSubdocGet, Path: fmt.Sprintf("p%d", i), Xattr: rapid.Bool().Draw(rt,
				"xattr")}
		}
		f := newFake(func(c *call.Call) {
			wire, err := wireOf(c, common)
			require.NoError(t, err)
			var p memd.Packet
			_, err = p.Parse(wire, 0)
			require.NoError(t, err)
			var value []byte
			bodies := false
			for tail := p.Value; len(tail) > 0; { // answers each path with its own name
				k := int(binary.BigEndian.Uint16(tail[2:]))
				attr := tail[1]&4 != 0
				require.False(t, attr && bodies, "attributes go first")
				bodies = bodies || !attr
				value = binary.BigEndian.AppendUint32(append(value, 0, 0), uint32(k))
				value = append(value, tail[4:4+k]...)
				tail = tail[4+k:]
			}
			c.Succeed(&memd.Packet{Opcode: p.Opcode, Value: value}, false)
		})
		res, err := kv.Do(testContext(t), f, kv.LookupIn{Key: []byte("k"), Specs: specs})
		require.NoError(t, err)
		for i, p := range res.Paths {
			require.Equal(t, specs[i].Path, p.Path)
			require.Equal(t, specs[i].Path, string(p.Value))
		}
	})
}

// B56: the CAS in a document is written least significant byte first.
func TestParseMacroCAS_B56(t *testing.T) {
	for text, want := range map[string]uint64{
		`"0x0100000000000000"`: 1, "0x0605040302010f17": 0x170f010203040506, `0xffffffffffffffff`: ^uint64(0),
	} {
		got, ok := kv.ParseMacroCAS(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "0x", "1", "0x01", "0x010000000000000g", "0x01000000000000000", `"17"`} {
		_, ok := kv.ParseMacroCAS(text)
		require.False(t, ok, text)
	}
}

// placesOf are the caller's indexes in the order of the wire: extended attributes go first.
func placesOf(xattrs ...bool) (places []int) {
	for _, first := range []bool{true, false} {
		for i, x := range xattrs {
			if x == first {
				places = append(places, i)
			}
		}
	}
	return places
}

// requireLooked judges the result of a lookup by the answer: a status, a length and a value for each path, in the order
// of the wire. Each is at its path's index, and nothing is left over.
func requireLooked(t *testing.T, specs []kv.LookupSpec, got []kv.PathResult, answer []byte) {
	xattrs := make([]bool, len(specs))
	for i, s := range specs {
		xattrs[i] = s.Xattr
	}
	require.Len(t, got, len(specs))
	for _, i := range placesOf(xattrs...) {
		n := 6 + int(binary.BigEndian.Uint32(answer[2:]))
		requirePath(t, got[i], i, specs[i].Path, memd.Status(binary.BigEndian.Uint16(answer)), answer[6:n])
		answer = answer[n:]
	}
	require.Empty(t, answer)
}

// requireChanged judges the result of a mutation by the answer: the place on the wire, a status, a length and a value
// for each path that has a result; the last for a place counts.
func requireChanged(t *testing.T, specs []kv.MutateSpec, got []kv.PathResult, answer []byte) {
	xattrs := make([]bool, len(specs))
	for i, s := range specs {
		xattrs[i] = s.Xattr
	}
	places := placesOf(xattrs...)
	require.Len(t, got, len(specs))
	want := make([]kv.PathResult, len(specs))
	for len(answer) > 0 {
		n := 7 + int(binary.BigEndian.Uint32(answer[3:]))
		p := &want[places[answer[0]]]
		p.Status, p.Value = memd.Status(binary.BigEndian.Uint16(answer[1:])), answer[7:n]
		answer = answer[n:]
	}
	for i, p := range want {
		requirePath(t, got[i], i, specs[i].Path, p.Status, p.Value)
	}
}

func requirePath(t *testing.T, p kv.PathResult, index int, path string, status memd.Status, value []byte) {
	require.Equal(t, path, p.Path)
	require.Equal(t, status, p.Status, path)
	require.Equal(t, string(value), string(p.Value), path)
	var e *kv.PathError
	if err := p.Err(); status == memd.StatusSuccess {
		require.NoError(t, err)
	} else {
		require.ErrorAs(t, err, &e)
		require.Equal(t, index, e.Index)
		require.Equal(t, path, e.Path)
	}
}

// FuzzSubdocAnswer (F11) gives lookups and mutations whatever a server could send. What is accepted is at its path's
// index, although attributes go first on the wire; so is the path that has failed.
func FuzzSubdocAnswer(f *testing.F) {
	f.Add(uint16(0), []byte("\x00\x00\x00\x00\x00\x01x\x00\x00\x00\x00\x00\x02yz\x00\xc0\x00\x00\x00\x00"))
	f.Add(uint16(0xcc), []byte("\x00\xc0\x00\x00\x00\x00"))
	f.Add(uint16(0xcc), []byte("\x02\x00\xc9"))
	f.Add(uint16(0), []byte("\x01\x00\x00\x00\x00\x00\x015\x02\x00\x00\x00\x00\x00\x02-1"))
	f.Add(uint16(0xcd), []byte("\x00\x00\xff\xff\xff\xff"))
	one := []byte("1")
	look := kv.LookupIn{Key: one, Specs: []kv.LookupSpec{kv.GetPath("a"), kv.GetXattr("x"), kv.CountPath("")}}
	mutate := kv.MutateIn{Key: one, Specs: []kv.MutateSpec{kv.IncrementPath("a", 1), {
		Op:   memd.OpSubdocDictUpsert,
		Path: "x", Value: one, Xattr: true,
	}, kv.UpsertPath("b", one)}}
	project := kv.Get{Key: one, Paths: []string{"a.b", "c[0]", "`d`"}, WithExpiry: true, WithFlags: true}
	f.Fuzz(func(t *testing.T, status uint16, value []byte) {
		d := newFake(func(c *call.Call) {
			give(c, &memd.Packet{Opcode: c.Req.Opcode, Status: memd.Status(status), Value: value})
		})
		check := func(err error) {
			var p *retry.PanicError
			if err != nil && (kvError(t, err).Error() == "" || errors.As(err, &p)) {
				t.Fatalf("%v", err)
			}
		}
		l, err := kv.Do(t.Context(), d, look)
		if check(err); err == nil {
			requireLooked(t, look.Specs, l.Paths, value)
		}
		m, err := kv.Do(t.Context(), d, mutate)
		var pe *kv.PathError
		switch check(err); {
		case err == nil:
			requireChanged(t, mutate.Specs, m.Paths, value)
		case errors.As(err, &pe):
			i := placesOf(false, true, false)[value[0]]
			require.Equal(t, i, pe.Index)
			require.Equal(t, mutate.Specs[i].Path, pe.Path)
			require.Equal(t, memd.Status(binary.BigEndian.Uint16(value[1:])), pe.Status)
		}
		g, err := kv.Do(t.Context(), d, project)
		if check(err); err == nil && len(g.Value) == 0 {
			t.Fatal("a projection is a document")
		}
	})
}

// specsOf draws up to 20 paths to look up: two bytes each say what is asked of which.
func specsOf(drawn []byte) (specs []kv.LookupSpec) {
	ops := []memd.Opcode{memd.OpSubdocGet, memd.OpSubdocExists, memd.OpSubdocGetCount, memd.OpGet, memd.OpSubdocCounter}
	for len(drawn) > 1 && len(specs) < 20 {
		s := kv.LookupSpec{Op: ops[int(drawn[0]>>2)%len(ops)], Xattr: drawn[0]&1 != 0, Binary: drawn[0]&2 != 0}
		if s.Op != memd.OpGet {
			s.Path = strings.Repeat(string(rune('a'+drawn[1]%26)), int(drawn[1]/26))
		}
		specs, drawn = append(specs, s), drawn[2:]
	}
	return specs
}

// FuzzSubdocSpecs (F11) gives lookups of any paths whatever a server could send. What is refused names a path or their
// number, and is not sent; what is accepted is at its path's index.
func FuzzSubdocSpecs(f *testing.F) {
	answer := func(n int) []byte { return bytes.Repeat([]byte("\x00\x00\x00\x00\x00\x01x"), n) }
	f.Add([]byte("\x00\x1b\x01\x1c\x04\x1d\x05\x1e"), uint16(0), answer(4))
	f.Add([]byte("\x0c\x00\x01\x20"), uint16(0xcc), []byte("\x00\xc0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(bytes.Repeat([]byte("\x01\x21"), 17), uint16(0), answer(17))
	f.Add([]byte("\x10\x1b"), uint16(0), answer(1))
	f.Add([]byte{}, uint16(0), []byte{})
	f.Fuzz(func(t *testing.T, drawn []byte, status uint16, value []byte) {
		look, sent := kv.LookupIn{Key: []byte("k"), Specs: specsOf(drawn)}, false
		d := newFake(func(c *call.Call) {
			sent = true
			give(c, &memd.Packet{Opcode: c.Req.Opcode, Status: memd.Status(status), Value: value})
		})
		l, err := kv.Do(t.Context(), d, look)
		var ae *kv.ArgumentError
		var pe *retry.PanicError
		switch {
		case err == nil:
			require.True(t, sent)
			requireLooked(t, look.Specs, l.Paths, value)
		case !sent:
			require.ErrorAs(t, err, &ae)
			require.Contains(t, ae.Field, "path")
		default:
			require.NotErrorAs(t, err, &pe)
			require.NotEmpty(t, kvError(t, err).Error())
		}
	})
}
