package policy

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/couchcore/couchcore/retry"
)

// services are those that a name may be for.
var services = [...]retry.Service{
	retry.KV, retry.Query, retry.Search, retry.Analytics, retry.Views, retry.Management, retry.Eventing, retry.Backup,
	retry.Index,
}

// Operation is one that a policy file may name.
type Operation struct {
	Name  string
	Hedge bool // there are requests of it that can be hedged
}

var nameFields = []field[nameDoc]{
	{name: "service", read: func(r *reader, n *nameDoc) error {
		text, raw, err := r.text("the name of a service")
		if err != nil {
			return err
		}
		if n.service = retry.Service(text); !slices.Contains(services[:], n.service) {
			return r.fault(raw, fmt.Sprintf("is not a service: choose one of %v", services))
		}
		return nil
	}},
	{name: "operation", grpc: "method", read: func(r *reader, n *nameDoc) error {
		text, raw, err := r.text("the name of an operation")
		if err == nil && text == "" {
			return r.fault(raw, "must not be empty")
		}
		n.operation, n.at = text, r.at()
		return err
	}},
}

func (n name) String() string {
	switch {
	case n.service == "":
		return "{}"
	case n.operation == "":
		return fmt.Sprintf(`{"service":%q}`, n.service)
	}
	return fmt.Sprintf(`{"service":%q,"operation":%q}`, n.service, n.operation)
}

func readNames(r *reader, e *entryDoc) error {
	err := r.array(func(int) error {
		n := nameDoc{path: r.at()}
		if err := object(r, nameFields, &n); err != nil {
			return err
		}
		if n.service == "" && n.operation != "" {
			return r.fault(fmt.Sprintf(`{"operation":%q}`, n.operation), "names an operation without its service")
		}
		e.names = append(e.names, n)
		return nil
	})
	if err == nil && len(e.names) == 0 {
		return r.fault("[]", "must not be empty; {} is everything")
	}
	return err
}

// checkNames finds names that another entry has, operations that do not exist, and hedges that can never act. claimed
// is where each name was found first.
func (e *entryDoc) checkNames(o ParseOptions, claimed map[name]string) error {
	for _, n := range e.names {
		if first, twice := claimed[n.name]; twice {
			return &ParseError{Path: n.path, Value: shown(n.String()), Reason: "appears twice, first at " + first}
		}
		claimed[n.name] = n.path
		if o.Operations == nil || n.service == "" {
			continue
		}
		var known, hedged []string
		for _, op := range o.Operations(n.service) {
			known = append(known, op.Name)
			if op.Hedge {
				hedged = append(hedged, op.Name)
			}
		}
		if n.operation != "" && !slices.Contains(known, n.operation) {
			return &ParseError{
				Path: n.at, Value: shown(strconv.Quote(n.operation)),
				Reason: fmt.Sprintf("is not an operation of %s: choose one of %v", n.service, known),
			}
		}
		if e.hedge != nil && (len(hedged) == 0 || n.operation != "" && !slices.Contains(hedged, n.operation)) {
			return &ParseError{
				Path: n.path, Value: shown(n.String()),
				Reason: fmt.Sprintf("is never hedged: in %s only %v can be", n.service, hedged),
			}
		}
	}
	return nil
}
