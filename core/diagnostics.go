package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// ClusterState sums up how a cluster can be reached.
type ClusterState string

// States of a cluster. Online means that everything answers, Degraded that of each service something does.
const (
	Online   ClusterState = "online"
	Degraded ClusterState = "degraded"
	Offline  ClusterState = "offline"
)

// reportVersion is that of SDK RFC 34's form with RFC 61's names of services.
const reportVersion = 2

// serviceKeys are the services' names in reports.
var serviceKeys = map[Service]string{
	Management: "mgmt", Query: "query", Search: "search", Views: "views", Analytics: "analytics",
}

// kvKey is the key-value service's name in reports.
const kvKey = "kv"

// DiagnosticsReport says how each connection is, as far as it is known without asking a node. It encodes to the JSON
// of SDK RFC 34.
type DiagnosticsReport struct {
	Version  int                            `json:"version"`
	ID       string                         `json:"id"`
	SDK      string                         `json:"sdk"`
	State    ClusterState                   `json:"state"`
	Services map[string][]ConnectionDetails `json:"services"`
	// RefusedMaps are the cluster maps that were not used, the last one of each bucket, as long as no other map was
	// used after it.
	RefusedMaps []RefusedMap `json:"refused_maps,omitempty"`
}

// RefusedMap is a cluster map that is not used.
type RefusedMap struct {
	Namespace string `json:"namespace,omitempty"` // the bucket, "" for the whole cluster
	Remote    string `json:"remote"`              // the node that gave it
	Reason    string `json:"reason"`
}

// ConnectionDetails is one connection of the key-value service, or one address of another. What has no value is left
// out.
type ConnectionDetails struct {
	ID             string   `json:"id"`
	LastActivityUS *int64   `json:"last_activity_us,omitempty"` // before the report
	Remote         string   `json:"remote"`
	Local          string   `json:"local,omitempty"`
	State          string   `json:"state"`
	Details        string   `json:"details,omitempty"` // why it is not connected
	Namespace      string   `json:"namespace,omitempty"`
	Queued         int      `json:"queued,omitempty"`
	InFlight       int      `json:"in_flight,omitempty"`
	Mechanism      string   `json:"mechanism,omitempty"`
	Features       []string `json:"features,omitempty"` // that the node has granted
	Breaker        string   `json:"circuit_breaker,omitempty"`
}

// Diagnostics reports how the cluster's connections are. It does no I/O and does not block. Connections to services
// other than key-value are made and ended as requests need them: their addresses are listed, without a state of their
// own.
func (c *Cluster) Diagnostics() DiagnosticsReport {
	r := DiagnosticsReport{
		Version: reportVersion, ID: randomID(), SDK: c.agent(), Services: map[string][]ConnectionDetails{},
	}
	now, up, down := time.Now(), 0, 0
	for _, b := range c.all() {
		b.router.NoteActivity()
		if e := b.router.Refusal(); e != nil {
			r.RefusedMaps = append(r.RefusedMaps, RefusedMap{Namespace: b.name, Remote: e.Addr, Reason: e.Err.Error()})
		}
		for _, s := range b.Status() {
			d := ConnectionDetails{
				ID: s.ID, Remote: s.Addr, Local: s.Local, State: s.State, Namespace: b.name, Queued: s.Queued,
				InFlight: s.InFlight, Mechanism: s.Mechanism, Breaker: s.Breaker,
			}
			for f := range memd.Feature(64) {
				if s.Features.Has(f) {
					d.Features = append(d.Features, f.String())
				}
			}
			if s.Err != nil && !s.Connected {
				d.Details = s.Err.Error()
			}
			if !s.Activity.IsZero() {
				us := now.Sub(s.Activity).Microseconds()
				d.LastActivityUS = &us
			}
			if s.Connected {
				up++
			} else {
				down++
			}
			r.Services[kvKey] = append(r.Services[kvKey], d)
		}
	}
	for svc, key := range serviceKeys {
		for _, addr := range c.Endpoints(svc) {
			r.Services[key] = append(r.Services[key], ConnectionDetails{Remote: addr, State: "disconnected"})
		}
	}
	for _, ds := range r.Services {
		slices.SortStableFunc(ds, func(a, b ConnectionDetails) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Remote, b.Remote))
		})
	}
	r.State = stateOf(up, down)
	return r
}

func stateOf(up, down int) ClusterState {
	switch {
	case up > 0 && down == 0:
		return Online
	case up > 0:
		return Degraded
	}
	return Offline
}

// agent is how this client names itself.
func (c *Cluster) agent() string {
	if c.cfg.Agent != "" {
		return "couchcore " + c.cfg.Agent
	}
	return "couchcore"
}

// PingOptions choose what Ping asks. Its zero value asks everything.
type PingOptions struct {
	// of "kv", "query", "search", "views", "analytics" and "mgmt"; nil means all of the cluster's
	Services []string
	Bucket   string        // whose key-value connections are asked; "" means those of all buckets
	Timeout  time.Duration // of each answer; 0 means the service's
}

// PingReport says who has answered. It encodes to the JSON of SDK RFC 34.
type PingReport struct {
	Version   int                      `json:"version"`
	ID        string                   `json:"id"`
	SDK       string                   `json:"sdk"`
	ConfigRev int64                    `json:"config_rev"`
	Services  map[string][]PingDetails `json:"services"`
}

// PingDetails is one node's answer.
type PingDetails struct {
	ID        string `json:"id,omitempty"` // of the connection
	LatencyUS int64  `json:"latency_us"`
	Remote    string `json:"remote"`
	Local     string `json:"local,omitempty"`
	State     string `json:"state"` // "ok", "timeout" or "error"
	Error     string `json:"error,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Err       error  `json:"-"` // what Error says, as the call has returned it
}

// pingLimit bounds how many nodes are asked at the same time.
const pingLimit = 64

// Ping asks every node of each service for a sign of life, over the connections that calls use too, and gives what came
// back. A node that does not answer is part of the report; the error is only about options that make no sense, and
// about a cluster of which no map came before ctx's end. It blocks until all have answered or their time is over.
func (c *Cluster) Ping(ctx context.Context, o PingOptions) (PingReport, error) {
	ctx, op := c.instr.StartOperation(ctx, observe.Target{Operation: "ping", Bucket: o.Bucket, Parts: true})
	r, err := c.ping(ctx, o)
	out := observe.Outcome{Err: err}
	if kind := cberr.KindOf(err); kind != nil {
		out.ErrorName = observe.ErrorName(kind.Name())
	}
	op.End(ctx, out)
	return r, err
}

func (c *Cluster) ping(ctx context.Context, o PingOptions) (PingReport, error) {
	r := PingReport{Version: reportVersion, ID: randomID(), SDK: c.agent(), Services: map[string][]PingDetails{}}
	for _, s := range o.Services {
		if s != kvKey && !slices.Contains(slices.Collect(maps.Values(serviceKeys)), s) {
			return r, fmt.Errorf("%w: %q is not a service", cberr.InvalidArgument, s)
		}
	}
	asked := func(key string) bool { return o.Services == nil || slices.Contains(o.Services, key) }
	c.doer() // makes a client that asks for a map
	bs := c.all()
	if o.Bucket != "" {
		bs = slices.DeleteFunc(bs, func(b *Bucket) bool { return b.name != o.Bucket })
	}
	if err := c.awaitMaps(ctx, bs); err != nil {
		return r, err
	}
	for _, b := range bs {
		if m, ok := b.Map(); ok {
			r.ConfigRev = max(r.ConfigRev, m.Rev)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, pingLimit)
	ask := func(key string, f func() PingDetails) {
		slots <- struct{}{} // before it starts: a map may name thousands of nodes
		wg.Go(func() {      // each ends with its own timeout
			d := f()
			<-slots
			mu.Lock()
			r.Services[key] = append(r.Services[key], d)
			mu.Unlock()
		})
	}
	if asked(kvKey) {
		for _, b := range bs {
			for _, node := range b.router.Nodes() {
				ask(kvKey, func() PingDetails { return b.ping(ctx, node, o.Timeout) })
			}
		}
	}
	for svc, key := range serviceKeys {
		if !asked(key) {
			continue
		}
		for _, addr := range c.Endpoints(svc) {
			ask(key, func() PingDetails { return c.pingHTTP(ctx, svc, addr, o.Timeout) })
		}
	}
	wg.Wait()
	for _, ds := range r.Services {
		slices.SortFunc(ds, func(a, b PingDetails) int {
			return strings.Compare(a.Namespace+" "+a.Remote, b.Namespace+" "+b.Remote)
		})
	}
	return r, nil
}

// awaitMaps waits for a map of each bucket that nodes do not refuse to open. The error is that of the buckets, when
// no bucket has a map.
func (c *Cluster) awaitMaps(ctx context.Context, bs []*Bucket) error {
	errs := make([]error, len(bs))
	var wg sync.WaitGroup
	for i, b := range bs {
		wg.Go(func() { errs[i] = b.awaitMap(ctx) }) // ends by its deadline
	}
	wg.Wait()
	c.seeToMap() // one of them may be the reason why there is no map
	c.awaitMap(ctx, "")
	if s, _ := c.newestMap(""); s != nil {
		return nil
	}
	return errors.Join(errs...)
}

// ping asks one node of the bucket.
func (b *Bucket) ping(ctx context.Context, node int, timeout time.Duration) PingDetails {
	began := time.Now()
	res, err := kv.Do(dispatch.Wanted(ctx), b.router, kv.Noop{
		Common: kv.Common{Timeout: timeout, Retry: call.Strict}, Pinned: true, Node: node,
	})
	d := PingDetails{ID: res.Connection(), Remote: b.router.Address(node), Namespace: b.name}
	took := time.Since(began)
	for _, s := range b.Status() {
		if s.ID == d.ID && d.ID != "" {
			d.Local = s.Local
		}
	}
	return pinged(d, took, err)
}

func (c *Cluster) pingHTTP(ctx context.Context, svc Service, addr string, timeout time.Duration) PingDetails {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	took, err := c.PingService(ctx, svc, addr)
	return pinged(PingDetails{Remote: addr}, took, err)
}

func pinged(d PingDetails, took time.Duration, err error) PingDetails {
	d.LatencyUS, d.State, d.Err = took.Microseconds(), "ok", err
	switch {
	case err == nil:
	case errors.Is(err, cberr.Timeout):
		d.State, d.Error = "timeout", err.Error()
	default:
		d.State, d.Error = "error", err.Error()
	}
	return d
}

// Ready says what WaitReady waits for. Its zero value is Online, of the key-value service alone.
type Ready struct {
	State    ClusterState   // Online, which is also "", or Degraded
	Services []string       // as in PingOptions, beside "kv"; each is pinged until it answers
	Bucket   string         // that is waited for, "" for all that were asked for
	Strategy retry.Strategy // is asked about terminal failures; nil means the cluster's
}

func (w Ready) check() error {
	switch w.State {
	case "", Online, Degraded:
		return nil
	case Offline:
	}
	return fmt.Errorf("%w: the state must be online or degraded: got %q", cberr.InvalidArgument, w.State)
}

// waitServices pings services until the wanted state is reached.
func (c *Cluster) waitServices(ctx context.Context, want Ready) error {
	wait := retry.Exponential(20*time.Millisecond, time.Second, 2)
	for step := 0; ; step++ {
		if len(want.Services) == 0 {
			return nil
		}
		r, err := c.Ping(ctx, PingOptions{Services: want.Services, Timeout: time.Second})
		if err != nil {
			return err
		}
		missing := r.missing(want)
		if missing == nil {
			return nil
		}
		t := time.NewTimer(wait(step, 0))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return &dispatch.NotReadyError{Cause: missing, Err: context.Cause(ctx)}
		}
	}
}

// missing says what keeps the report from the wanted state, nil for nothing.
func (r *PingReport) missing(want Ready) error {
	for _, key := range want.Services {
		up, down, why := 0, 0, "no node offers it"
		for _, d := range r.Services[key] {
			if d.State == "ok" {
				up++
			} else {
				down, why = down+1, d.Remote+": "+d.Error
			}
		}
		if s := stateOf(up, down); s == Offline || s == Degraded && want.State != Degraded {
			return fmt.Errorf("the service %s is %s: %s", key, s, why)
		}
	}
	return nil
}
