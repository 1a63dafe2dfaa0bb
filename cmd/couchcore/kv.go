package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// kvResult is an operation's outcome as JSON. Every key is always there; null is what does not apply.
type kvResult struct {
	Op            string     `json:"op"`
	Key           string     `json:"key"`
	KeyEncoding   string     `json:"key_encoding,omitempty"` // "base64" for a key that is not UTF-8
	Value         *string    `json:"value"`
	Encoding      string     `json:"encoding,omitempty"` // "base64" for a value that is not UTF-8
	Exists        *bool      `json:"exists,omitempty"`
	CAS           *string    `json:"cas"`
	Flags         *uint32    `json:"flags"`
	MutationToken *tokenJSON `json:"mutation_token"`
	Endpoint      string     `json:"endpoint"`
	Attempts      int        `json:"attempts"`
	RetryReasons  []string   `json:"retry_reasons"`
	ElapsedUS     int64      `json:"elapsed_us"`
	Error         *failure   `json:"error"`

	more []extra
}

// extra is a key of JSON that only some operations have.
type extra struct {
	key   string
	value any
}

// MarshalJSON writes the keys that all operations have, and then the operation's own.
func (r kvResult) MarshalJSON() ([]byte, error) {
	r.Key, r.KeyEncoding = textOf([]byte(r.Key))
	type fields kvResult
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(fields(r)); err != nil {
		return nil, err
	}
	for _, x := range r.more {
		b.Truncate(bytes.LastIndexByte(b.Bytes(), '}'))
		fmt.Fprintf(&b, ",%q:", x.key)
		if err := e.Encode(x.value); err != nil {
			return nil, err
		}
		b.WriteByte('}')
	}
	return b.Bytes(), nil
}

// tokenJSON has its 64-bit numbers as text: JSON's numbers are not exact enough in every language.
type tokenJSON struct {
	Bucket  string `json:"bucket"`
	VBucket uint16 `json:"vbucket"`
	UUID    string `json:"uuid"`
	Seqno   string `json:"seqno"`
}

// view is what an operation's result has to show.
type view struct {
	kv.Result
	value    []byte
	hasValue bool
	flags    *uint32
	datatype memd.Datatype
	token    kv.MutationToken
	exists   *bool
	lines    []string // for people, instead of all that
	more     []extra
	note     string // for people too, on standard error
	failed   error  // a part of the operation; what is there is shown all the same
}

func viewGet(r kv.GetResult) view {
	v := view{Result: r.Result, value: r.Value, hasValue: true, flags: &r.Flags, datatype: r.Datatype}
	v.more = append(v.more, extra{"from_replica", r.FromReplica})
	return v
}

func viewMutation(r kv.MutationResult) view { return view{Result: r.Result, token: r.Token} }

func viewCounter(r kv.CounterResult) view {
	return view{Result: r.Result, value: fmt.Append(nil, r.Value), hasValue: true, token: r.Token}
}

func viewExists(r kv.MetaResult) view { return view{Result: r.Result, exists: &r.Exists} }

func viewText(r kv.Result) view { return view{Result: r} }

// runKV connects, runs one operation and shows how it went.
func runKV[R any, O kv.Op[R]](a *app, k *kvCmd, name, key string, op func(kv.Common) (O, error),
	show func(R) view,
) error {
	o, err := op(k.common())
	if err != nil {
		return err
	}
	return runCall(a, k, name, key, func(ctx context.Context, b *core.Bucket) (R, error) { return kv.Do(ctx, b, o) },
		show)
}

// runWrite is runKV for a write that may be watched until enough nodes have it.
func runWrite[O kv.Op[kv.MutationResult]](a *app, k *kvCmd, name, key string, d durableFlag, op func(kv.Common) (O,
	error),
) error {
	if d.PersistTo == 0 && d.ReplicateTo == 0 {
		return runKV(a, k, name, key, op, viewMutation)
	}
	o, err := op(k.common())
	if err != nil {
		return err
	}
	poll := kv.PollDurability{PersistTo: d.PersistTo, ReplicateTo: d.ReplicateTo}
	return runCall(a, k, name, key, func(ctx context.Context, b *core.Bucket) (kv.MutationResult, error) {
		return kv.DoPolled(ctx, b, o, poll)
	}, viewMutation)
}

// common are the fields that all operations have.
func (k *kvCmd) common() kv.Common {
	return kv.Common{Scope: k.Scope, Collection: k.Collection, Timeout: k.Timeout, OnBehalfOf: k.OnBehalfOf}
}

// runCall connects, does one thing and shows how it went.
func runCall[R any](a *app, k *kvCmd, name, key string, do func(context.Context, *core.Bucket) (R, error),
	show func(R) view,
) error {
	c, b, err := k.openBucket(a)
	if err != nil {
		return err
	}
	began := time.Now()
	r, err := do(context.Background(), b)
	took := time.Since(began)
	if err != nil {
		return k.failed(a, c, b, name, key, err, took)
	}
	v := show(r)
	k.explainCall(a, b, key, "", v, took)
	if v.note != "" && !a.json {
		_, _ = fmt.Fprintln(a.stderr, v.note)
	}
	if err := a.showKV(name, key, v, took); err != nil {
		_ = c.Close()
		return err
	}
	if v.failed != nil {
		_ = c.Close()
		return v.failed
	}
	return c.Close()
}

// failed shows an operation that has failed and closes its client; the error stays what it is.
func (k *kvCmd) failed(a *app, c *core.Cluster, b *core.Bucket, name, key string, err error, took time.Duration) error {
	k.explainCall(a, b, key, err.Error(), view{}, took)
	_ = c.Close() // the operation's own failure is what matters
	if !a.json {
		return err
	}
	f := failureOf(err)
	res := kvResult{
		Op: name, Key: key, Attempts: f.Attempts, RetryReasons: f.RetryReasons,
		ElapsedUS: took.Microseconds(), Error: &f,
	}
	var e *kv.Error
	if errors.As(err, &e) {
		res.Endpoint = e.Endpoint
	}
	if err := a.emit(res); err != nil {
		return err
	}
	return err
}

// showKV writes a success.
func (a *app) showKV(name, key string, v view, took time.Duration) error {
	if a.json {
		return a.emit(v.json(name, key, took))
	}
	switch {
	case v.lines != nil:
		for _, l := range v.lines {
			if err := a.print("%s", l); err != nil {
				return err
			}
		}
		return nil
	case v.exists != nil && !*v.exists:
		return a.print("no")
	case v.exists != nil:
		return a.print("yes  cas 0x%016x", v.CAS)
	case v.hasValue:
		_, err := a.stdout.Write(v.value)
		if err == nil && (a.terminal || v.flags == nil) {
			err = a.print("")
		}
		return err
	}
	return a.print("%s", mutationLine(v))
}

// mutationLine says that a write was made.
func mutationLine(v view) string {
	switch {
	case v.CAS == 0:
		return "ok"
	case v.token.IsZero():
		return fmt.Sprintf("ok  cas 0x%016x", v.CAS)
	}
	return fmt.Sprintf("ok  cas 0x%016x  vbucket %d  seqno %d", v.CAS, v.token.VBucket, v.token.Seqno)
}

func (v view) json(name, key string, took time.Duration) kvResult {
	res := kvResult{
		Op: name, Key: key, Exists: v.exists, Flags: v.flags, Endpoint: v.Endpoint(),
		Attempts:     v.RetryInfo().Attempts(),
		RetryReasons: reasonNames(v.RetryInfo().Reasons), ElapsedUS: took.Microseconds(), more: v.more,
	}
	if v.failed != nil {
		f := failureOf(v.failed)
		f.Attempts, f.RetryReasons = res.Attempts, res.RetryReasons
		res.Error = &f
	}
	if v.CAS != 0 {
		cas := hex64(v.CAS)
		res.CAS = &cas
	}
	if v.hasValue {
		text, encoding := textOf(v.value)
		res.Value, res.Encoding = &text, encoding
	}
	if !v.token.IsZero() {
		res.MutationToken = &tokenJSON{v.token.Bucket, v.token.VBucket, hex64(v.token.UUID), fmt.Sprint(v.token.Seqno)}
	}
	return res
}

// textOf is a value as JSON shows it: as it is, or as base64 when it is no UTF-8.
func textOf(value []byte) (text, encoding string) {
	if !utf8.Valid(value) {
		return base64.StdEncoding.EncodeToString(value), "base64"
	}
	return string(value), ""
}

func hex64(n uint64) string { return fmt.Sprintf("0x%016x", n) }

// explainCall writes what -v asks for to standard error: node, vbucket, sends, retries with their reasons and delays.
func (k *kvCmd) explainCall(a *app, b *core.Bucket, key, failed string, v view, took time.Duration) {
	if !k.Verbose {
		return
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(a.stderr, format+"\n", args...) }
	if failed == "" {
		if v.hasValue {
			kind := "binary"
			if v.datatype&memd.DatatypeJSON != 0 {
				kind = "json"
			}
			say("value     %d bytes  %s  cas 0x%016x", len(v.value), kind, v.CAS)
		}
		server := ""
		if d, ok := v.ServerDuration(); ok {
			server = fmt.Sprintf("  server %s", short(d))
		}
		say("node      %s%s  sent %s%s  total %s", v.Endpoint(), vbucketOf(b, key), plural(v.RetryInfo().Attempts(),
			"time"), server, short(took))
	}
	if list := retryList(v.RetryInfo()); list != "" {
		say("retries   %d  %s", v.RetryInfo().Retries(), list)
	}
	for _, n := range b.Status() {
		state := "connected, " + n.Mechanism
		if !n.Connected {
			if state = n.State; n.Err != nil {
				state = "not connected: " + strings.TrimPrefix(n.Err.Error(), "node "+n.Addr+" is not connected: ")
			}
		}
		say("%-21s %s", n.Addr, state)
	}
}

func vbucketOf(b *core.Bucket, key string) string {
	if key == "" {
		return ""
	}
	vb, _, ok := b.Locate([]byte(key))
	if !ok {
		return ""
	}
	return fmt.Sprintf("  vbucket %d", vb)
}

// valueOf reads a VALUE argument; "-" is standard input, whose bytes are sent unchanged.
func valueOf(a *app, arg string) ([]byte, error) {
	if arg != "-" {
		return []byte(arg), nil
	}
	a.stdinTaken = true
	value, err := io.ReadAll(io.LimitReader(a.stdin, kv.MaxValueLen+1))
	if err != nil {
		return nil, usagef("the value cannot be read: %v", err)
	}
	return value, nil
}
