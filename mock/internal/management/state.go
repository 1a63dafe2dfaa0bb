package management

import (
	"maps"
	"strconv"
	"sync"
	"time"
)

// State is what the management service of one cluster keeps.
type State struct {
	host    Host
	routes  *branch
	started time.Time

	mu       sync.Mutex // guards what follows; the host is not asked under it
	pages    map[string]object
	users    map[identity]*person
	groups   map[string]*group
	zones    []zone
	quotas   map[string]int64
	counters map[string]int
	tasks    int // how many have been begun
}

// NewState is the service of a cluster in which nothing has been set.
func NewState(h Host) *State {
	s := &State{
		host: h, routes: newRouter(table()), started: time.Now(), pages: map[string]object{},
		users: map[identity]*person{}, groups: map[string]*group{}, quotas: map[string]int64{},
		counters: map[string]int{},
	}
	for _, p := range pages {
		s.pages[p.path] = p.defaults()
	}
	for _, q := range quotaNames {
		s.quotas[q.name] = q.first
	}
	return s
}

// quotaName is a service's quota of memory in MiB.
type quotaName struct {
	name         string
	first, least int64
	service      string // as errors call it
}

var quotaNames = []quotaName{
	{"memoryQuota", 8192, 256, "data"},
	{"indexMemoryQuota", 512, 256, "index"},
	{"ftsMemoryQuota", 512, 256, "full text search"},
	{"cbasMemoryQuota", 1024, 1024, "analytics"},
	{"eventingMemoryQuota", 256, 256, "eventing"},
	{"queryMemoryQuota", 0, 0, "query"},
}

func (s *State) quota(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quotas[name]
}

// addQuotas puts the quotas of all services into an object.
func (s *State) addQuotas(out object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, mb := range s.quotas {
		out[name] = mb
	}
}

// page are the settings of a path. The caller may keep the object, but not change what is in it.
func (s *State) page(path string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pages[path])
}

// Setting is one of the settings of a page, nil without it.
func (s *State) Setting(page, name string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages[page][name]
}

// Set changes one.
func (s *State) Set(page, name string, v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.pages[page])
	next[name] = v
	s.pages[page] = next
}

// count notes that an operation has begun or succeeded, for the pool's counters.
func (s *State) count(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.counters[name]++
	}
}

func (s *State) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counters)
}

func (s *State) uptime() string { return strconv.Itoa(int(time.Since(s.started).Seconds())) }
