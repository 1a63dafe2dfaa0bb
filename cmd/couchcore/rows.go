package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/retry"
)

// rowSource are the rows of any service.
type rowSource interface {
	Next() bool
	Row() []byte
	Err() error
	Close() error
	Endpoint() string
	RetryInfo() retry.Info
}

// answer is one request to a row service: rows, then metadata.
type answer struct {
	rows rowSource
	// meta is the answer without its rows, and what it warns of, once the rows have ended.
	meta func() (raw json.RawMessage, warnings []string, err error)
}

// rowLine, metaLine and errorLine are what --json prints, one object a line.
type rowLine struct {
	Row json.RawMessage `json:"row"`
}

type metaLine struct {
	Meta json.RawMessage `json:"meta"`
}

type errorLine struct {
	Error     *failure `json:"error"`
	ElapsedUS int64    `json:"elapsed_us"`
}

// runRows connects, asks, and streams what comes. The bucket is the one that the flags or the connection string name.
func (f *clusterFlags) runRows(a *app, ask func(ctx context.Context, c *core.Cluster, bucket string) (answer,
	error),
) error {
	cfg, err := f.config(a)
	if err != nil {
		return err
	}
	c, err := core.Open(context.Background(), cfg)
	if err != nil {
		return usagef("%v", err)
	}
	began := time.Now()
	err = f.stream(a, began, func() (answer, error) { return ask(context.Background(), c, cfg.Bucket) })
	if err == nil {
		return c.Close()
	}
	_ = c.Close() // the request's own failure is what matters
	if a.json {
		described := failureOf(err)
		if err := a.emit(errorLine{&described, time.Since(began).Microseconds()}); err != nil {
			return err
		}
	}
	if f.Verbose {
		info, _ := retry.InfoOf(err)
		a.sayRetries(info)
	}
	return err
}

// stream writes rows as they come and what stands behind them. The error is the request's, or one of writing.
func (f *clusterFlags) stream(a *app, began time.Time, ask func() (answer, error)) error {
	ans, err := ask()
	if err != nil {
		return err
	}
	defer func() { _ = ans.rows.Close() }()
	n := 0
	for ; ans.rows.Next(); n++ {
		if err := a.row(ans.rows.Row()); err != nil {
			return err
		}
	}
	raw, warnings, err := ans.meta()
	if raw != nil {
		if err := a.showMeta(raw, warnings, n, ans.rows.Endpoint(), time.Since(began)); err != nil {
			return err
		}
	}
	if err == nil {
		err = ans.rows.Err()
	}
	if err == nil && f.Verbose {
		a.sayRetries(ans.rows.RetryInfo())
	}
	return err
}

// row writes one row as a line.
func (a *app) row(raw []byte) error {
	if bytes.ContainsAny(raw, "\r\n") {
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err == nil {
			raw = b.Bytes()
		}
	}
	if a.json {
		return a.emit(rowLine{raw})
	}
	_, err := a.stdout.Write(append(bytes.Clone(raw), '\n'))
	return err
}

// showMeta writes what comes with the rows: for people to standard error, so that the rows stay alone.
func (a *app) showMeta(raw json.RawMessage, warnings []string, n int, endpoint string, took time.Duration) error {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		b.Reset()
		b.Write(raw)
	}
	if a.json {
		return a.emit(metaLine{b.Bytes()})
	}
	lines := []string{fmt.Sprintf("%s  %s  %s", plural(n, "row"), short(took), endpoint)}
	for _, w := range warnings {
		lines = append(lines, "warning   "+w)
	}
	_, err := fmt.Fprintln(a.stderr, strings.Join(append(lines, b.String()), "\n"))
	return err
}

// sayRetries writes to standard error how a request was retried.
func (a *app) sayRetries(info retry.Info) {
	_, _ = fmt.Fprintf(a.stderr, "attempts  %d\n", info.Attempts())
	if list := retryList(info); list != "" {
		_, _ = fmt.Fprintf(a.stderr, "retries   %d  %s\n", info.Retries(), list)
	}
}

// retryList are the reasons of retries with the delays that followed.
func retryList(info retry.Info) string {
	var list []string
	for _, at := range info.Log {
		list = append(list, fmt.Sprintf("%v (waited %s)", at.Reason, short(at.Delay)))
	}
	return strings.Join(list, ", ")
}

// jsonOrText is an argument that is JSON, or another text.
func jsonOrText(arg string) any {
	if json.Valid([]byte(arg)) {
		return json.RawMessage(arg)
	}
	return arg
}

// jsonValues are those of NAME=JSON flags.
func jsonValues(list map[string]string) map[string]any {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]any, len(list))
	for name, v := range list {
		m[name] = jsonOrText(v)
	}
	return m
}

// jsonFlag is a flag that must be JSON; "" is nil.
func jsonFlag(name, text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	if !json.Valid([]byte(text)) {
		return nil, usagef("%s %s is not JSON", name, text)
	}
	return json.RawMessage(text), nil
}
