package services

// Service is one of the services that a node can run.
type Service uint8

// The services. Every node runs the management service.
const (
	KV Service = iota
	Management
	Views
	Query
	Search
	Analytics
	Eventing

	Count = 7
)

// keys are the services' names in a configuration; those of TLS ports have SSL behind them.
var keys = [Count]string{
	KV: "kv", Management: "mgmt", Views: "capi", Query: "n1ql", Search: "fts", Analytics: "cbas", Eventing: "eventing",
}

// String is the service's key in a configuration: kv, mgmt, capi, n1ql, fts, cbas or eventing.
func (s Service) String() string {
	if int(s) >= Count {
		return "unknown"
	}
	return keys[s]
}

// PortKeys are the members of a configuration that name the service's ports, without TLS and with it.
func (s Service) PortKeys() (clear, secure string) {
	if s == Eventing {
		return "eventingAdminPort", "eventingSSL"
	}
	return s.String(), s.String() + "SSL"
}
