package core

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// OptionKind says how the value of an option is written.
type OptionKind uint8

// Kinds of options.
const (
	OptionText     OptionKind = iota
	OptionDuration            // as in "2.5s", or a whole number of milliseconds
	OptionInt                 // a whole number
	OptionFloat               // a number
	OptionBool                // "true" or "false"
)

// String is the kind's name.
func (k OptionKind) String() string {
	switch k {
	case OptionDuration:
		return "duration"
	case OptionInt:
		return "number"
	case OptionFloat:
		return "fraction"
	case OptionBool:
		return "bool"
	case OptionText:
	}
	return "text"
}

// OptionInfo is what the client knows of a connection string's option.
type OptionInfo struct {
	Key     string // as it is written
	Name    string // the option it is: Key, or what Key is another name for
	Does    string // what the value is, or decides; empty for other names of an option, and for those that are refused
	Kind    OptionKind
	Default string   // as it would be written; empty without one
	Values  []string // the only values there are; nil when there are many
	// Refused is why the option cannot be given. Such options make a connection string invalid.
	Refused string
	// Applied reports whether ParseConnString does something with the option. The others are checked and change
	// nothing; Note says why, and what the client does instead.
	Applied bool
	Note    string

	min, max float64       // of a number, or of a duration in seconds; a max of 0 means no limit
	set      *optionSetter // nil: the option is not applied; a pointer, so that rows can be compared
}

// OptionValue is an option's value. One field is set, by the option's kind.
type OptionValue struct {
	Text     string
	Duration time.Duration
	Int      int
	Float    float64
	Bool     bool
}

// Parse reads a value. The error is a *ConnStringError without a position; it names the key and the value.
func (i OptionInfo) Parse(value string) (OptionValue, error) {
	v, reason := i.parse(value)
	if reason != "" {
		return OptionValue{}, &ConnStringError{Field: i.Key, Reason: fmt.Sprintf("has the value %q, which %s",
			clipText(value), reason)}
	}
	return v, nil
}

func clipText(s string) string {
	if len(s) > 64 {
		return s[:61] + "..."
	}
	return s
}

func (i OptionInfo) parse(value string) (v OptionValue, reason string) {
	var err error
	amount := 0.0
	switch i.Kind {
	case OptionDuration:
		if v.Duration, err = parseDuration(value); err != nil {
			return v, `is not a duration: write "2.5s", or milliseconds as a whole number`
		}
		amount = v.Duration.Seconds()
	case OptionInt:
		if v.Int, err = strconv.Atoi(value); err != nil {
			return v, "is not a whole number"
		}
		amount = float64(v.Int)
	case OptionFloat:
		if v.Float, err = strconv.ParseFloat(value, 64); err != nil || math.IsNaN(v.Float) || math.IsInf(v.Float, 0) {
			return v, "is not a number"
		}
		amount = v.Float
	case OptionBool:
		if v.Bool, err = strconv.ParseBool(value); err != nil {
			return v, "is neither true nor false"
		}
		return v, ""
	case OptionText:
		if i.Values != nil && !slices.Contains(i.Values, value) {
			return v, "must be one of " + strings.Join(i.Values, ", ")
		}
		v.Text = value
		return v, ""
	}
	unit := ""
	if i.Kind == OptionDuration {
		unit = "s"
	}
	if amount < i.min {
		return v, fmt.Sprintf("is less than %g%s", i.min, unit)
	}
	if i.max != 0 && amount > i.max {
		return v, fmt.Sprintf("is more than %g%s", i.max, unit)
	}
	return v, ""
}

// parseDuration reads both forms: with units, and milliseconds.
func parseDuration(s string) (time.Duration, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		const most = int64(math.MaxInt64 / time.Millisecond)
		if ms > most || ms < -most {
			return 0, strconv.ErrRange
		}
		return time.Duration(ms) * time.Millisecond, nil
	}
	return time.ParseDuration(s)
}

func (c *ConnSpec) parseOptions(query string, pos int) error {
	seen := map[string]bool{}
	for part := range strings.SplitSeq(query, "&") {
		key, raw, ok := strings.Cut(part, "=")
		switch {
		case part == "":
			return &ConnStringError{pos, "option", "is empty"}
		case !ok:
			return &ConnStringError{pos, "option", "has no value: write key=value"}
		case key == "" || strings.ContainsFunc(key, func(r rune) bool { return r >= 0x80 || !nameByte(byte(r)) }):
			return &ConnStringError{pos, "option", "has a key with a character other than letters, digits and -_."}
		case strings.Contains(raw, ";"):
			return &ConnStringError{pos, "option", "has a semicolon: options are separated by &"}
		case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			return &ConnStringError{pos, "option", "has a space or a control character: write it as %20 and the like"}
		}
		value, err := url.QueryUnescape(raw)
		if err != nil {
			return &ConnStringError{pos, "option", "has an invalid escape"}
		}
		if err := c.checkOption(key, value, seen); err != nil {
			err.Pos = pos
			return err
		}
		c.Options = append(c.Options, ConnOption{key, value})
		pos += len(part) + 1
	}
	return nil
}

// checkOption checks an option that the client knows. seen has those that came before.
func (c *ConnSpec) checkOption(key, value string, seen map[string]bool) *ConnStringError {
	info, ok := LookupOption(key)
	switch {
	case !ok:
		return nil
	case info.Refused != "":
		return &ConnStringError{Field: key, Reason: "is not supported: " + info.Refused}
	case seen[info.Name]:
		return &ConnStringError{Field: key, Reason: "is given twice"}
	}
	seen[info.Name] = true
	if _, reason := info.parse(value); reason != "" {
		return &ConnStringError{Field: key, Reason: fmt.Sprintf("has the value %q, which %s", clipText(value), reason)}
	}
	return nil
}

// Option is the value of an option that the client knows, by any of its names; false when the string does not give it.
func (c ConnSpec) Option(name string) (OptionValue, bool) {
	want, ok := LookupOption(name)
	if !ok {
		return OptionValue{}, false
	}
	for _, o := range c.Options {
		if info, ok := LookupOption(o.Key); ok && info.Name == want.Name {
			v, reason := info.parse(o.Value)
			return v, reason == ""
		}
	}
	return OptionValue{}, false
}
