package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/topology"
)

// doctorCmd finds out why a cluster cannot be used, by the steps in which a client would come to use it.
type doctorCmd struct {
	clusterFlags
	ReadOnly bool   `help:"Write no test document; only read one that is missing (default: no)."`
	Bundle   string `placeholder:"FILE" help:"Write what was found to this file, to be sent to others: report, diagnostics and log, without passwords and names."`
	Orphans  string `placeholder:"FILE" help:"Connect to no node: read the reports of orphaned responses in a log and say what they point to; - reads standard input."`
}

// doctorHooks let a test answer for what is outside of the cluster.
type doctorHooks struct {
	resolver doctorResolver
	now      func() time.Time
}

// doctorResolver looks names up. A *net.Resolver is one.
type doctorResolver interface {
	core.Resolver
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// doctorReport is what the steps have found, as JSON. Steps that were not come to are only named.
type doctorReport struct {
	OK      bool         `json:"ok"`
	Steps   []doctorStep `json:"steps"`
	Skipped []string     `json:"skipped"`
}

// doctorStep is one step. Its problems are warnings when it is OK.
type doctorStep struct {
	Name      string    `json:"name"`
	OK        bool      `json:"ok"`
	Detail    string    `json:"detail"`
	Problems  []problem `json:"problems"`
	ElapsedMS float64   `json:"elapsed_ms"`
}

// problem is what is wrong in words, and what to change.
type problem struct {
	What   string `json:"what"`
	Change string `json:"change"`
}

// finding is the outcome of a step: with failed nothing behind it makes sense.
type finding struct {
	detail string
	warn   []problem
	bad    []problem
	stop   bool
}

func broken(what, change string) finding { return finding{bad: []problem{{what, change}}, stop: true} }

func (f *finding) warning(change, format string, args ...any) {
	f.warn = append(f.warn, problem{fmt.Sprintf(format, args...), change})
}

// doctor is one examination: what a step has learned the later ones use.
type doctor struct {
	*app
	cmd     *doctorCmd
	limit   time.Duration // of each connection or request
	resolve doctorResolver
	now     func() time.Time

	spec    core.ConnSpec
	cfg     core.Config
	names   []string // hosts that are no addresses
	seeds   []string // where to ask first
	http    bool     // that is over HTTP: the hosts name ports of the management service
	up      []string // those of them that can be connected to, and with TLS trusted
	mechs   []string // the SASL mechanisms that the first of them offers
	bucket  string
	source  string // who has given the map
	raw     []byte
	snap    *topology.Snapshot // nil when the map has come over HTTP
	network string
	nodesKV []string  // the nodes of the map
	log     bundleLog // of the clients, for the bundle
}

// doctorSteps are the steps in order.
var doctorSteps = []struct {
	name string
	run  func(*doctor, context.Context) finding
}{
	{"connection string", (*doctor).connectionString},
	{"DNS", (*doctor).dns},
	{"TCP", (*doctor).tcp},
	{"TLS", (*doctor).tls},
	{"HELLO", (*doctor).hello},
	{"authentication", (*doctor).authentication},
	{"bucket", (*doctor).selectBucket},
	{"config", (*doctor).config},
	{"nodes", (*doctor).nodes},
	{"documents", (*doctor).documents},
	{"services", (*doctor).services},
	{"clock", (*doctor).clock},
}

// doctorLimit is how long an answer is waited for, unless --timeout says.
const doctorLimit = 5 * time.Second

// Run implements the command.
func (c *doctorCmd) Run(a *app) error {
	if c.Orphans != "" {
		return a.readOrphans(c.Orphans)
	}
	d := &doctor{app: a, cmd: c, limit: cmp.Or(c.Timeout, doctorLimit), resolve: a.doctor.resolver, now: a.doctor.now}
	if d.resolve == nil {
		d.resolve = net.DefaultResolver
	}
	if d.now == nil {
		d.now = time.Now
	}
	// A string that cannot be used is the first step's to explain; all other flags must be right.
	var err error
	if connect := or(c.Connect, a.env("COUCHCORE_CONNECT")); connect != "" {
		if d.spec, err = core.ParseSpec(connect); err == nil {
			_, err = d.spec.Config()
		}
	}
	if err == nil {
		cfg, err := c.clusterFlags.config(a)
		if err != nil {
			return err
		}
		d.cfg = cfg
	}
	r := d.examine(err)
	if c.Bundle != "" {
		if err := d.writeBundle(r); err != nil {
			return usagef("--bundle: %v", err)
		}
	}
	return d.verdict(r)
}

// examine takes the steps until one makes the next senseless. unreadable is why the connection string cannot be used.
func (d *doctor) examine(unreadable error) *doctorReport {
	r := &doctorReport{OK: true, Steps: []doctorStep{}, Skipped: []string{}}
	stopped := false
	for _, s := range doctorSteps {
		if stopped {
			r.Skipped = append(r.Skipped, s.name)
			continue
		}
		d.live("doctor   %s ...", s.name)
		began := time.Now()
		var f finding
		if unreadable != nil {
			f = broken(strings.TrimPrefix(unreadable.Error(), "connection string: "),
				"write it as couchbase://host1,host2/bucket?option=value; `couchcore connstr` shows how it is read")
		} else {
			f = s.run(d, context.Background())
		}
		step := doctorStep{
			Name: s.name, OK: len(f.bad) == 0, Detail: f.detail, Problems: append(append([]problem{}, f.bad...),
				f.warn...),
			ElapsedMS: float64(time.Since(began).Microseconds()) / 1e3,
		}
		stopped = f.stop
		r.OK = r.OK && step.OK
		r.Steps = append(r.Steps, step)
		d.live("")
		if !d.json {
			_ = d.showStep(step) // an output that is gone is noticed by the verdict
		}
	}
	return r
}

// showStep writes a step, and its problems below it: those that made it fail first.
func (d *doctor) showStep(s doctorStep) error {
	mark := d.paint(green, "ok  ")
	switch {
	case !s.OK:
		mark = d.paint(red, "FAIL")
	case len(s.Problems) > 0:
		mark = "warn"
	}
	first, problems := s.Detail, s.Problems
	if first == "" && len(problems) > 0 {
		first = problems[0].What
	}
	took := strings.ReplaceAll(short(time.Duration(s.ElapsedMS*1e6)), " ", "") // one word, which no line cuts
	text := hanging(doctorLabel(s.Name), fmt.Sprintf("%s (%s)", first, took))
	if err := d.print("%s%s", mark, strings.TrimPrefix(text, noMark)); err != nil {
		return err
	}
	for i, p := range problems {
		if i > 0 || s.Detail != "" {
			if err := d.print("%s", hanging(doctorLabel(""), p.What)); err != nil {
				return err
			}
		}
		if i+1 < len(problems) && problems[i+1].Change == p.Change { // it is said once for all of them
			continue
		}
		if p.Change == "" {
			continue
		}
		if err := d.print("%s", hanging(doctorLabel("what to change"), p.Change)); err != nil {
			return err
		}
	}
	return nil
}

const noMark = "    " // has a step's mark in its place

// doctorLabel is what stands before the text of a line.
func doctorLabel(name string) string { return fmt.Sprintf("%s  %-17s   ", noMark, name) }

// verdict ends the output, and fails when a step has.
func (d *doctor) verdict(r *doctorReport) error {
	if d.json {
		if err := d.emit(r); err != nil {
			return err
		}
	}
	if len(r.Skipped) > 0 {
		if err := d.print("%s", hanging("skip  ", strings.Join(r.Skipped, ", "))); err != nil {
			return err
		}
	}
	for _, s := range r.Steps {
		if !s.OK {
			return &shownError{exitFailed, fmt.Sprintf("doctor: %s: %s", s.Name, s.Problems[0].What)}
		}
	}
	return d.print("%s", d.paint(green, "OK"))
}

// connectionString says what the string comes to. That it can be read is known.
func (d *doctor) connectionString(context.Context) finding {
	d.bucket = d.cfg.Bucket
	var f finding
	hosts, otherPorts := d.spec.Addresses()
	if d.http = len(hosts) == 0; d.http {
		hosts = otherPorts
	}
	for _, h := range hosts {
		d.seeds = append(d.seeds, h.String())
		if net.ParseIP(h.Host) == nil {
			d.names = append(d.names, h.Host)
		}
	}
	parts := []string{or(d.spec.Scheme, "couchbase"), plural(len(hosts), "host")}
	if d.spec.SRVEligible() {
		parts = append(parts, "SRV eligible")
	}
	f.detail = strings.Join(append(parts, fmt.Sprintf("bucket %q", d.bucket)), ", ")
	for _, o := range d.spec.Options {
		info, ok := core.LookupOption(o.Key)
		switch {
		case !ok:
			f.warning("check its spelling: `couchcore connstr` lists those that there are",
				"the option %s is unknown and has no effect", o.Key)
		case !info.Applied:
			f.warning("leave it out", "the option %s has no effect in this client", o.Key)
		}
	}
	return f
}
