package mock

import (
	"fmt"
	"net"
	"strconv"
)

// portsPerNode is how many ports a node of a cluster with fixed ports has to itself: a plain one and one for TLS of
// each service.
const portsPerNode = 2 * serviceCount

// Ports gives a cluster on real TCP fixed ports, so that it can be started again where it was. Node n has the fourteen
// ports from first+14n on: the plain ones of management, KV, views, query, search, analytics and eventing, and then
// those for TLS in the same order. A port of a service that the node does not run stays free. 0, as without the option,
// takes whatever ports are free. It means nothing with Virtual.
func Ports(first int) Option { return func(s *settings) { s.firstPort = first } }

// DefaultPorts gives node 0 of a cluster on real TCP the ports that a server has, 8091 and 11210 for example, so that
// couchbase://localhost finds it. Other nodes take free ports.
func DefaultPorts() Option { return func(s *settings) { s.defaultPorts = true } }

// portOrder is the order of the services' ports.
var portOrder = [serviceCount]Service{
	ManagementService, KVService, ViewsService, QueryService, SearchService,
	AnalyticsService, EventingService,
}

// checkPorts refuses ports that no node could have.
func (s *settings) checkPorts() error {
	if last := s.firstPort + s.nodes*portsPerNode - 1; s.firstPort < 0 || s.firstPort > 0 && last > 65535 {
		return fmt.Errorf("mock: ports %d to %d", s.firstPort, last)
	}
	return nil
}

// ask is the address, on real TCP, at which to listen for a service of node n.
func (s *settings) ask(host string, n int, of Service, secure bool) string {
	if s.defaultPorts && n == 0 {
		secured := 0
		if secure {
			secured = 1
		}
		return net.JoinHostPort(host, serviceSpecs[of].ports[secured])
	}
	port := 0
	for i, o := range portOrder {
		if o == of && s.firstPort > 0 {
			port = s.firstPort + n*portsPerNode + i
			if secure {
				port += serviceCount
			}
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}
