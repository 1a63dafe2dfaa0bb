package observe

import (
	"fmt"
	"io"
	"log/slog"
)

const stars = "***"

// Secret holds a password or token and prints as stars in every format, in JSON, in text and in logs, also from within
// other values. The zero Secret is empty. It is immutable and may be copied and shared.
type Secret struct {
	// The text is behind a function because a printer that walks values by reflection, fmt among them, cannot call
	// the methods below on an unexported field: of a function it sees an address.
	reveal func() string
}

// NewSecret wraps text. The empty text gives the zero Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{reveal: func() string { return text }}
}

// Reveal returns the text. Call it only where the secret is used: to compute a proof or to write it to a socket.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// Empty reports whether there is no secret.
func (s Secret) Empty() bool { return s.reveal == nil }

// String returns stars, of one length for every secret.
func (Secret) String() string { return stars }

// GoString returns stars.
func (Secret) GoString() string { return stars }

// Format writes stars for every verb and flag.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, stars) }

// LogValue returns stars.
func (Secret) LogValue() slog.Value { return slog.StringValue(stars) }

// MarshalJSON returns stars.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + stars + `"`), nil }

// MarshalText returns stars, which covers map keys, XML and encoders of other modules.
func (Secret) MarshalText() ([]byte, error) { return []byte(stars), nil }
