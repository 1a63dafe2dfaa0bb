package memd_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

var update = flag.Bool("update", false, "write the golden files anew; read the diff before committing it")

// golden is one packet kind: the fields in Go, and the wire form in testdata/golden/<name>.hex.
type golden struct {
	name string
	note string
	p    memd.Packet
}

// goldens is every packet kind that has a golden file.
func goldens() []golden {
	var all []golden
	for _, part := range [][]golden{bootstrapGoldens(), dataGoldens(), frameGoldens(), responseGoldens()} {
		all = append(all, part...)
	}
	return all
}

func goldenFile(name string) string { return filepath.Join("testdata", "golden", name+".hex") }

// readHex reads a golden file: lines that start with # are comments, the rest is hex with blanks.
func readHex(tb testing.TB, path string) []byte {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err)
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.Join(strings.Fields(line), ""))
		}
	}
	wire, err := hex.DecodeString(digits.String())
	require.NoError(tb, err, path)
	return wire
}

// writeHex writes a golden file with a comment above each part of the packet.
func writeHex(t *testing.T, g golden, wire []byte) {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n", g.note)
	part := func(label string, b []byte) {
		if len(b) == 0 {
			return
		}
		fmt.Fprintf(&out, "# %s\n", label)
		for len(b) > 0 {
			n := min(len(b), 16)
			fmt.Fprintf(&out, "% x\n", b[:n])
			b = b[n:]
		}
	}
	two := "key length"
	if wire[0] == byte(memd.MagicReqExt) || wire[0] == byte(memd.MagicResExt) {
		two = "framing extras length, key length"
	}
	six := "vbucket"
	if memd.Magic(wire[0]).IsResponse() {
		six = "status"
	}
	part("magic, opcode, "+two, wire[:4])
	part("extras length, datatype, "+six, wire[4:8])
	part("body length, opaque", wire[8:16])
	part("CAS", wire[16:24])
	tail := wire[24:]
	for _, s := range []struct {
		label string
		n     int
	}{
		{"framing extras", len(g.p.Frames)},
		{"extras", len(g.p.Extras)},
		{fmt.Sprintf("key %q", g.p.Key), len(g.p.Key)},
		{fmt.Sprintf("value %q", g.p.Value), len(g.p.Value)},
	} {
		part(s.label, tail[:s.n])
		tail = tail[s.n:]
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(goldenFile(g.name)), 0o755))
	require.NoError(t, os.WriteFile(goldenFile(g.name), []byte(out.String()), 0o644))
}

func TestGoldenPackets(t *testing.T) {
	for _, g := range goldens() {
		t.Run(g.name, func(t *testing.T) {
			wire, err := g.p.AppendTo(nil)
			require.NoError(t, err)
			if *update {
				writeHex(t, g, wire)
			}
			want := readHex(t, goldenFile(g.name))
			require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(wire))

			var got memd.Packet
			n, err := got.Parse(want, 0)
			require.NoError(t, err)
			require.Equal(t, len(want), n)
			requireSame(t, canonical(g.p), got)
		})
	}
}

// TestGoldenFilesAreAllUsed fails on a golden file that no packet claims.
func TestGoldenFilesAreAllUsed(t *testing.T) {
	known := map[string]bool{}
	for _, g := range goldens() {
		require.False(t, known[g.name], "%s stands twice", g.name)
		known[g.name] = true
	}
	files, err := filepath.Glob(goldenFile("*"))
	require.NoError(t, err)
	require.Len(t, files, len(known))
	for _, f := range files {
		require.True(t, known[strings.TrimSuffix(filepath.Base(f), ".hex")], f)
	}
}

// TestSpecificationExample holds the codec against the worked example of the protocol's description, written here by
// hand: GET of "abc" in collection 8 and its answer with a server duration.
func TestSpecificationExample(t *testing.T) {
	req := []byte{0x80, 0, 0, 4, 0, 0, 0, 0x73, 0, 0, 0, 4, 0, 0, 0, 0x2a, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 'a', 'b', 'c'}
	require.Equal(t, req, readHex(t, goldenFile("get_req")))

	res := append([]byte{
		0x18, 0, 3, 0, 4, 1, 0, 0, 0, 0, 0, 0x0e, 0, 0, 0, 0x2a, 0x17, 0xf0, 1, 2, 3, 4, 5, 6,
		0x02, 0x00, 0x06, 0x02, 0, 0, 6,
	}, `{"a":1}`...)
	require.Equal(t, res, readHex(t, goldenFile("get_res_traced")))
}

// canonical is p as it comes back from the wire: the magic follows the framing extras.
func canonical(p memd.Packet) memd.Packet {
	switch {
	case len(p.Frames) > 0 && p.Magic == memd.MagicReq:
		p.Magic = memd.MagicReqExt
	case len(p.Frames) > 0 && p.Magic == memd.MagicRes:
		p.Magic = memd.MagicResExt
	case len(p.Frames) == 0 && p.Magic == memd.MagicReqExt:
		p.Magic = memd.MagicReq
	case len(p.Frames) == 0 && p.Magic == memd.MagicResExt:
		p.Magic = memd.MagicRes
	}
	return p
}

// requireSame compares two packets by content: nil and empty are the same.
func requireSame(tb testing.TB, want, got memd.Packet) {
	tb.Helper()
	for _, p := range []*memd.Packet{&want, &got} {
		for _, b := range []*[]byte{&p.Frames, &p.Extras, &p.Key, &p.Value} {
			if len(*b) == 0 {
				*b = nil
			}
		}
	}
	require.Equal(tb, want, got)
}
