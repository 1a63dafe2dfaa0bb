package handshake

import (
	"errors"
	"fmt"
	"strings"

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

	Anonymous  bool   // the attempt had no credentials
	Generation uint64 // of the credentials that the attempt used
}

// Error names the node, and says in words why it is not connected. A node that is only asked for its cluster map over
// HTTP has no connection to speak of.
func (e *Error) Error() string {
	state := " is not connected: "
	if e.Step == StepHTTP {
		state = " gives no cluster map over HTTP: "
	}
	return "node " + e.Addr + state + e.Reason()
}

// Reason is the text of Error without the node.
func (e *Error) Reason() string {
	var parts []string
	if words := e.words(); words != "" {
		parts = append(parts, words)
	}
	if e.Step != StepDial && e.Step != StepHTTP {
		parts = append(parts, e.answer())
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	if len(parts) == 0 {
		parts = append(parts, string(e.Step))
	}
	return strings.Join(parts, ": ")
}

// answer is the step, and what the node has answered to it.
func (e *Error) answer() string {
	s := string(e.Step)
	if e.Step == StepSelectBucket {
		s += fmt.Sprintf(" %q", e.Bucket)
	}
	if e.Answered {
		s += fmt.Sprintf(" answered 0x%02x %v", uint16(e.Status), e.Status)
	}
	if e.Context != "" {
		s += " (" + e.Context + ")"
	}
	return s
}

// words say what a refusal means, "" where the answer itself says it.
func (e *Error) words() string {
	unknown := e.Answered && (e.Status == memd.StatusUnknownCommand || e.Status == memd.StatusNotSupported)
	switch {
	case e.Kind == cberr.AuthenticationFailure:
		return "the login is refused, wrong credentials"
	case e.Kind == cberr.BucketAccess && e.Anonymous:
		return fmt.Sprintf("no credentials are given, and the bucket %q needs some, or does not exist", e.Bucket)
	case e.Kind == cberr.BucketAccess:
		return fmt.Sprintf("the user may not use the bucket %q, or it does not exist", e.Bucket)
	case e.Step == StepSelectBucket && unknown:
		return "the server is too old, or not a Couchbase server: it does not know buckets"
	case e.Kind == cberr.BucketNotFound:
		return fmt.Sprintf("the bucket %q does not exist, or is not ready on this node", e.Bucket)
	}
	return ""
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

// Refuses reports whether err is what a node says to credentials or TLS settings: it may take other ones. A bucket that
// does not exist is not.
func Refuses(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind != nil && e.Kind != cberr.BucketNotFound
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
