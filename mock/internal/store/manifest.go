package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// DefaultName is the name of the scope and of the collection that every bucket begins with.
const DefaultName = "_default"

const (
	firstID           = 8 // ids below are the server's own
	maxCollectionName = 251
	defaultScope      = 0
)

// Manifest is what scopes and collections a bucket has. Its caller has a lock.
type Manifest struct {
	UID    uint64
	Scopes []Scope

	nextScope, nextCollection uint32 // ids of what is created next
}

// Scope is one scope with its collections.
type Scope struct {
	Name        string
	ID          uint32
	Collections []Collection
}

// Collection is one collection. MaxTTL is how many seconds its documents live at most: 0 for any number, -1 for never
// expiring. History says that the bucket keeps older versions of its documents, in name only.
type Collection struct {
	Name    string
	ID      uint32
	MaxTTL  int32
	History bool
}

// ManifestError says why a manifest stays as it is, in the words of ns_server (menelaus_web_collections.erl).
type ManifestError struct {
	Text    string
	Missing bool // what was to be changed does not exist
}

func (e *ManifestError) Error() string { return "mock: " + e.Text }

func refused(format string, args ...any) error {
	return &ManifestError{Text: fmt.Sprintf(format, args...)}
}

func noScope(name string) error {
	return &ManifestError{Text: fmt.Sprintf("Scope with name %q is not found", name), Missing: true}
}

func noCollection(scope, name string) error {
	return &ManifestError{
		Text: fmt.Sprintf("Collection with name %q in scope %q is not found", name, scope), Missing: true,
	}
}

// NewManifest has the default scope with the default collection.
func NewManifest() Manifest {
	return Manifest{nextScope: firstID, nextCollection: firstID, Scopes: []Scope{{
		Name: DefaultName, ID: defaultScope,
		Collections: []Collection{{Name: DefaultName, ID: DefaultCollection}},
	}}}
}

// Clone is a copy that later changes do not touch.
func (m *Manifest) Clone() Manifest {
	out := *m
	out.Scopes = slices.Clone(m.Scopes)
	for i := range out.Scopes {
		out.Scopes[i].Collections = slices.Clone(out.Scopes[i].Collections)
	}
	return out
}

// Restore brings back the scopes and collections of an older copy. Numbers never go back: the uid grows if that changes
// anything, and new ids begin after the newest.
func (m *Manifest) Restore(old *Manifest) {
	restored := old.Clone()
	same := func(a, b Scope) bool {
		return a.Name == b.Name && a.ID == b.ID && slices.Equal(a.Collections, b.Collections)
	}
	if slices.EqualFunc(m.Scopes, restored.Scopes, same) {
		return
	}
	m.UID = max(m.UID, restored.UID) + 1
	m.Scopes = restored.Scopes
	m.nextScope = max(m.nextScope, restored.nextScope)
	m.nextCollection = max(m.nextCollection, restored.nextCollection)
}

// Scope is the scope of that name, or nil.
func (m *Manifest) Scope(name string) *Scope {
	for i := range m.Scopes {
		if m.Scopes[i].Name == name {
			return &m.Scopes[i]
		}
	}
	return nil
}

// Collection is the collection of that name, or nil.
func (s *Scope) Collection(name string) *Collection {
	for i := range s.Collections {
		if s.Collections[i].Name == name {
			return &s.Collections[i]
		}
	}
	return nil
}

// Path is the "scope.collection" of an id, empty for one that does not exist.
func (m *Manifest) Path(id uint32) string {
	for _, s := range m.Scopes {
		for _, c := range s.Collections {
			if c.ID == id {
				return s.Name + "." + c.Name
			}
		}
	}
	return ""
}

// MaxTTL is how long the documents of a collection may live, as the manifest has it.
func (m *Manifest) MaxTTL(id uint32) int32 {
	for i := range m.Scopes {
		for j := range m.Scopes[i].Collections {
			if c := &m.Scopes[i].Collections[j]; c.ID == id {
				return c.MaxTTL
			}
		}
	}
	return 0
}

// Has reports whether there is a collection with the id.
func (m *Manifest) Has(id uint32) bool { return m.Path(id) != "" }

func checkName(name string) error {
	ok := name != "" && len(name) <= maxCollectionName && name[0] != '_' && name[0] != '%'
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-%",
			r))
	}
	if !ok {
		return refused("%q is not a valid name of a scope or a collection", name)
	}
	return nil
}

// AddScope adds a scope and returns its id.
func (m *Manifest) AddScope(name string) (uint32, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	if m.Scope(name) != nil {
		return 0, refused("Scope with name %q already exists", name)
	}
	id := m.nextScope
	m.nextScope++
	m.UID++
	m.Scopes = append(m.Scopes, Scope{Name: name, ID: id})
	return id, nil
}

// AddCollection adds a collection to a scope and returns its id.
func (m *Manifest) AddCollection(scope, name string, maxTTL int32) (uint32, error) {
	s := m.Scope(scope)
	if s == nil {
		return 0, noScope(scope)
	}
	if err := checkName(name); err != nil && (scope != DefaultName || name != DefaultName) {
		return 0, err
	}
	if s.Collection(name) != nil {
		return 0, refused("Collection with name %q in scope %q already exists", name, scope)
	}
	if scope == DefaultName && name == DefaultName {
		return 0, refused("Cannot create _default collection in scope %q. Creation of _default collection is not "+
			"allowed.", scope)
	}
	id := m.nextCollection
	m.nextCollection++
	m.UID++
	s.Collections = append(s.Collections, Collection{Name: name, ID: id, MaxTTL: maxTTL})
	return id, nil
}

// Ensure adds a collection, and its scope if need be.
func (m *Manifest) Ensure(scope, name string) (uint32, error) {
	if m.Scope(scope) == nil {
		if _, err := m.AddScope(scope); err != nil {
			return 0, err
		}
	}
	return m.AddCollection(scope, name, 0)
}

// DropScope removes a scope and returns the ids of the collections that went with it.
func (m *Manifest) DropScope(name string) ([]uint32, error) {
	s := m.Scope(name)
	if name == DefaultName {
		return nil, refused("Deleting _default scope is not allowed")
	}
	if s == nil {
		return nil, noScope(name)
	}
	var ids []uint32
	for _, c := range s.Collections {
		ids = append(ids, c.ID)
	}
	m.Scopes = slices.DeleteFunc(m.Scopes, func(s Scope) bool { return s.Name == name })
	m.UID++
	return ids, nil
}

// DropCollection removes a collection and returns its id.
func (m *Manifest) DropCollection(scope, name string) (uint32, error) {
	s := m.Scope(scope)
	if s == nil {
		return 0, noScope(scope)
	}
	if s.Collection(name) == nil {
		return 0, noCollection(scope, name)
	}
	id := s.Collection(name).ID
	s.Collections = slices.DeleteFunc(s.Collections, func(c Collection) bool { return c.Name == name })
	m.UID++
	return id, nil
}

// Modify changes a collection.
func (m *Manifest) Modify(scope, name string, change func(*Collection)) error {
	s := m.Scope(scope)
	if s == nil {
		return noScope(scope)
	}
	c := s.Collection(name)
	if c == nil {
		return noCollection(scope, name)
	}
	change(c)
	m.UID++
	return nil
}

// manifestJSON is the form in which nodes hand the manifest out. Ids are hex without a prefix.
type manifestJSON struct {
	UID    string      `json:"uid"`
	Scopes []scopeJSON `json:"scopes"`
}

type scopeJSON struct {
	Name        string           `json:"name"`
	UID         string           `json:"uid"`
	Collections []collectionJSON `json:"collections"`
}

type collectionJSON struct {
	Name    string `json:"name"`
	UID     string `json:"uid"`
	MaxTTL  int32  `json:"maxTTL,omitempty"`
	History bool   `json:"history,omitempty"`
}

// JSON is the manifest as nodes hand it out.
func (m *Manifest) JSON() []byte {
	hex := func(n uint64) string { return strconv.FormatUint(n, 16) }
	out := manifestJSON{UID: hex(m.UID), Scopes: []scopeJSON{}}
	for _, s := range m.Scopes {
		sj := scopeJSON{Name: s.Name, UID: hex(uint64(s.ID)), Collections: []collectionJSON{}}
		for _, c := range s.Collections {
			sj.Collections = append(sj.Collections, collectionJSON{c.Name, hex(uint64(c.ID)), c.MaxTTL, c.History})
		}
		out.Scopes = append(out.Scopes, sj)
	}
	b, _ := json.Marshal(out) // strings and numbers cannot fail
	return b
}
