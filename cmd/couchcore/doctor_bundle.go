package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/couchcore/couchcore/core"
)

// bundle is what --bundle writes. Texts of the user's are replaced everywhere in it before it is written.
type bundle struct {
	Version     string                  `json:"version"`
	System      string                  `json:"system"`
	Time        time.Time               `json:"time"`
	Options     map[string]string       `json:"options"` // of the connection string
	Report      *doctorReport           `json:"report"`
	Diagnostics *core.DiagnosticsReport `json:"diagnostics"` // null when no client could be made
	Log         []json.RawMessage       `json:"log"`
}

// bundleLines bounds the lines of the log in a bundle.
const bundleLines = 10_000

// bundleLog keeps lines as they come. Its Write is called by one goroutine of a client's at a time, and by several
// clients.
type bundleLog struct {
	mu    sync.Mutex
	lines []json.RawMessage
}

func (l *bundleLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < bundleLines && json.Valid(line) {
		l.lines = append(l.lines, slices.Clone(line))
	}
	return len(line), nil
}

// keepLog has a client write its log to the bundle, beside where it goes already.
func (d *doctor) keepLog(cfg *core.Config) {
	if d.cmd.Bundle == "" {
		return
	}
	own := slog.NewJSONHandler(&d.log, &slog.HandlerOptions{Level: slog.LevelDebug})
	if cfg.Observe.Log == nil {
		cfg.Observe.Log = slog.New(own)
		return
	}
	cfg.Observe.Log = slog.New(slog.NewMultiHandler(cfg.Observe.Log.Handler(), own))
}

// writeBundle writes the file. It may be read by its owner alone.
func (d *doctor) writeBundle(r *doctorReport) error {
	b := bundle{
		Version: version(), System: runtime.GOOS + "/" + runtime.GOARCH, Time: d.now().UTC(), Report: r,
		Options: map[string]string{}, Log: []json.RawMessage{},
	}
	for _, o := range d.spec.Options {
		if info, ok := core.LookupOption(o.Key); ok {
			b.Options[info.Name] = o.Value
		}
	}
	if len(d.up) > 0 {
		b.Diagnostics = d.diagnose()
	}
	d.log.mu.Lock()
	b.Log = append(b.Log, d.log.lines...)
	d.log.mu.Unlock()
	raw, err := json.Marshal(b)
	if err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return err
	}
	if raw, err = json.MarshalIndent(redacted(tree, d.secrets(b.Diagnostics)), "", " "); err != nil {
		return err
	}
	return os.WriteFile(d.cmd.Bundle, append(raw, '\n'), 0o600)
}

// diagnose is how a client's connections are, after some time to make them; nil without a client.
func (d *doctor) diagnose() *core.DiagnosticsReport {
	c, err := d.open()
	if err != nil {
		return nil
	}
	defer func() { _ = c.Close() }()
	c.Bucket(d.bucket)
	ctx, cancel := context.WithTimeout(context.Background(), d.limit)
	defer cancel()
	_ = c.WaitReady(ctx) // the report says what is not ready
	r := c.Diagnostics()
	return &r
}

// secret is a text that a bundle must not have, and what stands for it.
type secret struct {
	text, with string
	anywhere   bool // also inside of words
}

// secrets are the texts of the user's: credentials, names of users, buckets and hosts.
func (d *doctor) secrets(r *core.DiagnosticsReport) []secret {
	all := []secret{
		{d.cfg.Auth.Password.Reveal(), "PASSWORD", true},
		{d.cfg.Auth.Token.Reveal(), "TOKEN", true},
		{d.cfg.Auth.Username, "USER", false},
	}
	if d.bucket != "default" {
		all = append(all, secret{d.bucket, "BUCKET", false})
	}
	hosts := slices.Concat(d.names, d.hostsOf(r))
	for i, h := range slices.Compact(slices.Sorted(slices.Values(hosts))) {
		all = append(all, secret{h, fmt.Sprintf("HOST%d", i+1), false})
	}
	all = slices.DeleteFunc(all, func(s secret) bool { return s.text == "" })
	slices.SortStableFunc(all, func(a, b secret) int { return cmp.Compare(len(b.text), len(a.text)) })
	return all
}

// hostsOf are the hosts that the examination knows of.
func (d *doctor) hostsOf(r *core.DiagnosticsReport) (hosts []string) {
	addrs := slices.Concat(d.seeds, d.nodesKV)
	if r != nil {
		for _, ds := range r.Services {
			for _, c := range ds {
				addrs = append(addrs, c.Remote, c.Local)
			}
		}
	}
	for _, a := range addrs {
		if host, _, err := net.SplitHostPort(a); err == nil {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// redacted replaces the secrets in all texts of a JSON value. Keys of objects are the program's own words.
func redacted(v any, secrets []secret) any {
	switch v := v.(type) {
	case string:
		for _, s := range secrets {
			v = s.replace(v)
		}
		return v
	case []any:
		for i := range v {
			v[i] = redacted(v[i], secrets)
		}
	case map[string]any:
		for k := range v {
			v[k] = redacted(v[k], secrets)
		}
	}
	return v
}

// replace puts what stands for the secret in its place: as a word of its own, unless it counts anywhere.
func (s *secret) replace(text string) string {
	if s.anywhere {
		return strings.ReplaceAll(text, s.text, s.with)
	}
	var b strings.Builder
	var last rune // before what is looked at
	for {
		before, after, ok := strings.Cut(text, s.text)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if before != "" {
			last, _ = utf8.DecodeLastRuneInString(before)
		}
		if next, _ := utf8.DecodeRuneInString(after); inWord(last) || inWord(next) {
			b.WriteString(s.text)
		} else {
			b.WriteString(s.with)
		}
		last, _ = utf8.DecodeLastRuneInString(s.text)
		text = after
	}
}

// inWord reports whether a word may have the character.
func inWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
