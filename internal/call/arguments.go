package call

import (
	"fmt"
	"slices"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
)

// ArgumentError says which argument of an operation is wrong and what its limit is. It unwraps to the kind of the
// failure: invalid argument, value too large, or feature not available.
type ArgumentError struct {
	Field  string
	Value  int64 // its length or number
	Limit  int64
	Reason string // for what is not a matter of size
	Kind   *cberr.Kind
}

func (e *ArgumentError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("%s: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("%s is %d, limit %d", e.Field, e.Value, e.Limit)
}

func (e *ArgumentError) Unwrap() error { return e.Kind }

// BadArgument refuses an argument for another reason than its size.
func BadArgument(field, reason string) error {
	return &ArgumentError{Field: field, Reason: reason, Kind: cberr.InvalidArgument}
}

// OutOfRange refuses an argument for its size.
func OutOfRange(field string, value, limit int64) error {
	return &ArgumentError{Field: field, Value: value, Limit: limit, Kind: cberr.InvalidArgument}
}

// hedgesAndRetries reports whether the request names both, of which only one can govern it.
func (r *Request) hedgesAndRetries() bool {
	return r.Hedge() != nil && r.Hedge().MaxAttempts > 1 && r.Retry() != nil
}

// Validate checks what no server needs to be asked about.
func (r *Request) Validate(s *Spec) error {
	if s.Has(Keyed) {
		limit := MaxKeyLen
		if !r.InDefaultCollection() {
			limit = MaxKeyLenCollection
		}
		switch {
		case len(r.Key) == 0:
			return &ArgumentError{
				Field: "key", Limit: int64(limit),
				Reason: fmt.Sprintf("is empty, 1 to %d bytes allowed", limit), Kind: cberr.InvalidArgument,
			}
		case len(r.Key) > limit:
			return OutOfRange("key length", int64(len(r.Key)), int64(limit))
		}
	}
	switch {
	case !slices.Contains(s.ReqExtras, int(r.extrasLen)): // only an operation from elsewhere can have that
		return BadArgument("extras", fmt.Sprintf("have %d bytes, %s takes %v", r.extrasLen, s.Name, s.ReqExtras))
	case r.Datatype&^s.Datatypes != 0:
		return BadArgument("datatype", fmt.Sprintf("is %v, %s takes %v", r.Datatype, s.Name, s.Datatypes))
	case len(r.Value) > MaxValueLen:
		return &ArgumentError{
			Field: "value length", Value: int64(len(r.Value)), Limit: MaxValueLen, Kind: cberr.ValueTooLarge,
		}
	case r.Timeout < 0:
		return BadArgument("timeout", "is negative")
	case r.hedgesAndRetries():
		return BadArgument("hedge", "given together with a strategy (Retry): a call is hedged or retried, not both")
	case r.Durability > memd.DurabilityPersistToMajority:
		return OutOfRange("durability level", int64(r.Durability), int64(memd.DurabilityPersistToMajority))
	case r.Durability != 0 && !s.Has(Durable):
		return BadArgument("durability level", "not accepted by "+s.Name)
	case r.PreserveExpiry && !s.Has(PreservesExpiry):
		return BadArgument("preserve expiry", "not accepted by "+s.Name)
	case s.Has(WantsCAS) && r.CAS == 0:
		return BadArgument("cas", s.Name+" needs the CAS of the lock")
	case len(r.OnBehalfOf()) > MaxUserLen:
		return OutOfRange("on behalf of length", int64(len(r.OnBehalfOf())), MaxUserLen)
	}
	return r.validateNames()
}

func (r *Request) validateNames() error {
	if r.Scope() == "" && r.Collection() == "" {
		return nil
	}
	for _, n := range [...]struct{ field, name string }{{"scope", r.Scope()}, {"collection", r.Collection()}} {
		if len(n.name) > 251 {
			return OutOfRange(n.field+" name length", int64(len(n.name)), 251)
		}
		for i := 0; i < len(n.name); i++ {
			c := n.name[i]
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' ||
				c == '%') {
				return BadArgument(n.field+" name", fmt.Sprintf("byte %d is not one of A-Z a-z 0-9 _ - %%", i))
			}
		}
	}
	return nil
}
