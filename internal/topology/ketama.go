package topology

import (
	"cmp"
	"crypto/md5" // how memcached clients distribute keys is defined with it; nothing is protected by it
	"encoding/binary"
	"net"
	"slices"
	"strconv"
)

const (
	ketamaHashes = 40 // per node, of four points each
	pointsPer    = md5.Size / 4
)

// point is a place on the ring and the node whose keys end there.
type point struct {
	hash uint32
	node int
}

// newRing places the nodes of a memcached bucket on the ring, by their key-value addresses on the default network.
func newRing(s *Snapshot) []point {
	ring := make([]point, 0, s.kvNodes*ketamaHashes*pointsPer)
	for i := range s.kvNodes {
		n := &s.Nodes[i]
		port := n.ports[KV][0]
		if port == 0 {
			port = n.ports[KV][1]
		}
		ring = appendPoints(ring, net.JoinHostPort(n.Host, strconv.Itoa(int(port))), i)
	}
	slices.SortStableFunc(ring, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	return ring
}

func appendPoints(ring []point, addr string, node int) []point {
	for k := range ketamaHashes {
		sum := md5.Sum([]byte(addr + "-" + strconv.Itoa(k)))
		for p := range pointsPer {
			ring = append(ring, point{binary.LittleEndian.Uint32(sum[4*p:]), node})
		}
	}
	return ring
}

func ketamaHash(key []byte) uint32 {
	sum := md5.Sum(key)
	return binary.LittleEndian.Uint32(sum[:])
}

// KetamaIndex is the node, as an index into Nodes, of a key in a memcached bucket; -1 for other buckets.
func (s *Snapshot) KetamaIndex(key []byte) int { return pointOf(s.ring, ketamaHash(key)) }

// pointOf finds the node of the first point that is not before the hash; after the last one the ring begins anew.
func pointOf(ring []point, hash uint32) int {
	if len(ring) == 0 {
		return -1
	}
	i, _ := slices.BinarySearchFunc(ring, hash, func(p point, h uint32) int { return cmp.Compare(p.hash, h) })
	return ring[i%len(ring)].node
}
