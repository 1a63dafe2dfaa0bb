package field_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
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
	"github.com/couchcore/couchcore/retry"
)

// The mock answers what kv_engine answers. testdata/kv_engine_8.0.0.txt has the outcomes of these operations on
// kv_engine 8.0.0 with three nodes and one replica: a row is a name, a tab and an outcome. The file is never written
// from the mock. What differs from run to run is left out: numbers of 15 digits and more are "#", and so are a scan's
// id and vbucket.
func TestTheMockAnswersAsKVEngine_D125(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/kv_engine_8.0.0.txt")
	require.NoError(t, err)
	want := map[string][]string{} // outcomes by section and name
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = name
			continue
		}
		name, outcome, ok := strings.Cut(line, "\t")
		require.True(t, ok, line)
		want[section+": "+name] = append(want[section+": "+name], outcome)
	}
	sections := map[string]func(*recorder){
		"crud": recordCRUD, "sizes": recordSizes, "counters": recordCounters, "values": recordValues,
		"lookups": recordLookups, "mutations": recordMutations, "creation": recordCreation,
		"attributes": recordAttributes, "tombstones": recordTombstones, "metadata": recordMetadata,
		"locks": recordLocks, "expiry": recordExpiry, "durability": recordDurability, "copies": recordCopies,
		"scans": recordScans, "statistics": recordStatistics, "collections": recordCollections,
		"accounts": recordAccounts,
	}
	seen := 0
	for name, record := range sections {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(t)
				record(r)
				for row, got := range r.got {
					require.Equal(t, want[name+": "+row], got, "%s", row)
					seen++
				}
			})
		})
	}
	require.Len(t, want, seen, "operations that are gone")
}

// recorder runs operations on a mock that is made like the server, and keeps their outcomes.
type recorder struct {
	t   *testing.T
	m   *mock.Cluster
	b   *core.Bucket
	got map[string][]string
}

func newRecorder(t *testing.T) *recorder {
	m := mock.Start(t, mock.Virtual(), mock.Nodes(3), mock.Replicas(1), mock.Reader("reader", "secret", "default"),
		mock.User("Administrator", "password"), mock.Bucket("default", 64, mock.WithCollection("s", "c")))
	cfg := core.Config{
		Seeds: core.SeedConfig{Hosts: []string{m.Node(0).Addr()}},
		Net:   core.NetConfig{Dial: m.Dial, NodeFilter: core.AnyNode},
		Auth:  core.AuthConfig{Username: "Administrator", Password: core.NewSecret("password")},
	}
	b := openConfig(t, cfg).Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
	return &recorder{t: t, m: m, b: b, got: map[string][]string{}}
}

// recNever retries nothing, so that an outcome is one answer of the server.
var recNever = retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })

var (
	recCommon = kv.Common{Retry: recNever, Timeout: 6 * time.Second}
	recInSC   = kv.Common{Retry: recNever, Timeout: 6 * time.Second, Scope: "s", Collection: "c"}
)

var (
	recLongNumbers = regexp.MustCompile(`0x[0-9a-f]{9,}|\d{15,}`)
	recScanNames   = regexp.MustCompile(`vb:\d+ [0-9a-f-]{32,36}`)
	recHexTexts    = regexp.MustCompile(`"0x[0-9a-f]+"`)
	recNumbers     = regexp.MustCompile(`\d+`)
)

// row keeps an outcome. Of a long one the beginning is enough.
func (r *recorder) row(name string, parts ...any) {
	s := recScanNames.ReplaceAllString(strings.TrimSpace(fmt.Sprintln(parts...)), "vb:# #")
	s = recLongNumbers.ReplaceAllString(s, "#")
	r.got[name] = append(r.got[name], s[:min(len(s), 400)])
}

func recDo[R any, O kv.Op[R]](r *recorder, op O) (R, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 8*time.Second)
	defer cancel()
	return kv.Do(ctx, r.b, op)
}

// recTold is the outcome of an operation that has no result to look at.
func recTold[R any, O kv.Op[R]](r *recorder, op O) string {
	_, err := recDo(r, op)
	return recSaid(err)
}

// recSaid is an error's kind, the status and context that the server gave, and the path that failed.
func recSaid(err error) string {
	if err == nil {
		return "ok"
	}
	s := cberr.KindOf(err).Name()
	var ke *kv.Error
	if errors.As(err, &ke) {
		if ke.Answered {
			s += fmt.Sprintf(" 0x%02x", uint16(ke.Status))
		}
		if ke.Context != "" {
			s += " {" + ke.Context + "}"
		}
		if ke.InDoubt {
			s += " INDOUBT"
		}
	}
	var pe *kv.PathError
	if errors.As(err, &pe) {
		s += " path=" + fmt.Sprint(pe.Index, pe.Path)
	}
	return s
}

func (r *recorder) put(key, value string) uint64 {
	r.t.Helper()
	res, err := recDo(r, kv.Upsert{
		Common: recCommon, Key: []byte(key), Value: []byte(value), Datatype: memd.DatatypeJSON, Flags: 0x02000006,
	})
	require.NoError(r.t, err)
	return res.CAS
}

func (r *recorder) get(key string) string {
	res, err := recDo(r, kv.Get{Common: recCommon, Key: []byte(key)})
	if err != nil {
		return recSaid(err)
	}
	return fmt.Sprintf("%s flags=%x dt=%v", res.Value, res.Flags, res.Datatype)
}

// recLooked is what the paths of a lookup came to. Numbers of virtual attributes are left out.
func recLooked(l kv.LookupInResult) string {
	var s []string
	for _, p := range l.Paths {
		v := string(p.Value)
		if p.Path == "$document" || strings.HasPrefix(p.Path, "$document.") || strings.HasPrefix(p.Path, "$vbucket") {
			v = recNumbers.ReplaceAllString(recHexTexts.ReplaceAllString(v, `"#"`), "N")
		}
		s = append(s, fmt.Sprintf("%s=%s(0x%02x)", p.Path, v, uint16(p.Status)))
	}
	return strings.Join(s, " ")
}

func recordCRUD(r *recorder) {
	k := []byte("t")
	text := func(s string) []byte { return []byte(s) }
	r.row("get absent", r.get("a"))
	r.put("a", `{"x":1}`)
	r.row("get json", r.get("a"))
	put := kv.Upsert{Common: recCommon, Key: k, Value: text("plain text"), Flags: 7}
	r.row("upsert text", recTold(r, put), r.get("t"))
	put = kv.Upsert{Common: recCommon, Key: k, Value: text("not json"), Datatype: memd.DatatypeJSON}
	r.row("upsert text as JSON datatype", recTold(r, put), r.get("t"))
	put = kv.Upsert{Common: recCommon, Key: k, Value: text(`{"j":1}`)}
	r.row("upsert json as raw datatype", recTold(r, put), r.get("t"))
	r.row("upsert empty", recTold(r, kv.Upsert{Common: recCommon, Key: text("e")}), r.get("e"))
	r.row("insert present", recTold(r, kv.Insert{Common: recCommon, Key: text("a"), Value: text("1")}))
	none := text("nope")
	r.row("replace absent", recTold(r, kv.Replace{Common: recCommon, Key: none, Value: text("1")}))
	r.row("replace absent with cas", recTold(r, kv.Replace{Common: recCommon, Key: none, Value: text("1"), CAS: 55}))
	r.row("upsert absent with cas", recTold(r, kv.Upsert{Common: recCommon, Key: none, Value: text("1"), CAS: 55}))
	r.row("remove absent", recTold(r, kv.Remove{Common: recCommon, Key: none}))
	r.row("remove absent cas", recTold(r, kv.Remove{Common: recCommon, Key: none, CAS: 5}))
	r.row("append absent", recTold(r, kv.Append{Common: recCommon, Key: none, Value: text("1")}))
	r.row("append", recTold(r, kv.Append{Common: recCommon, Key: k, Value: text("1")}), r.get("t"))
	r.row("prepend", recTold(r, kv.Prepend{Common: recCommon, Key: k, Value: text("0")}), r.get("t"))
	null, err := recDo(r, kv.GetOrNull{Common: recCommon, Key: none})
	r.row("get-or-null absent", recSaid(err), len(null.Value))
	r.row("noop", recTold(r, kv.Noop{Common: recCommon}))
}

func recordSizes(r *recorder) {
	for _, n := range []int{246, 250, 251} {
		put := kv.Upsert{Common: recCommon, Key: bytes.Repeat([]byte("k"), n), Value: []byte("1")}
		r.row(fmt.Sprint("key of ", n), recTold(r, put))
		put.Common = recInSC
		r.row(fmt.Sprint("key of ", n, " in collection"), recTold(r, put))
	}
	r.row("empty key", recTold(r, kv.Upsert{Common: recCommon, Value: []byte("1")}))
	for _, n := range []int{1 << 20, 20 << 20, 20<<20 + 1, 21 << 20, 29 << 20} {
		v, key := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n], []byte("big")
		r.row(fmt.Sprint("value of ", n), recTold(r, kv.Upsert{Common: recCommon, Key: key, Value: v}))
		r.row(fmt.Sprint("append of ", n), recTold(r, kv.Append{Common: recCommon, Key: key, Value: v}))
	}
	for _, n := range []int{21 << 20, 40 << 20} {
		put := kv.Upsert{Common: recCommon, Key: []byte("huge"), Value: make([]byte, n)}
		r.row(fmt.Sprint("compressible value of ", n), recTold(r, put), r.get("huge"))
	}
}

func recordCounters(r *recorder) {
	value := func(n uint64) *uint64 { return &n }
	increment := func(name, key string, delta uint64, initial *uint64) {
		res, err := recDo(r, kv.Increment{Common: recCommon, Key: []byte(key), Delta: delta, Initial: initial})
		r.row("increment "+name, recSaid(err), res.Value, r.get(key))
	}
	increment("absent no initial", "n1", 1, nil)
	increment("absent initial 10", "n1", 1, value(10))
	increment("by 5", "n1", 5, nil)
	increment("by 0", "n1", 0, nil)
	down, err := recDo(r, kv.Decrement{Common: recCommon, Key: []byte("n1"), Delta: 100})
	r.row("decrement by 100 below zero", recSaid(err), down.Value, r.get("n1"))
	increment("absent initial max", "n2", 1, value(^uint64(0)))
	increment("absent initial max-1", "n3", 1, value(^uint64(0)-1))
	increment("wraps", "n3", 5, nil)
	for i, c := range [][2]string{{"a quoted number", `"12"`}, {"a float", "12.5"}, {"a negative", "-3"}} {
		key := fmt.Sprint("j", i)
		r.put(key, c[1])
		increment(c[0], key, 1, nil)
	}
	for i, c := range [][2]string{
		{"space before", " 12"},
		{"space after", "12 "},
		{"leading zeros", "007"},
		{"too big", "18446744073709551616"},
		{"empty", ""},
	} {
		key := fmt.Sprint("t", i)
		require.Equal(r.t, "ok", recTold(r, kv.Upsert{Common: recCommon, Key: []byte(key), Value: []byte(c[1])}))
		increment(c[0], key, 1, nil)
	}
	full := kv.Upsert{Common: recCommon, Key: []byte("n12"), Value: []byte("5"), Flags: 9}
	full.Expiry = kv.ExpireAfter(time.Hour)
	require.Equal(r.t, "ok", recTold(r, full))
	increment("with flags and expiry", "n12", 1, nil)
	m, err := recDo(r, kv.GetMeta{Common: recCommon, Key: []byte("n12")})
	r.row("its expiry kept", recSaid(err), !m.Expiry.IsZero(), m.Flags)
	made := kv.MutateIn{Common: recCommon, Key: []byte("n13"), Store: kv.StoreUpsert}
	made.Specs = []kv.MutateSpec{recSpec(dictUp, "x.y", "1", "xp"), recSpec(memd.OpSet, "", "5", "")}
	require.Equal(r.t, "ok", recTold(r, made))
	increment("doc with xattr", "n13", 1, nil)
	l, err := recDo(r, kv.LookupIn{Common: recCommon, Key: []byte("n13"), Specs: []kv.LookupSpec{kv.GetXattr("x.y")}})
	r.row("xattr kept by counter", recSaid(err), recLooked(l))
}
