package mock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// STAT: one packet for each statistic, then an empty one. statGroups has the groups that there are, with few of the
// statistics that a server has in them; any other group is unknown (0x01).

// stats gathers the statistics of one answer.
type stats struct {
	rq  *request
	rep reply
}

func (s *stats) add(key string, value any) {
	s.rep.before = append(s.rep.before, reply{key: []byte(key), value: fmt.Append(nil, value)})
}

// statGroups are the groups of statistics. They are called with the cluster's mutex held and get the words behind the
// group's name; false means that these make no sense.
var statGroups = map[string]struct {
	bucket bool // needs a selected bucket
	run    func(*stats, []string) bool
}{
	"":                   {run: (*stats).general},
	"reset":              {run: func(*stats, []string) bool { return true }},
	"uuid":               {bucket: true, run: (*stats).uuid},
	"vbucket":            {bucket: true, run: (*stats).vbucket},
	"vbucket-details":    {bucket: true, run: (*stats).vbucketDetails},
	"vbucket-seqno":      {bucket: true, run: (*stats).vbucketSeqno},
	"failovers":          {bucket: true, run: (*stats).failovers},
	"collections":        {bucket: true, run: (*stats).collections},
	"collections-byid":   {bucket: true, run: (*stats).collections},
	"scopes":             {bucket: true, run: (*stats).scopes},
	"scopes-byid":        {bucket: true, run: (*stats).scopes},
	"key":                {bucket: true, run: (*stats).key},
	"collections-detail": {bucket: true, run: (*stats).collections},

	"config":         {bucket: true, run: (*stats).config},
	"memory":         {bucket: true, run: (*stats).memory},
	"diskinfo":       {bucket: true, run: (*stats).diskinfo},
	"hash":           {bucket: true, run: (*stats).hash},
	"dcp":            {bucket: true, run: fixed("ep_dcp_count", "0", "ep_dcp_total_queue", "0")},
	"workload":       {bucket: true, run: fixed("ep_workload:num_shards", "1", "ep_workload:num_writers", "1")},
	"timings":        {bucket: true, run: fixed("get_stats_cmd_mean", "0")},
	"kvtimings":      {bucket: true, run: fixed("rw_0:commit_mean", "0")},
	"bucket_details": {run: (*stats).bucketDetails},
}

func stat(rq *request) reply {
	words := strings.Fields(string(rq.p.Key))
	name := ""
	if len(words) > 0 {
		name, words = words[0], words[1:]
	}
	g, ok := statGroups[name]
	switch {
	case !ok:
		return reply{status: memd.StatusKeyNotFound}
	case g.bucket && rq.b == nil:
		return fail(memd.StatusNoBucket, "No bucket selected")
	}
	s := &stats{rq: rq}
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !g.run(s, words) {
		if s.rep.status != memd.StatusSuccess {
			return s.rep
		}
		return fail(memd.StatusInvalid, "Arguments of %q", name)
	}
	return s.rep
}

func (s *stats) general([]string) bool {
	rq := s.rq
	s.add("pid", 1)
	s.add("version", rq.k.n.profile.release.kvVersion())
	s.add("curr_connections", len(rq.k.n.conns))
	if rq.b != nil {
		items := 0
		for _, d := range rq.b.store.Documents(rq.k.c.now()) {
			if d.Node == rq.k.n.index {
				items++
			}
		}
		s.add("curr_items", items)
		s.add("ep_bucket_type", rq.b.storage())
		s.add("vb_active_num", rq.b.count(rq.k.n.index, true))
		s.add("vb_replica_num", rq.b.count(rq.k.n.index, false))
	}
	return true
}

func (s *stats) uuid([]string) bool {
	s.add("uuid", s.rq.b.uuid)
	return true
}

// each calls f with the vbuckets that the node has, or with the one that the words name.
func (s *stats) each(words []string, f func(vb int, state string)) bool {
	b, node := s.rq.b, s.rq.k.n.index
	first, end := 0, len(b.rows)
	if len(words) > 0 {
		vb, err := strconv.Atoi(words[0])
		if err != nil || vb < 0 || len(words) > 1 {
			return false
		}
		if vb >= end || !slices.Contains(b.rows[vb], node) {
			s.rep = reply{status: memd.StatusNotMyVBucket}
			return false
		}
		first, end = vb, vb+1
	}
	for vb := first; vb < end; vb++ {
		switch b.state(vb, node) {
		case stateActive:
			f(vb, "active")
		case stateReplica:
			f(vb, "replica")
		}
	}
	return true
}

func (s *stats) vbucket(words []string) bool {
	return s.each(words, func(vb int, state string) { s.add(fmt.Sprintf("vb_%d", vb), state) })
}

func (s *stats) vbucketDetails(words []string) bool {
	now := s.rq.k.c.now()
	return s.each(words, func(vb int, state string) {
		name := fmt.Sprintf("vb_%d", vb)
		history, _ := s.rq.b.store.History(uint16(vb))
		current, _ := s.rq.b.store.Seqnos(uint16(vb), s.rq.k.n.index, now)
		items, _ := s.rq.b.store.Count(uint16(vb), s.rq.k.n.index, now)
		s.add(name, state)
		s.add(name+":uuid", history[0].UUID)
		s.add(name+":high_seqno", current)
		s.add(name+":purge_seqno", 0)
		s.add(name+":num_items", items)
	})
}

func (s *stats) vbucketSeqno(words []string) bool {
	now := s.rq.k.c.now()
	return s.each(words, func(vb int, _ string) {
		name := fmt.Sprintf("vb_%d:", vb)
		history, _ := s.rq.b.store.History(uint16(vb))
		current, persisted := s.rq.b.store.Seqnos(uint16(vb), s.rq.k.n.index, now)
		s.add(name+"high_seqno", current)
		s.add(name+"abs_high_seqno", current)
		s.add(name+"last_persisted_seqno", persisted)
		s.add(name+"purge_seqno", 0)
		s.add(name+"uuid", history[0].UUID)
		s.add(name+"last_persisted_snap_start", persisted)
		s.add(name+"last_persisted_snap_end", persisted)
	})
}

func (s *stats) failovers(words []string) bool {
	return s.each(words, func(vb int, _ string) {
		history, _ := s.rq.b.store.History(uint16(vb))
		s.add(fmt.Sprintf("vb_%d:num_entries", vb), len(history))
		for i, b := range history {
			s.add(fmt.Sprintf("vb_%d:%d:id", vb, i), b.UUID)
			s.add(fmt.Sprintf("vb_%d:%d:seq", vb, i), b.Begin)
		}
	})
}

// collections are the collections, or one of them by its path or by its id in hex.
func (s *stats) collections(words []string) bool {
	m := s.rq.manifest()
	items := s.items()
	s.add("manifest_uid", fmt.Sprintf("0x%x", m.UID))
	found := len(words) == 0
	for _, sc := range m.Scopes {
		for _, c := range sc.Collections {
			id := fmt.Sprintf("0x%x", c.ID)
			if len(words) > 0 && words[0] != id && words[0] != sc.Name+"."+c.Name {
				continue
			}
			found = true
			name := fmt.Sprintf("0x%x:%s:", sc.ID, id)
			s.add(name+"name", c.Name)
			s.add(name+"scope_name", sc.Name)
			s.add(name+"items", items[c.ID])
			if c.MaxTTL != 0 {
				s.add(name+"maxTTL", c.MaxTTL)
			}
		}
	}
	if !found {
		s.rep = unknown(memd.StatusUnknownCollection, m)
	}
	return found
}

func (s *stats) scopes(words []string) bool {
	m := s.rq.manifest()
	items := s.items()
	s.add("manifest_uid", fmt.Sprintf("0x%x", m.UID))
	found := len(words) == 0
	for _, sc := range m.Scopes {
		name := fmt.Sprintf("0x%x", sc.ID)
		if len(words) > 0 && words[0] != name && words[0] != sc.Name {
			continue
		}
		found = true
		sum := 0
		for _, c := range sc.Collections {
			sum += items[c.ID]
		}
		s.add(name+":name", sc.Name)
		s.add(name+":collections", len(sc.Collections))
		s.add(name+":items", sum)
	}
	if !found {
		s.rep = unknown(memd.StatusUnknownScope, m)
	}
	return found
}

// items counts the documents of each collection of which the node has the active copy.
func (s *stats) items() map[uint32]int {
	out := map[uint32]int{}
	for _, d := range s.rq.b.store.Documents(s.rq.k.c.now()) {
		if d.Node == s.rq.k.n.index {
			out[d.Collection]++
		}
	}
	return out
}

// key is what there is about one document: "key NAME VBUCKET".
func (s *stats) key(words []string) bool {
	if len(words) != 2 {
		return false
	}
	key := words[0]
	return s.each(words[1:], func(vb int, state string) {
		now := s.rq.k.c.now()
		node := s.rq.k.n.index
		_, persisted := s.rq.b.store.Seqnos(uint16(vb), node, now)
		d, ok := s.rq.b.store.Look(uint16(vb), node, store.DefaultCollection, key, now)
		if !ok {
			s.rep = reply{status: memd.StatusKeyNotFound}
			return
		}
		s.add("key_is_dirty", map[bool]string{false: "false", true: "true"}[d.Seqno > persisted])
		s.add("key_exptime", d.Expiry)
		s.add("key_flags", d.Flags)
		s.add("key_cas", d.CAS)
		s.add("key_vb_state", state)
	})
}

// count is how many vbuckets node holds, active ones or replicas. The caller holds the mutex.
func (b *bucket) count(node int, active bool) int {
	var sum int
	for _, row := range b.rows {
		for i, n := range row {
			if n == node && (i == 0) == active {
				sum++
			}
		}
	}
	return sum
}
