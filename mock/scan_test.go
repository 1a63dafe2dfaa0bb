package mock_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func scanPacket(value string) memd.Packet {
	return memd.Packet{Opcode: memd.OpRangeScanCreate, Datatype: memd.DatatypeJSON, Value: []byte(value)}
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func scanJSON(from, to, more string) string {
	return fmt.Sprintf(`{"range":{"start":"%s","end":"%s"}%s}`, b64(from), b64(to), more)
}

func continuePacket(id []byte, items, bytes uint32) memd.Packet {
	x := binary.BigEndian.AppendUint32(slices.Clone(id), items)
	x = binary.BigEndian.AppendUint32(x, 0)
	return memd.Packet{Opcode: memd.OpRangeScanContinue, Extras: binary.BigEndian.AppendUint32(x, bytes)}
}

// scanned is one item of a scan.
type scanned struct {
	key, value string
	datatype   memd.Datatype
	cas        uint64
}

func scanItems(t testing.TB, p memd.Packet) (out []scanned) {
	t.Helper()
	require.Len(t, p.Extras, 4)
	take := func(v []byte) (string, []byte) {
		n, tail, err := memd.ParseLEB128(v)
		require.NoError(t, err)
		return string(tail[:n]), tail[n:]
	}
	for v := p.Value; len(v) > 0; {
		var it scanned
		if p.Extras[3] == 1 {
			it.cas, it.datatype = binary.BigEndian.Uint64(v[16:]), memd.Datatype(v[24])
			v = v[25:]
		}
		it.key, v = take(v)
		if p.Extras[3] == 1 {
			it.value, v = take(v)
		}
		out = append(out, it)
	}
	return out
}

// proceed sends a CONTINUE and reads its packets.
func (r *raw) proceed(id []byte, items, bytes uint32) (out []scanned, packets int, last memd.Status) {
	r.t.Helper()
	r.send(continuePacket(id, items, bytes))
	for {
		p := r.next(memd.OpRangeScanContinue, r.opaque)
		packets++
		if p.Status != memd.StatusSuccess && !p.Status.CarriesPayload() {
			return out, packets, p.Status
		}
		out = append(out, scanItems(r.t, p)...)
		if p.Status != memd.StatusSuccess {
			return out, packets, p.Status
		}
	}
}

func keysOf(items []scanned) string {
	var ks []string
	for _, it := range items {
		ks = append(ks, it.key)
	}
	return strings.Join(ks, " ")
}

func TestRangeScan(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1, mock.WithCollection("s", "c")))
	r := login(t, c, append([]memd.Feature{memd.FeatureSnappy}, subdocFeatures...)...)
	for _, k := range []string{"b", "a", "ab", "c", "d"} {
		r.set(k, `"`+k+`"`)
	}
	require.Equal(t, memd.StatusSuccess, r.call(mutatePacket("ab", 0, ps{
		memd.OpSubdocDictUpsert, fXattr, "x",
		"1",
	})).Status)
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{Opcode: memd.OpDelete, Key: docKey("d")}).Status)
	in := storePacket(memd.OpSet, "", "in")
	in.Key = inCollection(8, []byte("b"))
	require.Equal(t, memd.StatusSuccess, r.call(in).Status)
	excl := fmt.Sprintf(`{"range":{"excl_start":"%s","excl_end":"%s"}}`, b64("a"), b64("c"))
	for value, want := range map[string]string{
		scanJSON("a", "b", ""):                   "a ab b",
		scanJSON("\x00", "\xff", `,"other":[1]`): "a ab b c",
		scanJSON("a", "a\xff", ""):               "a ab",
		excl:                                     "ab b",
		scanJSON("", "\xff", `,"collection":"8","key_only":true`): "b",
	} {
		p := r.call(scanPacket(value))
		require.Equal(t, memd.StatusSuccess, p.Status, value)
		require.Len(t, p.Value, 16)
		require.Equal(t, 1, c.Scans("default"))
		items, _, last := r.proceed(p.Value, 0, 0)
		require.Equal(t, memd.StatusRangeScanComplete, last)
		require.Equal(t, want, keysOf(items), value)
		require.Zero(t, c.Scans("default"))
		_, _, last = r.proceed(p.Value, 0, 0)
		require.Equal(t, memd.StatusKeyNotFound, last, "it is forgotten")
	}
	p := r.call(scanPacket(scanJSON("a", "b", `,"include_xattrs":true`)))
	items, _, _ := r.proceed(p.Value, 2, 0)
	require.Equal(t, "a ab", keysOf(items))
	require.Equal(t, `"a"`, items[0].value)
	require.Equal(t, memd.DatatypeJSON, items[0].datatype)
	require.Equal(t, r.call(getPacket("a")).CAS, items[0].cas)
	require.Equal(t, memd.DatatypeJSON|memd.DatatypeXattr, items[1].datatype)
	r.set("b", "changed later")
	items, _, last := r.proceed(p.Value, 2, 0)
	require.Equal(t, memd.StatusRangeScanComplete, last)
	require.Equal(t, `"b"`, items[0].value, "the scan sees what was there when it was made")

	require.Equal(t, memd.StatusSuccess,
		r.call(packedPacket(memd.OpSet, "a", snappy.Encode(nil, []byte("{}")))).Status)
	p = r.call(scanPacket(scanJSON("a", "a", "")))
	items, _, _ = r.proceed(p.Value, 0, 0)
	require.Equal(t, memd.DatatypeJSON|memd.DatatypeSnappy, items[0].datatype)
}

func TestRangeScanLimits(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 1))
	r := login(t, c, baseFeatures...)
	for i := range 100 {
		r.set(fmt.Sprintf("k%02d", i), strings.Repeat("x", 1000))
	}
	create := func() []byte {
		p := r.call(scanPacket(scanJSON("k", "l", "")))
		require.Equal(t, memd.StatusSuccess, p.Status)
		return p.Value
	}
	id := create()
	items, packets, last := r.proceed(id, 1, 0)
	require.Equal(t, []any{1, 1, memd.StatusRangeScanMore}, []any{len(items), packets, last})
	items, _, last = r.proceed(id, 0, 1)
	require.Equal(t, []any{1, memd.StatusRangeScanMore}, []any{len(items), last}, "one item at least")
	items, _, _ = r.proceed(id, 0, 2500)
	require.Len(t, items, 3)
	items, packets, last = r.proceed(id, 0, 0)
	require.Equal(t, []any{95, memd.StatusRangeScanComplete}, []any{len(items), last})
	require.InDelta(t, 12, packets, 1, "a packet for each 8 KiB")
	id = create()
	items, _, last = r.proceed(id, 100, 0)
	require.Equal(t, []any{100, memd.StatusRangeScanComplete}, []any{len(items), last})

	sample := func(n int, seed int) string {
		p := r.call(scanPacket(fmt.Sprintf(`{"key_only":true,"sampling":{"samples":%d,"seed":%d}}`, n, seed)))
		require.Equal(t, memd.StatusSuccess, p.Status)
		items, _, last := r.proceed(p.Value, 0, 0)
		require.Equal(t, memd.StatusRangeScanComplete, last)
		require.Len(t, items, min(n, 100))
		return keysOf(items)
	}
	first := sample(10, 1)
	require.Equal(t, first, sample(10, 1))
	require.NotEqual(t, sample(10, 1), sample(10, 2))
	sample(1000, 1)

	require.NoError(t, c.SetScanLimit("default", 2))
	a, b := create(), create()
	require.Equal(t, memd.StatusBusy, r.call(scanPacket(scanJSON("k", "l", ""))).Status)
	cancel := memd.Packet{Opcode: memd.OpRangeScanCancel, Extras: a}
	require.Equal(t, memd.StatusSuccess, r.call(cancel).Status)
	require.Equal(t, memd.StatusKeyNotFound, r.call(cancel).Status)
	other := login(t, c, baseFeatures...)
	_, _, last = other.proceed(b, 0, 0)
	require.Equal(t, memd.StatusKeyNotFound, last, "a scan lives on its connection")
	r.nc.Close()
	require.Eventually(t, func() bool { return c.Scans("default") == 0 }, patience, time.Millisecond)
	require.NoError(t, c.SetScanLimit("default", 0))
	require.Error(t, c.SetScanLimit("none", 0))
}

func TestRangeScansThatAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual(), mock.Bucket("default", 1))
		r := login(t, c, baseFeatures...)
		for i := range 30 {
			r.set(fmt.Sprintf("k%02d", i), strings.Repeat("x", 1000))
		}
		require.NoError(t, c.SetScanPace("default", 30*time.Millisecond))
		p := r.call(scanPacket(scanJSON("k", "l", "")))
		r.send(continuePacket(p.Value, 0, 0))
		first := r.opaque
		got := r.next(memd.OpRangeScanContinue, first)
		require.Equal(t, memd.StatusSuccess, got.Status)
		require.Equal(t, memd.StatusBusy, r.call(continuePacket(p.Value, 0, 0)).Status)
		require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{
			Opcode: memd.OpRangeScanCancel,
			Extras: p.Value,
		}).Status)
		require.Equal(t, memd.StatusRangeScanCancelled, r.next(memd.OpRangeScanContinue, first).Status)
		require.Zero(t, c.Scans("default"))
	})
}

func TestRangeScanSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual(), mock.Nodes(2), mock.Bucket("default", 1))
		r := login(t, c, baseFeatures...)
		first := r.set("a", "1")
		set := r.set("a", "2")
		uuid, seqno := binary.BigEndian.Uint64(set.Extras), binary.BigEndian.Uint64(set.Extras[8:])
		create := func(uuid, seqno uint64, more string) memd.Status {
			return r.call(scanPacket(scanJSON("a", "b", fmt.Sprintf(
				`,"snapshot_requirements":{"vb_uuid":"%d","seqno":%d%s}`, uuid, seqno, more)))).Status
		}
		require.Equal(t, memd.StatusSuccess, create(uuid, seqno, ""))
		require.Equal(t, memd.StatusSuccess, create(uuid, seqno, `,"seqno_exists":true`))
		require.Equal(t, memd.StatusNotStored, create(uuid, binary.BigEndian.Uint64(first.Extras[8:]), `,"seqno_exists":true`))
		require.Equal(t, memd.StatusVBUUIDNotEqual, create(uuid+1, seqno, ""))
		require.Equal(t, memd.StatusTmpFail, create(uuid, seqno+1, ""))
		require.NoError(t, c.SetPersistLag("default", 50*time.Millisecond))
		seqno = binary.BigEndian.Uint64(r.set("a", "3").Extras[8:])
		require.Equal(t, memd.StatusTmpFail, create(uuid, seqno, ""))
		require.Equal(t, memd.StatusSuccess, create(uuid, seqno, `,"timeout_ms":9000`))
		require.Equal(t, memd.StatusTmpFail, create(uuid, seqno+1, `,"timeout_ms":20`))

		p := r.call(scanPacket(scanJSON("a", "b", "")))
		require.NoError(t, c.MoveVBucket("default", 0, 1))
		_, _, last := r.proceed(p.Value, 0, 0)
		require.Equal(t, memd.StatusNotMyVBucket, last)
		require.Equal(t, memd.StatusNotMyVBucket, r.call(scanPacket(scanJSON("a", "b", ""))).Status)
	})
}

func TestRangeScansThatAreRefused(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 1), mock.Bucket("ephemeral", 1, mock.Ephemeral()))
	r := login(t, c, baseFeatures...)
	r.set("a", "1")
	for value, want := range map[string]memd.Status{
		scanJSON("x", "y", ""): memd.StatusKeyNotFound,
		`{}`:                   memd.StatusSuccess,
		`[]`:                   memd.StatusInvalid,
		`{"range":{"start":"YQ==","end":"YQ=="},"sampling":{"samples":1}}`: memd.StatusInvalid,
		`{"range":{"start":"YQ=="}}`:                                       memd.StatusInvalid,
		`{"range":{"start":"YQ==","excl_start":"YQ==","end":"YQ=="}}`:      memd.StatusInvalid,
		`{"range":{"start":"%","end":"YQ=="}}`:                             memd.StatusInvalid,
		`{"sampling":{"seed":1}}`:                                          memd.StatusInvalid,
		`{"sampling":{"samples":0}}`:                                       memd.StatusInvalid,
		`{"sampling":{"samples":-1}}`:                                      memd.StatusInvalid,
		scanJSON("a", "b", `,"collection":"zz"`):                           memd.StatusInvalid,
		scanJSON("a", "b", `,"collection":"99"`):                           memd.StatusUnknownCollection,
		scanJSON("a", "b", `,"key_only":true,"include_xattrs":true`):       memd.StatusInvalid,
		scanJSON("a", "b", `,"name":"`+strings.Repeat("n", 51)+`"`):        memd.StatusInvalid,
		scanJSON("a", strings.Repeat("b", 251),
			""): memd.StatusInvalid,
		scanJSON("a", "b", `,"snapshot_requirements":{"seqno":1}`):                                                 memd.StatusInvalid,
		scanJSON("a", "b", `,"snapshot_requirements":{"vb_uuid":"x","seqno":1}`):                                   memd.StatusInvalid,
		scanJSON("a", "b", `,"snapshot_requirements":{"vb_uuid":"1","seqno":1,"timeout_ms":-1}`):                   memd.StatusInvalid,
		scanJSON("a", "b", `,"snapshot_requirements":{"vb_uuid":"1","seqno":1,"timeout_ms":18446744073709551615}`): memd.StatusVBUUIDNotEqual,
	} {
		require.Equal(t, want, r.call(scanPacket(value)).Status, value)
	}
	poor := login(t, c, memd.FeatureXError, memd.FeatureCollections, memd.FeatureJSON)
	require.Equal(t, memd.StatusNotSupported, poor.call(scanPacket(scanJSON("a", "b", `,"include_xattrs":true`))).Status)
	raw := scanPacket(scanJSON("a", "b", ""))
	raw.Datatype = 0
	require.Equal(t, memd.StatusInvalid, r.call(raw).Status)
	id := make([]byte, 16)
	_, _, last := r.proceed(id, 0, 0)
	require.Equal(t, memd.StatusKeyNotFound, last)
	require.Contains(t, string(c.ConfigJSON("default")), "rangeScan")
	require.NotContains(t, string(c.ConfigJSON("ephemeral")), "rangeScan")
	require.Equal(t, memd.StatusSuccess, r.call(selectPacket("ephemeral")).Status)
	require.Equal(t, memd.StatusNotSupported, r.call(scanPacket(scanJSON("a", "b", ""))).Status)
}
