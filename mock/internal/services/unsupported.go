package services

import "slices"

const maxUnsupported = 1000 // different ones that are listed

// Unsupported is a statement that the mock did not answer as a server does, for want of a script.
type Unsupported struct {
	Service   Service
	Statement string // for search the query, as JSON
	Message   string // what is not supported
	Requests  int
}

// Unsupported returns the statements that came and are not supported, in the order of their first request. The first
// 1,000 different ones are listed.
func (s *State) Unsupported() []Unsupported {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unsupported)
}

// ClearUnsupported empties the list.
func (s *State) ClearUnsupported() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsupported = nil
}

// refuses lists the request's statement as not supported.
func (x *Call) refuses(message string) {
	statement := x.rq.Statement
	if x.rq.Service == Search {
		statement = string(x.rq.Body[:min(len(x.rq.Body), loggedBody)])
	}
	if x.s.list(Unsupported{Service: x.rq.Service, Statement: statement, Message: message, Requests: 1}) {
		x.s.host.Tell("not supported", "service", x.rq.Service.String(), "statement", statement)
	}
}

// list puts a statement on the list, and reports whether it is new there.
func (s *State) list(u Unsupported) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.unsupported, func(o Unsupported) bool {
		return o.Service == u.Service && o.Statement == u.Statement
	})
	if i >= 0 {
		s.unsupported[i].Requests++
		return false
	}
	if len(s.unsupported) < maxUnsupported {
		s.unsupported = append(s.unsupported, u)
	}
	return true
}
