package hedge

import "sync"

// Avoid is what the attempts of one hedged operation tell each other: the endpoints that they use, so that the next one
// goes elsewhere. Each attempt has its own, and all of an operation's share what they know. Its methods may be called
// from any goroutine and do not block. A nil *Avoid knows nothing.
type Avoid struct {
	shared *used
	own    string // the attempt's latest endpoint; guarded by shared.mu
}

type used struct {
	mu   sync.Mutex
	list []string
}

// Use says that the attempt goes to the endpoint.
func (a *Avoid) Use(endpoint string) {
	if a == nil {
		return
	}
	a.shared.mu.Lock()
	defer a.shared.mu.Unlock()
	a.own = endpoint
	a.shared.list = append(a.shared.list, endpoint)
}

// Used says whether an attempt of the operation has gone to the endpoint.
func (a *Avoid) Used(endpoint string) bool {
	if a == nil {
		return false
	}
	a.shared.mu.Lock()
	defer a.shared.mu.Unlock()
	for _, e := range a.shared.list {
		if e == endpoint {
			return true
		}
	}
	return false
}

// Endpoints lists where the operation's attempts went, in order; a copy.
func (a *Avoid) Endpoints() []string {
	if a == nil {
		return nil
	}
	a.shared.mu.Lock()
	defer a.shared.mu.Unlock()
	return append([]string(nil), a.shared.list...)
}

// endpoint is where this attempt went.
func (a *Avoid) endpoint() string {
	a.shared.mu.Lock()
	defer a.shared.mu.Unlock()
	return a.own
}
