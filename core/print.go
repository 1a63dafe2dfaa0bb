package core

import (
	"fmt"
	"io"
	"log/slog"
)

// A printer that walks values by reflection would read what goroutines write, and everything that is kept of a
// configuration. So what is alive prints its name, in every format.

// write is the whole of a Format that has one text for every verb. Who calls it without a State gets nothing.
func write(f fmt.State, text string) {
	if f != nil {
		_, _ = io.WriteString(f, text)
	}
}

// String names the cluster's client.
func (c *Cluster) String() string { return "cluster client " + c.id }

// Format writes what String gives, for every verb.
func (c *Cluster) Format(f fmt.State, _ rune) { write(f, c.String()) }

// LogValue is what String gives.
func (c *Cluster) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String names the bucket and its cluster's client.
func (b *Bucket) String() string { return fmt.Sprintf("bucket %q of %s", b.name, b.c) }

// Format writes what String gives, for every verb.
func (b *Bucket) Format(f fmt.State, _ rune) { write(f, b.String()) }

// LogValue is what String gives.
func (b *Bucket) LogValue() slog.Value { return slog.StringValue(b.String()) }

// Format writes the fields by name for every verb. A Secret is stars, and TLS.Config is left out.
func (c Config) Format(f fmt.State, _ rune) {
	type fields Config // without this method
	write(f, fmt.Sprintf("%+v", fields(c)))
}

// Format writes the fields by name for every verb, without Config, which may hold a private key.
func (c TLSConfig) Format(f fmt.State, _ rune) {
	type fields TLSConfig // without this method
	c.Config = nil
	write(f, fmt.Sprintf("%+v", fields(c)))
}

// Format writes what Redacted gives, for every verb.
func (c ConnSpec) Format(f fmt.State, _ rune) { write(f, c.Redacted()) }

// LogValue is what Redacted gives.
func (c ConnSpec) LogValue() slog.Value { return slog.StringValue(c.Redacted()) }

// String is what is asked, and of which service.
func (r HTTPRequest) String() string {
	return fmt.Sprintf("%s %s of service %v", r.Method, r.Path, r.Service)
}

// Format writes what String gives, for every verb: headers and bodies may hold passwords.
func (r HTTPRequest) Format(f fmt.State, _ rune) { write(f, r.String()) }

// LogValue is what String gives.
func (r HTTPRequest) LogValue() slog.Value { return slog.StringValue(r.String()) }
