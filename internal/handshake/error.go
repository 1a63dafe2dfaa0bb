package handshake

import (
	"fmt"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
)

// Step is a part of connecting.
type Step string

// Steps of connecting, in order.
const (
	StepCredentials  Step = "credentials"
	StepDial         Step = "dial"
	StepTLS          Step = "TLS"
	StepHello        Step = "HELLO"
	StepErrorMap     Step = "GET_ERROR_MAP"
	StepMechanisms   Step = "SASL_LIST_MECHS"
	StepAuth         Step = "SASL_AUTH"
	StepAuthStep     Step = "SASL_STEP"
	StepSelectBucket Step = "SELECT_BUCKET"
	StepConfig       Step = "GET_CLUSTER_CONFIG"
	StepHTTP         Step = "cluster map over HTTP" // instead of all others but credentials and TLS
)

// Error says at which step and why a connection was not made. It unwraps to its kind and to its cause.
type Error struct {
	Addr     string
	Bucket   string
	Step     Step
	Answered bool
	Status   memd.Status
	Context  string // what the server said
	Kind     *cberr.Kind
	Err      error

	Generation uint64 // of the credentials that the attempt used
}

func (e *Error) Error() string {
	s := fmt.Sprintf("connecting to %s: %s", e.Addr, e.Step)
	if e.Step == StepSelectBucket {
		s += fmt.Sprintf(" %q", e.Bucket)
	}
	if e.Answered {
		s += fmt.Sprintf(" answered 0x%02x %v", uint16(e.Status), e.Status)
	}
	if e.Context != "" {
		s += " (" + e.Context + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// Is reports whether target is a failure of the same kind on the same way.
func (e *Error) Is(target error) bool {
	o, ok := target.(*Error)
	return ok && o.Kind != nil && o.Kind == e.Kind && o.Addr == e.Addr && o.Bucket == e.Bucket
}

// Kind is the kind of the terminal condition that a step may meet, nil for none.
func (s Step) Kind() *cberr.Kind {
	switch s { //nolint:exhaustive // the other steps meet none
	case StepTLS:
		return cberr.TLSFailure
	case StepAuth:
		return cberr.AuthenticationFailure
	case StepSelectBucket:
		return cberr.BucketAccess
	}
	return nil
}
