package memd_test

import (
	"bytes"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/memd"
)

// A section of two attributes: length, name, zero, value, zero.
const section = "\x00\x00\x00\x0c" + "_sync\x00{\"a\"}\x00" + "\x00\x00\x00\x04" + "n\x007\x00"

func value(section, body string) []byte { return memd.JoinXattrs(memd.Xattrs(section), []byte(body)) }

// B63: a section is taken apart, and one that is cut anywhere is an error.
func TestXattrSections_B63(t *testing.T) {
	whole := value(section, "body")
	require.Equal(t, "\x00\x00\x00\x18"+section+"body", string(whole))
	x, body, err := memd.SplitXattrs(whole)
	require.NoError(t, err)
	require.Equal(t, "body", string(body))
	got := map[string]string{}
	for name, v := range x.All() {
		got[name] = string(v)
	}
	require.Equal(t, map[string]string{"_sync": `{"a"}`, "n": "7"}, got)
	v, ok := x.Get("n")
	require.True(t, ok)
	require.Equal(t, "7", string(v))
	_, ok = x.Get("N")
	require.False(t, ok)
	for range x.All() {
		break
	}

	for n := range len(section) + 4 {
		_, _, err := memd.SplitXattrs(whole[:n])
		require.ErrorIs(t, err, memd.ErrXattrs, "%d bytes", n)
	}
	for _, bad := range []string{
		"\x00\x00\x00\x00", "\x00\x00\x00\x01\x00", "\x00\x00\x00\x02a\x00", "\x00\x00\x00\x03abc",
		"\x00\x00\x00\x03\x00b\x00",
		"\xff\xff\xff\xffa\x00b\x00", "\x00\x00",
	} {
		_, _, err := memd.SplitXattrs(value(bad, "body"))
		require.ErrorIs(t, err, memd.ErrXattrs, "%q", bad)
	}
	x, body, err = memd.SplitXattrs(value("", "body"))
	require.NoError(t, err)
	require.Empty(t, x)
	require.Equal(t, "body", string(body))
	for range memd.Xattrs("\x00\x00\x00\x09broken").All() {
		t.Fatal("nothing of a broken section")
	}
}

func TestAppendXattr(t *testing.T) {
	x, err := memd.AppendXattr(nil, "_sync", []byte(`{"a"}`))
	require.NoError(t, err)
	x, err = memd.AppendXattr(x, "n", []byte("7"))
	require.NoError(t, err)
	require.Equal(t, section, string(x))
	for _, bad := range [][2]string{{"", "v"}, {"a\x00b", "v"}, {"a", "v\x00"}} {
		got, err := memd.AppendXattr(x, bad[0], []byte(bad[1]))
		require.ErrorIs(t, err, memd.ErrXattrs)
		require.Equal(t, section, string(got))
	}
}

func TestXattrsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.StringMatching(`[a-z_$]{1,15}`), rapid.StringMatching(`[ -~]{0,30}`)).Draw(t, "xattrs")
		var x memd.Xattrs
		for name, v := range want {
			var err error
			x, err = memd.AppendXattr(x, name, []byte(v))
			require.NoError(t, err)
		}
		x, body, err := memd.SplitXattrs(memd.JoinXattrs(x, []byte("b")))
		require.NoError(t, err)
		require.Equal(t, "b", string(body))
		got := map[string]string{}
		for name, v := range x.All() {
			got[name] = string(v)
		}
		require.True(t, maps.Equal(want, got))
	})
}

// FuzzXattrs: what is taken apart goes together again to the same bytes.
func FuzzXattrs(f *testing.F) {
	f.Add(value(section, "body"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, v []byte) {
		x, body, err := memd.SplitXattrs(v)
		if err != nil {
			return
		}
		var again memd.Xattrs
		for name, value := range x.All() {
			if bytes.IndexByte(value, 0) >= 0 {
				return // that is read, but never written
			}
			if again, err = memd.AppendXattr(again, name, value); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(memd.JoinXattrs(again, body), v) {
			t.Fatalf("%x became %x", v, memd.JoinXattrs(again, body))
		}
	})
}
