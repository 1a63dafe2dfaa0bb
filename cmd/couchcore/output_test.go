package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line of progress that reached the last column could not be rewritten.
func TestProgressFitsTheTerminal(t *testing.T) {
	var out strings.Builder
	a := newApp(strings.NewReader(""), &out, &strings.Builder{}, func(string) string { return "" })
	a.terminal = true
	a.live("bench   %s", strings.Repeat("\u00b5", 200))
	text := strings.TrimPrefix(out.String(), "\r\x1b[K")
	require.Len(t, []rune(text), lineWidth-1)
	out.Reset()
	a.live("short")
	a.live("")
	require.Equal(t, "\r\x1b[Kshort\r\x1b[K", out.String())
}

func TestHangingTextFitsTheLine(t *testing.T) {
	text := hanging("label   ", strings.Repeat("word ", 40)+strings.Repeat("x", 100)+" end")
	for i, line := range strings.Split(text, "\n") {
		if !strings.Contains(line, "xxx") {
			require.LessOrEqual(t, len(line), lineWidth)
		}
		require.True(t, i == 0 || strings.HasPrefix(line, "        "), line)
	}
	require.Equal(t, "a  b c", hanging("a  ", "b\n c"))
}
