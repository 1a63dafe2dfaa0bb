package sqlpp

import (
	"time"
)

// readTime reads the time that the first argument of a function stands for: a text, or milliseconds.
type readTime func(v any) (t time.Time, layout string, ok bool)

func fromText(v any) (time.Time, string, bool) {
	s, ok := v.(string)
	if !ok {
		return time.Time{}, "", false
	}
	t, ok := parseTime(s, "")
	return t, layoutOf(s), ok
}

func fromMillis(v any) (time.Time, string, bool) {
	ms := float(v)
	if !isNumber(v) || ms < leastMillis || ms > mostMillis {
		return time.Time{}, "", false
	}
	return time.UnixMilli(int64(ms)).UTC(), "", true
}

// asGiven is a time in the form that the argument had: a text of its layout, or milliseconds.
func asGiven(t time.Time, layout string) any {
	switch {
	case !inTime(t):
		return nil
	case layout == "":
		return t.UnixMilli()
	}
	return t.Format(layout)
}

// asText is a time in a format; NULL for a format that cannot be read, and for a time that texts do not stand for.
func asText(t time.Time, format string) any {
	s, ok := formatTime(t, format)
	if !ok || !inTime(t) {
		return nil
	}
	return s
}

// orNull is a value where it is known.
func orNull[T any](v T, ok bool) any {
	if !ok {
		return nil
	}
	return v
}

// optional is a text among the arguments, "" where it is left out; false for a value that is no text.
func optional(args []any, i int) (string, bool) {
	if i >= len(args) {
		return "", true
	}
	s, ok := args[i].(string)
	return s, ok
}

// now is a function of the time of the statement, in a zone if it has one, and in a format.
func now(zoned int) function {
	return function{zoned, zoned + 1, false, func(r *run, args []any) any {
		format, ok := optional(args, zoned)
		zone, known := time.UTC, true
		if zoned > 0 {
			name, _ := args[0].(string)
			zone, known = zoneOf(name)
		}
		if !ok || !known {
			return nil
		}
		return asText(r.Now.In(zone), format)
	}}
}

// millisTo is a text for milliseconds, in a zone if it has one, and in a format.
func millisTo(zoned int) function {
	return function{zoned + 1, zoned + 2, false, func(_ *run, args []any) any {
		t, _, ok := fromMillis(args[0])
		format, good := optional(args, zoned+1)
		zone, known := time.UTC, true
		if zoned > 0 {
			name, _ := args[1].(string)
			zone, known = zoneOf(name)
		}
		if !ok || !good || !known {
			return nil
		}
		return asText(t.In(zone), format)
	}}
}

// textTo is a time's text in another zone: with the format that it has, or another one. The format is that of the text
// unless there is an argument for it.
func textTo(zoned int) function {
	return function{zoned + 1, zoned + 3, false, func(_ *run, args []any) any {
		s, ok := args[0].(string)
		in, good := optional(args, zoned+1)
		out, fine := optional(args, zoned+2)
		zone, known := time.UTC, true
		if zoned > 0 {
			name, _ := args[1].(string)
			zone, known = zoneOf(name)
		}
		if !ok || !good || !fine || !known {
			return nil
		}
		t, ok := parseTime(s, in)
		switch {
		case !ok:
			return nil
		case in == "" && out == "":
			return asGiven(t.In(zone), layoutOf(s))
		case out == "":
			out = in
		}
		return asText(t.In(zone), out)
	}}
}

func added(read readTime) function {
	return function{3, 3, false, func(_ *run, args []any) any {
		t, layout, ok := read(args[0])
		n, whole := integer(args[1])
		part, text := args[2].(string)
		if !ok || !whole || !text {
			return nil
		}
		if n != 0 {
			if t, ok = addPart(t, n, part); !ok {
				return nil
			}
		}
		return asGiven(t, layout)
	}}
}

func differs(read readTime, absolute bool) function {
	return function{3, 3, false, func(_ *run, args []any) any {
		a, _, ok := read(args[0])
		b, _, ok2 := read(args[1])
		part, text := args[2].(string)
		if !ok || !ok2 || !text {
			return nil
		}
		n, ok := difference(a, b, part)
		if absolute && n < 0 {
			n = -n
		}
		return orNull(n, ok)
	}}
}

func truncated(read readTime, most int) function {
	return function{2, most, false, func(_ *run, args []any) any {
		t, layout, ok := read(args[0])
		part, text := args[1].(string)
		format, good := optional(args, 2)
		if s, isText := args[0].(string); isText && format != "" {
			t, ok = parseTime(s, format)
		}
		if !ok || !text || !good {
			return nil
		}
		if t, ok = truncateTo(t, part); !ok {
			return nil
		}
		if format != "" {
			return asText(t, format)
		}
		return asGiven(t, layout)
	}}
}

// ranged are the times from one on before another one, or after it with a negative step.
func ranged(read readTime) function {
	return function{3, 4, false, func(r *run, args []any) any {
		from, layout, ok := read(args[0])
		to, _, ok2 := read(args[1])
		part, text := args[2].(string)
		step, whole := int64(1), true
		if len(args) > 3 {
			step, whole = integer(args[3])
		} else if from.After(to) {
			step = -1
		}
		if !ok || !ok2 || !text || !whole {
			return nil
		}
		if step == 0 {
			return []any{asGiven(from, layout)}
		}
		out := []any{}
		for i, t := int64(0), from; step > 0 && t.Before(to) || step < 0 && t.After(to); {
			if !r.allocate(48) {
				return missing
			}
			out = append(out, asGiven(t, layout))
			if i++; i > 1<<30 {
				return nil
			}
			if part == "calendar_month" { // from the first one, whose day is not forgotten
				t, ok = addPart(from, i*step, part)
			} else {
				t, ok = addPart(t, step, part)
			}
			if !ok {
				return nil
			}
		}
		return out
	}}
}

func weekday(read readTime) function {
	return function{1, 1, false, func(_ *run, args []any) any {
		t, _, ok := read(args[0])
		return orNull(t.Weekday().String(), ok)
	}}
}

var timeFunctions = map[string]function{
	"NOW_STR": now(0), "NOW_LOCAL": now(0), "NOW_UTC": now(0), "NOW_TZ": now(1), "NOW_MILLIS": {0, 0, false, nowMillis},
	"CLOCK_STR": now(0), "CLOCK_LOCAL": now(0), "CLOCK_UTC": now(0), "CLOCK_TZ": now(1),
	"CLOCK_MILLIS":  {0, 0, false, nowMillis},
	"MILLIS_TO_STR": millisTo(0), "MILLIS_TO_LOCAL": millisTo(0), "MILLIS_TO_UTC": millisTo(0),
	"MILLIS_TO_TZ": millisTo(1), "MILLIS_TO_ZONE_NAME": millisTo(1),
	"STR_TO_UTC": textTo(0), "STR_TO_TZ": textTo(1), "STR_TO_ZONE_NAME": textTo(1),
	"STR_TO_MILLIS": {1, 2, false, textMillis}, "MILLIS": {1, 2, false, textMillis},
	"DATE_ADD_STR": added(fromText), "DATE_ADD_MILLIS": added(fromMillis),
	"DATE_DIFF_STR": differs(fromText, false), "DATE_DIFF_MILLIS": differs(fromMillis, false),
	"DATE_DIFF_ABS_STR": differs(fromText, true), "DATE_DIFF_ABS_MILLIS": differs(fromMillis, true),
	"DATE_TRUNC_STR": truncated(fromText, 3), "DATE_TRUNC_MILLIS": truncated(fromMillis, 2),
	"DATE_RANGE_STR": ranged(fromText), "DATE_RANGE_MILLIS": ranged(fromMillis),
	"WEEKDAY_STR": weekday(fromText), "WEEKDAY_MILLIS": weekday(fromMillis),
	"DATE_FORMAT_STR": {2, 3, false, func(_ *run, args []any) any {
		s, ok := args[0].(string)
		format, good := optional(args, len(args)-1)
		in, fine := "", true
		if len(args) > 2 {
			in, fine = optional(args, 1)
		}
		if !ok || !good || !fine {
			return nil
		}
		t, ok := parseTime(s, in)
		if !ok {
			return nil
		}
		return asText(t, format)
	}},
	"DATE_PART_STR": {2, 2, false, func(_ *run, args []any) any {
		t, _, ok := fromText(args[0])
		part, text := args[1].(string)
		n, known := partOf(t, part)
		return orNull(int64(n), ok && text && known)
	}},
	"DATE_PART_MILLIS": {2, 3, false, func(_ *run, args []any) any {
		t, _, ok := fromMillis(args[0])
		part, text := args[1].(string)
		if len(args) > 2 {
			name, _ := args[2].(string)
			zone, known := zoneOf(name)
			if !known {
				return nil
			}
			t = t.In(zone)
		}
		n, known := partOf(t, part)
		return orNull(int64(n), ok && text && known)
	}},
	"DURATION_TO_STR": {1, 1, false, func(_ *run, args []any) any {
		return orNull(time.Duration(float(args[0])).String(), isNumber(args[0]))
	}},
	"STR_TO_DURATION": {1, 1, false, func(_ *run, args []any) any {
		s, ok := args[0].(string)
		d, err := time.ParseDuration(s)
		return orNull(int64(d), ok && err == nil)
	}},
}

func nowMillis(r *run, _ []any) any { return r.Now.UnixMilli() }

// textMillis is the milliseconds of a time; NULL for a text that stands for none.
func textMillis(_ *run, args []any) any {
	s, ok := args[0].(string)
	format, good := optional(args, 1)
	if !ok || !good {
		return nil
	}
	t, ok := parseTime(s, format)
	return orNull(t.UnixMilli(), ok)
}
