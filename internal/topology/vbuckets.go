package topology

import (
	"errors"
	"fmt"
	"hash/crc32"
)

const width = MaxReplicas + 1 // of a row: the active copy and the replicas

// vbucketRows is the vbucket map, read by hand: as rows of integers it would cost an allocation each. Places that a row
// does not have are -1, those beyond the widest row are left out.
type vbucketRows [][width]int16

// UnmarshalJSON implements json.Unmarshaler. The decoder has checked that b is valid JSON.
func (r *vbucketRows) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if len(b) == 0 || b[0] != '[' {
		return &ParseError{Field: "vBucketMap", Err: errors.New("is no array")}
	}
	rows := make(vbucketRows, 0, min(elements(b), MaxVBuckets))
	for i := skipSpace(b, 1); i < len(b) && b[i] != ']'; {
		if len(rows) == MaxVBuckets {
			return &ParseError{Field: "number of vbuckets", Value: int64(elements(b)), Limit: MaxVBuckets}
		}
		row, next, ok := readRow(b, i)
		if !ok {
			return &ParseError{Field: fmt.Sprintf("vBucketMap[%d]", len(rows)), Err: errors.New("is no array of node indexes")}
		}
		rows = append(rows, row)
		if i = skipSpace(b, next); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	*r = rows
	return nil
}

// readRow reads the array that begins at i.
func readRow(b []byte, i int) (row [width]int16, next int, ok bool) {
	for k := range row {
		row[k] = -1
	}
	if b[i] != '[' {
		return row, 0, false
	}
	i = skipSpace(b, i+1)
	for column := 0; i < len(b) && b[i] != ']'; column++ {
		negative := b[i] == '-'
		if negative {
			i++
		}
		n, digits := 0, i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' && n <= MaxNodes {
			n = n*10 + int(b[i]-'0')
			i++
		}
		if negative {
			n = -n
		}
		if i == digits || n > MaxNodes || n < -1 {
			return row, 0, false
		}
		if column < width {
			row[column] = int16(n)
		}
		if i = skipSpace(b, i); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		} else if i >= len(b) || b[i] != ']' {
			return row, 0, false
		}
	}
	return row, i + 1, i < len(b)
}

// into checks the vbucket map and gives it to the snapshot. An index must be within the map's own list of servers; one
// beyond the nodes that nodesExt describes is a copy without a node.
func (m *mapJSON) into(s *Snapshot) error {
	if m.Replicas < 0 || m.Replicas > MaxReplicas {
		return &ParseError{Field: "numReplicas", Value: int64(m.Replicas), Limit: MaxReplicas}
	}
	s.Replicas = m.Replicas
	if err := m.check(s, m.VBuckets); err != nil {
		return err
	}
	s.vbuckets = m.VBuckets
	if len(m.Forward) != len(m.VBuckets) {
		return nil // there is none, or one of something else
	}
	if err := m.check(s, m.Forward); err != nil {
		return err
	}
	s.forward = m.Forward
	return nil
}

// check looks at the nodes of rows, and takes out those that are of no use.
func (m *mapJSON) check(s *Snapshot, rows vbucketRows) error {
	known := max(s.kvNodes, len(m.ServerList))
	for vb := range rows {
		row := &rows[vb]
		for k := range row {
			switch n := int(row[k]); {
			case k > m.Replicas:
				row[k] = -1
			case n >= known:
				return &ParseError{Field: fmt.Sprintf("node of vbucket %d", vb), Value: int64(n), Limit: int64(known - 1)}
			case n >= s.kvNodes:
				row[k] = -1
			}
		}
	}
	return nil
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

// VBucket is the vbucket of a key, 0 when there are none.
func (s *Snapshot) VBucket(key []byte) uint16 { return Hash(key, len(s.vbuckets)) }

// NodeIndex is the node, as an index into Nodes, that holds a vbucket's active copy (replica 0) or one of its replicas;
// -1 when there is none. Every input has an answer.
func (s *Snapshot) NodeIndex(vb uint16, replica int) int {
	if replica < 0 || replica >= width || int(vb) >= len(s.vbuckets) {
		return -1
	}
	return int(s.vbuckets[vb][replica])
}

// ForwardIndex is the node that a vbucket's active copy moves to in the rebalance that is under way; -1 when the map tells
// of none.
func (s *Snapshot) ForwardIndex(vb uint16) int {
	if int(vb) >= len(s.forward) {
		return -1
	}
	return int(s.forward[vb][0])
}
