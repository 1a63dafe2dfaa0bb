package topology

// Points gives the points of one address on the ring of a memcached bucket, in the order in which they are made.
func Points(addr string) (hashes []uint32) {
	for _, p := range appendPoints(nil, addr, 0) {
		hashes = append(hashes, p.hash)
	}
	return hashes
}

// KetamaHash is the hash of a key.
func KetamaHash(key []byte) uint32 { return ketamaHash(key) }

// RingIndex finds the node of a hash.
func (s *Snapshot) RingIndex(hash uint32) int { return pointOf(s.ring, hash) }

// RingHashes gives the ring in its order.
func (s *Snapshot) RingHashes() (hashes []uint32) {
	for _, p := range s.ring {
		hashes = append(hashes, p.hash)
	}
	return hashes
}
