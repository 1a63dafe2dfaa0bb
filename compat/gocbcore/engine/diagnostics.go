//go:build ignore

package gocbcore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/couchcore/couchcore/core"
)

// diagnosticsComponent says how a bucket, or a cluster, is reached.
type diagnosticsComponent struct {
	client *client
	mux    *kvMux
	name   string
}

// serviceKeys are the names of services in couchcore's reports.
var serviceKeys = map[ServiceType]string{
	MemdService: "kv", MgmtService: "mgmt", CapiService: "views", N1qlService: "query", FtsService: "search",
	CbasService: "analytics",
}

// connStates are the states of connections in couchcore's reports.
var connStates = map[string]EndpointState{
	"connected": EndpointStateConnected, "connecting": EndpointStateConnecting,
	"disconnecting": EndpointStateDisconnecting,
}

// Diagnostics says how the bucket's connections are.
func (d *diagnosticsComponent) Diagnostics(DiagnosticsOptions) (*DiagnosticInfo, error) {
	info, up := &DiagnosticInfo{State: ClusterStateOffline}, 0
	if m, ok := d.mux.bucket.Map(); ok {
		info.ConfigRev = m.Rev
	}
	for _, c := range d.client.cluster.Diagnostics().Services["kv"] {
		if c.Namespace != d.name {
			continue
		}
		conn := MemdConnInfo{
			LocalAddr: c.Local, RemoteAddr: c.Remote, Scope: c.Namespace, ID: c.ID, State: EndpointStateDisconnected,
		}
		if s, ok := connStates[c.State]; ok {
			conn.State = s
		}
		if c.LastActivityUS != nil {
			conn.LastActivity = time.Now().Add(-time.Duration(*c.LastActivityUS) * time.Microsecond)
		}
		if conn.State == EndpointStateConnected {
			up++
		}
		info.MemdConns = append(info.MemdConns, conn)
	}
	switch {
	case up > 0 && up == len(info.MemdConns):
		info.State = ClusterStateOnline
	case up > 0:
		info.State = ClusterStateDegraded
	}
	return info, nil
}

// deadline is when a service's answer is given up.
func (o *PingOptions) deadline(s ServiceType) time.Time {
	return map[ServiceType]time.Time{
		MemdService: o.KVDeadline, CbasService: o.CbasDeadline, N1qlService: o.N1QLDeadline,
		FtsService: o.FtsDeadline, CapiService: o.CapiDeadline, MgmtService: o.MgmtDeadline,
	}[s]
}

// Ping asks each node of the services for a sign of life.
func (d *diagnosticsComponent) Ping(o PingOptions, cb PingCallback) (PendingOp, error) {
	list := o.ServiceTypes
	if len(list) == 0 {
		list = []ServiceType{MemdService, CapiService, N1qlService, FtsService, CbasService, MgmtService}
		o.ignoreMissingServices = true
	}
	for _, s := range list {
		if serviceKeys[s] == "" {
			return nil, errInvalidService
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		res := &PingResult{Services: map[ServiceType][]EndpointPingResult{}}
		var lock sync.Mutex
		var all sync.WaitGroup
		for _, s := range list {
			all.Go(func() {
				got, rev := d.pingOne(ctx, s, &o)
				lock.Lock()
				defer lock.Unlock()
				res.ConfigRev = max(res.ConfigRev, rev)
				if len(got) > 0 || !o.ignoreMissingServices {
					res.Services[s] = got
				}
			})
		}
		all.Wait()
		cb(res, nil)
	}()
	return canceler(cancel), nil
}

// pingOne asks the nodes of one service.
func (d *diagnosticsComponent) pingOne(ctx context.Context, s ServiceType, o *PingOptions) (list []EndpointPingResult,
	rev int64,
) {
	options := core.PingOptions{Services: []string{serviceKeys[s]}, Bucket: d.name}
	if at := o.deadline(s); !at.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
		options.Timeout = left(at)
	}
	var report core.PingReport
	err := error(errShutdown)
	if !d.mux.closed.Load() {
		report, err = d.client.cluster.Ping(ctx, options)
	}
	if err != nil {
		state := PingStateTimeout
		if err = waitError(err, "Ping", time.Now()); !errors.Is(err, ErrTimeout) {
			state = PingStateError
		}
		return []EndpointPingResult{{Error: err, Scope: d.name, ID: formatCbUID(randomCbUID()), State: state}}, 0
	}
	for _, p := range report.Services[serviceKeys[s]] {
		if s == MemdService && p.Namespace != d.name {
			continue
		}
		list = append(list, d.pinged(s, p))
	}
	if len(list) == 0 && !o.ignoreMissingServices {
		list = []EndpointPingResult{{
			Error: errServiceNotAvailable, Scope: d.name, ID: formatCbUID(randomCbUID()), State: PingStateError,
		}}
	}
	return list, report.ConfigRev
}

func (d *diagnosticsComponent) pinged(s ServiceType, p core.PingDetails) EndpointPingResult {
	r := EndpointPingResult{
		Endpoint: p.Remote, Latency: time.Duration(p.LatencyUS) * time.Microsecond, ID: p.ID, Scope: p.Namespace,
		State: PingStateOK,
	}
	if s != MemdService {
		r.Endpoint = d.client.scheme() + p.Remote
	}
	if r.ID == "" {
		r.ID = formatCbUID(randomCbUID())
	}
	switch p.State {
	case "ok":
		return r
	case "timeout":
		r.State, r.Error = PingStateTimeout, errUnambiguousTimeout
	default:
		r.State, r.Error = PingStateError, kindError(p.Err)
	}
	return r
}

// WaitUntilReady calls cb when what the options name can be reached.
func (d *diagnosticsComponent) WaitUntilReady(deadline time.Time, o WaitUntilReadyOptions, cb WaitUntilReadyCallback) (
	PendingOp, error,
) {
	want := core.Ready{State: core.Online}
	switch o.DesiredState {
	case ClusterStateOffline:
		return nil, wrapError(errInvalidArgument, "a cluster is not waited for until it is offline")
	case ClusterStateDegraded:
		want.State = core.Degraded
	}
	for _, s := range o.ServiceTypes {
		key, ok := serviceKeys[s]
		if !ok {
			return nil, errInvalidService
		}
		if s != MemdService {
			want.Services = append(want.Services, key)
		}
	}
	strategy := o.RetryStrategy
	if strategy == nil {
		strategy = d.client.strategy.fallback.own
	}
	began := time.Now()
	return blocking(contextDeadline(deadline), func(ctx context.Context) {
		wait := &request{id: "waituntilready", idempotent: true}
		for {
			err := error(errShutdown)
			if !d.mux.closed.Load() {
				err = d.ready(ctx, want)
			}
			if err == nil {
				cb(&WaitUntilReadyResult{}, nil)
				return
			}
			if errors.Is(kindError(err), errShutdown) {
				cb(nil, errShutdown)
				return
			}
			if ctx.Err() != nil {
				cb(nil, notReady(ctx, err, began, wait))
				return
			}
			if !again(ctx, wait, strategy) {
				cb(nil, kindError(err))
				return
			}
		}
	}), nil
}

func (d *diagnosticsComponent) ready(ctx context.Context, want core.Ready) error {
	if d.name != "" && want.State == core.Online && len(want.Services) == 0 {
		return d.mux.bucket.WaitReady(ctx)
	}
	return d.client.cluster.WaitReady(ctx, want)
}

// again asks the strategy whether waiting goes on after a connection has failed, and waits as long as it says.
func again(ctx context.Context, r *request, s RetryStrategy) bool {
	action := decide(s, r, ConnectionErrorRetryReason)
	if action == nil || action.Duration() == 0 {
		return false
	}
	r.attempts++
	if len(r.reasons) == 0 {
		r.reasons = []RetryReason{ConnectionErrorRetryReason}
	}
	timer := time.NewTimer(action.Duration())
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return true
}

// notReady is the error of a wait that was ended.
func notReady(ctx context.Context, err error, began time.Time, r *request) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errRequestCanceled
	}
	if len(r.reasons) == 0 {
		r.reasons = []RetryReason{NotReadyRetryReason}
	}
	return &TimeoutError{
		InnerError: errUnambiguousTimeout, OperationID: "WaitUntilReady", TimeObserved: time.Since(began),
		RetryReasons: r.reasons, RetryAttempts: r.attempts,
	}
}
