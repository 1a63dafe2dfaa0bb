package topology

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
)

const width = MaxReplicas + 1 // of a row: the active copy and the replicas

// vbucketRows is the vbucket map, read by hand: as rows of integers it would cost an allocation each. Places that a row
// does not have are -1, those beyond the widest row are left out.
type vbucketRows [][width]int16

// readRows reads a map of vbuckets, and how many places its widest row has.
func readRows(b value) (rows vbucketRows, widest int, err error) {
	if len(b) == 0 {
		return nil, 0, nil
	}
	if !b.is('[') {
		return nil, 0, b.mismatch("vBucketMap")
	}
	n, _ := nesting(b)
	rows = make(vbucketRows, 0, min(n, MaxVBuckets))
	for i := skipSpace(b, 1); i < len(b) && b[i] != ']'; {
		if len(rows) == MaxVBuckets {
			return nil, 0, &ParseError{Field: "number of vbuckets", Value: int64(n), Limit: MaxVBuckets}
		}
		row, places, next, ok := readRow(b, i)
		if !ok {
			return nil, 0, &ParseError{
				Field: fmt.Sprintf("vBucketMap[%d]", len(rows)), Err: errors.New("is not an array of node indexes"),
			}
		}
		rows, widest = append(rows, row), max(widest, places)
		if i = skipSpace(b, next); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return rows, widest, nil
}

// readRow reads the array that begins at i. A number that is no node's is -1.
func readRow(b []byte, i int) (row [width]int16, places, next int, ok bool) {
	for k := range row {
		row[k] = -1
	}
	if b[i] != '[' {
		return row, 0, 0, false
	}
	i = skipSpace(b, i+1)
	for ; i < len(b) && b[i] != ']'; places++ {
		negative := b[i] == '-'
		if negative {
			i++
		}
		n, digits := 0, i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			n = min(n*10+int(b[i]-'0'), MaxNodes)
			i++
		}
		if i == digits {
			return row, 0, 0, false
		}
		if places < width && !negative && n < MaxNodes {
			row[places] = int16(n)
		}
		if i = skipSpace(b, i); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		} else if i >= len(b) || b[i] != ']' {
			return row, 0, 0, false
		}
	}
	return row, places, i + 1, i < len(b)
}

// readVBuckets reads where the bucket's vbuckets are. A copy at an index that no node has is a copy without a node: its
// vbucket is lost for that copy alone, and a newer map is waited for.
func readVBuckets(v value, s *Snapshot) error {
	if len(v) > 0 && !v.is('{') {
		return v.mismatch("vBucketServerMap")
	}
	var replicas, servers, rows, forward value
	for name, m := range v.members() {
		switch string(name) {
		case "numReplicas":
			replicas = m
		case "serverList":
			servers = m
		case "vBucketMap":
			rows = m
		case "vBucketMapForward": // during a rebalance: where vbuckets go
			forward = m
		}
	}
	list, err := servers.list()
	if err != nil {
		return err
	}
	var widest int
	if s.vbuckets, widest, err = readRows(rows); err != nil {
		return err
	}
	s.Replicas = min(max(widest-1, 0), MaxReplicas)
	if n, err := replicas.count("numReplicas", math.MaxUint64); err == nil && len(replicas) > 0 {
		s.Replicas = int(min(n, MaxReplicas))
	}
	order := s.order(list)
	s.settle(s.vbuckets, order)
	// otherwise it is one of something else
	if next, _, err := readRows(forward); err == nil && len(next) == len(s.vbuckets) {
		s.settle(next, order)
		s.forward = next
	}
	return nil
}

// settle makes the servers' numbers in rows those of nodes, and takes out those that are of no use. order has the node
// of each server; nil means that they have the same numbers.
func (s *Snapshot) settle(rows vbucketRows, order []int16) {
	for vb := range rows {
		row := &rows[vb]
		for k, n := range row {
			switch {
			case k > s.Replicas:
				row[k] = -1
			case order != nil && int(n) < len(order) && n >= 0:
				row[k] = order[n]
			case order != nil || int(n) >= s.kvNodes:
				row[k] = -1
			}
		}
	}
}

// order gives the node of each server in the list that the rows of vbuckets count by, -1 for a server that no node is.
// Servers write both lists in one order, but older ones did not always, and the list of servers may have one that is
// about to leave and that nodesExt does not have any more (bucket_info_cache.erl of ns_server makes the one of the
// bucket's servers, the other one of these and of those in the rows). The lists are matched by host and port of the
// data service, or, where nodesExt has no ports without TLS, by host. It is nil when the lists agree, or when there is
// a node that the list of servers does not have: then the text says nothing, and the order counts.
func (s *Snapshot) order(list []value) []int16 {
	if len(list) == 0 {
		return nil
	}
	for _, key := range []func(host string, port uint64) string{
		func(host string, port uint64) string {
			return strings.ToLower(host) + " " + strconv.FormatUint(port, 10)
		},
		func(host string, _ uint64) string { return strings.ToLower(host) },
	} {
		if order, ok := s.match(list, key); ok {
			return order
		}
	}
	return nil
}

// match is order by one kind of key. It is false unless every node is found, and is found once.
func (s *Snapshot) match(list []value, key func(host string, port uint64) string) (order []int16, ok bool) {
	nodes := make(map[string]int16, s.kvNodes)
	for i := range s.kvNodes {
		n := &s.Nodes[i]
		nodes[key(n.Host, uint64(n.ports[KV][0]))] = int16(i)
	}
	found := 0
	order, same := make([]int16, len(list)), len(list) == s.kvNodes
	for i, v := range list {
		order[i] = -1
		host, port, err := splitAddr("serverList", v.textOr(""), "")
		if err != nil {
			continue
		}
		if n, ok := nodes[key(host, port)]; ok {
			order[i] = n
			found++
			delete(nodes, key(host, port))
		}
		same = same && int(order[i]) == i
	}
	switch {
	case len(nodes) > 0 || found != s.kvNodes:
		return nil, false
	case same:
		return nil, true
	}
	return order, true
}

// Hash is the vbucket of a key among n: by the CRC32 of the logical key, which has no collection prefix. 0 when n is
// not positive.
func Hash(key []byte, n int) uint16 {
	if n <= 0 {
		return 0
	}
	return uint16(int(crc32.ChecksumIEEE(key)>>16&0x7fff) % n)
}

// NumVBuckets is the number of vbuckets; 0 when the bucket's map is still empty, and for other kinds of map.
func (s *Snapshot) NumVBuckets() int { return len(s.vbuckets) }

// HasVBuckets reports whether keys have a vbucket, so that requests can be routed.
func (s *Snapshot) HasVBuckets() bool { return len(s.vbuckets) > 0 }

// Routable reports whether keys have a node: by their vbucket, or on the ring of a memcached bucket.
func (s *Snapshot) Routable() bool { return len(s.vbuckets) > 0 || len(s.ring) > 0 }

// Leads reports whether there is a way to a data node on a network: for some key of a bucket, or to any node by the map
// of the whole cluster.
func (s *Snapshot) Leads(network string, tls bool) bool {
	reachable := make([]bool, s.kvNodes)
	some := false
	for i := range reachable {
		_, reachable[i] = s.KVAddr(i, network, tls)
		some = some || reachable[i]
	}
	if s.Locator != LocatorVBucket {
		return some
	}
	for _, row := range s.vbuckets {
		if row[0] >= 0 && reachable[row[0]] {
			return true
		}
	}
	return false
}

// DataNodes is how many nodes hold data, of the bucket or, in the map of the whole cluster, of any.
func (s *Snapshot) DataNodes() int { return s.kvNodes }

// VBucket is the vbucket of a key, 0 without vbuckets.
func (s *Snapshot) VBucket(key []byte) uint16 { return Hash(key, len(s.vbuckets)) }

// NodeIndex is the node, as an index into Nodes, that holds a vbucket's active copy (replica 0) or one of its replicas;
// -1 without one. Every input has an answer.
func (s *Snapshot) NodeIndex(vb uint16, replica int) int {
	if replica < 0 || replica >= width || int(vb) >= len(s.vbuckets) {
		return -1
	}
	return int(s.vbuckets[vb][replica])
}

// ForwardIndex is the node that a vbucket's active copy moves to in the rebalance that is under way; -1 when the map
// tells of none.
func (s *Snapshot) ForwardIndex(vb uint16) int {
	if int(vb) >= len(s.forward) {
		return -1
	}
	return int(s.forward[vb][0])
}
