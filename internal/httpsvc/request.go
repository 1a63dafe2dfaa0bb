package httpsvc

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// Service is one of a cluster's HTTP services. Its zero value is the cluster manager.
type Service uint8

// The services.
const (
	Management Service = iota
	Query
	Search
	Views
	Analytics
	Eventing
	Backup
	Index

	serviceCount
)

var serviceNames = [serviceCount]string{
	Management: "management",
	Query:      "query",
	Search:     "search",
	Views:      "views",
	Analytics:  "analytics",
	Eventing:   "eventing",
	Backup:     "backup",
	Index:      "index",
}

// String is the service's name as the SDK RFCs write it.
func (s Service) String() string {
	if s < serviceCount {
		return serviceNames[s]
	}
	return fmt.Sprintf("service(%d)", uint8(s))
}

// Request is one HTTP request without a node. The sender chooses one, adds the credentials, and may send it
// again: nothing in it changes when it is sent, but for what Body makes of the remaining time.
type Request struct {
	Service     Service
	Operation   string // its name, for strategies, spans and errors; empty: the method
	Method      string
	Path        string // escaped; see Path
	Query       url.Values
	Header      map[string]string
	ContentType string // empty without a body

	// Body makes the body of one attempt, which has the given time left; it is called once per attempt, by one
	// goroutine at a time, and the bytes are the sender's. Nil means that there is no body, or that it is Stream.
	Body func(remaining time.Duration) ([]byte, error)
	// Stream is a body that is read while it is sent. Nil means Body.
	Stream *Stream

	// Before is called ahead of each attempt; an error ends the request and is given back as it is. Nil does nothing.
	Before func(ctx context.Context) error
	// Judge says what an answer means, before the general rules for statuses are read. It reads as much of the body as
	// that takes, at most up to the first row: until it has judged, the request may be sent again. An error is one of
	// the body's reader: the answer was lost. Nil leaves every answer to the general rules and to the caller.
	Judge func(r *Response) (Verdict, error)

	// Seen counts the requests of one operation that is sent to several nodes, as they leave. Nil: there is one at a
	// time.
	Seen *atomic.Int32

	Idempotent bool
	Strategy   retry.Strategy // nil inherits
	UniqueID   string         // the client's id of the request, the same for all attempts
	Timeout    time.Duration  // 0 means the service's default
	Endpoint   string         // send it to this node only; empty leaves the choice
	Bucket     string         // send it to a node with active data of this bucket only; empty: any node of the service
	OnBehalfOf string         // the user to act for; empty: the credentials' own
	// OnBehalfOfDomain is where that user is: "local", which an empty one means, or "external".
	OnBehalfOfDomain string
}

// Marshal encodes a value of the caller's. A MarshalJSON of the caller's that panics fails, and so does a text that is
// not UTF-8, of which encoding/json would make another one.
func Marshal(v any) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			raw, err = nil, fmt.Errorf("panic in MarshalJSON: %v", p)
		}
	}()
	raw, err = json.Marshal(v)
	if err == nil && bytes.Contains(raw, []byte(`\ufffd`)) { // what encoding/json writes for such bytes
		err = notUTF8(v)
	}
	return raw, err
}

// Stream is a body that is read while it is sent.
type Stream struct {
	Body   io.ReadCloser                 // of the first attempt; the sender closes it
	Again  func() (io.ReadCloser, error) // the same bytes once more; nil: there is one attempt only
	Length int64                         // below 0: unknown
}

// Verdict is what an answer means.
type Verdict struct {
	// Err is the failure that the answer tells of; nil gives the answer to the caller.
	Err error
	// Reason is why the request may be sent again after that failure; retry.Unknown: it may not.
	Reason retry.Reason
	// Code is the service's own number for the failure.
	Code uint32
	// Overload says that the failure speaks of a rate limit.
	Overload bool
	// InDoubt says that the service may have executed a part of the request. One that is not idempotent is then not
	// sent again, whatever Reason says, and its error is in doubt.
	InDoubt bool
	// Body is what was read of the body of an answer whose status is 2xx, without its rows.
	Body []byte
	// General leaves it to the general rules for statuses whether the request may be sent again.
	General bool
}

// Response is an answer whose headers are there. The receiver closes Body. An error of Body's Read is an *Error, but
// for io.EOF.
type Response struct {
	Status   int
	Header   map[string][]string
	Body     io.ReadCloser
	Endpoint string     // the node that answered
	Retry    retry.Info // how the request was retried before that
	RowLimit int        // bytes of one row at most; 0 means DefaultRowLimit
	RowDepth int        // levels of one row at most; 0 means DefaultDepthLimit
	Framed   bool       // the end of Body is the answer's own: see Limits
}

// Doer sends requests. Do blocks until the response's headers are there or ctx ends.
type Doer interface {
	Do(ctx context.Context, r *Request) (*Response, error)
}

// Path joins segments to an absolute path and escapes each, so that none of them can add a segment or climb up.
func Path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		switch s {
		case ".", "..": // what a client or a server would take for a step in the tree
			b.WriteString(strings.ReplaceAll(s, ".", "%2E"))
		default:
			b.WriteString(url.PathEscape(s))
		}
	}
	return b.String()
}

// NewUniqueID makes a random id in the form of a version 4 UUID.
func NewUniqueID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// OnBehalf is the value of the header cb-on-behalf-of, as the services' authentication (cbauth) reads it: base64 of the
// user's name, a colon and the domain. It is empty for a request that acts for the client's own user. The error says
// what cannot be sent.
func (r *Request) OnBehalf() (string, error) {
	domain := r.OnBehalfOfDomain
	switch {
	case r.OnBehalfOf == "" && domain == "":
		return "", nil
	case r.OnBehalfOf == "":
		return "", fmt.Errorf("%w: OnBehalfOfDomain is set without OnBehalfOf", cberr.InvalidArgument)
	case strings.Contains(r.OnBehalfOf, ":"):
		return "", fmt.Errorf("%w: OnBehalfOf has a colon, which a user name cannot have", cberr.InvalidArgument)
	case domain == "":
		domain = "local"
	case domain != "local" && domain != "external":
		return "", fmt.Errorf("%w: OnBehalfOfDomain must be local or external: got %q", cberr.InvalidArgument, domain)
	}
	return base64.StdEncoding.EncodeToString([]byte(r.OnBehalfOf + ":" + domain)), nil
}

// ServiceTimeout is the time that a request tells its service to stop after: what remains, in whole milliseconds, and
// never less than one, since services read nothing or zero as their own default.
func ServiceTimeout(remaining time.Duration) time.Duration {
	return max(remaining.Truncate(time.Millisecond), time.Millisecond)
}
