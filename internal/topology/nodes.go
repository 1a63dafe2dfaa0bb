package topology

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
)

type nodeJSON struct {
	CouchAPIBase string `json:"couchApiBase"`
	Hostname     string `json:"hostname"`
	Ports        struct {
		Direct int `json:"direct"`
	} `json:"ports"`
}

type nodeExtJSON struct {
	Hostname      string                   `json:"hostname"`
	Services      portsJSON                `json:"services"`
	UUID          string                   `json:"nodeUUID"`
	ServerGroup   string                   `json:"serverGroup"`
	TelemetryPath string                   `json:"appTelemetryPath"`
	This          bool                     `json:"thisNode"`
	Alternate     map[string]alternateJSON `json:"alternateAddresses"`
}

type alternateJSON struct {
	Hostname string     `json:"hostname"`
	Ports    *portsJSON `json:"ports"`
}

// portsJSON are the ports of the services that this client can use.
type portsJSON struct {
	KV           int `json:"kv"`
	KVTLS        int `json:"kvSSL"`
	Mgmt         int `json:"mgmt"`
	MgmtTLS      int `json:"mgmtSSL"`
	Views        int `json:"capi"`
	ViewsTLS     int `json:"capiSSL"`
	Query        int `json:"n1ql"`
	QueryTLS     int `json:"n1qlSSL"`
	Search       int `json:"fts"`
	SearchTLS    int `json:"ftsSSL"`
	Analytics    int `json:"cbas"`
	AnalyticsTLS int `json:"cbasSSL"`
	Eventing     int `json:"eventingAdminPort"`
	EventingTLS  int `json:"eventingSSL"`
	Index        int `json:"indexHttp"`
	IndexTLS     int `json:"indexHttps"`
	Backup       int `json:"backupAPI"`
	BackupTLS    int `json:"backupAPIHTTPS"`
}

// ports are the plain and the TLS port of each service; 0 is none.
type ports [numServices][2]uint16

func (j *portsJSON) ports() (p ports, err error) {
	all := [numServices][2]int{
		KV:         {j.KV, j.KVTLS},
		Management: {j.Mgmt, j.MgmtTLS},
		Views:      {j.Views, j.ViewsTLS},
		Query:      {j.Query, j.QueryTLS},
		Search:     {j.Search, j.SearchTLS},
		Analytics:  {j.Analytics, j.AnalyticsTLS},
		Eventing:   {j.Eventing, j.EventingTLS},
		Index:      {j.Index, j.IndexTLS},
		Backup:     {j.Backup, j.BackupTLS},
	}
	for svc, pair := range all {
		for i, port := range pair {
			if port < 0 || port > 65535 {
				return p, &ParseError{Field: "port of " + Service(svc).String(), Value: int64(port), Limit: 65535}
			}
			p[svc][i] = uint16(port)
		}
	}
	return p, nil
}

// nodes lists the nodes: first those that hold the bucket's data, in the map's order, because the vbucket map counts by
// it; a node without an address on some network keeps its place. Only the first len(nodes) of nodesExt hold the bucket's
// data: the others may run the data service already and get vbuckets later.
func (j *configJSON) nodes(s *Snapshot, sourceHost string) error {
	if len(j.NodesExt) == 0 {
		return j.oldNodes(s, sourceHost)
	}
	bound := len(j.Nodes)
	if s.Locator == LocatorNone {
		bound = len(j.NodesExt)
	}
	var others []Node
	for i := range j.NodesExt {
		n, err := j.NodesExt[i].node(sourceHost)
		if err != nil {
			return err
		}
		if n.KV = n.KV && i < bound; n.KV {
			s.Nodes = append(s.Nodes, n)
		} else {
			others = append(others, n)
		}
	}
	s.kvNodes = len(s.Nodes)
	s.Nodes = append(s.Nodes, others...)
	return nil
}

func (j *nodeExtJSON) node(sourceHost string) (n Node, err error) {
	n = Node{UUID: j.UUID, ServerGroup: j.ServerGroup, TelemetryPath: j.TelemetryPath, This: j.This}
	if n.Host, err = hostName(j.Hostname, sourceHost); err != nil {
		return n, err
	}
	if n.ports, err = j.Services.ports(); err != nil {
		return n, err
	}
	n.KV = n.ports[KV] != [2]uint16{}
	for name, a := range j.Alternate {
		alt := alternate{network: name, ports: n.ports}
		if alt.host, err = hostName(a.Hostname, ""); err != nil {
			return n, err
		}
		if a.Ports != nil {
			if alt.ports, err = a.Ports.ports(); err != nil {
				return n, err
			}
		}
		n.alternates = append(n.alternates, alt)
	}
	slices.SortFunc(n.alternates, func(a, b alternate) int { return cmp.Compare(a.network, b.network) })
	return n, nil
}

// hostName takes the brackets off an IPv6 address.
func hostName(host, otherwise string) (string, error) {
	switch {
	case len(host) > maxHostName:
		return "", &ParseError{Field: "length of a hostname", Value: int64(len(host)), Limit: maxHostName}
	case host == "":
		return otherwise, nil
	}
	return bare(host), nil
}

func bare(host string) string {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}

// oldNodes reads a map without nodesExt, as servers before 3.0 sent it and as some substitutes of servers still do.
func (j *configJSON) oldNodes(s *Snapshot, sourceHost string) error {
	var addrs []string
	if j.Map != nil {
		addrs = j.Map.ServerList
	}
	for i := range max(len(addrs), len(j.Nodes)) {
		n := Node{Host: sourceHost}
		var err error
		var kv, mgmt, views int
		if i < len(j.Nodes) {
			o := &j.Nodes[i]
			kv = o.Ports.Direct
			if n.Host, mgmt, err = splitAddr("hostname", o.Hostname, sourceHost); err != nil {
				return err
			}
			if u, err := url.Parse(o.CouchAPIBase); err == nil && u.Port() != "" {
				views, _ = strconv.Atoi(u.Port()) // 0, or checked with the others
			}
		}
		if i < len(addrs) {
			if n.Host, kv, err = splitAddr("serverList", addrs[i], sourceHost); err != nil {
				return err
			}
			if kv == 0 {
				return &ParseError{Field: "serverList", Err: errors.New("an address has no port")}
			}
		}
		if n.ports, err = (&portsJSON{KV: kv, Mgmt: mgmt, Views: views}).ports(); err != nil {
			return err
		}
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

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// splitAddr takes an address apart; one without a port has port 0.
func splitAddr(field, addr, otherwise string) (host string, port int, err error) {
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		h, p = addr, "0"
	}
	if host, err = hostName(h, otherwise); err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(p); err != nil {
		return "", 0, &ParseError{Field: field, Err: errors.New("an address has a port that is no number")}
	}
	return host, port, nil
}
