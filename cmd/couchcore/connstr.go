package main

import (
	"fmt"
	"strings"

	"github.com/couchcore/couchcore/core"
)

type connstrCmd struct {
	String string `arg:"" help:"The connection string."`
}

// connstrResult is a connection string as JSON. The values of options that the client does not know are not shown.
type connstrResult struct {
	Scheme  string            `json:"scheme"`
	TLS     bool              `json:"tls"`
	Hosts   []connstrHost     `json:"hosts"`
	Bucket  string            `json:"bucket"`
	SRV     bool              `json:"srv"`
	Options map[string]string `json:"options"`
	Unknown []string          `json:"unknown_options"`
}

type connstrHost struct {
	Host        string `json:"host"`
	Port        int    `json:"port"`
	DefaultPort bool   `json:"default_port"`
}

// Run implements the command.
func (c *connstrCmd) Run(a *app) error {
	spec, err := core.ParseSpec(c.String)
	if err != nil {
		return usagef("%v", err)
	}
	res := connstrResult{
		Scheme: or(spec.Scheme, "couchbase"), TLS: spec.TLS(), Hosts: connstrHosts(spec), Bucket: spec.Bucket,
		SRV: spec.SRVEligible(), Options: map[string]string{}, Unknown: []string{},
	}
	for _, o := range spec.Options {
		if info, ok := core.LookupOption(o.Key); ok {
			res.Options[info.Name] = o.Value
		} else {
			res.Unknown = append(res.Unknown, o.Key)
		}
	}
	given := len(res.Options)
	rows := optionRows(&res)
	if a.json {
		return a.emit(res)
	}
	return a.showConnstr(res, rows, given)
}

// optionRows gives a row for each option, those in the string first, and enters the defaults of the others into res.
func optionRows(res *connstrResult) [][]string {
	var given, tail [][]string
	for o := range core.KnownOptions() {
		if o.Name != o.Key || o.Refused != "" {
			continue
		}
		value, isGiven := res.Options[o.Name]
		def := or(o.Default, "none")
		note := ""
		if o.Note != "" {
			note = "  " + o.Note
		}
		if isGiven {
			given = append(given, []string{"", o.Name, value, "(default " + def + ")" + note})
			continue
		}
		res.Options[o.Name] = o.Default
		tail = append(tail, []string{"", o.Name, def, "(default)" + note})
	}
	return append(given, tail...)
}

// connstrHosts lists the hosts with the ports that are used.
func connstrHosts(spec core.ConnSpec) []connstrHost {
	hosts := spec.Hosts
	if len(hosts) == 0 {
		hosts = []core.HostPort{{Host: "127.0.0.1"}}
	}
	list := make([]connstrHost, 0, len(hosts))
	for _, h := range hosts {
		out := connstrHost{h.Host, h.Port, h.Port == 0}
		if out.DefaultPort {
			one := spec
			one.Hosts = []core.HostPort{h}
			if kv, _ := one.Addresses(); len(kv) > 0 {
				out.Port = kv[0].Port
			}
		}
		list = append(list, out)
	}
	return list
}

func (a *app) showConnstr(res connstrResult, options [][]string, given int) error {
	scheme := res.Scheme
	if res.TLS {
		scheme += " (TLS)"
	}
	var hosts []string
	for _, h := range res.Hosts {
		text := core.HostPort{Host: h.Host, Port: h.Port}.String()
		if h.DefaultPort {
			text += " (default port)"
		}
		hosts = append(hosts, text)
	}
	srv := "yes: one host, a name without a port"
	if !res.SRV {
		srv = "no: " + noSRV(res)
	}
	for _, line := range [][2]string{
		{"scheme", scheme},
		{"hosts", strings.Join(hosts, "  ")},
		{"bucket", or(res.Bucket, "none")},
		{"SRV", srv},
		{"options", fmt.Sprintf("%d given", given)},
	} {
		if err := a.print("%-8s %s", line[0], line[1]); err != nil {
			return err
		}
	}
	if len(res.Unknown) > 0 {
		if err := a.print("%-8s %s", "unknown", strings.Join(res.Unknown, " ")); err != nil {
			return err
		}
	}
	return a.table(options)
}

// noSRV says why DNS SRV records are out of question.
func noSRV(res connstrResult) string {
	switch {
	case len(res.Hosts) > 1:
		return "more than one host"
	case res.Scheme == "http":
		return "the scheme is http"
	case !res.Hosts[0].DefaultPort:
		return "the host has a port"
	}
	return "the host is an address, or the string names no scheme"
}
