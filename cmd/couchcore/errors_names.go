package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// mostAlike is how many names are offered instead of one that is unknown.
const mostAlike = 5

// named are the rows that a name or a number stands for: those of exactly that name, or else in another case, or else
// those that differ in the marks between words, and last in what Go's constants and the servers' names begin with.
func named(rows []errorRow, name string) []errorRow {
	if n, err := strconv.ParseInt(name, 0, 32); err == nil {
		return rowsWhere(rows, func(r *errorRow) bool { return r.low <= int(n) && int(n) <= r.high })
	}
	for _, form := range []func(string) string{same, strings.ToLower, letters, stem} {
		want := form(name)
		found := rowsWhere(rows, func(r *errorRow) bool { return r.Name != "" && form(r.Name) == want })
		if want != "" && len(found) > 0 {
			return found
		}
	}
	return nil
}

func rowsWhere(rows []errorRow, is func(*errorRow) bool) (found []errorRow) {
	for i := range rows {
		if is(&rows[i]) {
			found = append(found, rows[i])
		}
	}
	return found
}

func same(name string) string { return name }

// letters are those of a name, and its digits, in small letters: what document_not_found, DocumentNotFound and
// "document not found" have in common.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// stem is a name without what its kind begins with: tmpfail of ETMPFAIL, StatusTmpFail and memd.StatusTmpFail.
func stem(name string) string {
	s := letters(name)
	for _, before := range []string{"cberr", "memd", "retry", "status", "err", "e"} {
		s = strings.TrimPrefix(s, before)
	}
	return s
}

// alike are the names that may have been meant, the most likely first.
func alike(rows []errorRow, name string) []string {
	type candidate struct {
		name string
		far  int
	}
	want, all := stem(name), []candidate{}
	for i := range rows {
		is := stem(rows[i].Name)
		if is == "" || slices.ContainsFunc(all, func(c candidate) bool { return c.name == rows[i].Name }) {
			continue
		}
		switch far := distance(want, is); {
		case len(want) > 2 && strings.Contains(is, want):
			all = append(all, candidate{rows[i].Name, 0})
		case far <= len(want)/3:
			all = append(all, candidate{rows[i].Name, far})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.far, b.far) })
	var names []string
	for _, c := range all[:min(len(all), mostAlike)] {
		names = append(names, c.name)
	}
	return names
}

// instead says where the right name is.
func instead(names []string) string {
	if len(names) == 0 {
		return "`couchcore errors` lists the errors"
	}
	return "did you mean " + strings.Join(names, ", ") + "?"
}

// distance is how many letters must be put in, left out or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := before
			if a[i] != b[j] {
				next = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
