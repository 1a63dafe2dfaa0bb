package policy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseError says what is wrong with a policy file, and where. Every error of Parse is one.
type ParseError struct {
	Path   string // such as operationConfig[1].retryPolicy.maxAttempts; "" is the whole document
	Value  string // what stands there, as it is written, shortened when it is long; "" when nothing does
	Reason string // what is wrong with it
}

// Error gives the path, what is wrong, and the value.
func (e *ParseError) Error() string {
	text := cmp.Or(e.Path, "policy file") + ": " + e.Reason
	if e.Value != "" {
		text += ": " + e.Value
	}
	return text
}

// maxShown is how much of a value an error repeats.
const maxShown = 80

func shown(value string) string {
	if len(value) <= maxShown {
		return value
	}
	end := maxShown
	for !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end] + "..."
}

// reader walks through a JSON document along a schema. It never descends into what the schema does not name.
type reader struct {
	data []byte
	dec  *jsontext.Decoder
	path []string // ".name" and "[0]" from the top
}

func newReader(data []byte) *reader {
	return &reader{data: data, dec: jsontext.NewDecoder(bytes.NewReader(data))}
}

// grpcForm says whether the document is being read in gRPC's form.
func (r *reader) grpcForm() bool { return len(r.path) > 0 && r.path[0] == ".methodConfig" }

func (r *reader) at() string { return strings.TrimPrefix(strings.Join(r.path, ""), ".") }

// under is the path of a field of the object that is being read.
func (r *reader) under(name string) string { return strings.TrimPrefix(r.at()+step(name), ".") }

// step is a field's part of a path; a name that would not read as one is quoted.
func step(name string) string {
	odd := func(c rune) bool {
		return c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}
	if name == "" || strings.ContainsFunc(name, odd) {
		return "[" + strconv.QuoteToASCII(shown(name)) + "]"
	}
	return "." + shown(name)
}

// inside runs f one step further down.
func (r *reader) inside(step string, f func() error) error {
	r.path = append(r.path, step)
	err := f()
	if err == nil { // the path of an error stays as it was where it arose
		r.path = r.path[:len(r.path)-1]
	}
	return err
}

func (r *reader) fault(value, reason string) error {
	return &ParseError{Path: r.at(), Value: shown(value), Reason: reason}
}

// refuse says what is wrong with the value that comes next.
func (r *reader) refuse(reason string) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.broken(err)
	}
	return r.fault(compact(raw), reason)
}

func compact(raw jsontext.Value) string {
	raw = raw.Clone()
	if raw.Compact() != nil {
		return ""
	}
	return string(raw)
}

// broken says where the document is no JSON.
func (r *reader) broken(err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		if errors.Is(err, io.EOF) {
			return r.fault("", "the document is empty")
		}
		return r.fault("", err.Error())
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		name := syntax.JSONPointer.LastToken()
		return &ParseError{Path: r.under(name), Value: shown(strconv.QuoteToASCII(name)), Reason: "appears twice"}
	}
	reason := fmt.Sprintf("is not JSON at byte %d: %v", syntax.ByteOffset, syntax.Err)
	tail := r.data[min(max(int(syntax.ByteOffset), 0), len(r.data)):]
	if len(tail) == 0 {
		return r.fault("", reason)
	}
	return r.fault(strconv.QuoteToASCII(string(tail[:min(len(tail), maxShown/4)])), reason)
}

// value reads a value of the kind; kinds are those of jsontext, and 'b' is true or false.
func (r *reader) value(kind jsontext.Kind, want string) (string, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return "", r.broken(err)
	}
	if k := raw.Kind(); k != kind && (kind != 'b' || k != 't' && k != 'f') {
		return "", r.fault(compact(raw), "must be "+want)
	}
	return string(raw), nil
}

// text reads a string and gives its content and how it is written.
func (r *reader) text(want string) (text, raw string, err error) {
	if raw, err = r.value('"', want); err != nil {
		return "", "", err
	}
	unquoted, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", "", r.fault(raw, "must be "+want)
	}
	return string(unquoted), raw, nil
}

// integer reads a number that is written as a whole one from lo to hi. One above 2^64 counts as the largest there is.
func (r *reader) integer(lo, hi uint64, want string) (uint64, error) {
	raw, err := r.value('0', want)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(raw, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		n, err = math.MaxUint64, nil
	}
	if err != nil || n < lo || n > hi {
		return 0, r.fault(raw, "must be "+want)
	}
	return n, nil
}

// positive reads a number above 0 and gives how it is written too.
func (r *reader) positive() (f float64, raw string, err error) {
	const want = "a number above 0"
	if raw, err = r.value('0', want); err != nil {
		return 0, "", err
	}
	if f, err = strconv.ParseFloat(raw, 64); err != nil || f <= 0 {
		return 0, "", r.fault(raw, "must be "+want)
	}
	return f, raw, nil
}

func (r *reader) boolean() (bool, error) {
	raw, err := r.value('b', "true or false")
	return raw == "true", err
}

// duration reads a duration of at least lo.
func (r *reader) duration(lo time.Duration) (time.Duration, error) {
	want := `a duration above 0 such as "0.25s", with at most nine decimals`
	if lo <= 0 {
		want = `a duration such as "0.25s", with at most nine decimals, and not negative`
	}
	text, raw, err := r.text(want)
	if err != nil {
		return 0, err
	}
	d, ok := parseDuration(text)
	if !ok || d < lo {
		return 0, r.fault(raw, "must be "+want)
	}
	return d, nil
}

// ownDuration reads a duration of a field that gRPC does not have: above 0, and also in milliseconds.
func (r *reader) ownDuration() (time.Duration, error) {
	const want = `a duration above 0 such as "0.25s" or "250ms", with at most nine decimals`
	text, raw, err := r.text(want)
	if err != nil {
		return 0, err
	}
	d, ok := parseDuration(text)
	if milli, is := strings.CutSuffix(text, "ms"); is {
		d, ok = parseDuration(milli + "s")
		d /= 1000
	}
	if !ok || d < 1 {
		return 0, r.fault(raw, "must be "+want)
	}
	return d, nil
}

// parseDuration reads the JSON form of proto3's Duration: seconds as a JSON number without an exponent, at most nine
// decimals, and an "s".
func parseDuration(text string) (time.Duration, bool) {
	text, ok := strings.CutSuffix(text, "s")
	text, negative := strings.CutPrefix(text, "-")
	whole, part, dotted := strings.Cut(text, ".")
	if !ok || !digits(whole) || len(whole) > 1 && whole[0] == '0' || dotted && (!digits(part) || len(part) > 9) {
		return 0, false
	}
	nanos, err := strconv.ParseInt(whole+part+strings.Repeat("0", 9-len(part)), 10, 64)
	if err != nil {
		return 0, false // longer than a time.Duration
	}
	if negative {
		nanos = -nanos
	}
	return time.Duration(nanos), true
}

func digits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c < '0' || c > '9' })
}

// field is one field of an object: its name, the one that gRPC's form has for it, and how it is read.
type field[T any] struct {
	name     string
	grpc     string // "" when it is the same
	required bool
	read     func(*reader, *T) error
}

func (f *field[T]) called(name string) bool { return name == f.name || f.grpc != "" && name == f.grpc }

// in is the field's name in the form of the document.
func (f *field[T]) in(r *reader) string {
	if f.grpc != "" && r.grpcForm() {
		return f.grpc
	}
	return f.name
}

// object reads an object with the given fields into a T.
func object[T any](r *reader, fields []field[T], into *T) error {
	if err := r.open('{', "an object"); err != nil {
		return err
	}
	seen := make([]bool, len(fields))
	for r.dec.PeekKind() != '}' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return r.broken(err)
		}
		name := token.String()
		err = r.inside(step(name), func() error {
			i := slices.IndexFunc(fields, func(f field[T]) bool { return f.called(name) })
			switch {
			case i < 0:
				return r.refuse("is unknown; there are " + names(r, fields))
			case seen[i]:
				return r.refuse("appears twice, also under its other name")
			}
			seen[i] = true
			return fields[i].read(r, into)
		})
		if err != nil {
			return err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return r.broken(err)
	}
	for i := range fields {
		if fields[i].required && !seen[i] {
			return &ParseError{Path: r.under(fields[i].in(r)), Reason: "is required"}
		}
	}
	return nil
}

func names[T any](r *reader, fields []field[T]) string {
	var list []string
	for i := range fields {
		list = append(list, fields[i].in(r))
	}
	return strings.Join(list, ", ")
}

// array reads an array, each element by itself.
func (r *reader) array(each func(i int) error) error {
	if err := r.open('[', "an array"); err != nil {
		return err
	}
	for i := 0; r.dec.PeekKind() != ']'; i++ {
		if err := r.inside("["+strconv.Itoa(i)+"]", func() error { return each(i) }); err != nil {
			return err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return r.broken(err)
	}
	return nil
}

// open reads the beginning of an object or an array.
func (r *reader) open(kind jsontext.Kind, want string) error {
	if r.dec.PeekKind() != kind {
		return r.refuse("must be " + want)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return r.broken(err)
	}
	return nil
}

// end checks that nothing follows.
func (r *reader) end() error {
	if _, err := r.dec.ReadToken(); err == nil {
		return r.fault("", "more follows after the document")
	} else if !errors.Is(err, io.EOF) {
		return r.broken(err)
	}
	return nil
}
