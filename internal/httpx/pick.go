package httpx

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/topology"
)

// services are the names that a cluster map has for a service.
var services = map[httpsvc.Service]topology.Service{
	httpsvc.Management: topology.Management, httpsvc.Query: topology.Query, httpsvc.Search: topology.Search,
	httpsvc.Views: topology.Views, httpsvc.Analytics: topology.Analytics, httpsvc.Eventing: topology.Eventing,
	httpsvc.Backup: topology.Backup, httpsvc.Index: topology.Index,
}

// InMap is the name that a cluster map has for a service; false for one that maps do not list.
func InMap(svc httpsvc.Service) (topology.Service, bool) {
	s, ok := services[svc]
	return s, ok
}

// choice is where an attempt goes.
type choice struct {
	addr    string // "": no node offers the service
	unknown bool   // there is no cluster map yet
	bar     barred // what keeps the request from being sent there
	foreign bool   // the node that the request names is not one of the service's
}

// pick chooses a node in turn: one that may be sent the credentials, that this request has not failed on, that has not
// failed another request just now, and that new requests of this path are not kept from. Without such a node it drops
// these conditions one by one, the last first.
func (c *Client) pick(k *call) choice {
	svc, ok := InMap(k.r.Service)
	if !ok {
		return choice{foreign: true}
	}
	all, known := c.o.Endpoints(svc, k.r.Bucket)
	if k.r.Endpoint != "" {
		if !slices.Contains(all, k.r.Endpoint) {
			return choice{foreign: known, unknown: !known}
		}
		all = []string{k.r.Endpoint}
	}
	if len(all) == 0 {
		return choice{unknown: !known}
	}
	start, now, encrypted := int(k.turn%uint32(len(all))), time.Now(), c.tls.Load() != nil
	best, bestCost := choice{}, -1
	for n := range all {
		a := all[(start+n)%len(all)]
		ch := choice{addr: a}
		if k.attempts == 0 { // a retry has its own delay behind it
			ch.bar = c.gate.look(a, k.r.Path, now)
		}
		cost := 8*toInt(c.shows(a, encrypted) != nil) + 4*toInt(k.avoid[a]) + 2*toInt(c.sick.has(a, now)) +
			toInt(ch.bar.is(now))
		if bestCost < 0 || cost < bestCost || cost == bestCost && ch.bar.until.Before(best.bar.until) {
			best, bestCost = ch, cost
		}
	}
	return best
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sickTime is how long a node is avoided after a request could not reach it, while there are others.
const sickTime = time.Second

// mostSick bounds the nodes that are remembered.
const mostSick = 256

// sickList holds the nodes that requests have failed to reach. Its zero value is empty; reading that costs one load.
type sickList struct {
	any   atomic.Bool
	mu    sync.Mutex
	until map[string]time.Time
}

func (s *sickList) add(addr string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil || len(s.until) >= mostSick {
		s.until = map[string]time.Time{}
	}
	s.until[addr] = now.Add(sickTime)
	s.any.Store(true)
}

func (s *sickList) has(addr string, now time.Time) bool {
	if !s.any.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.until[addr])
}

// well forgets what was known of a node that has answered.
func (s *sickList) well(addr string) {
	if !s.any.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, addr)
	s.any.Store(len(s.until) > 0)
}
