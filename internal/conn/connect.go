package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
)

// Options say how to connect. Dial, Base, Handler and Credentials must be set.
type Options struct {
	Dial        func(ctx context.Context, network, addr string) (net.Conn, error)
	TLS         *tls.Config // nil means plaintext; cloned for each dial
	Credentials func(ctx context.Context) (Credentials, error)
	Mechanisms  []string // in order of preference; nil means SCRAM-SHA512, SHA256, SHA1, and PLAIN where it may be used
	AllowPlain  bool     // PLAIN on a plaintext socket
	SCRAM       *Keyring // shared by a cluster's connections; nil derives keys anew each time
	Bucket      string   // "" selects none
	Agent       string   // the key of HELLO
	ID          string   // this connection's part of it
	Features    []memd.Feature
	WantConfig  bool
	Compression call.Compression // of documents' values, where the node grants it

	// Bare talks to a server that knows neither HELLO nor buckets: SASL at most.
	Bare bool

	Timeout      time.Duration // for dial, TLS and bootstrap together; 0 means 10 s
	WriteTimeout time.Duration // of a write that the peer does not take; 0 means 10 s
	FrameLimit   int           // 0 means memd.DefaultLimit
	ConfigLimit  int           // bytes of the handshake's cluster map when inflated; 0 means call.MaxInflated
	MaxInFlight  int           // 0 means 32768
	Base         time.Time     // the calls' deadlines count from here
	Handler      Handler
	Feedback     Feedback // is told of every success; nil: no receiver

	// Passed is told of each step that an attempt has done, on the goroutine of Connect; nil: no one is told.
	Passed func(Step)
}

// Feedback is told that the node has answered with success. Success is called by the reader and must not block.
type Feedback interface{ Success() }

// SetFeedback replaces what is told of successes from now on; with nil they are not told.
func (c *Conn) SetFeedback(f Feedback) {
	if f == nil {
		c.feedback.Store(nil)
		return
	}
	c.feedback.Store(&f)
}

// Credentials are what a connection authenticates with: a name and a password, or a token. With neither there is no
// SASL: the client certificate does it.
type Credentials struct {
	Username        string
	Password, Token observe.Secret
	Login           // what the connection's Info keeps of it
}

// Login is what the giver of credentials wants to know later about a connection that has used them.
type Login struct {
	Generation uint64    // of the credentials
	At         time.Time // when they were given
	Expires    time.Time // when they are good for nothing any more; zero is never
	Token      bool      // a login of one step over the live connection can replace it
}

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

// ConnectError says at which step and why a connection was not made. It unwraps to its kind and to its cause.
type ConnectError struct {
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

func (e *ConnectError) Error() string {
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
func (e *ConnectError) Unwrap() []error {
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
func (e *ConnectError) Is(target error) bool {
	o, ok := target.(*ConnectError)
	return ok && o.Kind != nil && o.Kind == e.Kind && o.Addr == e.Addr && o.Bucket == e.Bucket
}

// Connect dials addr, does TLS, and bootstraps. It blocks until that is done, ctx has ended or the timeout has passed.
// The error is a *ConnectError. The caller runs Serve on the connection it gets.
func Connect(ctx context.Context, addr string, o *Options) (*Conn, error) {
	began := time.Now()
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var generation uint64
	fail := func(step Step, kind *cberr.Kind, err error) (*Conn, error) {
		if cause := context.Cause(ctx); cause != nil && !IsTLSFailure(err) {
			err = errors.Join(cause, err)
		}
		return nil, &ConnectError{Addr: addr, Step: step, Kind: kind, Err: err, Generation: generation}
	}
	creds, err := o.Credentials(ctx)
	generation = creds.Generation
	if err != nil {
		return fail(StepCredentials, nil, err)
	}
	raw, err := o.Dial(ctx, "tcp", addr)
	if err != nil {
		return fail(StepDial, nil, err)
	}
	if err := unblock(raw); err != nil {
		_ = raw.Close()
		return fail(StepDial, nil, err)
	}
	o.passed(StepDial)
	nc := raw
	if o.TLS != nil {
		if nc, err = Handshake(ctx, raw, o.TLS, addr); err != nil {
			if IsTLSFailure(err) {
				return fail(StepTLS, cberr.TLSFailure, err)
			}
			return fail(StepTLS, nil, err)
		}
		o.passed(StepTLS)
	}
	// Ending the context must end a read or write that hangs.
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	b := &bootstrap{o: o, addr: addr, nc: nc, creds: creds, limit: o.FrameLimit}
	if err := b.run(); err != nil {
		stop()
		_ = nc.Close()
		var ce *ConnectError
		if errors.As(err, &ce) {
			ce.Generation = generation
			return nil, ce
		}
		if o.TLS != nil && !b.answered && IsTLSFailure(err) {
			return fail(StepTLS, cberr.TLSFailure, err)
		}
		return fail(b.step, nil, err)
	}
	if !stop() {
		_ = nc.Close()
		return fail(b.step, nil, context.Cause(ctx))
	}
	_ = nc.SetDeadline(time.Time{})
	c := newConn(nc, o, b)
	c.info.Took = time.Since(began)
	return c, nil
}

func (o *Options) passed(s Step) {
	if o.Passed != nil {
		o.Passed(s)
	}
}

func newConn(nc net.Conn, o *Options, b *bootstrap) *Conn {
	c := &Conn{
		nc: nc, h: o.Handler, base: o.Base, limit: o.FrameLimit, maxCalls: o.MaxInFlight, writeMax: o.WriteTimeout,
		packer: call.Packer{Compression: o.Compression}, info: b.info, armed: never,
		quit: make(chan struct{}), hungUp: make(chan struct{}), kick: make(chan struct{}, 1),
		rbuf: b.buf, rpos: b.pos, rlen: b.n, pushed: b.pushed,
	}
	c.SetFeedback(o.Feedback)
	if len(c.rbuf) != minRead && b.n <= minRead {
		c.rbuf = make([]byte, minRead)
		copy(c.rbuf, b.buf[:b.n])
	}
	c.reads.Store(int32(len(c.rbuf)))
	via := &call.Via{Endpoint: c.info.Addr, Local: c.info.ID, Bucket: o.Bucket}
	c.wire = call.Wire{Features: c.info.Features, Via: via}
	if c.maxCalls <= 0 {
		c.maxCalls = 32768
	}
	if c.writeMax <= 0 {
		c.writeMax = 10 * time.Second
	}
	if o.TLS == nil {
		c.try = newTry(nc)
	}
	c.timer = time.AfterFunc(time.Hour, c.sweep)
	c.timer.Stop()
	return c
}
