package sqlpp

import (
	"math"
	"strings"
	"time"
)

// The times that texts stand for: the years -9999 to 9999.
const leastMillis, mostMillis = -377705073600000, 253402250399999

func inTime(t time.Time) bool { return t.UnixMilli() >= leastMillis && t.UnixMilli() <= mostMillis }

// yearsOf are the parts of a date that are some years long.
var yearsOf = map[string]int{"millennium": 1000, "century": 100, "decade": 10, "year": 1}

// lengthOf are the parts of a time that always have the same length.
var lengthOf = map[string]time.Duration{
	"hour": time.Hour, "minute": time.Minute, "second": time.Second, "millisecond": time.Millisecond,
}

// addPart is a time with n parts more; false for a part that is unknown, and for a time that texts do not stand for.
func addPart(t time.Time, n int64, part string) (time.Time, bool) {
	if n > 1<<50 || n < -1<<50 {
		return t, false
	}
	part = strings.ToLower(part)
	var out time.Time
	switch years, length := yearsOf[part], lengthOf[part]; {
	case years > 0:
		if n > 20_000 || n < -20_000 {
			return t, false
		}
		out = t.AddDate(int(n)*years, 0, 0)
	case length > 0:
		if n > int64(math.MaxInt64/length) || n < -int64(math.MaxInt64/length) {
			return t, false
		}
		out = t.Add(time.Duration(n) * length)
	case n > 10_000_000 || n < -10_000_000:
		return t, false
	case part == "quarter":
		out = t.AddDate(0, 3*int(n), 0)
	case part == "month":
		out = t.AddDate(0, int(n), 0)
	case part == "calendar_month":
		out = addCalendarMonths(t, int(n))
	case part == "week":
		out = t.AddDate(0, 0, 7*int(n))
	case part == "day":
		out = t.AddDate(0, 0, int(n))
	default:
		return t, false
	}
	return out, inTime(out)
}

// addCalendarMonths stays within the month: the last day of a month becomes the last day of the other one, and so does
// a day that it does not have.
func addCalendarMonths(t time.Time, n int) time.Time {
	lastOf := func(y int, m time.Month) int { return time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day() }
	first := t.AddDate(0, 0, 1-t.Day()).AddDate(0, n, 0)
	last := lastOf(first.Year(), first.Month())
	day := min(t.Day(), last)
	if t.Day() == lastOf(t.Year(), t.Month()) {
		day = last
	}
	return first.AddDate(0, 0, day-1)
}

// partOf is one part of a time; false for a part that is unknown.
func partOf(t time.Time, part string) (int, bool) {
	isoYear, isoWeek := t.ISOWeek()
	_, zone := t.Zone()
	switch strings.ToLower(part) {
	case "millennium":
		return t.Year()/1000 + 1, true
	case "century":
		return t.Year()/100 + 1, true
	case "decade":
		return t.Year() / 10, true
	case "year":
		return t.Year(), true
	case "quarter":
		return (int(t.Month()) + 2) / 3, true
	case "month", "calendar_month":
		return int(t.Month()), true
	case "day":
		return t.Day(), true
	case "hour":
		return t.Hour(), true
	case "minute":
		return t.Minute(), true
	case "second":
		return t.Second(), true
	case "millisecond":
		return t.Nanosecond() / 1e6, true
	case "week":
		return (t.YearDay() + 6) / 7, true
	case "day_of_year", "doy":
		return t.YearDay(), true
	case "day_of_week", "dow":
		return int(t.Weekday()), true
	case "iso_week":
		return isoWeek, true
	case "iso_year":
		return isoYear, true
	case "iso_dow":
		return (int(t.Weekday())+6)%7 + 1, true
	case "timezone":
		return zone, true
	case "timezone_hour":
		return zone / 3600, true
	case "timezone_minute":
		return zone % 3600 / 60, true
	}
	return 0, false
}

// truncateTo is the beginning of the part that a time is in; false for a part that is unknown.
func truncateTo(t time.Time, part string) (time.Time, bool) {
	part = strings.ToLower(part)
	day := func(year int, month time.Month, day int) (time.Time, bool) {
		return time.Date(year, month, day, 0, 0, 0, 0, t.Location()), true
	}
	if years := yearsOf[part]; years > 0 {
		return day(t.Year()-t.Year()%years, time.January, 1)
	}
	if length := lengthOf[part]; length > 0 {
		return t.Truncate(length), true
	}
	switch part {
	case "quarter":
		return day(t.Year(), t.Month()-(t.Month()-1)%3, 1)
	case "month", "calendar_month":
		return day(t.Year(), t.Month(), 1)
	case "week":
		return day(t.Year(), t.Month(), t.Day()-int(t.Weekday()))
	case "iso_week":
		return day(t.Year(), t.Month(), t.Day()-(int(t.Weekday())+6)%7)
	case "day":
		return day(t.Year(), t.Month(), t.Day())
	}
	return t, false
}

// difference is how many parts one time is after another, as clocks and calendars show them: days of the calendar, and
// hours of these days.
func difference(a, b time.Time, part string) (int64, bool) {
	if a.Before(b) {
		n, ok := difference(b, a, part)
		return -n, ok
	}
	part = strings.ToLower(part)
	if years := yearsOf[part]; years > 0 {
		return int64((a.Year() - b.Year()) / years), true
	}
	months := int64(a.Year()-b.Year())*12 + int64(a.Month()-b.Month())
	dayOf := func(t time.Time) int64 {
		return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / (24 * 3600)
	}
	days := dayOf(a) - dayOf(b)
	hours := days*24 + int64(a.Hour()-b.Hour())
	minutes := hours*60 + int64(a.Minute()-b.Minute())
	seconds := minutes*60 + int64(a.Second()-b.Second())
	switch part {
	case "quarter":
		quarter := func(t time.Time) int64 { return int64(t.Year())*4 + int64(t.Month()+2)/3 }
		return quarter(a) - quarter(b), true
	case "month", "calendar_month":
		return months, true
	case "week":
		return days / 7, true
	case "day":
		return days, true
	case "hour":
		return hours, true
	case "minute":
		return minutes, true
	case "second":
		return seconds, true
	case "millisecond":
		return seconds*1000 + int64(a.Nanosecond()/1e6-b.Nanosecond()/1e6), true
	}
	return 0, false
}
