package fts

import (
	"cmp"
	"html"
	"slices"
	"strings"
	"unicode/utf8"
)

// fragmentSize is how many bytes of a text a fragment has, about.
const fragmentSize = 200

const cut = "\u2026" // where a fragment does not begin or end with its text

// fragments are the parts of stored texts that matched, with marks around the terms.
func (rq *request) fragments(h *hit) map[string][]string {
	before, after, escape := "<mark>", "</mark>", html.EscapeString
	if s := rq.Highlight.Style; s != nil && *s == "ansi" {
		before, after, escape = "\x1b[43m", "\x1b[0m", func(s string) string { return s }
	}
	out := map[string][]string{}
	for name, f := range h.doc.fields {
		if len(rq.Highlight.Fields) > 0 && !slices.Contains(rq.Highlight.Fields, name) {
			continue
		}
		for _, t := range f.texts {
			var at []place
			for _, found := range h.found {
				if found.field == name && slices.Equal(found.Array, t.array) && found.End <= len(t.value) {
					at = append(at, found.place)
				}
			}
			if len(at) > 0 {
				out[name] = append(out[name], fragment(t.value, at, before, after, escape))
			}
		}
	}
	return out
}

// fragment is the part of a text around the first of some places.
func fragment(text string, at []place, before, after string, escape func(string) string) string {
	slices.SortFunc(at, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	from := 0
	if at[0].End > fragmentSize {
		from = at[0].Start
	}
	to := min(len(text), max(from+fragmentSize, at[0].End))
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	var b strings.Builder
	if from > 0 {
		b.WriteString(cut)
	}
	done := from
	for _, p := range at {
		if p.Start < done || p.End > to {
			continue
		}
		b.WriteString(escape(text[done:p.Start]) + before + escape(text[p.Start:p.End]) + after)
		done = p.End
	}
	b.WriteString(escape(text[done:to]))
	if to < len(text) {
		b.WriteString(cut)
	}
	return b.String()
}
