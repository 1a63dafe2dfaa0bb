package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Spec describes a terse cluster map. The zero value of a field means its default.
type Spec struct {
	Bucket   string                  // empty: the map of the whole cluster, without vbuckets
	Rev      int64                   // default 1
	Epoch    int64                   // default 1
	Live     []int                   // indexes of the nodes in the map; default: all
	VBuckets int                     // default 64
	Replicas int                     // copies beside the active one
	UUID     string                  // of the bucket; default "aaaa"
	Caps     string                  // members of bucketCapabilities, as JSON without brackets
	Row      func(vbucket int) []int // one row of vBucketMap; default: active and replicas by turns
	// JSON object of a node's services; default: key-value, and a management port that is closed
	Services func(n *Node) string
	NoMap    bool                 // leaves vBucketServerMap out
	Extra    string               // raw members at the end, beginning with a comma
	Hostname func(n *Node) string // name of a node; default: its listener's host
}

// Render gives the map as a node would send it.
func (c *Cluster) Render(s Spec) []byte {
	s = c.withDefaults(s)
	var ext, nodes, servers []string
	for _, i := range s.Live {
		n := c.Nodes[i]
		_, port := hostPort(n.listener)
		host := s.Hostname(n)
		ext = append(ext, fmt.Sprintf(`{"services":%s,"hostname":%q}`, s.Services(n), host))
		nodes = append(nodes, fmt.Sprintf(`{"hostname":"%s:%d","ports":{"direct":%d}}`, host, managementPort(n), port))
		servers = append(servers, fmt.Sprintf(`"%s:%d"`, host, port))
	}
	if s.Bucket == "" {
		return fmt.Appendf(nil, `{"rev":%d,"revEpoch":%d,"nodesExt":[%s],"clusterUUID":"cu","clusterName":"lab"%s}`,
			s.Rev, s.Epoch, strings.Join(ext, ","), s.Extra)
	}
	vbuckets := ""
	if !s.NoMap {
		vbuckets = fmt.Sprintf(`,"vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":%d,"serverList":[%s],"vBucketMap":[%s]}`,
			s.Replicas, strings.Join(servers, ","), strings.Join(rows(s), ","))
	}
	return fmt.Appendf(nil, `{"rev":%d,"revEpoch":%d,"name":%q,"uuid":%q,"nodeLocator":"vbucket","clusterUUID":"cu",`+
		`"bucketCapabilities":[%s],"nodesExt":[%s],"nodes":[%s]%s%s}`,
		s.Rev, s.Epoch, s.Bucket, s.UUID, s.Caps, strings.Join(ext, ","), strings.Join(nodes, ","), vbuckets, s.Extra)
}

func (c *Cluster) withDefaults(s Spec) Spec {
	s.Rev = max(s.Rev, 1)
	s.Epoch = max(s.Epoch, 1)
	if s.VBuckets == 0 {
		s.VBuckets = 64
	}
	if s.Live == nil {
		for i := range c.Nodes {
			s.Live = append(s.Live, i)
		}
	}
	if s.UUID == "" {
		s.UUID = "aaaa"
	}
	if s.Caps == "" {
		s.Caps = `"collections","durableWrite","xattr"`
	}
	if s.Hostname == nil {
		s.Hostname = func(n *Node) string {
			host, _ := hostPort(n.listener)
			return host
		}
	}
	if s.Services == nil {
		s.Services = func(n *Node) string { return fmt.Sprintf(`{"kv":%d,"mgmt":%d}`, n.Port(), managementPort(n)) }
	}
	return s
}

func rows(s Spec) []string {
	all := make([]string, s.VBuckets)
	for i := range all {
		row := []int{i % len(s.Live)}
		for r := 1; r <= s.Replicas; r++ {
			row = append(row, (i+r)%len(s.Live))
		}
		if s.Row != nil {
			row = s.Row(i)
		}
		text, err := json.Marshal(row)
		if err != nil {
			text = []byte("[]") // unreachable: a slice of int always encodes
		}
		all[i] = string(text)
	}
	return all
}

// managementPort is a port that no listener of the cluster has.
func managementPort(n *Node) int { return 20000 + n.Index }
