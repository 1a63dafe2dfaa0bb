package sqlpp

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// timeFormat is the format of a time that no other one is given for.
const timeFormat = "2006-01-02T15:04:05.999Z07:00"

// A format of a time has one of four forms: %Y-%m-%d as date(1) has it, YYYY-MM-DD, an example such as 1111-11-11, and
// Go's own layout. The first two become fields; the others become a layout.

// timeField is one part of a format: a verb of date(1), or a character that stands for itself.
type timeField struct {
	verb byte // 0 for a literal
	mode byte // '^' upper case, 'v' lower case, '-' no padding, '_' padding with blanks, ':' a colon in the zone
	lit  byte
}

// commonFields are the fields that formats such as YYYY-MM-DD hh:mm:ss.s have, longer names first.
var commonFields = []struct {
	name  string
	field timeField
}{
	{"MONTH", timeField{verb: 'B', mode: '^'}},
	{"Month", timeField{verb: 'B'}},
	{"month", timeField{verb: 'B', mode: 'v'}},
	{"YYYY", timeField{verb: 'Y'}},
	{"HH12", timeField{verb: 'I'}},
	{"HH24", timeField{verb: 'H'}},
	{"TZD", timeField{verb: 'z', mode: ':'}},
	{"TZN", timeField{verb: 'Z'}},
	{"TZF", timeField{verb: 'Z', mode: '^'}},
	{"MON", timeField{verb: 'b', mode: '^'}},
	{"Mon", timeField{verb: 'b'}},
	{"mon", timeField{verb: 'b', mode: 'v'}},
	{"DAY", timeField{verb: 'A', mode: '^'}},
	{"Day", timeField{verb: 'A'}},
	{"day", timeField{verb: 'A', mode: 'v'}},
	{"sss", timeField{verb: 'N'}},
	{"SSS", timeField{verb: 'N'}},
	{"DY", timeField{verb: 'a', mode: '^'}},
	{"Dy", timeField{verb: 'a'}},
	{"dy", timeField{verb: 'a', mode: 'v'}},
	{"CC", timeField{verb: 'C'}},
	{"YY", timeField{verb: 'y'}},
	{"MM", timeField{verb: 'm'}},
	{"MI", timeField{verb: 'M'}},
	{"DD", timeField{verb: 'd'}},
	{"hh", timeField{verb: 'H'}},
	{"HH", timeField{verb: 'I'}},
	{"mm", timeField{verb: 'M'}},
	{"ss", timeField{verb: 'S'}},
	{"SS", timeField{verb: 'S'}},
	{"PP", timeField{verb: 'p'}},
	{"AM", timeField{verb: 'p'}},
	{"PM", timeField{verb: 'p'}},
	{"pp", timeField{verb: 'P'}},
	{"am", timeField{verb: 'P'}},
	{"pm", timeField{verb: 'P'}},
	{"s", timeField{verb: 'n'}},
	{"T", timeField{lit: 'T'}},
}

// commonFormat are the fields of a format such as YYYY-MM-DD; false for a format that has anything else.
func commonFormat(format string) ([]timeField, bool) {
	var out []timeField
next:
	for format != "" {
		for _, c := range commonFields {
			if strings.HasPrefix(format, c.name) {
				out, format = append(out, c.field), format[len(c.name):]
				continue next
			}
		}
		if c := rune(format[0]); !unicode.IsPunct(c) && !unicode.IsSpace(c) {
			return nil, false
		}
		out, format = append(out, timeField{lit: format[0]}), format[1:]
	}
	return out, true
}

// shorthands are verbs that stand for several.
var shorthands = map[byte]string{
	'D': "%Y-%m-%d", 'x': "%Y-%m-%d", 'T': "%H:%M:%S", 'X': "%H:%M:%S", 'R': "%H:%M", 'r': "%I:%M:%S %p",
	'F': "%Y-%m-%dT%H:%M:%S.%n%:z",
}

// percentFormat are the fields of a format such as %Y-%m-%d; false for a verb that the interpreter does not know.
func percentFormat(format string) ([]timeField, bool) {
	var out []timeField
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			out = append(out, timeField{lit: format[i]})
			continue
		}
		var f timeField
		for i++; i < len(format) && strings.IndexByte("^-_:", format[i]) >= 0; i++ {
			f.mode = format[i]
		}
		switch {
		case i == len(format):
			return nil, false
		case format[i] == '%':
			out = append(out, timeField{lit: '%'})
		case shorthands[format[i]] != "":
			more, _ := percentFormat(shorthands[format[i]])
			out = append(out, more...)
		case strings.IndexByte("YCymBbdAaHIpPMSsNnzZVGjquw", format[i]) >= 0:
			f.verb = format[i]
			out = append(out, f)
		default:
			return nil, false
		}
	}
	return out, true
}

// formatTime is a time in a format; false for a format that cannot be read. A format of no known form is the usual one.
func formatTime(t time.Time, format string) (string, bool) {
	fields, layout, ok := readFormat(format)
	switch {
	case !ok:
		return "", false
	case fields == nil:
		return t.Format(layout), true
	}
	var b []byte
	for _, f := range fields {
		b = f.append(b, t)
	}
	return string(b), true
}

// readFormat tells the form of a format: fields, or a layout.
func readFormat(format string) (fields []timeField, layout string, ok bool) {
	if strings.Contains(format, "%") {
		fields, ok = percentFormat(format)
		return fields, "", ok
	}
	if fields, ok = commonFormat(format); ok && len(fields) > 0 {
		return fields, "", true
	}
	if strings.Contains(format, "2006") || strings.Contains(format, "15:04") {
		return nil, format, true
	}
	return nil, layoutOf(format), true
}

// layoutOf is the layout of a text that is a time: its date with its separators, and its time with as many digits and
// the form of zone that it has. The usual one is that of any other text.
func layoutOf(s string) string {
	layout, tail := "", s
	if len(s) >= 10 && strings.IndexByte("-/.", s[4]) >= 0 && s[7] == s[4] && digits(s[:4]+s[5:7]+s[8:10]) {
		layout, tail = "2006"+s[4:5]+"01"+s[4:5]+"02", s[10:]
		if tail == "" {
			return layout
		}
		if tail[0] != 'T' && tail[0] != ' ' {
			return timeFormat
		}
		layout, tail = layout+tail[:1], tail[1:]
	}
	if len(tail) < 5 || tail[2] != ':' || !digits(tail[:2]+tail[3:5]) {
		return timeFormat
	}
	if len(tail) == 5 {
		return layout + "15:04"
	}
	if len(tail) < 8 || tail[5] != ':' || !digits(tail[6:8]) {
		return timeFormat
	}
	layout, tail = layout+"15:04:05", tail[8:]
	if strings.HasPrefix(tail, ".") {
		n := len(tail) - 1 - len(strings.TrimLeft(tail[1:], "0123456789"))
		if n == 0 || n > 9 {
			return timeFormat
		}
		layout, tail = layout+"."+strings.Repeat("9", (n+2)/3*3), tail[1+n:]
	}
	switch {
	case tail == "":
		return layout
	case tail == "Z", len(tail) == 6 && tail[3] == ':':
		return layout + "Z07:00"
	case len(tail) == 5:
		return layout + "Z0700"
	case len(tail) == 3:
		return layout + "Z07"
	}
	return timeFormat
}

// digits reports whether a text has digits alone.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// append writes one field.
func (f timeField) append(b []byte, t time.Time) []byte {
	if n, width, ok := f.number(t); ok {
		switch f.mode {
		case '-':
			width = 0
		case '_':
			return fmt.Appendf(b, "%*d", width, n)
		}
		return fmt.Appendf(b, "%0*d", width, n)
	}
	text := ""
	switch f.verb {
	case 0:
		return append(b, f.lit)
	case 'B':
		text = t.Month().String()
	case 'b':
		text = t.Month().String()[:3]
	case 'A':
		text = t.Weekday().String()
	case 'a':
		text = t.Weekday().String()[:3]
	case 'p':
		text = t.Format("PM")
	case 'P':
		text = t.Format("pm")
	case 's':
		return strconv.AppendInt(b, t.Unix(), 10)
	case 'z':
		if f.mode == ':' {
			return t.AppendFormat(b, "Z07:00")
		}
		return t.AppendFormat(b, "-0700")
	case 'Z':
		if f.mode == '^' {
			return append(b, t.Location().String()...)
		}
		text = t.Format("MST")
	}
	switch f.mode {
	case '^':
		text = strings.ToUpper(text)
	case 'v':
		text = strings.ToLower(text)
	}
	return append(b, text...)
}

// number is what a field with a number writes, and how many digits it has.
func (f timeField) number(t time.Time) (n, width int, ok bool) {
	year, week := t.ISOWeek()
	switch f.verb {
	case 'Y':
		return t.Year(), 4, true
	case 'C':
		return t.Year() / 100, 2, true
	case 'y':
		return t.Year() % 100, 2, true
	case 'm':
		return int(t.Month()), 2, true
	case 'd':
		return t.Day(), 2, true
	case 'H':
		return t.Hour(), 2, true
	case 'I':
		return (t.Hour()+11)%12 + 1, 2, true
	case 'M':
		return t.Minute(), 2, true
	case 'S':
		return t.Second(), 2, true
	case 'N':
		return t.Nanosecond(), 9, true
	case 'n':
		return t.Nanosecond() / 1e6, 3, true
	case 'V':
		return week, 1, true
	case 'G':
		return year, 1, true
	case 'j':
		return t.YearDay(), 1, true
	case 'q':
		return (int(t.Month()) + 2) / 3, 1, true
	case 'u':
		return (int(t.Weekday())+6)%7 + 1, 1, true
	case 'w':
		return int(t.Weekday()), 1, true
	}
	return 0, 0, false
}

// parseTime reads a time in a format; "" takes the form that the text has.
func parseTime(s, format string) (time.Time, bool) {
	if format == "" {
		t, err := time.Parse(layoutOf(s), s)
		return t, err == nil
	}
	fields, layout, ok := readFormat(format)
	switch {
	case !ok:
		return time.Time{}, false
	case fields == nil:
		t, err := time.Parse(layout, s)
		return t, err == nil
	}
	m := moment{century: -1, month: 1, day: 1, zone: time.UTC}
	for _, f := range fields {
		if s, ok = m.read(f, s); !ok {
			return time.Time{}, false
		}
	}
	return m.time(), s == "" && m.day <= time.Date(m.fullYear(), time.Month(m.month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// moment is a time that is being read.
type moment struct {
	century, year, month, day, hour, minute, second, nano int
	half, later                                           bool // a clock of 12 hours; after noon
	zone                                                  *time.Location
	unix                                                  *int64
}

func (m *moment) fullYear() int {
	switch {
	case m.century >= 0:
		return m.century*100 + m.year
	case m.year >= 69:
		return 1900 + m.year
	}
	return 2000 + m.year
}

func (m *moment) time() time.Time {
	if m.unix != nil {
		return time.Unix(*m.unix, 0).UTC()
	}
	hour := m.hour
	if m.half {
		hour %= 12
		if m.later {
			hour += 12
		}
	}
	return time.Date(m.fullYear(), time.Month(m.month), m.day, hour, m.minute, m.second, m.nano, m.zone)
}

// read takes a field from the front of a text.
func (m *moment) read(f timeField, s string) (tail string, ok bool) {
	number := func(most, low, high int, to *int) (string, bool) {
		n := min(len(s)-len(strings.TrimLeft(s, "0123456789")), most)
		v, err := strconv.Atoi(s[:n])
		*to = v
		return s[n:], err == nil && v >= low && v <= high
	}
	switch f.verb {
	case 0:
		if s == "" || f.lit != ' ' && s[0] != f.lit { // a blank stands for any character
			return s, false
		}
		return s[1:], true
	case 'Y':
		tail, ok = number(4, 0, 9999, &m.year)
		m.century, m.year = m.year/100, m.year%100
		return tail, ok && len(s)-len(tail) == 4
	case 'C':
		return number(2, 0, 99, &m.century)
	case 'y':
		return number(2, 0, 99, &m.year)
	case 'm':
		return number(2, 1, 12, &m.month)
	case 'd':
		return number(2, 1, 31, &m.day)
	case 'H':
		return number(2, 0, 23, &m.hour)
	case 'I':
		m.half = true
		return number(2, 1, 12, &m.hour)
	case 'M':
		return number(2, 0, 59, &m.minute)
	case 'S':
		return number(2, 0, 59, &m.second)
	case 'N', 'n':
		tail, ok = number(9, 0, 999_999_999, &m.nano)
		for range 9 - (len(s) - len(tail)) {
			m.nano *= 10
		}
		return tail, ok
	case 's':
		tail = strings.TrimLeft(s, "0123456789")
		at, err := strconv.ParseInt(s[:len(s)-len(tail)], 10, 64)
		m.unix = &at
		return tail, err == nil && at <= mostMillis/1000
	}
	return m.readText(f, s)
}

// readText takes a field that is no number.
func (m *moment) readText(f timeField, s string) (tail string, ok bool) {
	named := func(name string, short bool) bool {
		if short {
			name = name[:3]
		}
		if len(s) < len(name) || !strings.EqualFold(s[:len(name)], name) {
			return false
		}
		tail = s[len(name):]
		return true
	}
	switch f.verb {
	case 'B', 'b':
		for month := time.January; month <= time.December; month++ {
			if named(month.String(), f.verb == 'b') {
				m.month = int(month)
				return tail, true
			}
		}
	case 'A', 'a':
		for day := time.Sunday; day <= time.Saturday; day++ {
			if named(day.String(), f.verb == 'a') {
				return tail, true
			}
		}
	case 'p', 'P':
		m.half = true
		if m.later = named("PM", false); m.later || named("AM", false) {
			return tail, true
		}
	case 'z', 'Z':
		n := strings.IndexFunc(s, func(c rune) bool {
			return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("/_+-:", c)
		})
		if n < 0 {
			n = len(s)
		}
		m.zone, ok = zoneOf(s[:n])
		return s[n:], ok
	}
	return s, false
}

// zoneOf is a time zone: Z, +hh, +hhmm, +hh:mm, +hh:mm:ss, or a name.
func zoneOf(name string) (*time.Location, bool) {
	if name == "Z" {
		return time.UTC, true
	}
	for _, layout := range []string{"-07:00", "-0700", "-07", "-07:00:00"} {
		if t, err := time.Parse(layout, name); err == nil {
			return t.Location(), true
		}
	}
	if name == "" || len(name) > 64 || name == "Local" {
		return nil, false
	}
	loc, err := time.LoadLocation(name)
	return loc, err == nil
}
