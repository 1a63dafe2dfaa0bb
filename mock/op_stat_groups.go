package mock

import (
	"fmt"

	"github.com/couchcore/couchcore/mock/internal/store"
)

// Groups of statistics about a server's insides, with one or two in each that a program may look for: the mock has
// neither threads nor histograms.

// fixed is a group whose statistics are always the same.
func fixed(pairs ...string) func(*stats, []string) bool {
	return func(s *stats, _ []string) bool {
		for i := 0; i < len(pairs); i += 2 {
			s.add(pairs[i], pairs[i+1])
		}
		return true
	}
}

// config is the bucket's configuration.
func (s *stats) config([]string) bool {
	s.add("ep_bucket_type", s.rq.b.storage())
	s.add("ep_max_item_size", store.MaxValue)
	s.add("ep_conflict_resolution_type", map[bool]string{false: "seqno", true: "lww"}[s.rq.b.lww])
	s.add("ep_uuid", s.rq.b.uuid)
	return true
}

// memory is what the documents on the node take.
func (s *stats) memory([]string) bool {
	used := s.used()
	s.add("mem_used", used)
	s.add("ep_kv_size", used)
	return true
}

// diskinfo is the same, on disk.
func (s *stats) diskinfo([]string) bool {
	used := s.used()
	s.add("ep_db_data_size", used)
	s.add("ep_db_file_size", used)
	return true
}

// used is the number of bytes in the node's active documents.
func (s *stats) used() int {
	n := 0
	for _, d := range s.rq.b.store.Documents(s.rq.k.c.now()) {
		if d.Node == s.rq.k.n.index {
			n += len(d.Key) + len(d.Value)
		}
	}
	return n
}

func (s *stats) hash(words []string) bool {
	return s.each(words, func(vb int, state string) {
		name := fmt.Sprintf("vb_%d:", vb)
		s.add(name+"state", state)
		_, counted := s.rq.b.store.Count(uint16(vb), s.rq.k.n.index, s.rq.k.c.now())
		s.add(name+"counted", counted)
	})
}

// bucketDetails names the buckets of the node.
func (s *stats) bucketDetails([]string) bool {
	var list []any
	for _, name := range sortedKeys(s.rq.k.c.buckets) {
		list = append(list, map[string]any{"name": name, "state": "ready"})
	}
	s.add("bucket details", string(marshal(map[string]any{"buckets": list})))
	return true
}
