package mock

import (
	"maps"
)

// serviceSpec is what the configuration and the virtual network say about a service.
type serviceSpec struct {
	ports [2]string // plain and TLS, where the network leaves the choice
	role  string    // in the long form of a node; empty for what is not installed on its own
}

var serviceSpecs = [serviceCount]serviceSpec{
	KVService:         {[2]string{"11210", "11207"}, "kv"},
	ManagementService: {[2]string{"8091", "18091"}, ""},
	ViewsService:      {[2]string{"8092", "18092"}, ""},
	QueryService:      {[2]string{"8093", "18093"}, "n1ql"},
	SearchService:     {[2]string{"8094", "18094"}, "fts"},
	AnalyticsService:  {[2]string{"8095", "18095"}, "cbas"},
	EventingService:   {[2]string{"8096", "18096"}, "eventing"},
}

func allServices() [serviceCount]bool {
	return [serviceCount]bool{true, true, true, true, true, true, true}
}

func serviceSet(ss []Service) [serviceCount]bool {
	out := [serviceCount]bool{ManagementService: true}
	for _, s := range ss {
		if int(s) < serviceCount {
			out[s] = true
		}
	}
	return out
}

// Services sets which services the nodes run, those added later included; all of them unless told. The management
// service is always among them. A node without KVService never holds vbuckets.
func Services(ss ...Service) Option {
	set := serviceSet(ss)
	return func(s *settings) { s.services = set }
}

// NodeServices is Services for one node, and goes before it.
func NodeServices(node int, ss ...Service) Option {
	set := serviceSet(ss)
	return func(s *settings) {
		if s.nodeServices == nil {
			s.nodeServices = map[int][serviceCount]bool{}
		}
		s.nodeServices[node] = set
	}
}

func (s *settings) servicesOf(node int) [serviceCount]bool {
	if set, ok := s.nodeServices[node]; ok {
		return set
	}
	return s.services
}

// runsKV reports whether one of the first nodes can hold vbuckets.
func (s *settings) runsKV() bool {
	for i := range s.nodes {
		if s.servicesOf(i)[KVService] {
			return true
		}
	}
	return false
}

// serviceCapabilities are the capabilities of services that configurations list. The caller holds the mutex.
func (c *Cluster) serviceCapabilities() map[string][]string {
	out, compat := map[string][]string{}, c.compat()
	for _, row := range serviceRows {
		if row.holds(compat) {
			out[row.what.service] = append(out[row.what.service], row.what.name)
		}
	}
	maps.Copy(out, c.capabilities)
	return out
}

// Capabilities sets the capabilities that the configuration lists for "n1ql" or "search", instead of those that the
// oldest of the nodes' versions has, such as enhancedPreparedStatements, readFromReplica and, since 7.6, vectorSearch
// and scopedSearchIndex. Without enhancedPreparedStatements the query service ignores auto_execute.
func Capabilities(service string, names ...string) Option {
	names = append([]string{}, names...)
	return func(s *settings) { s.capabilities[service] = names }
}

// SetCapabilities changes what Capabilities has set, and announces it.
func (c *Cluster) SetCapabilities(service string, names ...string) error {
	names = append([]string{}, names...)
	return c.change(func() error {
		next := maps.Clone(c.capabilities)
		next[service] = names
		c.capabilities = next
		return nil
	})
}

// ServiceAddr is host and port of one of the node's services; empty when the node does not run it.
func (n *Node) ServiceAddr(s Service) string {
	if int(s) >= serviceCount {
		return ""
	}
	return n.addrs[s][0]
}

// ServiceTLSAddr is ServiceAddr for the port that speaks TLS; empty without TLS.
func (n *Node) ServiceTLSAddr(s Service) string {
	if int(s) >= serviceCount {
		return ""
	}
	return n.addrs[s][1]
}

// serviceNames are the services that the long form of a node lists.
func (n *Node) serviceNames() []string {
	names := []string{}
	for s, spec := range serviceSpecs {
		if n.runs[s] && spec.role != "" {
			names = append(names, spec.role)
		}
	}
	return names
}

// couchAPIBase is the address of the node's views below path; empty when it runs none.
func (n *Node) couchAPIBase(path string) string {
	if !n.runs[ViewsService] {
		return ""
	}
	return "http://" + n.addrs[ViewsService][0] + "/" + path
}
