package cberr

import (
	"context"
	"iter"
)

// Kind is one error of the table. It matches itself, its parent and Couchbase; those of timeouts match
// context.DeadlineExceeded too.
type Kind struct {
	name   string
	text   string
	parent *Kind
}

// Error is the kind's text.
func (k *Kind) Error() string { return k.text }

// Name is the kind's name in lower snake case, as in "document_not_found".
func (k *Kind) Name() string { return k.name }

// Is implements the match of errors.Is.
func (k *Kind) Is(target error) bool {
	for p := k; p != nil; p = p.parent {
		if target == error(p) || p == Timeout && target == context.DeadlineExceeded {
			return true
		}
	}
	return false
}

// KindOf finds the most specific kind that err is, or nil. Of kinds that have nothing to do with each other the first
// in the chain counts: a timeout that wraps its cause is a timeout.
func KindOf(err error) *Kind { return kindOf(err, nil) }

// kindOf finds a kind that is more specific than the one already found, or gives that one back.
func kindOf(err error, found *Kind) *Kind {
	switch e := err.(type) { //nolint:errorlint // it walks the chain itself, the first branch first
	case *Kind:
		if found == nil || e.Is(found) {
			return e
		}
	case interface{ Unwrap() error }:
		return kindOf(e.Unwrap(), found)
	case interface{ Unwrap() []error }:
		for _, w := range e.Unwrap() {
			found = kindOf(w, found)
		}
	}
	return found
}

// All yields every kind in the order of the table.
func All() iter.Seq[*Kind] {
	return func(yield func(*Kind) bool) {
		for _, k := range kinds {
			if !yield(k) {
				return
			}
		}
	}
}

// The kinds, as SDK RFC 0058 names them. DocumentNotLocked and the last two are of this client: the latter are what the
// terminal reasons TLS_ERROR and BUCKET_ACCESS_ERROR become.
var (
	Couchbase                   = &Kind{name: "couchbase", text: "failure"}
	Timeout                     = &Kind{name: "timeout", text: "timeout", parent: Couchbase}
	RequestCanceled             = &Kind{name: "request_canceled", text: "request canceled", parent: Couchbase}
	InvalidArgument             = &Kind{name: "invalid_argument", text: "invalid argument", parent: Couchbase}
	ServiceNotAvailable         = &Kind{name: "service_not_available", text: "service not available", parent: Couchbase}
	InternalServerFailure       = &Kind{name: "internal_server_failure", text: "internal server failure", parent: Couchbase}
	AuthenticationFailure       = &Kind{name: "authentication_failure", text: "authentication failure", parent: Couchbase}
	TemporaryFailure            = &Kind{name: "temporary_failure", text: "temporary failure", parent: Couchbase}
	ParsingFailure              = &Kind{name: "parsing_failure", text: "parsing failure", parent: Couchbase}
	CASMismatch                 = &Kind{name: "cas_mismatch", text: "CAS mismatch", parent: Couchbase}
	BucketNotFound              = &Kind{name: "bucket_not_found", text: "bucket not found", parent: Couchbase}
	CollectionNotFound          = &Kind{name: "collection_not_found", text: "collection not found", parent: Couchbase}
	UnsupportedOperation        = &Kind{name: "unsupported_operation", text: "unsupported operation", parent: Couchbase}
	AmbiguousTimeout            = &Kind{name: "ambiguous_timeout", text: "ambiguous timeout", parent: Timeout}
	UnambiguousTimeout          = &Kind{name: "unambiguous_timeout", text: "unambiguous timeout", parent: Timeout}
	FeatureNotAvailable         = &Kind{name: "feature_not_available", text: "feature not available", parent: Couchbase}
	ScopeNotFound               = &Kind{name: "scope_not_found", text: "scope not found", parent: Couchbase}
	IndexNotFound               = &Kind{name: "index_not_found", text: "index not found", parent: Couchbase}
	IndexExists                 = &Kind{name: "index_exists", text: "index exists", parent: Couchbase}
	EncodingFailure             = &Kind{name: "encoding_failure", text: "encoding failure", parent: Couchbase}
	DecodingFailure             = &Kind{name: "decoding_failure", text: "decoding failure", parent: Couchbase}
	RateLimited                 = &Kind{name: "rate_limited", text: "rate limited", parent: Couchbase}
	QuotaLimited                = &Kind{name: "quota_limited", text: "quota limited", parent: Couchbase}
	DocumentNotFound            = &Kind{name: "document_not_found", text: "document not found", parent: Couchbase}
	DocumentUnretrievable       = &Kind{name: "document_unretrievable", text: "document unretrievable", parent: Couchbase}
	DocumentLocked              = &Kind{name: "document_locked", text: "document locked", parent: Couchbase}
	DocumentNotLocked           = &Kind{name: "document_not_locked", text: "document not locked", parent: Couchbase}
	ValueTooLarge               = &Kind{name: "value_too_large", text: "value too large", parent: Couchbase}
	DocumentExists              = &Kind{name: "document_exists", text: "document exists", parent: Couchbase}
	DurabilityLevelNotAvailable = &Kind{
		name: "durability_level_not_available", text: "durability level not available", parent: Couchbase,
	}
	DurabilityImpossible   = &Kind{name: "durability_impossible", text: "durability impossible", parent: Couchbase}
	DurabilityAmbiguous    = &Kind{name: "durability_ambiguous", text: "durability ambiguous", parent: Couchbase}
	DurableWriteInProgress = &Kind{
		name: "durable_write_in_progress", text: "durable write in progress", parent: Couchbase,
	}
	DurableWriteReCommitInProgress = &Kind{
		name: "durable_write_re_commit_in_progress", text: "durable write re-commit in progress", parent: Couchbase,
	}
	PathNotFound         = &Kind{name: "path_not_found", text: "path not found", parent: Couchbase}
	PathMismatch         = &Kind{name: "path_mismatch", text: "path mismatch", parent: Couchbase}
	PathInvalid          = &Kind{name: "path_invalid", text: "path invalid", parent: Couchbase}
	PathTooBig           = &Kind{name: "path_too_big", text: "path too big", parent: Couchbase}
	PathTooDeep          = &Kind{name: "path_too_deep", text: "path too deep", parent: Couchbase}
	ValueTooDeep         = &Kind{name: "value_too_deep", text: "value too deep", parent: Couchbase}
	ValueInvalid         = &Kind{name: "value_invalid", text: "value invalid", parent: Couchbase}
	DocumentNotJSON      = &Kind{name: "document_not_json", text: "document not JSON", parent: Couchbase}
	NumberTooBig         = &Kind{name: "number_too_big", text: "number too big", parent: Couchbase}
	DeltaInvalid         = &Kind{name: "delta_invalid", text: "delta invalid", parent: Couchbase}
	PathExists           = &Kind{name: "path_exists", text: "path exists", parent: Couchbase}
	XattrUnknownMacro    = &Kind{name: "xattr_unknown_macro", text: "unknown xattr macro", parent: Couchbase}
	XattrInvalidKeyCombo = &Kind{
		name: "xattr_invalid_key_combo", text: "invalid xattr key combination", parent: Couchbase,
	}
	XattrUnknownVirtualAttribute = &Kind{
		name: "xattr_unknown_virtual_attribute", text: "unknown virtual xattr", parent: Couchbase,
	}
	XattrCannotModifyVirtualAttribute = &Kind{
		name: "xattr_cannot_modify_virtual_attribute", text: "virtual xattr cannot be modified", parent: Couchbase,
	}
	XattrNoAccess            = &Kind{name: "xattr_no_access", text: "no access to xattr", parent: Couchbase}
	PlanningFailure          = &Kind{name: "planning_failure", text: "planning failure", parent: Couchbase}
	IndexFailure             = &Kind{name: "index_failure", text: "index failure", parent: Couchbase}
	PreparedStatementFailure = &Kind{
		name: "prepared_statement_failure", text: "prepared statement failure", parent: Couchbase,
	}
	DMLFailure             = &Kind{name: "dml_failure", text: "DML failure", parent: Couchbase}
	CompilationFailure     = &Kind{name: "compilation_failure", text: "compilation failure", parent: Couchbase}
	JobQueueFull           = &Kind{name: "job_queue_full", text: "job queue full", parent: Couchbase}
	DatasetNotFound        = &Kind{name: "dataset_not_found", text: "dataset not found", parent: Couchbase}
	DataverseNotFound      = &Kind{name: "dataverse_not_found", text: "dataverse not found", parent: Couchbase}
	DatasetExists          = &Kind{name: "dataset_exists", text: "dataset exists", parent: Couchbase}
	DataverseExists        = &Kind{name: "dataverse_exists", text: "dataverse exists", parent: Couchbase}
	LinkNotFound           = &Kind{name: "link_not_found", text: "link not found", parent: Couchbase}
	ViewNotFound           = &Kind{name: "view_not_found", text: "view not found", parent: Couchbase}
	DesignDocumentNotFound = &Kind{
		name: "design_document_not_found", text: "design document not found", parent: Couchbase,
	}
	CollectionExists         = &Kind{name: "collection_exists", text: "collection exists", parent: Couchbase}
	ScopeExists              = &Kind{name: "scope_exists", text: "scope exists", parent: Couchbase}
	UserNotFound             = &Kind{name: "user_not_found", text: "user not found", parent: Couchbase}
	GroupNotFound            = &Kind{name: "group_not_found", text: "group not found", parent: Couchbase}
	BucketExists             = &Kind{name: "bucket_exists", text: "bucket exists", parent: Couchbase}
	UserExists               = &Kind{name: "user_exists", text: "user exists", parent: Couchbase}
	BucketNotFlushable       = &Kind{name: "bucket_not_flushable", text: "bucket not flushable", parent: Couchbase}
	EventingFunctionNotFound = &Kind{
		name: "eventing_function_not_found", text: "eventing function not found", parent: Couchbase,
	}
	EventingFunctionNotDeployed = &Kind{
		name: "eventing_function_not_deployed", text: "eventing function not deployed", parent: Couchbase,
	}
	EventingFunctionCompilationFailure = &Kind{
		name: "eventing_function_compilation_failure", text: "eventing function compilation failure", parent: Couchbase,
	}
	EventingFunctionIdenticalKeyspace = &Kind{
		name: "eventing_function_identical_keyspace",
		text: "eventing function with identical keyspaces", parent: Couchbase,
	}
	EventingFunctionNotBootstrapped = &Kind{
		name: "eventing_function_not_bootstrapped", text: "eventing function not bootstrapped", parent: Couchbase,
	}
	EventingFunctionDeployed = &Kind{
		name: "eventing_function_deployed", text: "eventing function deployed", parent: Couchbase,
	}
	EventingFunctionPaused = &Kind{
		name: "eventing_function_paused", text: "eventing function paused", parent: Couchbase,
	}
	Crypto                    = &Kind{name: "crypto", text: "encryption or decryption error", parent: Couchbase}
	EncryptionFailure         = &Kind{name: "encryption_failure", text: "encryption failure", parent: Crypto}
	DecryptionFailure         = &Kind{name: "decryption_failure", text: "decryption failure", parent: Crypto}
	CryptoKeyNotFound         = &Kind{name: "crypto_key_not_found", text: "encryption key not found", parent: Crypto}
	InvalidCryptoKey          = &Kind{name: "invalid_crypto_key", text: "invalid encryption key", parent: Crypto}
	DecrypterNotFound         = &Kind{name: "decrypter_not_found", text: "decrypter not found", parent: Crypto}
	EncrypterNotFound         = &Kind{name: "encrypter_not_found", text: "encrypter not found", parent: Crypto}
	InvalidCiphertext         = &Kind{name: "invalid_ciphertext", text: "invalid ciphertext", parent: Crypto}
	DocumentNotFoundOnReplica = &Kind{
		name: "document_not_found_on_replica", text: "document not found on replica", parent: DocumentNotFound,
	}
	ReplicaIndexOutOfBounds = &Kind{
		name: "replica_index_out_of_bounds", text: "replica index out of bounds", parent: Couchbase,
	}
	ReplicaIndexCurrentlyUnavailable = &Kind{
		name: "replica_index_currently_unavailable", text: "replica index currently unavailable", parent: Couchbase,
	}
	TracerException    = &Kind{name: "tracer_exception", text: "tracer failure", parent: Couchbase}
	MeterException     = &Kind{name: "meter_exception", text: "meter failure", parent: Couchbase}
	TLSFailure         = &Kind{name: "tls_failure", text: "TLS failure", parent: Couchbase}
	CircuitBreakerOpen = &Kind{name: "circuit_breaker_open", text: "circuit breaker open", parent: Couchbase}
	BucketAccess       = &Kind{name: "bucket_access", text: "no access to the bucket", parent: Couchbase}
)

var kinds = []*Kind{
	Couchbase,
	Timeout,
	RequestCanceled,
	InvalidArgument,
	ServiceNotAvailable,
	InternalServerFailure,
	AuthenticationFailure,
	TemporaryFailure,
	ParsingFailure,
	CASMismatch,
	BucketNotFound,
	CollectionNotFound,
	UnsupportedOperation,
	AmbiguousTimeout,
	UnambiguousTimeout,
	FeatureNotAvailable,
	ScopeNotFound,
	IndexNotFound,
	IndexExists,
	EncodingFailure,
	DecodingFailure,
	RateLimited,
	QuotaLimited,
	DocumentNotFound,
	DocumentUnretrievable,
	DocumentLocked,
	DocumentNotLocked,
	ValueTooLarge,
	DocumentExists,
	DurabilityLevelNotAvailable,
	DurabilityImpossible,
	DurabilityAmbiguous,
	DurableWriteInProgress,
	DurableWriteReCommitInProgress,
	PathNotFound,
	PathMismatch,
	PathInvalid,
	PathTooBig,
	PathTooDeep,
	ValueTooDeep,
	ValueInvalid,
	DocumentNotJSON,
	NumberTooBig,
	DeltaInvalid,
	PathExists,
	XattrUnknownMacro,
	XattrInvalidKeyCombo,
	XattrUnknownVirtualAttribute,
	XattrCannotModifyVirtualAttribute,
	XattrNoAccess,
	PlanningFailure,
	IndexFailure,
	PreparedStatementFailure,
	DMLFailure,
	CompilationFailure,
	JobQueueFull,
	DatasetNotFound,
	DataverseNotFound,
	DatasetExists,
	DataverseExists,
	LinkNotFound,
	ViewNotFound,
	DesignDocumentNotFound,
	CollectionExists,
	ScopeExists,
	UserNotFound,
	GroupNotFound,
	BucketExists,
	UserExists,
	BucketNotFlushable,
	EventingFunctionNotFound,
	EventingFunctionNotDeployed,
	EventingFunctionCompilationFailure,
	EventingFunctionIdenticalKeyspace,
	EventingFunctionNotBootstrapped,
	EventingFunctionDeployed,
	EventingFunctionPaused,
	Crypto,
	EncryptionFailure,
	DecryptionFailure,
	CryptoKeyNotFound,
	InvalidCryptoKey,
	DecrypterNotFound,
	EncrypterNotFound,
	InvalidCiphertext,
	DocumentNotFoundOnReplica,
	ReplicaIndexOutOfBounds,
	ReplicaIndexCurrentlyUnavailable,
	TracerException,
	MeterException,
	TLSFailure,
	CircuitBreakerOpen,
	BucketAccess,
}
