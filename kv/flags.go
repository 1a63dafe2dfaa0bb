package kv

// Format is what a document is, as all clients say it in the upper byte of its flags (SDK RFC 0020).
type Format uint8

// Formats of documents.
const (
	FormatNone    Format = 0 // the flags are those of an older client, or of none
	FormatPrivate Format = 1 // a client's own
	FormatJSON    Format = 2
	FormatBinary  Format = 3
	FormatString  Format = 4 // UTF-8
)

func (f Format) String() string {
	names := [...]string{"none", "private", "json", "binary", "string"}
	if int(f) < len(names) {
		return names[f]
	}
	return "unknown"
}

// Flags are the flags of a document of that format.
func (f Format) Flags() uint32 { return uint32(f&15) << 24 }

// FormatOf reads the format from a document's flags. Flags that say that the document is compressed, which no client
// does any more, or that have a bit which must not be set, have none.
func FormatOf(flags uint32) Format {
	if flags>>28 != 0 {
		return FormatNone
	}
	return Format(flags >> 24)
}
