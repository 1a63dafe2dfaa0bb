package kv_test

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// documents is a server with one document; it looks paths up in a table.
func documents(t testing.TB, doc string, found map[string]string) *fake {
	return newFake(func(c *call.Call) {
		wire, err := wireOf(c, common)
		require.NoError(t, err)
		var p memd.Packet
		_, err = p.Parse(wire, 0)
		require.NoError(t, err)
		require.Equal(t, memd.OpSubdocMultiLookup, p.Opcode)
		status := memd.StatusSuccess
		var value []byte
		for tail := p.Value; len(tail) > 0; {
			n := int(binary.BigEndian.Uint16(tail[2:]))
			op := memd.Opcode(tail[0])
			v, ok := found[string(tail[4:4+n])]
			tail = tail[4+n:]
			if op == memd.OpGet {
				v, ok = doc, true
			}
			st := memd.StatusSuccess
			if !ok {
				st, status = memd.StatusSubdocPathNotFound, memd.StatusSubdocMultiPathFailure
			}
			if v == "not json" {
				st, v, status = memd.StatusSubdocNotJSON, "", memd.StatusSubdocMultiPathFailure
			}
			value = binary.BigEndian.AppendUint16(value, uint16(st))
			value = binary.BigEndian.AppendUint32(value, uint32(len(v)))
			value = append(value, v...)
		}
		give(c, &memd.Packet{Opcode: p.Opcode, Status: status, CAS: cas, Value: value})
	})
}

// B62: nested paths, arrays and back-ticked names; what is missing is left out, arrays have no gaps.
func TestProjections_B62(t *testing.T) {
	const document = `{"name":"Ann","age":7,"addr":{"city":{"zip":9,"x":1},"no":4},"list":[0,{"a":1,"b":2},[5,6]],"a.b":{"c` + "`" + `d":true},"nil":null}`
	found := map[string]string{
		"name": `"Ann"`, "addr.city.zip": "9", "addr.city.x": "1", "addr.no": "4", "addr": `{"city":{"zip":9,"x":1},"no":4}`,
		"list[1].a": "1", "list[2][0]": "5", "list[0]": "0", "list[-1]": "[5,6]", "`a.b`": "{\"c`d\":true}",
		"`a.b`.`c``d`": "true", "nil": "null",
		"$document.exptime": "1610612736", "$document.flags": "33554438",
	}
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{"name"}, `{"name":"Ann"}`},
		{[]string{"name", "missing", "missing.too[3]"}, `{"name":"Ann"}`},
		{[]string{"missing"}, `{}`},
		{[]string{"addr.city.zip", "addr.no", "addr.city.x"}, `{"addr":{"city":{"zip":9,"x":1},"no":4}}`},
		{[]string{"addr.no", "addr"}, `{"addr":{"city":{"zip":9,"x":1},"no":4}}`},
		{[]string{"addr", "addr.no"}, `{"addr":{"city":{"zip":9,"x":1},"no":4}}`},
		{[]string{"list[2][0]", "list[0]", "list[1].a"}, `{"list":[0,{"a":1},[5]]}`},
		{[]string{"list[-1]", "list[0]"}, `{"list":[0,[5,6]]}`},
		{[]string{"`a.b`.`c``d`"}, "{\"a.b\":{\"c`d\":true}}"},
		{[]string{"nil", "name"}, `{"nil":null,"name":"Ann"}`},
	} {
		// Found by the server, and cut out of the whole document when there are too many paths.
		for _, more := range []int{0, kv.MaxPaths} {
			paths := append([]string(nil), c.paths...)
			for range more {
				paths = append(paths, "missing")
			}
			d := documents(t, document, found)
			res, err := kv.Do(testContext(t), d, kv.Get{
				Key: []byte("k"), Paths: paths, WithExpiry: true,
				WithFlags: true,
			})
			require.NoError(t, err)
			require.Equal(t, c.want, string(res.Value), "%v with %d more", c.paths, more)
			require.True(t, json.Valid(res.Value))
			require.Equal(t, time.Unix(1610612736, 0), res.Expiry())
			require.EqualValues(t, 0x02000006, res.Flags)
			require.Equal(t, memd.DatatypeJSON, res.Datatype)
			require.Equal(t, uint64(cas), res.CAS)
			require.EqualValues(t, 1, d.dispatched.Load(), "one request in either case")
		}
	}
}

func TestAProjectionAsksForPathsWhileThereIsRoom(t *testing.T) {
	for n := range 20 {
		for fixed := range 3 {
			op := kv.Get{Key: []byte("k"), WithExpiry: fixed > 0, WithFlags: fixed > 1}
			for range n {
				op.Paths = append(op.Paths, "a")
			}
			if n == 0 && fixed != 1 {
				continue
			}
			wire, err := on("", op).encoded(common)
			require.NoError(t, err)
			whole := strings.Contains(string(wire), "\x00\x00\x00\x00\x00") && wire[len(wire)-1] == 0 &&
				wire[len(wire)-4] == 0
			require.Equal(t, n == 0 || n+fixed > kv.MaxPaths, whole, "%d paths and %d more", n, fixed)
		}
	}
}

func TestAReadWithExpiry(t *testing.T) {
	d := documents(t, "any bytes", map[string]string{"$document.exptime": "0", "$document.flags": "50331650"})
	into := append(make([]byte, 0, 64), "head:"...)
	res, err := kv.Do(testContext(t), d, kv.Get{Key: []byte("k"), WithExpiry: true, Into: into})
	require.NoError(t, err)
	require.Equal(t, "head:any bytes", string(res.Value))
	require.True(t, res.Expiry().IsZero())
	require.EqualValues(t, 0x03000002, res.Flags)

	_, err = kv.Do(testContext(t), documents(t, "", nil), kv.Get{Key: []byte("k"), WithExpiry: true})
	require.ErrorIs(t, err, cberr.PathNotFound, "a server without the virtual attribute")
	_, err = kv.Do(testContext(t), refusing(memd.StatusKeyNotFound, 0, ""), kv.Get{Key: []byte("k"), WithExpiry: true})
	require.ErrorIs(t, err, cberr.DocumentNotFound)
	require.Equal(t, "get", kvError(t, err).Op, "to the caller it is a read")
}

func TestAProjectionOfSomethingElseThanJSON(t *testing.T) {
	_, err := kv.Do(testContext(t), documents(t, "", map[string]string{"a": "not json"}), kv.Get{
		Key:   []byte("k"),
		Paths: []string{"a"},
	})
	require.ErrorIs(t, err, cberr.DocumentNotJSON)
	require.NotErrorIs(t, err, cberr.DecodingFailure)
	many := strings.Split(strings.Repeat("a,", 17)+"a", ",")
	_, err = kv.Do(testContext(t), documents(t, "{", map[string]string{"$document.flags": "0"}),
		kv.Get{Key: []byte("k"), Paths: many})
	require.ErrorIs(t, err, cberr.DocumentNotJSON)
}

// B61: which paths are paths.
func TestPathsOfProjections_B61(t *testing.T) {
	for _, path := range []string{
		"x.y.z", "[1]", "x[1]", "a.x[1].z", "x[-1]", "`a.b`[0]", "`back``tick`", "a.`b`.c",
		strings.Repeat("a.", 31) + "a",
	} {
		_, err := on("", kv.Get{Key: []byte("k"), Paths: []string{path}}).encoded(common)
		require.NoError(t, err, path)
	}
	for _, path := range []string{
		"", "x..z", "x[1]]", "x]", "x.", ".", "x[", "x[a]", "x[-2]", "`x", "x`y`", "[1]x",
		"x[1", strings.Repeat("a.", 32) + "a",
	} {
		_, err := on("", kv.Get{Key: []byte("k"), Paths: []string{path}}).encoded(common)
		require.ErrorIs(t, err, cberr.InvalidArgument, path)
	}
}

// FuzzProjection: whatever is asked for and found, a projection is one JSON document.
func FuzzProjection(f *testing.F) {
	f.Add("a.b", "a", "a[1]", `{"a":{"b":1}}`)
	f.Add("a[0][1].b", "a[0]", "`x.y`", `{"a":[[0,{"b":2}]]}`)
	f.Add("[0]", "[-1]", "a", `[1,2]`)
	f.Fuzz(func(t *testing.T, one, two, three, doc string) {
		paths := []string{one, two, three}
		if !json.Valid([]byte(doc)) {
			return
		}
		for len(paths) <= kv.MaxPaths {
			paths = append(paths, one)
		}
		d := newFake(func(c *call.Call) {
			value := append([]byte{0, 0, 0, 0, 0, 1, '0', 0, 0}, binary.BigEndian.AppendUint32(nil,
				uint32(len(doc)))...)
			give(c, &memd.Packet{Opcode: c.Req.Opcode, Value: append(value, doc...)})
		})
		res, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("k"), Paths: paths})
		if err != nil {
			require.NotEmpty(t, kvError(t, err).Error())
			return
		}
		if !json.Valid(res.Value) {
			t.Fatalf("%q of %q is %q", paths[:3], doc, res.Value)
		}
	})
}
