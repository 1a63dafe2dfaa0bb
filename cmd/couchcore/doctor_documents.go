package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

const (
	doctorKey    = "couchcore::doctor::" // begins the keys of test documents
	doctorExpiry = 5 * time.Minute       // of one that cannot be removed
	doctorMost   = 16                    // nodes with a test document
)

var doctorValue = []byte(`{"by":"couchcore doctor"}`)

// documents writes, reads and removes a document of its own on each node.
func (d *doctor) documents(ctx context.Context) finding {
	c, err := d.open()
	if err != nil {
		return broken(err.Error(), "")
	}
	defer func() { _ = c.Close() }()
	b := c.Bucket(d.bucket)
	waiting, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	if _, err := b.Layout(waiting); err != nil {
		return broken(err.Error(), "the nodes answer, and the client gets no map from them: see its log")
	}
	keys := documentKeys(b)
	var addrs []string
	for addr := range keys {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	refusals := make(chan problem, len(addrs))
	all := each(addrs, func(addr string) (string, error) {
		p, err := d.document(ctx, b, keys[addr])
		if p != nil {
			refusals <- *p
		}
		return "", err
	})
	close(refusals)
	detail, _, bad := split(all, func(p probed) string { return documentAdvice(p.err) })
	f := finding{detail: detail, bad: bad}
	f.slow(all...)
	for p := range refusals {
		if !slices.Contains(f.warn, p) { // the role is missing on all nodes
			f.warn = append(f.warn, p)
		}
	}
	return f
}

// documentKeys finds a key for each node that holds active data, as far as a few tries do, up to a limit. A bucket
// without vbuckets has one for all nodes.
func documentKeys(b *core.Bucket) map[string]string {
	var own [8]byte
	_, _ = rand.Read(own[:])
	prefix := doctorKey + hex.EncodeToString(own[:])
	m, _ := b.Map()
	keys := map[string]string{}
	for i := 0; i < 64*len(m.Nodes) && len(keys) < min(len(m.Nodes), doctorMost); i++ {
		key := fmt.Sprintf("%s::%d", prefix, i)
		_, nodes, ok := b.Locate([]byte(key))
		if !ok {
			return map[string]string{"any node": key}
		}
		if keys[nodes[0]] == "" && nodes[0] != "" {
			keys[nodes[0]] = key
		}
	}
	return keys
}

// document writes, reads and removes one document. What the user has no role for is a problem that others need not
// have.
func (d *doctor) document(ctx context.Context, b *core.Bucket, key string) (refused *problem, err error) {
	common := kv.Common{Timeout: d.limit}
	if !d.cmd.ReadOnly {
		_, err = kv.Do(ctx, b, kv.Upsert{
			Common: common, Key: []byte(key), Value: doctorValue, Datatype: memd.DatatypeJSON,
			Expiry: kv.ExpireAfter(doctorExpiry),
		})
	}
	written := err == nil && !d.cmd.ReadOnly
	if isRefused(err) {
		refused = &problem{"the user may not write documents", "nothing, if the program only reads; otherwise give " +
			"the user a role for it, such as Data Writer"}
		err = nil
	}
	if err != nil {
		return refused, &documentError{"a write", err}
	}
	r, err := kv.Do(ctx, b, kv.GetOrNull{Common: common, Key: []byte(key)})
	if isRefused(err) {
		refused = &problem{"the user may not read documents", "give the user a role for it, such as Data Reader"}
		err = nil
	} else if err == nil && written && (r.Absent || !bytes.Equal(r.Value, doctorValue)) {
		err = errors.New("the document that was just written is not there, or is another one")
	}
	if written {
		_, gone := kv.Do(ctx, b, kv.Remove{Common: common, Key: []byte(key)})
		if err == nil && gone != nil && !isRefused(gone) && !errors.Is(gone, cberr.DocumentNotFound) {
			return refused, &documentError{"the removal", gone}
		}
	}
	if err != nil {
		err = &documentError{"a read", err}
	}
	return refused, err
}

func isRefused(err error) bool { return errors.Is(err, cberr.AuthenticationFailure) }

// documentError is an operation on a test document that has failed.
type documentError struct {
	what string
	err  error
}

func (e *documentError) Error() string { return e.what + " failed: " + e.err.Error() }

// Unwrap gives the failure.
func (e *documentError) Unwrap() error { return e.err }

func documentAdvice(err error) string {
	var e *kv.Error
	switch {
	case errors.As(err, &e) && e.Answered && e.Status == memd.StatusTmpFail:
		return "the node refuses work for now: look at the bucket's memory quota and disk queue, and at the node's log"
	case errors.As(err, &e) && e.Answered:
		return fmt.Sprintf("`couchcore errors 0x%02x` says what that status means", uint16(e.Status))
	case errors.Is(err, cberr.Timeout):
		return "the node takes the request and does not answer: look at its load and at its log; a proxy or a " +
			"firewall in between may swallow packets"
	}
	return "look at the node's log"
}
