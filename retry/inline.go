package retry

import "reflect"

// Inline is what a Strategy's type declares on itself to say that it never blocks. A type that gets the method from one
// that it embeds has not said so.
type Inline interface{ Inline() bool }

// Wrapper is a Strategy around another one, which never blocks unless that one does. Wraps gives that one; nil is the
// default. self is the strategy that is asked about: a type that embeds a Wrapper has its methods, but is another type,
// which may block before it asks the Wrapper. ok is false then, and must be.
type Wrapper interface {
	Wraps(self Strategy) (base Strategy, ok bool)
}

// Is reports whether s is a T or a *T, and not a type that embeds one. It is what a Wrapper's Wraps answers with.
func Is[T Strategy](s Strategy) bool {
	switch any(s).(type) {
	case T, *T:
		return true
	}
	return false
}

// IsInline reports whether s is a strategy that never blocks: a shipped one around another that never blocks, or one
// whose type says so itself. A nil Strategy, which inherits, never blocks by itself.
func IsInline(s Strategy) bool { return inlineOver(s, nil) }

// inlineOver is IsInline for a strategy that inherits another one wherever it has none.
func inlineOver(s, inherited Strategy) bool {
	for {
		if s == nil {
			if inherited == nil {
				return true
			}
			s, inherited = inherited, nil
		}
		if Is[BestEffort](s) {
			return true
		}
		var base Strategy
		w, ok := s.(Wrapper)
		if ok {
			base, ok = w.Wraps(s)
		}
		if !ok {
			return saysInline(s)
		}
		s = base
	}
}

// saysInline reports whether the type of s declares Inline, and that it never blocks.
func saysInline(s Strategy) bool {
	i, ok := s.(Inline)
	return ok && !embedsInline(reflect.TypeOf(s)) && i.Inline()
}

var inlineType = reflect.TypeFor[Inline]()

// embedsInline reports whether a type may have its method Inline from a field that it embeds.
func embedsInline(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && (f.Type.Implements(inlineType) || reflect.PointerTo(f.Type).Implements(inlineType)) {
			return true
		}
	}
	return false
}
