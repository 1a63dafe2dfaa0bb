package collections

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
