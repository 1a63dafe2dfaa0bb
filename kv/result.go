package kv

import (
	"encoding/binary"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Result is what every operation's result carries.
type Result struct {
	CAS uint64

	facts call.Facts
}

// resultOf is the Result of an answer.
func resultOf(r *call.Response) Result { return Result{CAS: r.CAS, facts: r.Facts()} }

// ResultOf is what a result says that is made of a failure, where that is an answer to the caller: a missing path, say.
// It tells of the last attempt.
func ResultOf(e *Error) Result { return Result{facts: call.FactsOf(e)} }

// Endpoint is the address of the node that answered.
func (r Result) Endpoint() string {
	if r.facts.Via == nil {
		return ""
	}
	return r.facts.Via.Endpoint
}

// Connection is the id of the connection that the answer came on.
func (r Result) Connection() string {
	if r.facts.Via == nil {
		return ""
	}
	return r.facts.Via.Local
}

// LocalAddr is the address of this end of that connection.
func (r Result) LocalAddr() string {
	if r.facts.Via == nil {
		return ""
	}
	return r.facts.Via.LocalAddr
}

// Opaque is the number that the request had on that connection.
func (r Result) Opaque() uint32 { return r.facts.Opaque }

// CollectionID is the id that the request named its collection by, 0 in the default collection. What names no
// collection, and a bucket without collections, has 0 too.
func (r Result) CollectionID() uint32 { return r.facts.CollectionID }

// RetryInfo says how the call came to its answer; it is zero when nothing was retried.
func (r Result) RetryInfo() retry.Info {
	if info := r.facts.Retry(); info != nil {
		return *info
	}
	return retry.Info{}
}

// ServerDuration is how long the server worked on the request; ok is false when it did not say.
func (r Result) ServerDuration() (d time.Duration, ok bool) {
	if !r.facts.HasDuration {
		return 0, false
	}
	return time.Duration(memd.DecodeServerDuration(r.facts.Duration) * float64(time.Microsecond)), true
}

// Units are the read and write units that the servers metered, over all attempts of the call; both 0 when they do not.
func (r Result) Units() (reads, writes uint32) {
	return r.facts.Units()
}

func onlyResult(r *call.Response) (Result, error) { return resultOf(r), nil }

// MutationToken names a mutation for consistent reads elsewhere: seqno Seqno of that vbucket's history UUID.
type MutationToken struct {
	Bucket  string
	VBucket uint16
	UUID    uint64
	Seqno   uint64
}

// IsZero reports whether the server gave no token.
func (t MutationToken) IsZero() bool { return t.UUID == 0 && t.Seqno == 0 }

// tokenOf is the mutation token in the answer of a write; its zero value when the server gave none.
func tokenOf(r *call.Response) (t MutationToken) {
	if e := r.Extras(); len(e) >= 16 {
		return tokenAt(r, e)
	}
	return t
}

// tokenAt reads a history and a sequence number of the request's vbucket.
func tokenAt(r *call.Response, b []byte) MutationToken {
	return MutationToken{
		Bucket: r.Bucket(), VBucket: r.VBucket(),
		UUID: binary.BigEndian.Uint64(b), Seqno: binary.BigEndian.Uint64(b[8:]),
	}
}

// MutationResult is the result of a write.
type MutationResult struct {
	Result
	Token MutationToken
}

func mutationResult(r *call.Response) (MutationResult, error) {
	return MutationResult{Result: resultOf(r), Token: tokenOf(r)}, nil
}
