package management

import "maps"

// Saved is what the service knows of accounts and groups.
type Saved struct {
	users  map[identity]*person
	groups map[string]*group
}

// Save returns what Load brings back. Accounts and groups are replaced when they change, never changed in place.
func (s *State) Save() *Saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Saved{maps.Clone(s.users), maps.Clone(s.groups)}
}

// Load brings back what was saved.
func (s *State) Load(saved *Saved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users, s.groups = maps.Clone(saved.users), maps.Clone(saved.groups)
}

// Forget removes what the service knows of a local account that was removed without it.
func (s *State) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.users, identity{local, name})
}
