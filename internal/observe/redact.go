package observe

import "log/slog"

// Redaction says what is tagged in log lines and error texts, in the way that Couchbase's log tools understand. The
// text between the tags stays as it is: those tools replace it. Secrets are not a matter of levels; see Secret.
type Redaction uint8

// The levels of redaction. The zero value tags nothing.
const (
	RedactNone    Redaction = iota
	RedactPartial           // user data
	RedactFull              // also metadata and system data
)

var redactionNames = [...]string{RedactNone: "none", RedactPartial: "partial", RedactFull: "full"}

func (r Redaction) String() string {
	if int(r) < len(redactionNames) {
		return redactionNames[r]
	}
	return "unknown"
}

// UserData tags a document key, a value, a user name or a statement.
func (r Redaction) UserData(text string) string {
	if r < RedactPartial {
		return text
	}
	return "<ud>" + text + "</ud>"
}

// Metadata tags the name of a bucket, scope, collection or index.
func (r Redaction) Metadata(text string) string {
	if r < RedactFull {
		return text
	}
	return "<md>" + text + "</md>"
}

// SystemData tags a host or a port.
func (r Redaction) SystemData(text string) string {
	if r < RedactFull {
		return text
	}
	return "<sd>" + text + "</sd>"
}

// taggedValue is a log value that is tagged only when a handler asks for it.
type taggedValue struct {
	tag  func(string) string
	text string
}

func (v taggedValue) LogValue() slog.Value { return slog.StringValue(v.tag(v.text)) }

// User is user data as a log value: slog.Any(KeyOption, r.User(name)). The tags are added when the line is written.
func (r Redaction) User(text string) slog.Value {
	return slog.AnyValue(taggedValue{r.UserData, text})
}

// Meta is metadata as a log value.
func (r Redaction) Meta(text string) slog.Value {
	return slog.AnyValue(taggedValue{r.Metadata, text})
}

// System is system data as a log value.
func (r Redaction) System(text string) slog.Value {
	return slog.AnyValue(taggedValue{r.SystemData, text})
}
