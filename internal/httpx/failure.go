package httpx

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

var (
	errNoEndpoint = errors.New("no node of the cluster map offers the service")
	errNoMap      = errors.New("there is no cluster map yet that names the service's nodes")
	errNoBody     = errors.New("the function gave no body")
	errSwitched   = fmt.Errorf("%w: the node has answered 101 and switched protocols, which no request asks for",
		cberr.Couchbase)
	errQueueFull = errors.New("too many requests wait behind one of the same path, which a node has told to come " +
		"back later")
	errQueued = errors.New("the request waited behind another one of the same path, which a node has told to come " +
		"back later")
)

// withoutNode is err, which says that no node is known to send the request to, and why the map that would name one is
// not there.
func (k *call) withoutNode(err error) error {
	if k.c.o.WhyNoMap == nil {
		return err
	}
	if why := k.c.o.WhyNoMap(k.r.Bucket); why != nil {
		return fmt.Errorf("%w: %w", err, why)
	}
	return err
}

func (k *call) invalidEndpoint() error {
	if _, ok := InMap(k.r.Service); !ok {
		return fmt.Errorf("%w: %v is not a service", cberr.InvalidArgument, k.r.Service)
	}
	return fmt.Errorf("%w: %q is not a node of the service", cberr.InvalidArgument, k.r.Endpoint)
}

// withoutURL is the error of net/http in words, without the address, whose query string may hold keys.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return handshake.InWords(handshake.StepDial, err, nil, 0)
}

// failure translates what ended the call.
func (k *call) failure() error {
	var info retry.Info
	var re *retry.Error
	if errors.As(k.err, &re) {
		info = re.Info
	}
	return k.describe(k.err, k.inDoubt, info)
}

// describe is an error of this request with the kind that its cause has.
func (k *call) describe(cause error, inDoubt bool, info retry.Info) *httpsvc.Error {
	e := &httpsvc.Error{
		Service: k.r.Service.String(), Operation: k.operation, Method: k.r.Method, Path: k.r.Path, Endpoint: k.endpoint,
		InDoubt: inDoubt, Retry: info, Cause: cause, Kind: kindOf(cause, inDoubt, info.Reason), Response: k.refusal,
	}
	if k.queued && k.attempts == 0 {
		e.Cause = errors.Join(cause, errQueued)
	}
	if k.made != nil {
		if why := k.made.turn.Load(); why != nil {
			e.Cause = errors.Join(e.Cause, errors.New(*why))
		}
	}
	return e
}

// kindOf is the kind of what ended a request: a timeout or a cancellation whatever the last attempt met, then the
// reason's own error where it ended the request, then the cause's.
func kindOf(cause error, inDoubt bool, why retry.Reason) *cberr.Kind {
	switch {
	case errors.Is(cause, retry.ErrTimeout) && inDoubt:
		return cberr.AmbiguousTimeout
	case errors.Is(cause, retry.ErrTimeout):
		return cberr.UnambiguousTimeout
	case errors.Is(cause, retry.ErrCanceled), errors.Is(cause, retry.ErrClosed):
		return cberr.RequestCanceled
	case why == retry.AuthenticationError:
		return cberr.AuthenticationFailure
	case why == retry.TLSError:
		return cberr.TLSFailure
	}
	if kind := cberr.KindOf(cause); kind != nil && why != retry.ServiceNotAvailable {
		return kind
	}
	if refused := (*httpsvc.ResponseError)(nil); errors.As(cause, &refused) {
		return cberr.TemporaryFailure
	}
	switch why { //nolint:exhaustive // the other reasons come with an error that has a kind
	case retry.ServiceNotAvailable:
		return cberr.ServiceNotAvailable
	case retry.ServiceResponseCodeIndicated:
		return cberr.TemporaryFailure
	}
	return cberr.RequestCanceled
}

// broken is what the reader of a body is told when the body ends early. Whether the service has executed the request
// to its end is then unknown.
func (k *call) broken(err error) error {
	inDoubt := !k.state.Idempotent
	e := k.describe(err, inDoubt, k.state.Info())
	e.Kind, e.Response = cberr.RequestCanceled, nil
	switch {
	case k.c.ctx.Err() != nil: // its connections may be closed before the request hears of it
		e.Cause = fmt.Errorf("%w: %w", retry.ErrCanceled, context.Cause(k.c.ctx))
	case k.ctx.Err() == nil:
	case errors.Is(k.ctx.Err(), context.DeadlineExceeded) && inDoubt:
		e.Kind, e.Cause = cberr.AmbiguousTimeout, retry.ErrTimeout
	case errors.Is(k.ctx.Err(), context.DeadlineExceeded):
		e.Kind, e.Cause = cberr.UnambiguousTimeout, retry.ErrTimeout
	default:
		e.Cause = fmt.Errorf("%w: %w", retry.ErrCanceled, context.Cause(k.ctx))
	}
	return e
}
