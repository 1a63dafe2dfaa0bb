package errormap

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
)

// DefaultLimit is the size of the largest map that Parse takes when it is given no limit; real ones have about 10 KiB.
const DefaultLimit = 1 << 20

// Attr is a set of attributes of a status.
type Attr uint32

// Attributes, as the error map RFC and kv_engine name them.
const (
	Success Attr = 1 << iota
	ItemOnly
	InvalidInput
	FetchConfig
	ConnStateInvalidated
	Auth
	SpecialHandling
	Support
	Temp
	Internal
	RetryNow
	RetryLater
	Subdoc
	DCP
	ItemDeleted
	ItemLocked
	AutoRetry
	RateLimit
	SystemConstraint
	NoRetry
	Retry // without a meaning of its own; only substitutes of servers send it
)

var attrNames = map[string]Attr{
	"success": Success, "item-only": ItemOnly, "invalid-input": InvalidInput, "fetch-config": FetchConfig,
	"conn-state-invalidated": ConnStateInvalidated, "auth": Auth, "special-handling": SpecialHandling,
	"support": Support, "temp": Temp, "internal": Internal, "retry-now": RetryNow, "retry-later": RetryLater,
	"subdoc": Subdoc, "dcp": DCP, "item-deleted": ItemDeleted, "item-locked": ItemLocked, "auto-retry": AutoRetry,
	"rate-limit": RateLimit, "system-constraint": SystemConstraint, "no-retry": NoRetry, "retry": Retry,
}

// Entry is what the map says of one status.
type Entry struct {
	Name, Desc string
	Attrs      Attr
	Unknown    []string   // attributes that this client does not know; they have no effect
	Retry      *RetrySpec // for diagnostics: no strategy that ships with the client uses it
}

// Has reports whether every given attribute is set.
func (e Entry) Has(a Attr) bool { return e.Attrs&a == a }

// RetryIndicated reports whether the map asks for a retry: "no-retry" wins over whatever else it says.
func (e Entry) RetryIndicated() bool {
	return e.Attrs&(RetryNow|RetryLater|AutoRetry) != 0 && !e.Has(NoRetry)
}

// MayHaveApplied reports whether the status leaves open that the server has executed the request: it speaks of a
// success, of a failure inside of the server, of a connection whose state is lost, or of what needs a treatment of its
// own. Sending a write again is then not safe whatever the map says of a retry.
func (e Entry) MayHaveApplied() bool {
	return e.Attrs&(Success|Internal|ConnStateInvalidated|SpecialHandling) != 0
}

// InvalidatesConnection reports whether the connection cannot be relied on after this status.
func (e Entry) InvalidatesConnection() bool { return e.Has(ConnStateInvalidated) }

// FetchConfig reports whether the client should ask for a newer cluster map.
func (e Entry) FetchConfig() bool { return e.Has(FetchConfig) }

// RateLimit reports whether the status speaks of a rate limit.
func (e Entry) RateLimit() bool { return e.Has(RateLimit) }

// Map is one error map. It does not change after Parse.
type Map struct {
	Version, Revision int
	entries           map[uint16]Entry
}

// Lookup gives the entry of a status.
func (m *Map) Lookup(code uint16) (Entry, bool) {
	e, ok := m.entries[code]
	return e, ok
}

// Len is the number of entries.
func (m *Map) Len() int { return len(m.entries) }

// Error says which field of a map cannot be used, and the limit that it breaks.
type Error struct {
	Field string
	Value string
	Limit string
	Err   error
}

// Error is one line.
func (e *Error) Error() string {
	s := "error map: " + e.Field
	if e.Value != "" {
		s += fmt.Sprintf(" is %q", e.Value)
	}
	if e.Limit != "" {
		s += ", limit " + e.Limit
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause, which may be nil.
func (e *Error) Unwrap() error { return e.Err }

// Parse reads a map of version 1 or 2 of at most limit bytes; 0 means DefaultLimit. Unknown attributes are kept by name
// and ignored. The error is a *Error.
func Parse(data []byte, limit int) (*Map, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	if len(data) > limit {
		return nil, &Error{Field: "size", Value: strconv.Itoa(len(data)), Limit: strconv.Itoa(limit) + " bytes"}
	}
	var doc struct {
		Version  *int                  `json:"version"`
		Revision *int                  `json:"revision"`
		Errors   map[string]*entryJSON `json:"errors"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) && te.Field != "" {
			return nil, &Error{
				Field: clip(te.Field), Value: "a JSON " + te.Value, Err: errors.New("does not fit there"),
			}
		}
		return nil, &Error{Field: "document", Err: err}
	}
	switch {
	case doc.Version == nil || *doc.Version < 1 || *doc.Version > 2:
		v := "absent"
		if doc.Version != nil {
			v = strconv.Itoa(*doc.Version)
		}
		return nil, &Error{Field: "version", Value: v, Limit: "1 to 2"}
	case doc.Revision == nil || *doc.Revision < 0:
		return nil, &Error{Field: "revision", Value: "absent or negative", Limit: "0 and more"}
	case doc.Errors == nil:
		return nil, &Error{Field: "errors", Value: "absent"}
	}
	m := &Map{Version: *doc.Version, Revision: *doc.Revision, entries: make(map[uint16]Entry, len(doc.Errors))}
	for key, d := range doc.Errors {
		if err := m.add(key, d); err != nil {
			return nil, err
		}
	}
	return m, nil
}

type entryJSON struct {
	Name  string     `json:"name"`
	Desc  string     `json:"desc"`
	Attrs []string   `json:"attrs"`
	Retry *RetrySpec `json:"retry"`
}

// add adds the entry of one code.
func (m *Map) add(key string, d *entryJSON) error {
	code, err := strconv.ParseUint(key, 16, 16)
	if err != nil {
		return &Error{Field: "code", Value: clip(key), Limit: "0 to ffff", Err: err}
	}
	if _, twice := m.entries[uint16(code)]; twice {
		return &Error{Field: "code", Value: clip(key), Limit: "once each"}
	}
	if d == nil {
		return &Error{Field: "entry", Value: clip(key), Err: errors.New("is null")}
	}
	e := Entry{Name: d.Name, Desc: d.Desc, Retry: d.Retry}
	for _, a := range d.Attrs {
		if bit, ok := attrNames[a]; ok {
			e.Attrs |= bit
		} else {
			e.Unknown = append(e.Unknown, clip(a))
		}
	}
	m.entries[uint16(code)] = e
	return nil
}

func clip(s string) string { return s[:min(len(s), 64)] }

// Newer reports whether m replaces old: a higher version, or the same version and a revision that is not lower.
func (m *Map) Newer(old *Map) bool {
	return old == nil || m.Version > old.Version || m.Version == old.Version && m.Revision >= old.Revision
}

// Store keeps the newest map of each node. Its zero value is empty. Reading takes no lock.
type Store struct {
	nodes atomic.Pointer[map[string]*Map]
}

// Offer takes a node's map unless the one that is there is newer, and reports whether it did. It does not block.
func (s *Store) Offer(node string, m *Map) bool {
	if m == nil {
		return false
	}
	for {
		old := s.nodes.Load()
		next := map[string]*Map{}
		if old != nil {
			if !m.Newer((*old)[node]) {
				return false
			}
			maps.Copy(next, *old)
		}
		next[node] = m
		if s.nodes.CompareAndSwap(old, &next) {
			return true
		}
	}
}

// Forget drops the map of a node that has left.
func (s *Store) Forget(node string) {
	for {
		old := s.nodes.Load()
		if old == nil || (*old)[node] == nil {
			return
		}
		next := maps.Clone(*old)
		delete(next, node)
		if s.nodes.CompareAndSwap(old, &next) {
			return
		}
	}
}

// For gives a node's map, or nil.
func (s *Store) For(node string) *Map {
	if p := s.nodes.Load(); p != nil {
		return (*p)[node]
	}
	return nil
}
