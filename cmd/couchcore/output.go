package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// colour is an escape sequence's number.
type colour int

const (
	red   colour = 31
	green colour = 32
)

// paint colours a text where that is wanted.
func (a *app) paint(c colour, text string) string {
	if !a.colour {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

// isTerminal reports whether w is a terminal, or another device that takes characters.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// print writes a line of human output; with --json it writes nothing.
func (a *app) print(format string, args ...any) error {
	if a.json {
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

// emit writes v as one line of JSON.
func (a *app) emit(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// lineWidth is how many columns the output takes where it is not a table or data.
const lineWidth = 80

// live rewrites the line of progress; only a terminal has one. An empty text removes it. A line that would reach the
// last column goes on in the next row of the terminal, which could not be rewritten: it is cut.
func (a *app) live(format string, args ...any) {
	if !a.terminal || a.json {
		return
	}
	text := []rune(fmt.Sprintf(format, args...))
	_, _ = fmt.Fprint(a.stdout, "\r\x1b[K"+string(text[:min(len(text), lineWidth-1)]))
}

// hanging is a text behind a label, in lines of at most lineWidth columns; those after the first are indented as far.
// A word that is longer than a line stays whole.
func hanging(label, text string) string {
	indent := utf8.RuneCountInString(label)
	var b strings.Builder
	b.WriteString(label)
	at := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > lineWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// table writes rows in columns that are as wide as their widest cell, two spaces apart.
func (a *app) table(rows [][]string) error {
	var width []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len(cell))
		}
	}
	for _, r := range rows {
		var b strings.Builder
		for i, cell := range r {
			b.WriteString(cell)
			if i < len(r)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-len(cell)+2))
			}
		}
		if err := a.print("%s", strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// short writes a duration with the unit and the digits that a person wants.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// grouped writes a number with a space between each three digits.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func plural(n int, one string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %ss", n, one)
}
