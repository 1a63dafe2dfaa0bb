package topology

import (
	"cmp"
	"errors"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
)

// portNames are the members of "services" for the services that this client can use, without TLS and with it.
var portNames = map[string]struct {
	service Service
	tls     int
}{
	"kv": {KV, 0}, "kvSSL": {KV, 1}, "mgmt": {Management, 0}, "mgmtSSL": {Management, 1}, "capi": {Views, 0},
	"capiSSL": {Views, 1}, "n1ql": {Query, 0}, "n1qlSSL": {Query, 1}, "fts": {Search, 0}, "ftsSSL": {Search, 1},
	"cbas": {Analytics, 0}, "cbasSSL": {Analytics, 1}, "eventingAdminPort": {Eventing, 0}, "eventingSSL": {Eventing, 1},
	"indexHttp": {Index, 0}, "indexHttps": {Index, 1}, "backupAPI": {Backup, 0}, "backupAPIHTTPS": {Backup, 1},
}

// ports are the plain and the TLS port of each service; 0 means that the node lacks it.
type ports [numServices][2]uint16

// readPorts reads the ports of services. A value that is not a port is left out, but for the one that is needed:
// without its port the map is refused. needed is "" where no port must be right.
func readPorts(v value, needed string) (p ports, err error) {
	for name, m := range v.members() {
		to, ok := portNames[string(name)]
		if !ok {
			continue
		}
		port, err := m.count("port of "+to.service.String(), math.MaxUint16)
		if err != nil && string(name) == needed {
			return p, err
		}
		if err == nil {
			p[to.service][to.tls] = uint16(port)
		}
	}
	return p, nil
}

// readNodes lists the nodes: first those that hold the bucket's data, in the map's order; a node without an address on
// some network keeps its place. Only the first len(nodes) of nodesExt hold the bucket's data: the others may run the
// data service already and get vbuckets later.
func (d *document) readNodes(s *Snapshot, sourceHost string, tls bool) error {
	for _, m := range []struct {
		field string
		v     value
	}{{"nodes", d.nodes}, {"nodesExt", d.nodesExt}} {
		if len(m.v) > 0 && !m.v.is('[') {
			return m.v.mismatch(m.field)
		}
	}
	nodes, err := d.nodes.list()
	if err != nil {
		return err
	}
	ext, err := d.nodesExt.list()
	if err != nil {
		return err
	}
	if len(ext) == 0 {
		return d.oldNodes(s, nodes, sourceHost)
	}
	bound := len(nodes)
	if s.Locator == LocatorNone {
		bound = len(ext)
	}
	var more []Node
	for i, v := range ext {
		if !v.is('{') {
			return v.mismatch("nodesExt")
		}
		n, err := readNode(v, sourceHost, tls)
		if err != nil {
			return err
		}
		if n.KV = n.KV && i < bound; n.KV {
			s.Nodes = append(s.Nodes, n)
		} else {
			more = append(more, n)
		}
	}
	s.kvNodes = len(s.Nodes)
	s.Nodes = append(s.Nodes, more...)
	return nil
}

// readNode reads an element of nodesExt.
func readNode(v value, sourceHost string, tls bool) (n Node, err error) {
	var host, services, alternates value
	for name, m := range v.members() {
		switch string(name) {
		case "hostname":
			host = m
		case "services":
			services = m
		case "alternateAddresses":
			alternates = m
		case "nodeUUID":
			n.UUID = m.textOr("")
		case "serverGroup":
			n.ServerGroup = m.textOr("")
		case "appTelemetryPath":
			n.TelemetryPath = m.textOr("")
		case "thisNode":
			n.This = string(m) == "true"
		}
	}
	if len(services) > 0 && !services.is('{') {
		return n, services.mismatch("services")
	}
	text, ok := host.text()
	if !ok && len(host) > 0 {
		return n, host.mismatch("hostname")
	}
	if n.Host, err = hostName("hostname", text, sourceHost); err != nil {
		return n, err
	}
	needed := "kv"
	if tls {
		needed = "kvSSL"
	}
	if n.ports, err = readPorts(services, needed); err != nil {
		return n, err
	}
	n.KV = n.ports[KV] != [2]uint16{}
	n.alternates = readAlternates(alternates, &n.ports)
	return n, nil
}

// readAlternates reads a node's addresses on other networks. A value that is not an address is left out: the node
// cannot be reached there.
func readAlternates(v value, own *ports) (all []alternate) {
	for network, m := range v.members() {
		alt := alternate{network: string(network), ports: *own}
		usable := m.is('{')
		for name, m := range m.members() {
			switch string(name) {
			case "hostname":
				var err error
				alt.host, err = hostName("hostname", m.textOr(""), "")
				usable = usable && err == nil
			case "ports":
				if m.is('{') {
					alt.ports, _ = readPorts(m, "") // without one that is needed there is no error
				}
			}
		}
		if usable {
			all = append(all, alt)
		}
	}
	slices.SortFunc(all, func(a, b alternate) int { return cmp.Compare(a.network, b.network) })
	return all
}

// oldNodes reads a map without nodesExt, as servers before 3.0 sent it and as some substitutes of servers still do.
func (d *document) oldNodes(s *Snapshot, nodes []value, sourceHost string) error {
	addrs, err := serverList(d.vbuckets)
	if err != nil {
		return err
	}
	for i := range max(len(addrs), len(nodes)) {
		n := Node{Host: sourceHost}
		var kv uint64
		if i < len(nodes) {
			if kv, err = n.readOld(nodes[i], sourceHost); err != nil {
				return err
			}
		}
		if i < len(addrs) {
			text, ok := addrs[i].text()
			if !ok {
				return addrs[i].mismatch("serverList")
			}
			if n.Host, kv, err = splitAddr("serverList", text, sourceHost); err != nil {
				return err
			}
			if kv == 0 {
				return &ParseError{Field: "serverList", Err: errors.New("an address has no port")}
			}
		}
		n.ports[KV][0] = uint16(kv)
		// Without an address in the server list a node holds data of a memcached bucket only.
		n.KV = kv != 0 && (i < len(addrs) || len(addrs) == 0)
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortStableFunc(s.Nodes, func(a, b Node) int { return btoi(b.KV) - btoi(a.KV) })
	for s.kvNodes < len(s.Nodes) && s.Nodes[s.kvNodes].KV {
		s.kvNodes++
	}
	return nil
}

// readOld reads an element of nodes, and gives the port of the data service.
func (n *Node) readOld(v value, sourceHost string) (kv uint64, err error) {
	var addr, direct, views value
	for name, m := range v.members() {
		switch string(name) {
		case "hostname":
			addr = m
		case "couchApiBase":
			views = m
		case "ports":
			for name, m := range m.members() {
				if string(name) == "direct" {
					direct = m
				}
			}
		}
	}
	if kv, err = direct.count("port of kv", math.MaxUint16); err != nil {
		return 0, err
	}
	text, ok := addr.text()
	if !ok && len(addr) > 0 {
		return 0, addr.mismatch("hostname")
	}
	host, mgmt, err := splitAddr("hostname", text, sourceHost)
	if err != nil {
		return 0, err
	}
	n.Host, n.ports[Management][0] = host, uint16(mgmt)
	if u, err := url.Parse(views.textOr("")); err == nil {
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
			n.ports[Views][0] = uint16(port)
		}
	}
	return kv, nil
}

// serverList gives the addresses of the servers that the rows of vbuckets count by.
func serverList(vbuckets value) ([]value, error) {
	for name, m := range vbuckets.members() {
		if string(name) == "serverList" {
			return m.list()
		}
	}
	return nil, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// splitAddr takes an address apart; one without a port has port 0.
func splitAddr(field, addr, otherwise string) (host string, port uint64, err error) {
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		h, p = addr, "0"
	}
	if host, err = hostName(field, h, otherwise); err != nil {
		return "", 0, err
	}
	port, err = value(p).count("port in "+field, math.MaxUint16)
	return host, port, err
}
