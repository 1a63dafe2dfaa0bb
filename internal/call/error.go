package call

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Error is what every failed key-value call returns. It unwraps to its kind (a value of package cberr) and to its
// cause, so errors.Is finds both. Err and Cause are never both nil.
type Error struct {
	Op         string // the verb
	Bucket     string
	Scope      string
	Collection string

	// Answered says that Status is a server's. The next four are what it said of it.
	Answered    bool
	Status      memd.Status
	Name        string // the status's name, from the node's error map when the client has none
	Description string
	Context     string
	Ref         string

	// CollectionID is the id that the last attempt named, 0 in the default collection.
	CollectionID uint32

	Endpoint   string // the node of the last attempt, "" when there was none
	Connection string // that the last attempt was sent on, as a result's Connection names it; "" when there was none
	LocalAddr  string // this end of the connection
	Opaque     uint32
	Elapsed    time.Duration
	Stage      string     // what the call was waiting for when it timed out or was canceled
	InDoubt    bool       // the server may have applied it
	Retry      retry.Info // attempts, reasons, time waited

	Err   error // what kind of failure this is
	Cause error // what the last attempt met; nil when Err says it all

	body        []byte
	datatype    memd.Datatype
	hasDuration bool
	duration    uint16 // as in Facts
	units       uint64
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range [...]error{e.Err, e.Cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Is reports whether the kind is target, or of target, without the memory that Unwrap takes.
func (e *Error) Is(target error) bool {
	k, ok := e.Err.(*cberr.Kind)
	return ok && k.Is(target)
}

// RetryInfo says how often and why the call was retried.
func (e *Error) RetryInfo() retry.Info { return e.Retry }

// FactsOf are what a result says that is made of a failure, where that is an answer to the caller: a missing document,
// say.
func FactsOf(e *Error) Facts {
	f := Facts{
		Via:    &Via{Endpoint: e.Endpoint, Local: e.Connection, LocalAddr: e.LocalAddr},
		Opaque: e.Opaque, CollectionID: e.CollectionID, Duration: e.duration, HasDuration: e.hasDuration,
	}
	if e.Retry.Stage != retry.StageNone {
		f.More = &retry.Kept{Info: &e.Retry}
	}
	f.setUnits(e.units)
	return f
}

// Units are the read and write units that the servers metered, over all attempts of the call; both 0 when they do not.
func (e *Error) Units() (reads, writes uint32) { return uint32(e.units >> 32), uint32(e.units) }

// Ambiguous reports whether the server may have applied the operation although it failed.
func (e *Error) Ambiguous() bool { return e.InDoubt }

// Error says what failed, on which node, after how many attempts and how long, why, and whether it may have been
// applied. It never contains a key or a value.
func (e *Error) Error() string {
	var b strings.Builder
	op, kind := e.Op, e.Err
	if op == "" {
		op = "key-value operation"
	}
	if kind == nil {
		kind = cberr.Couchbase
	}
	fmt.Fprintf(&b, "%s: %v", op, kind)
	if e.Endpoint != "" {
		b.WriteString(" on " + e.Endpoint)
	}
	if n := e.Retry.Retries(); n > 0 {
		fmt.Fprintf(&b, " after %d %s", n, plural(n, "retry", "retries"))
		if rs := e.Retry.Reasons; rs != 0 {
			var names []string
			for r := range rs.All() {
				names = append(names, r.String())
			}
			b.WriteString(" (" + strings.Join(names, ", ") + ")")
		}
	}
	if e.Elapsed > 0 {
		fmt.Fprintf(&b, " in %v", e.Elapsed.Round(10*time.Microsecond))
	}
	if e.Stage != "" {
		b.WriteString(", " + e.Stage)
	}
	if e.Answered {
		fmt.Fprintf(&b, ": status 0x%02x %s", uint16(e.Status), e.Name)
		if e.Description != "" {
			b.WriteString(", " + e.Description)
		}
		b.WriteString(e.serverText())
	}
	if text := e.causeText(); text != "" && text != kind.Error() {
		b.WriteString(", because: " + text)
	}
	if e.InDoubt {
		b.WriteString("; it may have been applied")
	}
	return b.String()
}

// serverText is what the server said beside the status, in the form of the SDKs' error RFC; "" when it said nothing.
func (e *Error) serverText() string {
	switch {
	case e.Ref == "" && e.Context == "":
		return ""
	case e.Ref == "":
		return " (Context: " + e.Context + ")"
	case e.Context == "":
		return " (Ref #: " + e.Ref + ")"
	}
	return " (Context: " + e.Context + ", Ref #: " + e.Ref + ")"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// causeText is the cause's text without what e itself says of the last answer.
func (e *Error) causeText() string {
	if e.Cause == nil {
		return ""
	}
	text := e.Cause.Error()
	for _, said := range [...]error{retry.ErrTimeout, retry.ErrTerminal} { // by the kind
		if text == said.Error() {
			return ""
		}
		text = strings.TrimPrefix(text, said.Error()+": ")
	}
	var last *Error
	if e.Answered && errors.As(e.Cause, &last) && last.Status == e.Status && last.Err != nil {
		text = strings.ReplaceAll(text, last.Error(), last.Err.Error())
	}
	return text
}

// errorJSON has the keys of the SDKs' error contexts.
type errorJSON struct {
	Kind        string   `json:"kind"`
	Message     string   `json:"message"`
	Ambiguous   bool     `json:"ambiguous"`
	Status      string   `json:"status,omitempty"`
	Name        string   `json:"error_name,omitempty"`
	Description string   `json:"error_description,omitempty"`
	Context     string   `json:"context,omitempty"`
	Ref         string   `json:"ref,omitempty"`
	Bucket      string   `json:"bucket,omitempty"`
	Scope       string   `json:"scope,omitempty"`
	Collection  string   `json:"collection,omitempty"`
	Endpoint    string   `json:"last_dispatched_to,omitempty"`
	Opaque      string   `json:"opaque,omitempty"`
	Index       *int     `json:"index,omitempty"`
	Retries     int      `json:"retry_attempts"` // the name is the RFC's
	Reasons     []string `json:"retry_reasons"`
	ElapsedUS   int64    `json:"time_observed"`
}

// MarshalJSON writes the error's context with the keys that the SDKs use.
func (e *Error) MarshalJSON() ([]byte, error) {
	j := errorJSON{
		Kind: e.Kind(), Message: e.Error(), Ambiguous: e.InDoubt, Context: e.Context, Ref: e.Ref,
		Bucket: e.Bucket, Scope: e.Scope, Collection: e.Collection, Endpoint: e.Endpoint,
		Retries: e.Retry.Retries(), Reasons: []string{}, ElapsedUS: e.Elapsed.Microseconds(),
	}
	if e.Answered {
		j.Status, j.Name, j.Description = fmt.Sprintf("0x%02x", uint16(e.Status)), e.Name, e.Description
	}
	if e.Endpoint != "" {
		j.Opaque = opaqueID(e.Opaque)
	}
	var pe *PathError
	if errors.As(e.Cause, &pe) {
		j.Index = &pe.Index
	}
	for r := range e.Retry.Reasons.All() {
		j.Reasons = append(j.Reasons, r.String())
	}
	return json.Marshal(j)
}

// Kind is the failure's name in lower snake case, as in "document_not_found".
func (e *Error) Kind() string {
	if k := cberr.KindOf(e.Err); k != nil {
		return k.Name()
	}
	return cberr.Couchbase.Name()
}

func (c *Call) newError(kind error) *Error {
	e := &Error{
		Op: c.Name(), Bucket: c.bucket(), Scope: c.Req.Scope(), Collection: c.Req.Collection(), Err: kind,
	}
	e.on(c.via)
	if began := c.began(); !began.IsZero() {
		e.Elapsed = time.Since(began)
	}
	return e
}

const maxErrorBody = 64 << 10

// StatusError makes the error of an answer that is no success. It copies at most 64 KiB of p's value and parses
// nothing, so that a reader may call it.
func (c *Call) StatusError(p *memd.Packet, d Disposition) *Error {
	e := c.newError(d.Kind)
	e.routed(c)
	e.Answered, e.Status, e.Name = true, p.Status, p.Status.String()
	// A failure that is not known to leave everything as it was leaves a write in doubt.
	e.InDoubt = d.Ambiguous || !d.NotApplied && c.Is(Mutates)
	if len(p.Frames) > 0 {
		var f frames
		f.set(p.Frames)
		e.hasDuration, e.duration = f.hasDuration, f.duration
		c.Slow().units.Add(uint64(f.reads)<<32 | uint64(f.writes))
	}
	if p.Status != memd.StatusNotMyVBucket {
		e.datatype = p.Datatype
		e.body = append([]byte(nil), p.Value[:min(len(p.Value), maxErrorBody)]...)
	}
	return e
}

// ManifestUID reads the collection manifest's number from the body of an unknown-collection answer.
func (e *Error) ManifestUID() (uint64, bool) {
	return manifestUID(e.inflatedBody())
}

// inflatedBody is the answer's body as the server means it; nothing when it cannot be inflated.
func (e *Error) inflatedBody() []byte {
	body, err := Inflate(e.body, e.datatype, maxErrorBody)
	if err != nil {
		return nil
	}
	return body
}

func manifestUID(body []byte) (uint64, bool) {
	var b struct {
		UID string `json:"manifest_uid"`
	}
	if json.Unmarshal(body, &b) != nil || b.UID == "" {
		return 0, false
	}
	uid, err := strconv.ParseUint(b.UID, 16, 64)
	return uid, err == nil
}

// readBody fills Context and Ref from the server's error body, once, on the goroutine of the call that was answered.
// Other calls may have the same error as their cause (those that waited for one lookup): to them it is read-only.
func (e *Error) readBody() {
	if e.body == nil {
		return
	}
	body := e.inflatedBody()
	e.body = nil
	if e.datatype&memd.DatatypeJSON == 0 {
		return
	}
	var b struct {
		Error struct {
			Context string `json:"context"`
			Ref     string `json:"ref"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &b) == nil {
		e.Context, e.Ref = b.Error.Context, b.Error.Ref
	}
}

// readPath names the command of a sub-document request that failed, when there is one.
func (c *Call) readPath(e *Error) {
	if e.Cause != nil || !e.Answered {
		return
	}
	if pe := c.Req.pathError(e.Status, e.inflatedBody()); pe != nil {
		e.Err, e.Cause = pe.Kind, pe
		if multiPathFailure(e.Status) {
			e.body = nil // it is no error body
		}
	}
}

// Translate makes the call's one error of what ended it. It runs on the goroutine that wants the outcome.
func (c *Call) Translate(err error, inDoubt bool) error {
	direct, ok := err.(*Error) //nolint:errorlint // the error itself, not one that it wraps
	se := direct
	if !ok {
		se = lastAnswer(err)
	}
	if se != nil {
		c.readPath(se)
		se.readBody()
	}
	if ok {
		direct.Retry, direct.units = c.State.Info(), c.units()
		direct.endedUnsent()
		direct.InDoubt = direct.InDoubt || inDoubt
		if began := c.began(); !began.IsZero() {
			direct.Elapsed = time.Since(began)
		}
		return direct
	}
	e := c.newError(KindOf(err, inDoubt, se))
	e.InDoubt = inDoubt || se != nil && se.InDoubt
	e.Cause, e.units = err, c.units()
	var re *retry.Error
	switch {
	case errors.As(err, &re):
		e.Retry = re.Info
		e.Stage = c.stageAtEnd(err, re.Parked, inDoubt).String()
		if re.Stage != retry.StageDispatch || re.Parked {
			e.routed(c)
		}
	default:
		e.Retry = c.State.Info() // of the attempts before: what ended this one is no reason to retry
		e.endedUnsent()
		e.routed(c)
	}
	if se != nil { // the last answer's facts are the error's
		e.Answered, e.Status, e.Name, e.Description = se.Answered, se.Status, se.Name, se.Description
		e.Context, e.Ref = se.Context, se.Ref
		if se.Endpoint != "" {
			e.Endpoint, e.Connection, e.LocalAddr, e.Opaque = se.Endpoint, se.Connection, se.LocalAddr, se.Opaque
			e.CollectionID, e.hasDuration, e.duration = se.CollectionID, se.hasDuration, se.duration
		}
	}
	return e
}

// lastAnswer is the answer that err wraps, nil without one.
func lastAnswer(err error) (e *Error) {
	errors.As(err, &e)
	return e
}

// stageAtEnd says what a call that did not end by its own answer was waiting for.
func (c *Call) stageAtEnd(err error, parked, inDoubt bool) Stage {
	switch {
	case !errors.Is(err, retry.ErrTimeout) && !errors.Is(err, retry.ErrCanceled):
		return StageNone
	case inDoubt:
		return StageReply
	case parked:
		return StageBackoff
	case c.stage() != StageNone:
		return c.stage()
	}
	return StageReply
}

// KindOf names the failure: what ended the call, or what its last attempt met.
func KindOf(err error, inDoubt bool, last *Error) error {
	var ce *contextError
	switch {
	case errors.As(err, &ce):
		if ce.deadline {
			return cberr.UnambiguousTimeout
		}
		return cberr.RequestCanceled
	case errors.Is(err, retry.ErrTimeout):
		if inDoubt {
			return cberr.AmbiguousTimeout
		}
		return cberr.UnambiguousTimeout
	case errors.Is(err, retry.ErrCanceled), errors.Is(err, retry.ErrClosed):
		return cberr.RequestCanceled
	}
	var re *retry.Error
	if errors.As(err, &re) {
		if k := terminalKinds[re.Reason]; k != nil {
			return k
		}
	}
	if last != nil {
		return last.Err
	}
	if k := cberr.KindOf(err); k != nil {
		return k
	}
	if re != nil {
		if k := reasonKinds[re.Reason]; k != nil {
			return k
		}
	}
	return cberr.RequestCanceled
}

// terminalKinds are the errors of the five terminal reasons (retry RFC).
var terminalKinds = map[retry.Reason]*cberr.Kind{
	retry.AuthenticationError: cberr.AuthenticationFailure,
	retry.TLSError:            cberr.TLSFailure,
	retry.BucketAccessError:   cberr.BucketAccess,
	retry.ScopeNotFound:       cberr.ScopeNotFound,
	retry.CollectionNotFound:  cberr.CollectionNotFound,
}

// reasonKinds are the errors of reasons that no answer stands behind.
var reasonKinds = map[retry.Reason]*cberr.Kind{
	retry.EndpointNotWritable: cberr.TemporaryFailure, retry.BucketNotReady: cberr.BucketNotFound,
}

// Absent makes an answer of the call's failure err if that is a missing document, and the operation wants to know.
func (c *Call) Absent(err error) bool {
	if !c.Req.AbsentOK || !IsAbsent(err) {
		return false
	}
	c.Res.Status = memd.StatusKeyNotFound
	return true
}

// IsAbsent reports that the failure of a call is a missing document.
func IsAbsent(err error) bool {
	e, ok := err.(*Error) //nolint:errorlint // made by the call itself
	return ok && e.Err == error(cberr.DocumentNotFound)
}
