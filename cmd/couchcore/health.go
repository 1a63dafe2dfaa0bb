package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/dispatch"
)

// healthFlags are those of the commands that report on connections.
type healthFlags struct {
	clusterFlags
}

// open connects to the cluster and to the bucket. The caller closes the cluster.
func (f *healthFlags) open(a *app) (*core.Cluster, error) {
	c, _, err := f.openTold(a)
	return c, err
}

// healthPatience is how long a cluster is waited for unless --timeout says.
const healthPatience = 10 * time.Second

func (f *healthFlags) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), cmp.Or(f.Timeout, healthPatience))
}

// serviceNames are the services of reports, in the order in which they are shown.
var serviceNames = [...]string{"kv", "query", "search", "analytics", "views", "mgmt"}

// servicesFlag checks a list of services; none means all.
func servicesFlag(list []string) ([]string, error) {
	for _, s := range list {
		if !slices.Contains(serviceNames[:], s) {
			return nil, usagef("--services: %q is not a service: choose among %s", s,
				strings.Join(serviceNames[:], ", "))
		}
	}
	return list, nil
}

type pingCmd struct {
	healthFlags
	Services []string `placeholder:"NAME" help:"The services to ask: of kv, query, search, analytics, views and mgmt (default: all that the cluster has)."`
}

// Run implements the command. It fails when a node that was asked has not answered.
func (c *pingCmd) Run(a *app) error {
	services, err := servicesFlag(c.Services)
	if err != nil {
		return err
	}
	cl, err := c.open(a)
	if err != nil {
		return err
	}
	ctx, cancel := c.patience()
	defer cancel()
	r, err := cl.Ping(ctx, core.PingOptions{Services: services, Timeout: cmp.Or(c.Timeout, healthPatience)})
	if err != nil {
		_ = cl.Close() // why no node can be asked is what matters
		return fmt.Errorf("ping: %w", err)
	}
	if err := a.showPing(r); err != nil {
		_ = cl.Close()
		return err
	}
	if err := cl.Close(); err != nil {
		return err
	}
	return pingVerdict(r, services)
}

func (a *app) showPing(r core.PingReport) error {
	if a.json {
		return a.emit(r)
	}
	rows := [][]string{{"SERVICE", "REMOTE", "STATE", "LATENCY"}}
	for _, name := range serviceNames {
		for _, d := range r.Services[name] {
			latency := "-"
			if d.State == "ok" {
				latency = short(time.Duration(d.LatencyUS) * time.Microsecond)
			}
			rows = append(rows, []string{name, d.Remote, d.State, latency, d.Error})
		}
	}
	return a.table(rows)
}

// pingVerdict is the error that names the first who has not answered, and the first wanted service that no node offers.
func pingVerdict(r core.PingReport, wanted []string) error {
	all, silent, first := 0, 0, ""
	for _, name := range serviceNames {
		ds := r.Services[name]
		if len(ds) == 0 && slices.Contains(wanted, name) {
			return &shownError{exitFailed, "ping: no node offers the service " + name}
		}
		for _, d := range ds {
			if all++; d.State != "ok" {
				if silent++; first == "" {
					first = fmt.Sprintf("%s %s: %s", name, d.Remote, d.Error)
				}
			}
		}
	}
	if silent == 0 {
		return nil
	}
	return &shownError{exitFailed, fmt.Sprintf("ping: %d of %d did not answer; %s", silent, all, first)}
}

type diagnosticsCmd struct {
	healthFlags
}

// Run implements the command: it waits for the connections, then reports on them without asking a node.
func (c *diagnosticsCmd) Run(a *app) error {
	return c.report(a, "diagnostics", core.Ready{})
}

type waitCmd struct {
	healthFlags
	Services []string `placeholder:"NAME" help:"The services that must answer: of kv, query, search, analytics, views and mgmt (default: kv)."`
	State    string   `enum:"online,degraded" default:"online" help:"online: every node; degraded: of each service at least one (default: online)."`
}

// Run implements the command.
func (c *waitCmd) Run(a *app) error {
	services, err := servicesFlag(c.Services)
	if err != nil {
		return err
	}
	return c.report(a, "wait", core.Ready{State: core.ClusterState(c.State), Services: services})
}

// report waits until the cluster is as wanted and shows how each connection is, whether it came to that or not. A wait
// that was successful needs no details.
func (f *healthFlags) report(a *app, name string, want core.Ready) error {
	c, err := f.open(a)
	if err != nil {
		return err
	}
	ctx, cancel := f.patience()
	defer cancel()
	a.live("%s   waiting for the cluster, at most %v ...", name, cmp.Or(f.Timeout, healthPatience))
	began := time.Now()
	waited := c.WaitReady(ctx, want)
	took := time.Since(began)
	a.live("")
	r := c.Diagnostics()
	if err := a.showDiagnostics(r, took, waited != nil || name != "wait"); err != nil {
		_ = c.Close()
		return err
	}
	if err := c.Close(); waited == nil {
		return err
	}
	return waitError(name, waited, took)
}

// waitError says of a wait that has ended with an error why that was.
func waitError(name string, err error, took time.Duration) error {
	var notReady *dispatch.NotReadyError
	if !errors.As(err, &notReady) || !errors.Is(notReady.Err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", name, err)
	}
	why := "no node has answered"
	if notReady.Cause != nil {
		why = notReady.Cause.Error()
	}
	return &shownError{exitNotApplied, fmt.Sprintf("%s: not ready after %s: %s", name, short(took), why)}
}

func (a *app) showDiagnostics(r core.DiagnosticsReport, took time.Duration, details bool) error {
	if a.json {
		return a.emit(r)
	}
	if err := a.print("%s   %s", r.State, short(took)); err != nil || !details {
		return err
	}
	rows := [][]string{{"SERVICE", "REMOTE", "STATE", "LAST ACTIVITY"}}
	for _, name := range serviceNames {
		for _, d := range r.Services[name] {
			state, activity := d.State, "-"
			if d.LastActivityUS != nil {
				activity = short(time.Duration(*d.LastActivityUS)*time.Microsecond) + " ago"
			}
			if name != "kv" { // connections to these are made as requests need them
				state = "on demand"
			}
			rows = append(rows, []string{name, d.Remote, state, activity, about(d)})
		}
	}
	return a.table(rows)
}

// about is what else there is to say of a connection: why it does not exist, or how it was made and what it is doing.
func about(d core.ConnectionDetails) string {
	if d.Details != "" {
		return d.Details
	}
	var parts []string
	if d.Mechanism != "" {
		parts = append(parts, d.Mechanism)
	}
	if d.Queued > 0 {
		parts = append(parts, fmt.Sprintf("%d queued", d.Queued))
	}
	if d.InFlight > 0 {
		parts = append(parts, fmt.Sprintf("%d in flight", d.InFlight))
	}
	if d.Breaker != "" && d.Breaker != "closed" {
		parts = append(parts, "circuit breaker "+d.Breaker)
	}
	return strings.Join(parts, ", ")
}
