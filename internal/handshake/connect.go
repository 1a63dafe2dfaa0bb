package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
)

// Options say how to connect. Dial and Credentials must be set.
type Options struct {
	Dial        func(ctx context.Context, network, addr string) (net.Conn, error)
	TLS         *tls.Config // nil means plaintext; cloned for each dial
	Credentials func(ctx context.Context, addr string) (Credentials, error)
	Mechanisms  []string // in order of preference; nil means SCRAM-SHA512, SHA256, SHA1, and PLAIN where it may be used
	AllowPlain  bool     // PLAIN on a plaintext socket
	SCRAM       *Keyring // shared by a cluster's connections; nil derives keys anew each time
	Bucket      string   // "" selects none
	Agent       string   // the key of HELLO
	ID          string   // this connection's part of it
	Features    []memd.Feature
	WantConfig  bool // the node's cluster map is asked for

	// Memcached talks to a server that knows neither HELLO nor buckets: SASL at most.
	Memcached bool

	Timeout     time.Duration // for dial, TLS and the dialogue together; 0 means 10 s
	FrameLimit  int           // bytes of an answer's body; 0 means memd.DefaultLimit
	ConfigLimit int           // bytes of the cluster map when inflated; 0 means call.MaxInflated

	// Passed is told of each step that an attempt has done, on the goroutine of Connect; nil: no receiver.
	Passed func(Step)
}

// Credentials are what a connection authenticates with: a name and a password, or a token. With neither there is no
// SASL: the client certificate does it.
type Credentials struct {
	Username        string
	Password, Token observe.Secret
	Mechanisms      []string // nil: those of the options
	Login                    // what the connection's Info keeps of it
}

// Login is what the giver of credentials wants to know later about a connection that has used them.
type Login struct {
	Generation uint64    // of the credentials
	At         time.Time // when they were given
	Expires    time.Time // from here on the server refuses them; zero is never
	Token      bool      // a login of one step over the live connection can replace it
}

// Info is what the handshake learned. It does not change, but for Forget.
type Info struct {
	Addr, Local string
	ID          string // this connection's id in HELLO
	Features    memd.Features
	Mechanism   string
	Login       Login
	ErrorMap    []byte
	Config      []byte // the node's cluster map, nil when it gave none
	NoConfig    bool   // it does not give any over this protocol
	Took        time.Duration
}

// Forget releases the error map and the cluster map, of tens of kibibytes each. It is for the goroutine that made the
// connection, before others know of it.
func (i *Info) Forget() { i.ErrorMap, i.Config = nil, nil }

// Result is a connection whose handshake is done. Its receiver closes Conn.
type Result struct {
	Conn   net.Conn
	Info   Info
	Unread []byte       // what was read behind the last answer
	Pushed *memd.Packet // the newest notification of a cluster map that came meanwhile; nil: none came
}

// Connect dials addr, does TLS and the dialogue. It blocks until that is done, ctx has ended or the timeout has passed.
// The error is an *Error.
func Connect(ctx context.Context, addr string, o *Options) (*Result, error) {
	began := time.Now()
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d := &dialogue{o: o, ctx: ctx, limit: timeout, addr: addr, step: StepCredentials}
	err := d.connect()
	if err == nil {
		// The end of the context must end a read or write that hangs.
		stop := context.AfterFunc(ctx, func() { _ = d.nc.SetDeadline(time.Unix(1, 0)) })
		if err = d.run(); !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			_ = d.nc.Close()
		}
	}
	if err != nil {
		return nil, d.failed(err)
	}
	_ = d.nc.SetDeadline(time.Time{})
	d.info.Took = time.Since(began)
	return &Result{Conn: d.nc, Info: d.info, Unread: d.buf[d.pos:d.n], Pushed: d.pushed}, nil
}

func (o *Options) passed(s Step) {
	if o.Passed != nil {
		o.Passed(s)
	}
}

// connect gives the dialogue its credentials and its socket, with TLS if the options say so.
func (d *dialogue) connect() (err error) {
	if d.creds, err = d.o.Credentials(d.ctx, d.addr); err != nil {
		return err
	}
	d.step = StepDial
	if d.nc, err = d.o.Dial(d.ctx, "tcp", d.addr); err != nil {
		return err
	}
	if err := unblock(d.nc); err != nil {
		_ = d.nc.Close()
		return err
	}
	d.o.passed(StepDial)
	if d.o.TLS == nil {
		return nil
	}
	d.step = StepTLS
	encrypted, err := TLS(d.ctx, d.nc, d.o.TLS, d.addr)
	if err != nil {
		return err
	}
	d.nc = encrypted
	d.o.passed(StepTLS)
	return nil
}

// failed is the error of the step that was taken last. The end of the context is named before what it has caused.
func (d *dialogue) failed(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		e.Generation, e.Anonymous = d.creds.Generation, d.anonymous()
		return e
	}
	e = &Error{Addr: d.addr, Step: d.step, Err: err, Generation: d.creds.Generation, Anonymous: d.anonymous()}
	if !IsTLSFailure(err) {
		e.Err = InWords(d.step, err, context.Cause(d.ctx), d.limit)
		return e
	}
	if d.opaque > 0 && d.o.TLS != nil && !d.answered {
		e.Step = StepTLS // with TLS 1.3 a server refuses the client's certificate after the handshake
	}
	if e.Step == StepTLS {
		e.Kind = cberr.TLSFailure
	}
	e.Err = InWords(e.Step, err, nil, d.limit)
	return e
}

// anonymous reports whether there is nothing to log in with.
func (d *dialogue) anonymous() bool { return d.creds.Username == "" && d.creds.Token.Empty() }
