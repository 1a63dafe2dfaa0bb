package sqlpp

import (
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokWord             // an identifier or a keyword
	tokQuoted           // an identifier in back quotes
	tokString           //
	tokNumber           //
	tokParam            // $name, @name, $1 or ?
	tokSign             // operators and brackets
)

// token is one word of a statement. text is what it means: without quotes and escapes.
type token struct {
	kind     tokenKind
	text     string
	from, to int // bytes of the statement
}

// signs are the operators of two characters; every other operator has one.
var signs = []string{"==", "!=", "<>", "<=", ">=", "||"}

const oneSign = "=<>+-*/%^.,()[]{}:;!"

// lex splits a statement into tokens; the last one is tokEnd.
func lex(s string) ([]token, *Error) {
	if len(s) > MaxStatement {
		return nil, fail(CodeSyntax, "The mock's limit of %d bytes for a statement is exceeded", MaxStatement)
	}
	var out []token
	for at := 0; ; {
		at = skipBlank(s, at)
		if at >= len(s) {
			return append(out, token{kind: tokEnd, from: len(s), to: len(s)}), nil
		}
		t, ok := next(s, at)
		if !ok {
			return nil, syntax(s, token{text: firstRune(s[at:]), from: at, to: at})
		}
		out = append(out, t)
		at = t.to
	}
}

// skipBlank is where the next token begins, after blanks and comments.
func skipBlank(s string, at int) int {
	for at < len(s) {
		switch {
		case strings.IndexByte(" \t\r\n\f\v", s[at]) >= 0:
			at++
		case strings.HasPrefix(s[at:], "--"):
			n := strings.IndexByte(s[at:], '\n')
			if n < 0 {
				return len(s)
			}
			at += n + 1
		case strings.HasPrefix(s[at:], "/*"):
			n := strings.Index(s[at+2:], "*/")
			if n < 0 {
				return len(s)
			}
			at += n + 4
		default:
			return at
		}
	}
	return at
}

func next(s string, at int) (token, bool) {
	c := s[at]
	switch {
	case isLetter(c):
		end := wordEnd(s, at+1)
		return token{tokWord, s[at:end], at, end}, true
	case isDigit(c) || c == '.' && at+1 < len(s) && isDigit(s[at+1]):
		end := numberEnd(s, at)
		return token{tokNumber, s[at:end], at, end}, true
	case c == '$' || c == '@':
		end := wordEnd(s, at+1)
		return token{tokParam, s[at+1 : end], at, end}, end > at+1
	case c == '?':
		return token{tokParam, "", at, at + 1}, true
	case c == '`' || c == '"' || c == '\'':
		return quotedToken(s, at)
	}
	for _, sign := range signs {
		if strings.HasPrefix(s[at:], sign) {
			return token{tokSign, sign, at, at + 2}, true
		}
	}
	return token{tokSign, s[at : at+1], at, at + 1}, strings.IndexByte(oneSign, c) >= 0
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func wordEnd(s string, at int) int {
	for at < len(s) && (isLetter(s[at]) || isDigit(s[at]) || s[at] == '$') {
		at++
	}
	return at
}

func numberEnd(s string, at int) int {
	digits := func() {
		for at < len(s) && isDigit(s[at]) {
			at++
		}
	}
	digits()
	if at+1 < len(s) && s[at] == '.' && isDigit(s[at+1]) {
		at++
		digits()
	}
	if at < len(s) && s[at]|0x20 == 'e' {
		mark := at
		at++
		if at < len(s) && (s[at] == '+' || s[at] == '-') {
			at++
		}
		if at == len(s) || !isDigit(s[at]) {
			return mark
		}
		digits()
	}
	return at
}

// quotedToken reads what stands in quotes: a quote in it is doubled, or follows a backslash as in JSON.
func quotedToken(s string, at int) (token, bool) {
	q := s[at]
	t := token{kind: tokString, from: at}
	if q == '`' {
		t.kind = tokQuoted
	}
	var b strings.Builder
	for i := at + 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == q && i+1 < len(s) && s[i+1] == q:
			b.WriteByte(q)
			i++
		case c == q:
			t.text, t.to = b.String(), i+1
			return t, t.kind == tokString || t.text != ""
		case c == '\\' && q != '`':
			text, n := escape(s[i:])
			if n == 0 {
				return t, false
			}
			b.WriteString(text)
			i += n - 1
		default:
			b.WriteByte(c)
		}
	}
	return t, false
}

// escape is the text behind a backslash and the length of the escape, 0 for one that there is not.
func escape(s string) (string, int) {
	if len(s) < 2 {
		return "", 0
	}
	switch c := s[1]; c {
	case 'b', 'f', 'n', 'r', 't':
		return map[byte]string{'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t"}[c], 2
	case 'u':
		n := 6
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			n = 12 // two halves of one character
		}
		if len(s) < 6 {
			return "", 0
		}
		v, ok := Decode([]byte(`"` + s[:n] + `"`))
		text, isText := v.(string)
		if !ok || !isText {
			return "", 0
		}
		return text, n
	case '"', '\'', '\\', '/', '`':
		return string(c), 2
	}
	return "", 0
}

func firstRune(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

// syntax is the error for a token that cannot stand where it does.
func syntax(s string, at token) *Error {
	line := 1 + strings.Count(s[:at.from], "\n")
	column := at.from - strings.LastIndexByte(s[:at.from], '\n')
	near := s[max(0, at.from-15):at.from]
	what := at.text
	if at.kind == tokEnd && at.from == len(s) && what == "" {
		what = "end of input"
	}
	if near == "" {
		near = what
	}
	return fail(CodeSyntax, "syntax error - line %d, column %d, near '%s', at: %s", line, column,
		strings.ToValidUTF8(near, "?"), strings.ToValidUTF8(what, "?"))
}
