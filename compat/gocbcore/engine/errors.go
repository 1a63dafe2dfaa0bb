//go:build ignore

package gocbcore

import (
	"errors"
	"fmt"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// kinds are couchcore's kinds of errors as gocbcore has them.
var kinds = map[*cberr.Kind]error{
	cberr.Timeout:                           ErrTimeout,
	cberr.RequestCanceled:                   errRequestCanceled,
	cberr.InvalidArgument:                   errInvalidArgument,
	cberr.ServiceNotAvailable:               errServiceNotAvailable,
	cberr.InternalServerFailure:             errInternalServerFailure,
	cberr.AuthenticationFailure:             errAuthenticationFailure,
	cberr.TemporaryFailure:                  errTemporaryFailure,
	cberr.ParsingFailure:                    errParsingFailure,
	cberr.CASMismatch:                       errCasMismatch,
	cberr.BucketNotFound:                    errBucketNotFound,
	cberr.BucketAccess:                      errAuthenticationFailure,
	cberr.CollectionNotFound:                errCollectionNotFound,
	cberr.UnsupportedOperation:              errUnsupportedOperation,
	cberr.AmbiguousTimeout:                  errAmbiguousTimeout,
	cberr.UnambiguousTimeout:                errUnambiguousTimeout,
	cberr.FeatureNotAvailable:               errFeatureNotAvailable,
	cberr.ScopeNotFound:                     errScopeNotFound,
	cberr.IndexNotFound:                     errIndexNotFound,
	cberr.IndexExists:                       errIndexExists,
	cberr.EncodingFailure:                   errEncodingFailure,
	cberr.DecodingFailure:                   errDecodingFailure,
	cberr.RateLimited:                       errRateLimitedFailure,
	cberr.QuotaLimited:                      errQuotaLimitedFailure,
	cberr.DocumentNotFound:                  errDocumentNotFound,
	cberr.DocumentNotFoundOnReplica:         errDocumentNotFound,
	cberr.DocumentUnretrievable:             errDocumentUnretrievable,
	cberr.DocumentLocked:                    errDocumentLocked,
	cberr.DocumentNotLocked:                 errDocumentNotLocked,
	cberr.ValueTooLarge:                     errValueTooLarge,
	cberr.DocumentExists:                    errDocumentExists,
	cberr.DurabilityLevelNotAvailable:       errDurabilityLevelNotAvailable,
	cberr.DurabilityImpossible:              errDurabilityImpossible,
	cberr.DurabilityAmbiguous:               errDurabilityAmbiguous,
	cberr.DurableWriteInProgress:            errDurableWriteInProgress,
	cberr.DurableWriteReCommitInProgress:    errDurableWriteReCommitInProgress,
	cberr.PathNotFound:                      errPathNotFound,
	cberr.PathMismatch:                      errPathMismatch,
	cberr.PathInvalid:                       errPathInvalid,
	cberr.PathTooBig:                        errPathTooBig,
	cberr.PathTooDeep:                       errPathTooDeep,
	cberr.ValueTooDeep:                      errValueTooDeep,
	cberr.ValueInvalid:                      errValueInvalid,
	cberr.DocumentNotJSON:                   errDocumentNotJSON,
	cberr.NumberTooBig:                      errNumberTooBig,
	cberr.DeltaInvalid:                      errDeltaInvalid,
	cberr.PathExists:                        errPathExists,
	cberr.XattrUnknownMacro:                 errXattrUnknownMacro,
	cberr.XattrInvalidKeyCombo:              errXattrInvalidKeyCombo,
	cberr.XattrUnknownVirtualAttribute:      errXattrUnknownVirtualAttribute,
	cberr.XattrCannotModifyVirtualAttribute: errXattrCannotModifyVirtualAttribute,
	cberr.PlanningFailure:                   errPlanningFailure,
	cberr.IndexFailure:                      errIndexFailure,
	cberr.PreparedStatementFailure:          errPreparedStatementFailure,
	cberr.DMLFailure:                        errDMLFailure,
	cberr.CompilationFailure:                errCompilationFailure,
	cberr.JobQueueFull:                      errJobQueueFull,
	cberr.DatasetNotFound:                   errDatasetNotFound,
	cberr.DataverseNotFound:                 errDataverseNotFound,
	cberr.DatasetExists:                     errDatasetExists,
	cberr.DataverseExists:                   errDataverseExists,
	cberr.LinkNotFound:                      errLinkNotFound,
	cberr.ViewNotFound:                      errViewNotFound,
	cberr.DesignDocumentNotFound:            errDesignDocumentNotFound,
	cberr.ReplicaIndexOutOfBounds:           errInvalidReplica,
	cberr.ReplicaIndexCurrentlyUnavailable:  errDocumentUnretrievable,
	cberr.TLSFailure:                        errInvalidCertificate,
	cberr.CircuitBreakerOpen:                errCircuitBreakerOpen,
}

// kindError is the error of gocbcore's that says what err is.
func kindError(err error) error {
	if errors.Is(err, retry.ErrClosed) {
		return errShutdown
	}
	if k := cberr.KindOf(err); k != nil {
		if e, ok := kinds[k]; ok {
			return e
		}
	}
	return err
}

// memdQRequest is what the meaning of a status depends on.
type memdQRequest struct {
	memd.Packet
}

// statusError is the error of gocbcore's for a status that a server has answered.
func statusError(status memd.StatusCode, cmd memd.CmdCode, cas uint64) error {
	return translateMemdError(getKvStatusCodeError(status), &memdQRequest{memd.Packet{Command: cmd, Cas: cas}})
}

// callError is the error that a failed call ends with.
func (k *kvCall) callError(err error) error {
	var e *kv.Error
	if !errors.As(err, &e) {
		return kindError(err)
	}
	switch {
	case errors.Is(e.Err, cberr.RequestCanceled):
		return kindError(err)
	case errors.Is(e.Err, cberr.Timeout):
		return k.timeoutError(e)
	}
	inner := kindError(e.Err)
	if e.Answered {
		inner = k.answerError(e)
	}
	made := k.valueError(e, inner)
	var pe *kv.PathError
	if errors.As(e.Cause, &pe) {
		made.InnerError = statusError(memd.StatusCode(pe.Status), k.cmd, k.cas)
		return SubDocumentError{Index: pe.Index, InnerError: made}
	}
	return made
}

// answerError is what the last answer was. For a status that gocbcore does not know it says what the node's error map
// has of it.
func (k *kvCall) answerError(e *kv.Error) error {
	inner := statusError(memd.StatusCode(e.Status), k.cmd, k.cas)
	var unknown *unknownKvStatusCodeError
	if errors.As(inner, &unknown) && e.Description != "" {
		return fmt.Errorf("%s (0x%02x)", e.Description, int(e.Status))
	}
	if k.inserts && errors.Is(inner, ErrNotStored) {
		return errDocumentExists
	}
	return inner
}

func (k *kvCall) valueError(e *kv.Error, inner error) *KeyValueError {
	made := &KeyValueError{
		InnerError: inner, StatusCode: memd.StatusCode(e.Status), DocumentKey: string(k.key),
		BucketName: e.Bucket, ScopeName: e.Scope, CollectionName: e.Collection, CollectionID: e.CollectionID,
		ErrorName: e.Name, ErrorDescription: e.Description, Opaque: e.Opaque, Context: e.Context, Ref: e.Ref,
		RetryReasons: reasonsOf(e.Retry.InOrder()), RetryAttempts: uint32(e.Retry.Retries()),
		LastDispatchedTo: e.Endpoint, LastDispatchedFrom: e.LocalAddr, LastConnectionID: e.Connection,
	}
	made.Internal.ResourceUnits = units(e.Units())
	return made
}

func (k *kvCall) timeoutError(e *kv.Error) error {
	t := &TimeoutError{
		InnerError: errUnambiguousTimeout, OperationID: k.name, Opaque: fmt.Sprintf("0x%x", e.Opaque),
		TimeObserved: e.Elapsed, RetryReasons: reasonsOf(e.Retry.InOrder()), RetryAttempts: uint32(e.Retry.Retries()),
		LastDispatchedTo: e.Endpoint, LastDispatchedFrom: e.LocalAddr, LastConnectionID: e.Connection,
	}
	if e.InDoubt {
		t.InnerError = errAmbiguousTimeout
	}
	if e.Cause != nil { // what gocbcore does not say
		t.InnerError = wrapError(t.InnerError, e.Cause.Error())
	}
	t.Internal.ResourceUnits = units(e.Units())
	return t
}

func units(reads, writes uint32) *ResourceUnitResult {
	if reads == 0 && writes == 0 {
		return nil
	}
	return &ResourceUnitResult{ReadUnits: uint16(min(reads, 0xffff)), WriteUnits: uint16(min(writes, 0xffff))}
}

// brokenError is what has become of a call, for a program's circuit breaker.
func brokenError(err error) error {
	if errors.Is(err, cberr.Timeout) {
		return errUnambiguousTimeout
	}
	var e *kv.Error
	if errors.As(err, &e) && e.Answered {
		return getKvStatusCodeError(memd.StatusCode(e.Status))
	}
	return ErrSocketClosed
}
