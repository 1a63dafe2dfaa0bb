package collections

import (
	"fmt"

	"github.com/couchcore/couchcore/cberr"
)

// Path names a collection; empty parts mean _default.
type Path struct{ Scope, Collection string }

const defaultName = "_default"

// clean gives the path its full names.
func (p Path) clean() Path {
	if p.Scope == "" {
		p.Scope = defaultName
	}
	if p.Collection == "" {
		p.Collection = defaultName
	}
	return p
}

// IsDefault reports whether p is the default collection, whose id is always 0.
func (p Path) IsDefault() bool { return p.clean() == Path{defaultName, defaultName} }

// String is "scope.collection", as the lookup's request wants it.
func (p Path) String() string {
	p = p.clean()
	return p.Scope + "." + p.Collection
}

// MaxName is the length of the longest name of a scope or collection.
const MaxName = 251

// NameError says why a text cannot name a scope or a collection. It is a cberr.InvalidArgument.
type NameError struct {
	Name   string // cut to MaxName bytes
	Reason string
}

// Error is one line.
func (e *NameError) Error() string {
	return fmt.Sprintf("name of a scope or collection: %.64q %s", e.Name, e.Reason)
}

// Unwrap gives cberr.InvalidArgument.
func (e *NameError) Unwrap() error { return cberr.InvalidArgument }

// ValidateName checks that a scope or a collection can have that name: 1 to 251 letters, digits and _-%, of which % is
// not the first. Names that begin with _ are the server's own, and can be used. The error is a *NameError.
func ValidateName(name string) error {
	fail := func(reason string) error { return &NameError{Name: name[:min(len(name), MaxName)], Reason: reason} }
	switch {
	case name == "":
		return fail("is empty")
	case len(name) > MaxName:
		return fail(fmt.Sprintf("has %d bytes, limit %d", len(name), MaxName))
	case name[0] == '%':
		return fail("begins with %")
	}
	for i := range len(name) {
		switch b := name[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '_', b == '-', b == '%':
		default:
			return fail(fmt.Sprintf("has a character other than letters, digits and _-%% at byte %d", i))
		}
	}
	return nil
}
