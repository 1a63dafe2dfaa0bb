package observe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Defaults of the reports of orphans and of slow operations.
const (
	ReportInterval = 10 * time.Second
	ReportSample   = 10
)

// Request is a slow operation, or a response whose call was gone when it came: timed out, cancelled or already
// answered. Facts that are not known stay zero and are left out of the report.
type Request struct {
	Service       string // kv, query ...
	Operation     string
	OperationID   string // the opaque as 0x and hex digits
	LocalID       string // client id/connection id
	LocalSocket   string
	RemoteSocket  string
	Total         time.Duration // of an orphan until it arrived
	Encode        time.Duration
	LastDispatch  time.Duration
	TotalDispatch time.Duration
	LastServer    time.Duration
	TotalServer   time.Duration
	Timeout       time.Duration
}

// OpaqueID writes an opaque as reports and errors name it.
func OpaqueID(opaque uint32) string { return fmt.Sprintf("0x%x", opaque) }

// Slowest gathers requests between two reports: it counts all and keeps the slowest few of each service. The zero value
// keeps ReportSample. It may be used by several goroutines at once, starts none, and reads no clock.
type Slowest struct {
	// Sample is how many of each service are kept, 0 for ReportSample. Set it before the first use.
	Sample int

	mu       sync.Mutex
	services map[string]*slowestOf
}

type slowestOf struct {
	total   int64
	top     []Request
	fastest int // index in top of the next to go
}

// Add counts a request and keeps it if it is among the slowest. It does not block, and allocates nothing for one that
// is not kept.
func (o *Slowest) Add(e Request) {
	sample := o.Sample
	if sample <= 0 {
		sample = ReportSample
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.services[e.Service]
	if s == nil {
		if o.services == nil {
			o.services = map[string]*slowestOf{}
		}
		s = &slowestOf{}
		o.services[e.Service] = s
	}
	s.total++
	s.keep(e, sample)
}

// keep takes e in if there is room or it is slower than the fastest of those kept.
func (s *slowestOf) keep(e Request, sample int) {
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

// SlowestReport is what one interval saw.
type SlowestReport struct {
	JSON  []byte // one line, the RFC's form
	Total int64
}

// Take returns what was gathered since the last Take and forgets it. ok is false when there was none: no line is due
// then.
func (o *Slowest) Take() (r SlowestReport, ok bool) {
	o.mu.Lock()
	services := o.services
	if len(services) == 0 {
		o.mu.Unlock()
		return SlowestReport{}, false
	}
	o.services = nil
	o.mu.Unlock()

	out := map[string]serviceJSON{}
	for name, s := range services {
		r.Total += s.total
		out[name] = s.report()
	}
	// Only numbers and strings are in it, so there is no error to meet.
	r.JSON, _ = json.Marshal(out)
	return r, true
}

type serviceJSON struct {
	TotalCount  int64         `json:"total_count"`
	TopRequests []requestJSON `json:"top_requests"`
}

// requestJSON has the fields and the order of the SDK RFC's threshold log.
type requestJSON struct {
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

func (s *slowestOf) report() serviceJSON {
	out := serviceJSON{TotalCount: s.total}
	slices.SortStableFunc(s.top, func(a, b Request) int { return cmp.Compare(b.Total, a.Total) })
	for _, e := range s.top {
		out.TopRequests = append(out.TopRequests, requestJSON{
			Total: e.Total.Microseconds(), Encode: e.Encode.Microseconds(),
			LastDispatch: e.LastDispatch.Microseconds(), TotalDispatch: e.TotalDispatch.Microseconds(),
			LastServer: e.LastServer.Microseconds(), TotalServer: e.TotalServer.Microseconds(),
			Operation: e.Operation, LocalID: e.LocalID, OperationID: e.OperationID,
			LocalSocket: e.LocalSocket, RemoteSocket: e.RemoteSocket, Timeout: e.Timeout.Milliseconds(),
		})
	}
	return out
}
