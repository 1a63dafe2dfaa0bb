package kv_test

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// attribute is a spec that writes an extended attribute.
func attribute(path, value string, more func(*kv.MutateSpec)) kv.MutateSpec {
	s := kv.MutateSpec{Op: memd.OpSubdocDictUpsert, Path: path, Value: []byte(value), Xattr: true, CreateParents: true}
	if more != nil {
		more(&s)
	}
	return s
}

func macro(s *kv.MutateSpec)   { s.ExpandMacros = true }
func asBytes(s *kv.MutateSpec) { s.CreateParents, s.Binary = false, true }

// Every virtual attribute says what the document's own answers say of it.
func TestVirtualAttributesOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		at := time.Now().Add(time.Hour).Truncate(time.Second)
		for _, c := range places {
			key, doc := []byte("k"), `{"a":1}`
			_, err := kv.Do(testContext(t), b, kv.Upsert{
				Common: c, Key: key, Value: []byte(doc), Flags: 0x02000006,
				Expiry: kv.ExpireAt(at),
			})
			require.NoError(t, err)
			put, err := kv.Do(testContext(t), b, kv.MutateIn{Common: c, Key: key, PreserveExpiry: true, Specs: []kv.MutateSpec{attribute("_sync", `1`, nil), attribute("mine", `{"x":2}`, nil)}})
			require.NoError(t, err)
			want := map[string]string{
				"CAS": fmt.Sprintf(`"0x%016x"`, put.CAS), "vbucket_uuid": fmt.Sprintf(`"0x%016x"`, put.Token.UUID), "seqno": fmt.Sprintf(`"0x%016x"`, put.Token.Seqno),
				"exptime": fmt.Sprint(at.Unix()), "flags": fmt.Sprint(0x02000006), "value_bytes": "7", "deleted": "false", "revid": `"2"`,
				"datatype": `["json","xattr"]`, "value_crc32c": fmt.Sprintf(`"0x%08x"`, crc32.Checksum([]byte(doc), crc32.MakeTable(crc32.Castagnoli))),
				"last_modified": fmt.Sprintf(`"%d"`, time.Now().Unix()),
			}
			specs := []kv.LookupSpec{
				kv.GetXattr(kv.XattrDocument), kv.GetXattr(kv.XattrNames),
				kv.GetXattr(kv.XattrVBucket), kv.GetXattr("mine.x"),
			}
			var names []string
			for name := range want {
				names = append(names, name)
				specs = append(specs, kv.GetXattr(kv.XattrDocument+"."+name))
			}
			res, err := kv.Do(testContext(t), b, kv.LookupIn{Common: c, Key: key, Specs: specs})
			require.NoError(t, err)
			var all map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(res.Paths[0].Value, &all))
			require.Len(t, all, len(want))
			require.JSONEq(t, `["_sync","mine"]`, string(res.Paths[1].Value))
			var clock struct{ HLC struct{ Now, Mode string } }
			require.NoError(t, json.Unmarshal(res.Paths[2].Value, &clock))
			require.Equal(t, "real", clock.HLC.Mode)
			require.NotEmpty(t, clock.HLC.Now)
			require.Equal(t, "2", string(res.Paths[3].Value))
			for i, name := range names {
				require.NoError(t, res.Paths[4+i].Err(), name)
				require.Equal(t, want[name], string(res.Paths[4+i].Value), name)
				require.JSONEq(t, want[name], string(all[name]), name)
			}
		}
	})
}

// Every macro stands for what the write brings about, or for the document as it was; attributes can be bytes.
func TestMacrosOnACluster_B56(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		for _, c := range places {
			key := []byte("k")
			before := insert(t, b, c, "k", `{"a":1}`)
			mutate := func(specs ...kv.MutateSpec) (kv.MutateInResult, error) {
				return kv.Do(testContext(t), b, kv.MutateIn{Common: c, Key: key, Specs: specs})
			}
			put, err := mutate(kv.ReplacePath("", []byte(`{"b":22}`)),
				attribute("m.cas", kv.MacroCAS, macro), attribute("m.seqno", kv.MacroSeqno, macro),
				attribute("m.crc", kv.MacroCRC32C, macro),
				attribute("m.was.cas", `"${$document.CAS}"`, macro), attribute("m.was.bytes", `"${$document.value_bytes}"`, macro),
				attribute("doc", `"${$document}"`, macro), attribute("raw", "\x00\xff", asBytes))
			require.NoError(t, err)
			res, err := kv.Do(testContext(t), b, kv.LookupIn{Common: c, Key: key, Specs: []kv.LookupSpec{
				kv.GetXattr("m.cas"), kv.GetXattr("m.seqno"), kv.GetXattr("m.crc"), kv.GetXattr("m.was.cas"),
				kv.GetXattr("m.was.bytes"), kv.GetXattr("doc.flags"),
				{Op: memd.OpSubdocGet, Path: "raw", Xattr: true, Binary: true},
			}})
			require.NoError(t, err)
			cas, ok := kv.ParseMacroCAS(string(res.Paths[0].Value))
			require.True(t, ok)
			require.Equal(t, put.CAS, cas)
			for i, want := range []string{
				fmt.Sprintf(`"0x%016x"`, put.Token.Seqno), fmt.Sprintf(`"0x%08x"`, crc32.Checksum([]byte(`{"b":22}`), crc32.MakeTable(crc32.Castagnoli))),
				fmt.Sprintf(`"0x%016x"`, before), "7", fmt.Sprint(0x02000006), "\x00\xff",
			} {
				require.NoError(t, res.Paths[i+1].Err(), i)
				require.Equal(t, want, string(res.Paths[i+1].Value), i)
			}
			for _, x := range []struct {
				specs []kv.MutateSpec
				kind  *cberr.Kind
			}{
				{[]kv.MutateSpec{attribute("m.x", `"${Mutation.nix}"`, macro)}, cberr.XattrUnknownMacro},
				{[]kv.MutateSpec{attribute("$document.x", `1`, nil)}, cberr.XattrCannotModifyVirtualAttribute},
				{[]kv.MutateSpec{attribute("longer-than-15-bytes", `1`, nil)}, cberr.InvalidArgument},
				{[]kv.MutateSpec{kv.ReplaceBody("nix")}, cberr.PathNotFound},
			} {
				_, err = mutate(x.specs...)
				require.ErrorIs(t, err, x.kind, "%+v", x.specs)
			}
			require.JSONEq(t, `{"b":22}`, read(t, b, c, "k"), "all or nothing")

			// An attribute becomes the body, and stays.
			_, err = mutate(attribute("next", `{"c":3}`, nil))
			require.NoError(t, err)
			_, err = mutate(kv.ReplaceBody("next"))
			require.NoError(t, err)
			require.JSONEq(t, `{"c":3}`, read(t, b, c, "k"))
			look, err := kv.Do(testContext(t), b, kv.LookupIn{
				Common: c, Key: key,
				Specs: []kv.LookupSpec{kv.GetXattr("next.c")},
			})
			require.NoError(t, err)
			require.Equal(t, "3", string(look.Paths[0].Value))
		}
	})
}
