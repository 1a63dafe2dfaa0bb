package kv

import (
	"fmt"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// MaxInflated is how large a compressed value may become unless the configuration says otherwise.
const MaxInflated = call.MaxInflated

// MaxParts bounds the memory that one answer of several packets may take.
const MaxParts = call.MaxParts

// The errors below are made where the failure is met, which is below this package. Their fields are listed here.
type (
	// Error is what every failed key-value call returns. It unwraps to its kind (a value of package cberr) and to its
	// cause, so errors.Is finds both. Its fields:
	//
	//	Op, Bucket, Scope, Collection    string      // the verb, and where
	//	Answered                         bool        // Status is a server's; the next four are what it said of it
	//	Status                           memd.Status
	//	Name, Description, Context, Ref  string
	//	CollectionID                     uint32      // that the last attempt named, 0 in the default collection
	//	Endpoint                         string      // the node of the last attempt, "" when there was none
	//	Connection, LocalAddr            string      // its connection, as in a result, and this end of that
	//	Opaque                           uint32
	//	Elapsed                          time.Duration
	//	Stage                            string      // what the call waited for when it timed out or was canceled
	//	InDoubt                          bool        // the server may have applied it
	//	Retry                            retry.Info  // attempts, reasons, time waited
	//	Err                              error       // what kind of failure this is
	//	Cause                            error       // what the last attempt met; nil when Err says it all
	Error = call.Error

	// ArgumentError says which argument of an operation is wrong and what its limit is: Field, Value, Limit, Reason for
	// what is not a matter of size, and Kind, to which it unwraps.
	ArgumentError = call.ArgumentError

	// FeatureError means that something cannot do what a request asks for: the chosen connection has not negotiated the
	// Feature, or, with a Capability, the newest cluster map says that the bucket has it not. It unwraps to
	// cberr.FeatureNotAvailable. Nothing was sent.
	FeatureError = call.FeatureError

	// CompressionError is a value that says it is compressed and cannot be inflated: Len of the compressed value, the
	// Size that it claims and the Limit when that is too much, Err of the codec. It unwraps to cberr.DecodingFailure
	// and to Err.
	CompressionError = call.CompressionError

	// PathError is a sub-document command that failed: Index of the caller's spec, Path, Status, and Kind, to which it
	// unwraps.
	PathError = call.PathError

	// ResponseError is a successful answer that its operation can make nothing of: a Field of Opcode's answer has Len
	// bytes and should have Want, or Reason says what is wrong.
	ResponseError = call.ResponseError
)

func outOfRange(field string, value, limit int64) error { return call.OutOfRange(field, value, limit) }

func badArgument(field, reason string) error { return call.BadArgument(field, reason) }

// unknownFormat refuses a successful answer in a form that the client does not know.
func unknownFormat(op memd.Opcode, format uint32) error {
	return &ResponseError{Opcode: op, Reason: fmt.Sprintf("has the unknown format %d", format)}
}
