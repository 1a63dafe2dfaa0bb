package httpsvc

// valid reports whether b is one JSON value without blanks around it, as json.Valid does. Each row passes through here,
// and the standard library's automaton takes one call per byte. The scan that found the value's end has bounded the
// depth.
func valid(b []byte) bool {
	v := validator{b: b}
	return v.value() && v.i == len(b)
}

type validator struct {
	b []byte
	i int
}

// peek is the byte at hand, 0 at the end.
func (v *validator) peek() byte {
	if v.i < len(v.b) {
		return v.b[v.i]
	}
	return 0
}

// blanks passes over them and gives the byte after.
func (v *validator) blanks() byte {
	for v.i < len(v.b) {
		switch c := v.b[v.i]; c {
		case ' ', '\t', '\r', '\n':
			v.i++
		default:
			return c
		}
	}
	return 0
}

func (v *validator) value() bool {
	switch c := v.peek(); c {
	case '{':
		return v.list('}', v.member)
	case '[':
		return v.list(']', v.value)
	case '"':
		return v.text()
	case 't':
		return v.word("true")
	case 'f':
		return v.word("false")
	case 'n':
		return v.word("null")
	default:
		return v.number()
	}
}

// list reads what stands between brackets.
func (v *validator) list(end byte, item func() bool) bool {
	v.i++
	if v.blanks() == end {
		v.i++
		return true
	}
	for {
		if !item() {
			return false
		}
		switch v.blanks() {
		case ',':
			v.i++
			v.blanks()
		case end:
			v.i++
			return true
		default:
			return false
		}
	}
}

func (v *validator) member() bool {
	if v.peek() != '"' || !v.text() || v.blanks() != ':' {
		return false
	}
	v.i++
	v.blanks()
	return v.value()
}

func (v *validator) word(w string) bool {
	if len(v.b)-v.i < len(w) || string(v.b[v.i:v.i+len(w)]) != w {
		return false
	}
	v.i += len(w)
	return true
}

// text reads from a quote to the one that ends it.
func (v *validator) text() bool {
	b := v.b
	for i := v.i + 1; i < len(b); i++ {
		c := b[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		switch c {
		case '"':
			v.i = i + 1
			return true
		case '\\':
			n := escape(b[i+1:])
			if n == 0 {
				return false
			}
			i += n
		default:
			return false
		}
	}
	return false
}

// escape is the length of what follows a backslash, 0 when that is wrong.
func escape(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		for k := 1; k <= 4; k++ {
			if k >= len(b) || !hex(b[k]) {
				return 0
			}
		}
		return 5
	}
	return 0
}

func hex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (v *validator) number() bool {
	if v.peek() == '-' {
		v.i++
	}
	if v.peek() == '0' {
		v.i++
	} else if !v.digits() {
		return false
	}
	if v.peek() == '.' {
		if v.i++; !v.digits() {
			return false
		}
	}
	if c := v.peek(); c == 'e' || c == 'E' {
		v.i++
		if c := v.peek(); c == '+' || c == '-' {
			v.i++
		}
		return v.digits()
	}
	return true
}

// digits reads at least one.
func (v *validator) digits() bool {
	start := v.i
	for v.i < len(v.b) && v.b[v.i]-'0' < 10 {
		v.i++
	}
	return v.i > start
}
