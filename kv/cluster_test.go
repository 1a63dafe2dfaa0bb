package kv_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// onCluster runs f in a bubble with a cluster of three nodes with two replicas and a client.
func onCluster(t *testing.T, f func(t *testing.T, m *mock.Cluster, b *core.Bucket), bucket ...mock.BucketOption) {
	t.Helper()
	bucket = append(bucket, mock.WithCollection("s", "c"))
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(2), mock.Bucket("default", 16, bucket...), mock.Virtual())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(testContext(t)))
		f(t, m, b)
	})
}

// places are the collections in which operations are tried.
var places = []kv.Common{{}, {Scope: "s", Collection: "c"}}

func insert(t *testing.T, b *core.Bucket, c kv.Common, key, doc string) uint64 {
	t.Helper()
	res, err := kv.Do(testContext(t), b, kv.Upsert{
		Common: c, Key: []byte(key), Value: []byte(doc), Flags: 0x02000006,
		Datatype: memd.DatatypeJSON,
	})
	require.NoError(t, err)
	return res.CAS
}

func read(t *testing.T, b *core.Bucket, c kv.Common, key string) string {
	t.Helper()
	res, err := kv.Do(testContext(t), b, kv.Get{Common: c, Key: []byte(key)})
	require.NoError(t, err)
	return string(res.Value)
}

// B54: each command on a path of the document and on one of an attribute, present and missing.
func TestSubdocOnACluster_B54(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		for _, c := range places {
			for _, attr := range []bool{false, true} {
				const doc = `{"s":"x","n":5,"l":[1,2],"o":{"a":1}}`
				for i, x := range []struct {
					spec kv.MutateSpec
					want string // of the part below the root, or nothing when it fails
					kind *cberr.Kind
				}{
					{kv.InsertPath("m.new", []byte("1")), `{"s":"x","n":5,"l":[1,2],"o":{"a":1},"new":1}`, nil},
					{kv.InsertPath("m.s", []byte("1")), "", cberr.PathExists},
					{kv.InsertPath("m.p.q", []byte("1")), "", cberr.PathNotFound},
					{kv.UpsertPath("m.s", []byte(`"y"`)), `{"s":"y","n":5,"l":[1,2],"o":{"a":1}}`, nil},
					{kv.ReplacePath("m.n", []byte("6")), `{"s":"x","n":6,"l":[1,2],"o":{"a":1}}`, nil},
					{kv.ReplacePath("m.no", []byte("6")), "", cberr.PathNotFound},
					{kv.RemovePath("m.s"), `{"n":5,"l":[1,2],"o":{"a":1}}`, nil},
					{kv.RemovePath("m.no"), "", cberr.PathNotFound},
					{kv.ArrayAppend("m.l", []byte("3,4")), `{"s":"x","n":5,"l":[1,2,3,4],"o":{"a":1}}`, nil},
					{kv.ArrayAppend("m.o", []byte("3")), "", cberr.PathMismatch},
					{kv.ArrayPrepend("m.l", []byte("0")), `{"s":"x","n":5,"l":[0,1,2],"o":{"a":1}}`, nil},
					{kv.ArrayInsert("m.l[1]", []byte("9")), `{"s":"x","n":5,"l":[1,9,2],"o":{"a":1}}`, nil},
					{kv.ArrayInsert("m.l[7]", []byte("9")), "", cberr.PathNotFound},
					{kv.ArrayAddUnique("m.l", []byte("3")), `{"s":"x","n":5,"l":[1,2,3],"o":{"a":1}}`, nil},
					{kv.ArrayAddUnique("m.l", []byte("2")), "", cberr.PathExists},
					{kv.IncrementPath("m.n", 7), `{"s":"x","n":12,"l":[1,2],"o":{"a":1}}`, nil},
					{kv.IncrementPath("m.c", -3), `{"s":"x","n":5,"l":[1,2],"o":{"a":1},"c":-3}`, nil},
					{kv.IncrementPath("m.s", 1), "", cberr.PathMismatch},
					{kv.UpsertPath("m.s", []byte(`{`)), "", cberr.ValueInvalid},
					{kv.UpsertPath("m..s", []byte(`1`)), "", cberr.PathInvalid},
				} {
					key := fmt.Appendf(nil, "%s-%v-%d", c.Scope, attr, i)
					insert(t, b, c, string(key), `{"m":`+doc+`}`)
					if attr {
						_, err := kv.Do(testContext(t), b, kv.MutateIn{
							Common: c, Key: key,
							Specs: []kv.MutateSpec{{
								Op: memd.OpSubdocDictUpsert, Path: "m", Value: []byte(doc),
								Xattr: true,
							}},
						})
						require.NoError(t, err)
					}
					spec := x.spec
					spec.Xattr = attr
					res, err := kv.Do(testContext(t), b, kv.MutateIn{Common: c, Key: key, Specs: []kv.MutateSpec{spec}})
					if x.kind != nil {
						require.ErrorIs(t, err, x.kind, "%d %s, attribute %v", i, spec.Path, attr)
						var pe *kv.PathError
						require.ErrorAs(t, err, &pe)
						require.Equal(t, spec.Path, pe.Path)
						continue
					}
					require.NoError(t, err, "%d %s, attribute %v", i, spec.Path, attr)
					require.False(t, res.Token.IsZero())
					look, err := kv.Do(testContext(t), b, kv.LookupIn{
						Common: c, Key: key,
						Specs: []kv.LookupSpec{{Op: memd.OpSubdocGet, Path: "m", Xattr: attr}},
					})
					require.NoError(t, err)
					require.NoError(t, look.Paths[0].Err())
					require.JSONEq(t, x.want, string(look.Paths[0].Value), "%d", i)
					require.Equal(t, res.CAS, look.CAS)
					if spec.Op == memd.OpSubdocCounter {
						require.NotEmpty(t, res.Paths[0].Value)
					}
				}
			}
		}
	})
}

func TestLookupOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		key := []byte("k")
		stored := insert(t, b, kv.Common{}, "k", `{"a":{"b":[1,2,{"c":"x"}]},"a.b":7}`)
		res, err := kv.Do(testContext(t), b, kv.LookupIn{Key: key, Specs: []kv.LookupSpec{
			kv.GetPath("a.b[2].c"), kv.GetXattr("$document"), kv.ExistsPath("no"), kv.CountPath("a.b"),
			kv.GetPath("`a.b`"), kv.WholeDocument(), kv.GetPath("a.b[-1]"),
		}})
		require.NoError(t, err)
		require.Equal(t, `"x"`, string(res.Paths[0].Value))
		var doc struct {
			CAS     string `json:"CAS"`
			Flags   uint32 `json:"flags"`
			Deleted bool   `json:"deleted"`
		}
		require.NoError(t, json.Unmarshal(res.Paths[1].Value, &doc))
		require.Equal(t, fmt.Sprintf("0x%016x", stored), doc.CAS)
		require.EqualValues(t, 0x02000006, doc.Flags)
		exists, err := res.Paths[2].Exists()
		require.NoError(t, err)
		require.False(t, exists)
		require.Equal(t, "3", string(res.Paths[3].Value))
		require.Equal(t, "7", string(res.Paths[4].Value))
		require.JSONEq(t, `{"a":{"b":[1,2,{"c":"x"}]},"a.b":7}`, string(res.Paths[5].Value))
		require.JSONEq(t, `{"c":"x"}`, string(res.Paths[6].Value))
		res, err = kv.Do(testContext(t), b, kv.LookupIn{Key: key, Specs: []kv.LookupSpec{
			kv.GetXattr("$nope"),
			kv.GetPath("a"),
		}})
		require.NoError(t, err)
		require.ErrorIs(t, res.Paths[0].Err(), cberr.XattrUnknownVirtualAttribute)
		require.NoError(t, res.Paths[1].Err())

		_, err = kv.Do(testContext(t), b, kv.LookupIn{Key: []byte("missing"), Specs: []kv.LookupSpec{kv.GetPath("a")}})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		one, err := kv.Do(testContext(t), b, kv.LookupPath{Key: key, Spec: kv.CountPath("a.b")})
		require.NoError(t, err)
		require.Equal(t, "3", string(one.Paths[0].Value))
		_, err = kv.Do(testContext(t), b, kv.LookupPath{Key: key, Spec: kv.GetPath("no")})
		require.ErrorIs(t, err, cberr.PathNotFound)
		single, err := kv.Do(testContext(t), b, kv.MutatePath{Key: key, Spec: kv.IncrementPath("n", 3)})
		require.NoError(t, err)
		require.Equal(t, "3", string(single.Paths[0].Value))
		require.False(t, single.Token.IsZero())
	})
}

// B37, K21: store semantics, CAS, whole documents, macros, tombstones.
func TestMutationsOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		key, one := []byte("k"), []byte("1")
		do := func(m kv.MutateIn) (kv.MutateInResult, error) { m.Key = key; return kv.Do(testContext(t), b, m) }
		body := []kv.MutateSpec{kv.UpsertPath("a", one)}
		_, err := do(kv.MutateIn{Specs: body})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		_, err = do(kv.MutateIn{Specs: body, Store: kv.StoreUpsert})
		require.NoError(t, err)
		require.Equal(t, `{"a":1}`, read(t, b, kv.Common{}, "k"))
		_, err = do(kv.MutateIn{Specs: body, Store: kv.StoreInsert})
		require.ErrorIs(t, err, cberr.DocumentExists)
		_, err = do(kv.MutateIn{Specs: body, CAS: 77})
		require.ErrorIs(t, err, cberr.CASMismatch, "B37")

		// The whole document beside an attribute, with macros (B56).
		res, err := do(kv.MutateIn{Specs: []kv.MutateSpec{
			kv.ReplacePath("", []byte(`{"new":true}`)),
			{
				Op: memd.OpSubdocDictUpsert, Path: "meta.cas", Value: []byte(kv.MacroCAS), Xattr: true,
				CreateParents: true, ExpandMacros: true,
			},
			{
				Op: memd.OpSubdocDictUpsert, Path: "meta.seqno", Value: []byte(kv.MacroSeqno), Xattr: true,
				ExpandMacros: true,
			},
			{
				Op: memd.OpSubdocDictUpsert, Path: "meta.crc", Value: []byte(kv.MacroCRC32C), Xattr: true,
				ExpandMacros: true,
			},
		}})
		require.NoError(t, err)
		look, err := kv.Do(testContext(t), b, kv.LookupIn{Key: key, Specs: []kv.LookupSpec{
			kv.WholeDocument(),
			kv.GetXattr("meta.cas"), kv.GetXattr("meta.seqno"), kv.GetXattr("meta.crc"),
		}})
		require.NoError(t, err)
		require.Equal(t, `{"new":true}`, string(look.Paths[0].Value))
		parsed, ok := kv.ParseMacroCAS(string(look.Paths[1].Value))
		require.True(t, ok, "%s", look.Paths[1].Value)
		require.Equal(t, res.CAS, parsed, "B56: the text is the mutation's CAS")
		require.Equal(t, fmt.Sprintf(`"0x%016x"`, res.Token.Seqno), string(look.Paths[2].Value))
		require.Regexp(t, `^"0x[0-9a-f]{8}"$`, string(look.Paths[3].Value))

		// Its removal, and the tombstone (B58).
		_, err = do(kv.MutateIn{Specs: []kv.MutateSpec{kv.RemovePath(""), {
			Op: memd.OpSubdocDictUpsert, Path: "_sys",
			Value: one, Xattr: true,
		}}})
		require.NoError(t, err)
		dead := kv.LookupIn{Key: key, Specs: []kv.LookupSpec{kv.GetXattr("_sys")}}
		_, err = kv.Do(testContext(t), b, dead)
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		dead.AccessDeleted = true
		look, err = kv.Do(testContext(t), b, dead)
		require.NoError(t, err)
		require.True(t, look.Deleted)
		require.Equal(t, "1", string(look.Paths[0].Value))
	})
}

// K39, B58, B59: what transactions do: a tombstone with a staged document, which then becomes the document.
func TestStagingOnACluster_B58_B59(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		key := []byte("k")
		do := func(m kv.MutateIn) (kv.MutateInResult, error) { m.Key = key; return kv.Do(testContext(t), b, m) }
		staged := kv.MutateSpec{Op: memd.OpSubdocDictUpsert, Path: "txn.staged", Value: []byte(`{"v":1}`), Xattr: true, CreateParents: true}
		res, err := do(kv.MutateIn{
			Specs: []kv.MutateSpec{staged}, Store: kv.StoreInsert, AccessDeleted: true,
			CreateAsDeleted: true,
		})
		require.NoError(t, err)
		require.True(t, res.Deleted)
		got, err := kv.Do(testContext(t), b, kv.Exists{Key: key})
		require.NoError(t, err)
		require.False(t, got.Exists)
		meta, err := kv.Do(testContext(t), b, kv.GetMeta{Key: key})
		require.NoError(t, err)
		require.True(t, meta.Deleted)
		_, err = do(kv.MutateIn{
			Specs: []kv.MutateSpec{kv.ReplaceBody("txn.staged")}, AccessDeleted: true, Revive: true,
			CAS: res.CAS,
		})
		require.NoError(t, err)
		require.Equal(t, `{"v":1}`, read(t, b, kv.Common{}, "k"))
		_, err = do(kv.MutateIn{Specs: []kv.MutateSpec{staged}, AccessDeleted: true, Revive: true})
		require.Equal(t, memd.StatusSubdocCanOnlyReviveDeleted, kvError(t, err).Status, "it is alive already")
	})
}

// B40: an expiry is kept by every operation that says so, and set by those that say that.
func TestExpiriesOnACluster_B40(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		at := time.Now().Add(time.Hour).Truncate(time.Second)
		expiry := func(key string) time.Time {
			res, err := kv.Do(testContext(t), b, kv.Get{Key: []byte(key), WithExpiry: true})
			require.NoError(t, err)
			return res.Expiry()
		}
		fresh := func(key, value string) []byte {
			_, err := kv.Do(testContext(t), b, kv.Upsert{
				Key: []byte(key), Value: []byte(value),
				Expiry: kv.ExpireAt(at),
			})
			require.NoError(t, err)
			require.True(t, at.Equal(expiry(key)))
			return []byte(key)
		}
		v := []byte("1")
		for name, op := range map[string]func(key []byte, keep bool) error{
			"upsert": func(k []byte, keep bool) error {
				_, err := kv.Do(testContext(t), b, kv.Upsert{Key: k, Value: v, PreserveExpiry: keep})
				return err
			},
			"replace": func(k []byte, keep bool) error {
				_, err := kv.Do(testContext(t), b, kv.Replace{Key: k, Value: v, PreserveExpiry: keep})
				return err
			},
			"append": func(k []byte, keep bool) error {
				_, err := kv.Do(testContext(t), b, kv.Append{Key: k, Value: v, PreserveExpiry: true})
				return err
			},
			"prepend": func(k []byte, keep bool) error {
				_, err := kv.Do(testContext(t), b, kv.Prepend{Key: k, Value: v, PreserveExpiry: true})
				return err
			},
			"increment": func(k []byte, keep bool) error {
				_, err := kv.Do(testContext(t), b, kv.Increment{Key: k, Delta: 1, PreserveExpiry: true})
				return err
			},
			"mutate-in": func(k []byte, keep bool) error {
				_, err := kv.Do(testContext(t), b, kv.MutateIn{
					Key: k, Specs: []kv.MutateSpec{kv.ReplacePath("", v)},
					PreserveExpiry: keep,
				})
				return err
			},
		} {
			key := fresh(name, "5")
			require.NoError(t, op(key, true), name)
			require.True(t, at.Equal(expiry(name)), "%s keeps it", name)
		}
		require.NoError(t, func() error {
			_, err := kv.Do(testContext(t), b, kv.Upsert{Key: fresh("u", "1"), Value: v})
			return err
		}())
		require.True(t, expiry("u").IsZero(), "an upsert without a word removes it")
		// Relative expiries of 30 days and more are sent as points in time.
		_, err := kv.Do(testContext(t), b, kv.Upsert{
			Key: []byte("far"), Value: v,
			Expiry: kv.ExpireAfter(60 * 24 * time.Hour),
		})
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(60*24*time.Hour), expiry("far"), time.Second)
		// B36
		_, err = kv.Do(testContext(t), b, kv.Touch{Key: []byte("u"), Expiry: kv.ExpireAfter(2 * time.Second)})
		require.NoError(t, err)
		time.Sleep(4 * time.Second)
		_, err = kv.Do(testContext(t), b, kv.Get{Key: []byte("u")})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
	})
}

// B62, K2 on a cluster: few paths and many give the same document.
func TestProjectionsOnACluster(t *testing.T) {
	onCluster(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		for _, c := range places {
			insert(t, b, c, "k", `{"a":{"b":1,"c":[10,20,{"d":"x"}]},"e":"f","g.h":2}`)
			paths := []string{"a.c[2].d", "a.b", "`g.h`", "missing", "a.c[0]"}
			sixteen, err := kv.Do(testContext(t), b, kv.Get{
				Common: c, Key: []byte("k"), Paths: paths, WithExpiry: true,
				WithFlags: true,
			})
			require.NoError(t, err)
			require.JSONEq(t, `{"a":{"c":[10,{"d":"x"}],"b":1},"g.h":2}`, string(sixteen.Value))
			require.EqualValues(t, 0x02000006, sixteen.Flags)
			many, err := kv.Do(testContext(t), b, kv.Get{
				Common: c, Key: []byte("k"),
				Paths: append(paths, strings.Split("m,n,o,p,q,r,s,t,u,v,w,x,y", ",")...),
			})
			require.NoError(t, err)
			require.Equal(t, string(sixteen.Value), string(many.Value))
			require.Equal(t, sixteen.CAS, many.CAS)
		}
	})
}
