package observe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Defaults of the orphan report.
const (
	OrphanInterval = 10 * time.Second
	OrphanSample   = 10
)

// Orphan is a response whose call was gone when it came: timed out, cancelled or already answered. Facts that are not
// known stay zero and are left out of the report.
type Orphan struct {
	Service       string // kv
	Operation     string
	OperationID   string // the opaque as 0x and hex digits
	LocalID       string // client id/connection id
	LocalSocket   string
	RemoteSocket  string
	Total         time.Duration // until the orphan arrived
	Encode        time.Duration
	LastDispatch  time.Duration
	TotalDispatch time.Duration
	LastServer    time.Duration
	TotalServer   time.Duration
	Timeout       time.Duration
}

// OpaqueID writes an opaque as reports and errors name it.
func OpaqueID(opaque uint32) string { return fmt.Sprintf("0x%x", opaque) }

// Orphans gathers orphans between two reports: it counts all and keeps the slowest few of each service. The zero value
// keeps OrphanSample. It may be used by several goroutines at once, starts none, and reads no clock.
type Orphans struct {
	// Sample is how many of each service are kept, 0 for OrphanSample. Set it before the first use.
	Sample int

	mu       sync.Mutex
	services map[string]*orphanService
	evicted  int64
}

type orphanService struct {
	total   int64
	top     []Orphan
	fastest int // index in top of the next to go
}

// Add counts an orphan and keeps it if it is among the slowest. It does not block, and allocates nothing for an orphan
// that is not kept.
func (o *Orphans) Add(e Orphan) {
	sample := o.Sample
	if sample <= 0 {
		sample = OrphanSample
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.services[e.Service]
	if s == nil {
		if o.services == nil {
			o.services = map[string]*orphanService{}
		}
		s = &orphanService{}
		o.services[e.Service] = s
	}
	s.total++
	s.keep(e, sample)
}

// keep takes e in if there is room or it is slower than the fastest of those kept.
func (s *orphanService) keep(e Orphan, sample int) {
	switch {
	case len(s.top) < sample:
		s.top = append(s.top, e)
	case e.Total > s.top[s.fastest].Total:
		s.top[s.fastest] = e
	default:
		return
	}
	s.fastest = 0
	for i := range s.top {
		if s.top[i].Total < s.top[s.fastest].Total {
			s.fastest = i
		}
	}
}

// Evicted counts markers of cancelled calls that a connection forgot before their response came: orphans among those
// are not seen.
func (o *Orphans) Evicted(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.evicted += int64(n)
}

// OrphanReport is what one interval saw.
type OrphanReport struct {
	JSON    []byte // one line, the RFC's form
	Total   int64
	Evicted int64
}

// Take returns what was gathered since the last Take and forgets it. ok is false when there was no orphan: no line is
// due then, and evictions go on counting.
func (o *Orphans) Take() (r OrphanReport, ok bool) {
	o.mu.Lock()
	services := o.services
	if len(services) == 0 {
		o.mu.Unlock()
		return OrphanReport{}, false
	}
	r.Evicted = o.evicted
	o.services, o.evicted = nil, 0
	o.mu.Unlock()

	out := map[string]orphanServiceJSON{}
	for name, s := range services {
		r.Total += s.total
		out[name] = s.report()
	}
	// Only numbers and strings are in it, so there is no error to meet.
	r.JSON, _ = json.Marshal(out)
	return r, true
}

type orphanServiceJSON struct {
	TotalCount  int64        `json:"total_count"`
	TopRequests []orphanJSON `json:"top_requests"`
}

// orphanJSON has the fields and the order of the SDK RFC's threshold log.
type orphanJSON struct {
	Total         int64  `json:"total_duration_us,omitempty"`
	Encode        int64  `json:"encode_duration_us,omitempty"`
	LastDispatch  int64  `json:"last_dispatch_duration_us,omitempty"`
	TotalDispatch int64  `json:"total_dispatch_duration_us,omitempty"`
	LastServer    int64  `json:"last_server_duration_us,omitempty"`
	TotalServer   int64  `json:"total_server_duration_us,omitempty"`
	Operation     string `json:"operation_name,omitempty"`
	LocalID       string `json:"last_local_id,omitempty"`
	OperationID   string `json:"operation_id,omitempty"`
	LocalSocket   string `json:"last_local_socket,omitempty"`
	RemoteSocket  string `json:"last_remote_socket,omitempty"`
	Timeout       int64  `json:"timeout_ms,omitempty"`
}

func (s *orphanService) report() orphanServiceJSON {
	out := orphanServiceJSON{TotalCount: s.total}
	slices.SortStableFunc(s.top, func(a, b Orphan) int { return cmp.Compare(b.Total, a.Total) })
	for _, e := range s.top {
		out.TopRequests = append(out.TopRequests, orphanJSON{
			Total: e.Total.Microseconds(), Encode: e.Encode.Microseconds(),
			LastDispatch: e.LastDispatch.Microseconds(), TotalDispatch: e.TotalDispatch.Microseconds(),
			LastServer: e.LastServer.Microseconds(), TotalServer: e.TotalServer.Microseconds(),
			Operation: e.Operation, LocalID: e.LocalID, OperationID: e.OperationID,
			LocalSocket: e.LocalSocket, RemoteSocket: e.RemoteSocket, Timeout: e.Timeout.Milliseconds(),
		})
	}
	return out
}
