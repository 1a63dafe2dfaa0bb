package retry

// Rule is what a policy has for the operations of one kind. H says how an operation of theirs is hedged.
type Rule[H any] struct {
	Strategy Strategy // nil has no retry policy
	Hedge    *H       // instead of retries; nil has no hedging policy
	Pinned   bool     // goes before what an operation names itself
	// Bound puts a strategy that is not the rule's below what binds every strategy; nil binds nothing.
	Bound func(Strategy) Strategy
}

// StrategyOf is the strategy of an operation that names one itself, or none: the rule's, unless the named one goes
// before it. Nil is what an operation has without both. ruled says that it is the rule's.
func (r *Rule[H]) StrategyOf(named Strategy) (s Strategy, ruled bool) {
	switch {
	case r.Strategy != nil && (named == nil || r.Pinned):
		return r.Strategy, true
	case named != nil && r.Bound != nil:
		return r.Bound(named), false
	}
	return named, false
}

// HedgeOf is how an operation is hedged that names a strategy and hedges, or neither; nil is not at all. A pinned rule
// that retries takes an operation's own hedges away.
func (r *Rule[H]) HedgeOf(named Strategy, own *H) *H {
	if r.Pinned || named == nil && own == nil {
		return r.Hedge
	}
	return own
}
