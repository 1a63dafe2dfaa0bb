//go:build ignore

package gocbcore

import (
	"sync"
	"sync/atomic"
	"time"
)

// AgentGroup is a cluster with one agent for each bucket that is open.
type AgentGroup struct {
	client *client

	lock   sync.Mutex
	config AgentConfig
	agents map[string]*Agent
	closed bool

	// clusterAgent is for what belongs to no bucket.
	clusterAgent *Agent
	mapped       atomic.Pointer[kvMux] // one that has a map, nil before that is known
}

// CreateAgentGroup makes a group. It does not wait for the cluster.
func CreateAgentGroup(config *AgentGroupConfig) (*AgentGroup, error) {
	c, err := newClient(&config.AgentConfig)
	if err != nil {
		return nil, err
	}
	ag := &AgentGroup{client: c, config: config.AgentConfig, agents: map[string]*Agent{}}
	own := config.AgentConfig
	own.BucketName = ""
	ag.clusterAgent = newAgent(&own, c)
	if config.BucketName != "" {
		return ag, ag.OpenBucket(config.BucketName)
	}
	return ag, nil
}

// OpenBucket makes the agent of a bucket, unless there is one.
func (ag *AgentGroup) OpenBucket(bucketName string) error {
	if bucketName == "" {
		return wrapError(errInvalidArgument, "bucket name cannot be empty")
	}
	ag.lock.Lock()
	defer ag.lock.Unlock()
	if ag.closed {
		return errShutdown
	}
	if ag.agents[bucketName] == nil {
		config := ag.config
		config.BucketName = bucketName
		ag.agents[bucketName] = newAgent(&config, ag.client)
	}
	return nil
}

// GetAgent is the agent of a bucket that was opened, or nil.
func (ag *AgentGroup) GetAgent(bucketName string) *Agent {
	ag.lock.Lock()
	defer ag.lock.Unlock()
	return ag.agents[bucketName]
}

func (ag *AgentGroup) all() []*Agent {
	ag.lock.Lock()
	defer ag.lock.Unlock()
	list := make([]*Agent, 0, len(ag.agents))
	for _, a := range ag.agents {
		list = append(list, a)
	}
	return list
}

// Close ends the group and its agents.
func (ag *AgentGroup) Close() error {
	ag.lock.Lock()
	was := ag.closed
	ag.closed = true
	ag.lock.Unlock()
	if was {
		return errShutdown
	}
	for _, a := range append(ag.all(), ag.clusterAgent) {
		a.kvMux.closed.Store(true)
	}
	return ag.client.close()
}

// N1QLQuery runs a statement of the query service.
func (ag *AgentGroup) N1QLQuery(opts N1QLQueryOptions, cb N1QLQueryCallback) (PendingOp, error) {
	return ag.clusterAgent.N1QLQuery(opts, cb)
}

// PreparedN1QLQuery runs a statement of the query service, whose plan is kept.
func (ag *AgentGroup) PreparedN1QLQuery(opts N1QLQueryOptions, cb N1QLQueryCallback) (PendingOp, error) {
	return ag.clusterAgent.PreparedN1QLQuery(opts, cb)
}

// AnalyticsQuery runs a statement of the analytics service.
func (ag *AgentGroup) AnalyticsQuery(opts AnalyticsQueryOptions, cb AnalyticsQueryCallback) (PendingOp, error) {
	return ag.clusterAgent.AnalyticsQuery(opts, cb)
}

// SearchQuery runs a search.
func (ag *AgentGroup) SearchQuery(opts SearchQueryOptions, cb SearchQueryCallback) (PendingOp, error) {
	return ag.clusterAgent.SearchQuery(opts, cb)
}

// DoHTTPRequest sends a raw request to a service.
func (ag *AgentGroup) DoHTTPRequest(req *HTTPRequest, cb DoHTTPRequestCallback) (PendingOp, error) {
	return ag.clusterAgent.DoHTTPRequest(req, cb)
}

// WaitUntilReady calls cb when the cluster can be reached.
func (ag *AgentGroup) WaitUntilReady(deadline time.Time, opts WaitUntilReadyOptions, cb WaitUntilReadyCallback) (
	PendingOp, error,
) {
	if err := noBucket(opts.ServiceTypes); err != nil {
		return nil, err
	}
	return ag.clusterAgent.diagnostics.WaitUntilReady(deadline, opts, cb)
}

// Ping asks the cluster's services for a sign of life.
func (ag *AgentGroup) Ping(opts PingOptions, cb PingCallback) (PendingOp, error) {
	if err := noBucket(opts.ServiceTypes); err != nil {
		return nil, err
	}
	if len(opts.ServiceTypes) == 0 {
		opts.ServiceTypes = []ServiceType{CbasService, FtsService, N1qlService, MgmtService}
		opts.ignoreMissingServices = true
	}
	return ag.clusterAgent.Ping(opts, cb)
}

// noBucket refuses the services that belong to a bucket.
func noBucket(services []ServiceType) error {
	for _, s := range services {
		switch s {
		case MemdService, CapiService:
			return wrapError(errInvalidArgument, "the service belongs to a bucket, which an agent group does not name")
		}
	}
	return nil
}

// Diagnostics says how the connections of all agents are.
func (ag *AgentGroup) Diagnostics(opts DiagnosticsOptions) (*DiagnosticInfo, error) {
	agents := ag.all()
	if len(agents) == 0 {
		agents = append(agents, ag.clusterAgent)
	}
	sum, online := &DiagnosticInfo{}, 0
	for _, a := range agents {
		one, err := a.Diagnostics(opts)
		if err != nil {
			return nil, err
		}
		sum.MemdConns = append(sum.MemdConns, one.MemdConns...)
		sum.ConfigRev = max(sum.ConfigRev, one.ConfigRev)
		if one.State == ClusterStateOnline {
			online++
		}
	}
	switch online {
	case len(agents):
		sum.State = ClusterStateOnline
	case 0:
		sum.State = ClusterStateOffline
	default:
		sum.State = ClusterStateDegraded
	}
	return sum, nil
}

// ReconfigureSecurity replaces the credentials of all agents.
func (ag *AgentGroup) ReconfigureSecurity(opts ReconfigureSecurityOptions) error {
	return ag.client.reconfigure(opts)
}

// Reauthenticate sends tokens anew over the connections that are open.
func (ag *AgentGroup) Reauthenticate(opts ReauthenticateOptions) error {
	return ag.clusterAgent.Reauthenticate(opts) // of all agents: they have one client
}

// AgentGroupInternal has what gocb asks for beside the API.
type AgentGroupInternal struct{ agentGroup *AgentGroup }

// Internal gives access to what is not for programs.
func (ag *AgentGroup) Internal() *AgentGroupInternal { return &AgentGroupInternal{ag} }

// SearchCapabilityStatus says whether the search service has a capability.
func (agi *AgentGroupInternal) SearchCapabilityStatus(c SearchCapability) CapabilityStatus {
	names := map[SearchCapability]string{
		SearchCapabilityScopedIndexes: "scopedSearchIndex", SearchCapabilityVectorSearch: "vectorSearch",
	}
	return status(agi.agentGroup.client.cluster.Capability("search", names[c]))
}

// ClusterLabels are the uuid and the name of the cluster. gocb asks for them with each span.
func (agi *AgentGroupInternal) ClusterLabels() ClusterLabels {
	ag := agi.agentGroup
	if m := ag.mapped.Load(); m != nil {
		if l, ok := m.names(); ok {
			return l
		}
	}
	for _, a := range append(ag.all(), ag.clusterAgent) {
		if l, ok := a.kvMux.names(); ok {
			ag.mapped.Store(a.kvMux)
			return l
		}
	}
	return ClusterLabels{}
}
