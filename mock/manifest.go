package mock

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	defaultName       = "_default"
	firstID           = 8 // ids below are the server's own
	maxCollectionName = 251
	defaultCollection = 0
	defaultScope      = 0
)

// manifest is what scopes and collections a bucket has. The cluster's mutex guards it.
type manifest struct {
	uid    uint64
	scopes []scope

	nextScope, nextCollection uint32 // ids of what is created next
}

type scope struct {
	name        string
	id          uint32
	collections []collection
}

type collection struct {
	name   string
	id     uint32
	maxTTL int32
}

func newManifest() manifest {
	return manifest{nextScope: firstID, nextCollection: firstID, scopes: []scope{{
		name: defaultName, id: defaultScope,
		collections: []collection{{name: defaultName, id: defaultCollection}},
	}}}
}

func (m *manifest) scope(name string) *scope {
	for i := range m.scopes {
		if m.scopes[i].name == name {
			return &m.scopes[i]
		}
	}
	return nil
}

func (s *scope) collection(name string) *collection {
	for i := range s.collections {
		if s.collections[i].name == name {
			return &s.collections[i]
		}
	}
	return nil
}

// path is the "scope.collection" of an id, empty for one that does not exist.
func (m *manifest) path(id uint32) string {
	for _, s := range m.scopes {
		for _, c := range s.collections {
			if c.id == id {
				return s.name + "." + c.name
			}
		}
	}
	return ""
}

// maxTTL is how long the documents of a collection may live, as the manifest has it.
func (m *manifest) maxTTL(id uint32) int32 {
	for i := range m.scopes {
		for j := range m.scopes[i].collections {
			if c := &m.scopes[i].collections[j]; c.id == id {
				return c.maxTTL
			}
		}
	}
	return 0
}

func (m *manifest) has(id uint32) bool { return m.path(id) != "" }

func checkName(name string) error {
	ok := name != "" && len(name) <= maxCollectionName && name[0] != '_' && name[0] != '%'
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-%", r))
	}
	if !ok {
		return fmt.Errorf("mock: %q is no name for a scope or a collection", name)
	}
	return nil
}

func (m *manifest) addScope(name string) (uint32, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	if m.scope(name) != nil {
		return 0, fmt.Errorf("mock: scope %q exists", name)
	}
	id := m.nextScope
	m.nextScope++
	m.uid++
	m.scopes = append(m.scopes, scope{name: name, id: id})
	return id, nil
}

func (m *manifest) addCollection(scope, name string, maxTTL int32) (uint32, error) {
	s := m.scope(scope)
	if s == nil {
		return 0, fmt.Errorf("mock: no scope %q", scope)
	}
	if err := checkName(name); err != nil && (scope != defaultName || name != defaultName) {
		return 0, err
	}
	if s.collection(name) != nil {
		return 0, fmt.Errorf("mock: collection %q exists in scope %q", name, scope)
	}
	if scope == defaultName && name == defaultName {
		return 0, fmt.Errorf("mock: the default collection does not come back")
	}
	id := m.nextCollection
	m.nextCollection++
	m.uid++
	s.collections = append(s.collections, collection{name: name, id: id, maxTTL: maxTTL})
	return id, nil
}

// ensure adds a collection, and its scope if need be.
func (m *manifest) ensure(scope, name string) (uint32, error) {
	if m.scope(scope) == nil {
		if _, err := m.addScope(scope); err != nil {
			return 0, err
		}
	}
	return m.addCollection(scope, name, 0)
}

// dropScope removes a scope and returns the ids of the collections that went with it.
func (m *manifest) dropScope(name string) ([]uint32, error) {
	s := m.scope(name)
	if s == nil || name == defaultName {
		return nil, fmt.Errorf("mock: scope %q cannot be dropped", name)
	}
	var ids []uint32
	for _, c := range s.collections {
		ids = append(ids, c.id)
	}
	m.scopes = slices.DeleteFunc(m.scopes, func(s scope) bool { return s.name == name })
	m.uid++
	return ids, nil
}

func (m *manifest) dropCollection(scope, name string) (uint32, error) {
	s := m.scope(scope)
	if s == nil || s.collection(name) == nil {
		return 0, fmt.Errorf("mock: no collection %q in scope %q", name, scope)
	}
	id := s.collection(name).id
	s.collections = slices.DeleteFunc(s.collections, func(c collection) bool { return c.name == name })
	m.uid++
	return id, nil
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
	Name   string `json:"name"`
	UID    string `json:"uid"`
	MaxTTL int32  `json:"maxTTL,omitempty"`
}

func (m *manifest) json() []byte {
	hex := func(n uint64) string { return strconv.FormatUint(n, 16) }
	out := manifestJSON{UID: hex(m.uid), Scopes: []scopeJSON{}}
	for _, s := range m.scopes {
		sj := scopeJSON{Name: s.name, UID: hex(uint64(s.id)), Collections: []collectionJSON{}}
		for _, c := range s.collections {
			sj.Collections = append(sj.Collections, collectionJSON{c.name, hex(uint64(c.id)), c.maxTTL})
		}
		out.Scopes = append(out.Scopes, sj)
	}
	b, _ := json.Marshal(out) // strings and numbers cannot fail
	return b
}
