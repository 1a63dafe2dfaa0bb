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

	Count = 6
)

// keys are the services' names in a configuration; those of TLS ports have SSL behind them.
var keys = [Count]string{
	KV: "kv", Management: "mgmt", Views: "capi", Query: "n1ql", Search: "fts", Analytics: "cbas",
}

// String is the service's key in a configuration: kv, mgmt, capi, n1ql, fts or cbas.
func (s Service) String() string {
	if int(s) >= Count {
		return "unknown"
	}
	return keys[s]
}
