package testkit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
)

func TestHexReadsAnnotatedFixtures(t *testing.T) {
	got := testkit.Hex(t, filepath.Join("testdata", "noop.hex"))
	want := make([]byte, 24)
	want[0], want[1], want[15] = 0x80, 0x0a, 0x2f
	require.Equal(t, want, got)
}

func TestParseHexNamesTheLineItCannotRead(t *testing.T) {
	for text, want := range map[string]string{
		"00 01\n0g":      `line 2: "0g" is not hex`,
		"00 0":           "odd number of digits (3)",
		"# only comment": "",
		"0 1":            "", // digits may be split anywhere
	} {
		_, err := testkit.ParseHex(text)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.EqualError(t, err, want, text)
	}
}

// failed runs f against a testing.TB that records what a failure says instead of failing this test.
func failed(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf leaves its goroutine
		defer close(done)
		f(r)
	}()
	<-done
	return r.text
}

func TestGoldenComparesAndUpdates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "x.golden")
	require.Contains(t, failed(t, func(tb testing.TB) { testkit.Golden(tb, path, []byte("a\n"), false) }),
		"no such file",
		"a missing golden file is a failure, not a reason to write one")

	require.Empty(t, failed(t, func(tb testing.TB) { testkit.Golden(tb, path, []byte("a\nb\n"), true) }))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "a\nb\n", string(got))

	require.Empty(t, failed(t, func(tb testing.TB) { testkit.Golden(tb, path, []byte("a\nb\n"), false) }))
	require.Contains(t, failed(t, func(tb testing.TB) { testkit.Golden(tb, path, []byte("a\nc\n"), false) }),
		"line 2 differs\nwant: \"b\"\n got: \"c\"")
	require.Contains(t, failed(t, func(tb testing.TB) { testkit.Golden(tb, path, []byte("a"), false) }),
		"3 lines wanted, 1 got")
}

func TestRequireInteropSkipsAndNamesTheVariable(t *testing.T) {
	t.Setenv(testkit.InteropVariable, "")
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		testkit.RequireInterop(r)
	}()
	<-done
	require.True(t, r.skipped)
	require.Contains(t, r.text, "COUCHCORE_INTEROP=1")

	t.Setenv(testkit.InteropVariable, "1")
	testkit.RequireInterop(t)
	require.Contains(t, failed(t, func(tb testing.TB) { testkit.Program(tb, "no-such-program-here", "the-package") }),
		"apt-get install the-package", "with the variable set a missing part fails")
}
