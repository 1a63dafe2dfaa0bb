package memd_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// source is the package's own files, type-checked once.
var source = sync.OnceValues(func() (*types.Package, error) {
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	return conf.Check("memd", fset, files, nil)
})

// declared gives the constants of one type by name.
func declared(t *testing.T, typeName, prefix string) map[string]uint64 {
	t.Helper()
	pkg, err := source()
	require.NoError(t, err)
	out := map[string]uint64{}
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || !strings.HasPrefix(name, prefix) || !strings.HasSuffix(c.Type().String(), "."+typeName) {
			continue
		}
		v, exact := constant.Uint64Val(c.Val())
		require.True(t, exact, name)
		out[name] = v
	}
	require.NotEmpty(t, out, typeName)
	return out
}

// checkNames holds a table against its constants: no number twice, a name for each, no name twice, and nothing known
// that has no constant.
func checkNames(t *testing.T, consts map[string]uint64, max uint64, known func(uint64) bool, name func(uint64) string) {
	t.Helper()
	byValue, byName := map[uint64]string{}, map[string]string{}
	for c, v := range consts {
		require.Empty(t, byValue[v], "%s has the number of %s", c, byValue[v])
		byValue[v] = c
		require.True(t, known(v), "%s has no name", c)
		n := name(v)
		require.NotContains(t, n, "(", "%s", c)
		require.Empty(t, byName[n], "%s and %s are both called %s", c, byName[n], n)
		byName[n] = c
	}
	for v := uint64(0); v <= max; v++ {
		if byValue[v] != "" {
			continue
		}
		if known(v) || !strings.HasSuffix(name(v), fmt.Sprintf("(0x%02x)", v)) {
			t.Fatalf("%#x has the name %s and no constant", v, name(v))
		}
	}
}

func TestEveryOpcodeHasItsOwnName(t *testing.T) {
	consts := declared(t, "Opcode", "Op")
	require.Equal(t, 160, len(consts))
	checkNames(t, consts, 0xff,
		func(v uint64) bool { return memd.Opcode(v).Known() },
		func(v uint64) string { return memd.Opcode(v).String() })
}

func TestEveryServerOpcodeHasItsOwnName(t *testing.T) {
	consts := declared(t, "ServerOpcode", "ServerOp")
	require.Equal(t, 4, len(consts))
	checkNames(t, consts, 0xff,
		func(v uint64) bool { return !strings.HasPrefix(memd.ServerOpcodeName(memd.Opcode(v)), "ServerOpcode(") },
		func(v uint64) string { return memd.ServerOpcodeName(memd.Opcode(v)) })
}

func TestEveryStatusHasItsOwnName(t *testing.T) {
	consts := declared(t, "Status", "Status")
	require.Equal(t, 85, len(consts))
	checkNames(t, consts, 0xffff,
		func(v uint64) bool { return memd.Status(v).Known() },
		func(v uint64) string { return memd.Status(v).String() })
}

func TestStatusesThatCarryAPayload(t *testing.T) {
	want := map[memd.Status]bool{
		0x00: true, 0x21: true, 0x23: true, 0xa6: true, 0xa7: true, 0xcc: true, 0xcd: true, 0xd3: true,
	}
	for s := 0; s <= 0xffff; s++ {
		if memd.Status(s).CarriesPayload() != want[memd.Status(s)] {
			t.Fatal(memd.Status(s))
		}
	}
}

func TestEveryFeatureHasItsOwnName(t *testing.T) {
	consts := declared(t, "Feature", "Feature")
	require.Equal(t, 37, len(consts))
	checkNames(t, consts, 0xffff,
		func(v uint64) bool { return memd.Feature(v).Known() },
		func(v uint64) string { return memd.Feature(v).String() })
	for name, v := range consts {
		require.Less(t, v, uint64(64), "%s does not fit a set", name)
	}
}

func TestEveryMagicHasItsOwnName(t *testing.T) {
	consts := declared(t, "Magic", "Magic")
	require.Equal(t, 6, len(consts))
	checkNames(t, consts, 0xff,
		func(v uint64) bool { return memd.Magic(v).Valid() },
		func(v uint64) string { return memd.Magic(v).String() })
	for _, v := range consts {
		m := memd.Magic(v)
		require.NotEqual(t, m.IsRequest(), m.IsResponse(), m.String())
	}
	require.True(t, memd.MagicServerReq.IsRequest())
	require.True(t, memd.MagicServerRes.IsResponse())
}

func TestDatatypeNamesItsBits(t *testing.T) {
	for d, want := range map[memd.Datatype]string{
		0: "raw", 1: "json", 2: "snappy", 4: "xattr", 3: "json,snappy", 7: "json,snappy,xattr",
		8: "unknown", 9: "json,unknown", 0xff: "json,snappy,xattr,unknown",
	} {
		require.Equal(t, want, d.String())
	}
}

func TestDurabilityLevelNames(t *testing.T) {
	seen := map[string]bool{}
	for l := memd.DurabilityNone; l <= memd.DurabilityPersistToMajority; l++ {
		require.NotEqual(t, "unknown", l.String())
		require.False(t, seen[l.String()])
		seen[l.String()] = true
	}
	require.Equal(t, "unknown", memd.DurabilityLevel(4).String())
}

func TestFeatureSet(t *testing.T) {
	var s memd.Features
	require.False(t, s.Has(memd.FeatureXError))
	s = s.With(memd.FeatureXError).With(memd.FeatureDCPSkipDeletes)
	require.True(t, s.Has(memd.FeatureXError))
	require.True(t, s.Has(memd.FeatureDCPSkipDeletes))
	require.False(t, s.Has(memd.FeatureJSON))
	s = s.Without(memd.FeatureXError)
	require.False(t, s.Has(memd.FeatureXError))
	require.True(t, s.Has(memd.FeatureDCPSkipDeletes))
	// A number without a bit neither stands for another nor disturbs the set.
	require.Equal(t, s, s.With(64).With(0xffff).Without(64).Without(0xffff))
	require.False(t, s.Has(64+memd.FeatureDCPSkipDeletes))
	require.False(t, s.Has(0xffff))
}

func TestParseFeatures(t *testing.T) {
	value := memd.AppendFeatures([]byte{0xaa}, memd.FeatureXError, memd.FeatureCollections)
	require.Equal(t, []byte{0xaa, 0x00, 0x07, 0x00, 0x12}, value)

	got, err := memd.ParseFeatures([]byte{0x00, 0x07, 0x7f, 0xff, 0x00, 0x09, 0x00, 0x3f, 0x00, 0x12})
	require.NoError(t, err)
	require.Equal(t, memd.Features(0).With(memd.FeatureXError).With(memd.FeatureCollections), got,
		"features without a name stay out")

	got, err = memd.ParseFeatures(nil)
	require.NoError(t, err)
	require.Zero(t, got)

	_, err = memd.ParseFeatures([]byte{0x00, 0x07, 0x00})
	require.ErrorIs(t, err, memd.ErrHello)
}

// featureAliases are our shorter names of features, by kv_engine's.
var featureAliases = map[string]string{
	"invalid": "datatype", "invalid3": "pitr", "tcpdelayunsupported": "tcpdelay",
	"altrequestsupport": "altrequest", "clustermapchangenotification": "clustermapchange",
	"clustermapchangenotificationbrief": "clustermapchangebrief", "subdocdocumentmacrosupport": "subdocdocumentmacro",
	"nonblockingthrottlingmode":             "nonblockingthrottling",
	"getclusterconfigwithknownversion":      "getclusterconfigwithversion",
	"dedupenotmyvbucketclustermap":          "dedupenotmyvbucket",
	"subdocallowsaccessonmultiplexattrkeys": "subdocmultiplexattrkeys",
	"subdocallowreplicareadondeleteddocs":   "subdocreplicareaddeleted",
	"dcpskipdeletesininitialbackfill":       "dcpskipdeletes",
}

// opcodeAliases are our names of opcodes where they differ from kv_engine's.
var opcodeAliases = map[string]string{
	"ewouldblockctl": "ewbctl", "flushunsupported": "flush",
	"flushqunsupported": "flushq",
}

// TestTablesAgreeWithUpstream compares numbers and names with a kv_engine source tree.
func TestTablesAgreeWithUpstream(t *testing.T) {
	dir := os.Getenv("KV_ENGINE_DIR")
	if dir == "" {
		t.Skip("set KV_ENGINE_DIR to a kv_engine source tree to compare the tables with it")
	}
	folded := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	entry := regexp.MustCompile(`(?m)^\s+(\w+) = 0x([0-9a-fA-F]+)`)
	for _, tab := range []struct {
		file, enum string
		count      int
		known      func(uint64) bool
		name       func(uint64) string
		alias      map[string]string
		skip       func(name string, v uint64) bool // retired or reserved: no row of ours
	}{
		{
			"opcode.h", "ClientOpcode : uint8_t {", 197,
			func(v uint64) bool { return memd.Opcode(v).Known() },
			func(v uint64) string { return memd.Opcode(v).String() }, opcodeAliases,
			func(n string, v uint64) bool {
				return v == 0xff || strings.HasSuffix(n, "_Unsupported") && !strings.HasPrefix(n, "Flush")
			},
		},
		{
			"opcode.h", "ServerOpcode : uint8_t {", 4,
			func(uint64) bool { return true },
			func(v uint64) string { return memd.ServerOpcodeName(memd.Opcode(v)) }, nil,
			func(string, uint64) bool { return false },
		},
		{
			"status.h", "Status : uint16_t {", 85,
			func(v uint64) bool { return memd.Status(v).Known() },
			func(v uint64) string { return memd.Status(v).String() }, nil,
			func(_ string, v uint64) bool { return v >= 0xff00 },
		},
		{
			"feature.h", "Feature : uint16_t {", 38,
			func(v uint64) bool { return memd.Feature(v).Known() },
			func(v uint64) string { return memd.Feature(v).String() }, featureAliases,
			func(n string, v uint64) bool { return n == "Invalid2" },
		},
	} {
		src, err := os.ReadFile(filepath.Join(dir, "include", "mcbp", "protocol", tab.file))
		require.NoError(t, err)
		_, body, found := strings.Cut(string(src), tab.enum)
		require.True(t, found, tab.enum)
		body, _, _ = strings.Cut(body, "};")
		rows := entry.FindAllStringSubmatch(body, -1)
		require.Len(t, rows, tab.count, tab.enum)
		for _, row := range rows {
			v, err := strconv.ParseUint(row[2], 16, 16)
			require.NoError(t, err)
			if tab.skip(row[1], v) {
				require.False(t, tab.known(v), row[1])
				continue
			}
			require.True(t, tab.known(v), row[1])
			want := folded(row[1])
			if a := tab.alias[want]; a != "" {
				want = a
			}
			require.Equal(t, want, folded(tab.name(v)), row[0])
		}
	}
}
