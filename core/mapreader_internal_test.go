package core

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// A stream gives the same maps however it is cut, signs of life give none, and what is behind the last end is no map.
func TestAStreamOfMapsIsTakenApart(t *testing.T) {
	const sep = "\n\n\n\n"
	text := sep + `{"rev":1}` + sep + sep + "\n" + `{"rev":2,` + "\n\n\n" + `"x":1}` + sep + " " + sep + `{"rev":3}` + sep + `{"rev":4`
	want := []string{`{"rev":1}`, `{"rev":2,` + "\n\n\n" + `"x":1}`, `{"rev":3}`}
	for cut := 0; cut <= len(text); cut++ {
		alive := 0
		r := io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:]))
		m := &mapReader{r: r, limit: 100, alive: func() { alive++ }}
		var got []string
		for {
			raw, err := m.next()
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			got = append(got, string(raw))
		}
		require.Equal(t, want, got, cut)
		require.NotZero(t, alive)
	}
	m := &mapReader{r: iotest.OneByteReader(strings.NewReader(text)), limit: 100, alive: func() {}}
	for _, w := range want {
		raw, err := m.next()
		require.NoError(t, err)
		require.Equal(t, w, string(raw))
	}
}

// S6: a map of a stream is refused above the limit, before more of it is kept than that.
func TestAMapOfAStreamIsBounded_S6(t *testing.T) {
	for n, fits := range map[int]bool{1000: true, 1001: false, 1 << 20: false} {
		m := &mapReader{r: strings.NewReader(strings.Repeat("x", n) + "\n\n\n\n"), limit: 1000, alive: func() {}}
		raw, err := m.next()
		require.Equal(t, fits, err == nil, "%d %v", n, err)
		if fits {
			require.Len(t, raw, n)
		} else {
			require.ErrorIs(t, err, errMapSize)
		}
		require.LessOrEqual(t, cap(m.buf), 16<<10)
	}
	m := &mapReader{r: iotest.ErrReader(errors.New("broken")), limit: 1000, alive: func() {}}
	_, err := m.next()
	require.ErrorContains(t, err, "broken")
}

// What is before a map counts as little as how the stream is cut.
func TestSpaceBeforeAMapIsNotOfIt(t *testing.T) {
	for n, fits := range map[int]bool{64: true, 65: false} {
		text := strings.Repeat("\n", 9) + " \t\r\n " + strings.Repeat("0", n) + "\n\n\n\n"
		for cut := 0; cut <= len(text); cut++ {
			m := &mapReader{
				r: io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:])), limit: 64,
				alive: func() {},
			}
			raw, err := m.next()
			if !fits {
				require.ErrorIs(t, err, errMapSize, cut)
				continue
			}
			require.NoError(t, err, cut)
			require.Len(t, raw, n, cut)
		}
	}
}

func FuzzMapReader(f *testing.F) {
	f.Add("{}\n\n\n\n\n\n\n\n{}\n\n\n\n", 3)
	f.Add("\n000\n\n\n\n "+strings.Repeat("0", 64)+"\n\n\n\n", 76)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		read := func(r io.Reader) (all []string) {
			m := &mapReader{r: r, limit: 64, alive: func() {}}
			for {
				raw, err := m.next()
				if err != nil {
					return append(all, err.Error())
				}
				if len(raw) > 64 || len(raw) == 0 {
					t.Fatalf("a map of %d bytes", len(raw))
				}
				all = append(all, string(raw))
			}
		}
		cut = min(max(cut, 0), len(text))
		whole := read(strings.NewReader(text))
		require.Equal(t, whole, read(io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:]))))
	})
}
