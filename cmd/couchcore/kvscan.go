package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/kv"
)

type kvScan struct {
	Prefix       string `arg:"" optional:"" help:"Keys that begin with this (default: all)."`
	Start        string `placeholder:"KEY" help:"Keys from this one on (default: the first)."`
	End          string `placeholder:"KEY" help:"Keys up to this one (default: the last)."`
	ExcludeStart bool   `help:"Exclude the start itself (default: include it)."`
	ExcludeEnd   bool   `help:"Exclude the end itself (default: include it)."`
	Sample       uint64 `placeholder:"N" help:"N random documents instead of a range."`
	Seed         uint64 `placeholder:"N" help:"The same seed gives the same sample (default: 0)."`
	KeysOnly     bool   `help:"Keys without documents (default: no)."`
	Sort         bool   `help:"In the order of the keys, which takes memory for all of them (default: as they come)."`
	Limit        int    `placeholder:"N" help:"Stop after N items (default: all)."`
	Concurrency  int    `placeholder:"N" help:"How many vbuckets to scan at a time (default: one per node)."`
	BatchItems   uint32 `placeholder:"N" help:"Items of one answer (default: 50)."`
	BatchBytes   uint32 `placeholder:"N" help:"Bytes of one answer (default: 15000)."`
}

// scan is what the flags describe.
func (c *kvScan) scan(k *kvCmd) (kv.Scan, error) {
	s := kv.Scan{
		Common: k.common(), KeysOnly: c.KeysOnly, Concurrency: c.Concurrency, BatchItems: c.BatchItems,
		BatchBytes: c.BatchBytes,
	}
	if c.Sort {
		s.Sorted = true
	}
	ranged := c.Start != "" || c.End != "" || c.ExcludeStart || c.ExcludeEnd
	switch {
	case count(c.Prefix != "", ranged, c.Sample > 0) > 1:
		return s, usagef("scan: a prefix, a range (--start, --end) and --sample exclude each other")
	case c.Limit < 0 || c.Concurrency < 0:
		return s, usagef("scan: --limit and --concurrency are not negative")
	case c.Seed != 0 && c.Sample == 0:
		return s, usagef("scan: --seed belongs to --sample")
	case c.Sample > 0:
		s.Samples, s.Seed = c.Sample, c.Seed
	case c.Prefix != "":
		s.Range = kv.PrefixRange([]byte(c.Prefix))
	case ranged:
		s.Range = &kv.ScanRange{ExcludeStart: c.ExcludeStart, ExcludeEnd: c.ExcludeEnd}
		if c.Start != "" {
			s.Range.Start = []byte(c.Start)
		}
		if c.End != "" {
			s.Range.End = []byte(c.End)
		}
	}
	return s, nil
}

// Run implements the command: with --json one object an item.
func (c *kvScan) Run(a *app, k *kvCmd) error {
	op, err := c.scan(k)
	if err != nil {
		return err
	}
	cl, b, err := k.openBucket(a)
	if err != nil {
		return err
	}
	began, ctx := time.Now(), context.Background()
	s, err := op.Run(ctx, b)
	if err != nil {
		return k.failed(a, cl, b, "scan", c.Prefix, err, time.Since(began))
	}
	n := 0
	defer s.Close()
	for (c.Limit == 0 || n < c.Limit) && s.Next(ctx) {
		n++
		if err := c.item(a, s.Item(), time.Since(began)); err != nil {
			return errors.Join(err, cl.Close())
		}
	}
	s.Close()
	if err := s.Err(); err != nil {
		return k.failed(a, cl, b, "scan", c.Prefix, err, time.Since(began))
	}
	if k.Verbose {
		_, _ = fmt.Fprintf(a.stderr, "%s  %s\n", plural(n, "item"), short(time.Since(began)))
	}
	return cl.Close()
}

// item writes one item.
func (c *kvScan) item(a *app, it kv.ScanItem, took time.Duration) error {
	if !a.json {
		if c.KeysOnly {
			return a.print("%s", it.Key)
		}
		return a.print("%s  %s", it.Key, it.Value)
	}
	v := view{Result: kv.Result{CAS: it.CAS}}
	key, encoding := textOf(it.Key)
	if encoding != "" {
		v.more = append(v.more, extra{"key_encoding", encoding})
	}
	if !c.KeysOnly {
		v.value, v.hasValue, v.flags = it.Value, true, &it.Flags
		v.more = append(v.more, extra{"expiry", timeOf(it.Expiry)}, extra{"seqno", fmt.Sprint(it.Seqno)})
	}
	return a.emit(v.json("scan", key, took))
}
