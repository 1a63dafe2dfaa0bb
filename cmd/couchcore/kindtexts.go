package main

import "github.com/couchcore/couchcore/cberr"

// kindText says of an error what it means, and what to do about it.
type kindText struct{ means, do string }

// Advice that several errors have in common.
const (
	doNothing  = "nothing: it is an answer, and the program decides"
	doPath     = "correct the path in the request, or look at the document first"
	doSDK      = "see the SDK above: this client only reserves the name"
	doEventing = "look at the function in the eventing service"
	doCreate   = "create it, or correct its name"
	doUseOther = "use another name, or the one that is there"
)

// kindTexts has a row for each kind of error. docs/errors.md has the same rows: a test generates them.
var kindTexts = map[*cberr.Kind]kindText{
	cberr.Couchbase: {
		"the operation failed, and no other error fits", "read the server's code and text inside the error",
	},
	cberr.Timeout: {
		"the operation had no result in time; it is an ambiguous or an unambiguous timeout",
		"read the cause inside the error; see those two",
	},
	cberr.RequestCanceled: {
		"the caller, or the end of the client, ended the operation; or its request was lost and is not sent again",
		"if Ambiguous is true, read the document and compare before the next write",
	},
	cberr.InvalidArgument: {
		"an argument, an option or a configuration cannot be used; nothing was sent, or the server refused the request",
		"correct the field that the error names",
	},
	cberr.ServiceNotAvailable: {
		"no node of the cluster runs the service, or no map says which node does",
		"start the service on a node; run `couchcore doctor`",
	},
	cberr.InternalServerFailure: {
		"the server failed inside", "read the server's log; a write may have been applied: read, compare, decide",
	},
	cberr.AuthenticationFailure: {
		"the credentials are refused, or lack a privilege",
		"check the user name, the password or the token, and the user's roles",
	},
	cberr.TemporaryFailure: {
		"the server cannot do this now, and has not done it",
		"try again later; if it lasts, look at the bucket's memory and disk queue",
	},
	cberr.ParsingFailure: {
		"the service cannot read the statement",
		"correct the statement: the error quotes the place",
	},
	cberr.CASMismatch: {
		"the document has changed since the CAS was read",
		"read it again, apply the change again, write with the new CAS",
	},
	cberr.BucketNotFound: {
		"the bucket does not exist, or is not ready",
		"check the bucket's name; a bucket that was just created needs a moment",
	},
	cberr.CollectionNotFound: {"the collection does not exist", doCreate},
	cberr.UnsupportedOperation: {
		"this bucket or this server does not have the operation",
		"use another operation; memcached and ephemeral buckets lack some",
	},
	cberr.AmbiguousTimeout: {
		"the operation had no result in time, and the server may have applied it",
		"read the document and compare before the next write; look for the node that did not answer",
	},
	cberr.UnambiguousTimeout: {
		"the operation had no result in time, and changed nothing",
		"read what it waited for and the cause inside the error; `couchcore doctor` looks for it",
	},
	cberr.FeatureNotAvailable: {
		"this server, bucket or edition lacks the feature", "do without it, or use a server that has it",
	},
	cberr.ScopeNotFound:   {"the scope does not exist", doCreate},
	cberr.IndexNotFound:   {"the index does not exist", doCreate},
	cberr.IndexExists:     {"an index of that name exists", doUseOther},
	cberr.EncodingFailure: {"a value cannot be encoded; nothing was sent", "look at the value that the program passed"},
	cberr.DecodingFailure: {
		"an answer cannot be read, or is over a limit",
		"read the cause: it names the limit in core.Config.Limits, or what is malformed",
	},
	cberr.RateLimited:           {"the user or the tenant is over a limit", "send less, or raise the limit"},
	cberr.QuotaLimited:          {"a quota is used up", "remove something, or raise the quota"},
	cberr.DocumentNotFound:      {"there is no document with this key", doNothing},
	cberr.DocumentUnretrievable: {"no copy of the document could be read", "look at the errors of the single copies"},
	cberr.DocumentLocked: {
		"the document is locked by another program",
		"wait until the lock ends, 30 seconds at most, or unlock it by its CAS",
	},
	cberr.DocumentNotLocked: {
		"the document to unlock is not locked",
		"nothing: the lock has expired or was given back",
	},
	cberr.ValueTooLarge:               {"the value is larger than 20 MiB", "store less in one document"},
	cberr.DocumentExists:              {"a document with this key exists", doNothing},
	cberr.DurabilityLevelNotAvailable: {"the bucket does not have the durability level", "use a lower level"},
	cberr.DurabilityImpossible: {
		"too few nodes are up for the durability level; the write was not applied",
		"bring the nodes back, add replicas, or use a lower level",
	},
	cberr.DurabilityAmbiguous: {
		"whether the durable write was committed is not known", "read the document and compare before the next write",
	},
	cberr.DurableWriteInProgress: {
		"another durable write of the document is under way", "wait a moment; write the document from fewer places",
	},
	cberr.DurableWriteReCommitInProgress: {
		"a durable write is being committed again after a failover",
		"wait a moment",
	},
	cberr.PathNotFound: {"the path does not exist in the document", doNothing},
	cberr.PathMismatch: {"the path does not fit the document's structure", doPath},
	cberr.PathInvalid:  {"the path is malformed", doPath},
	cberr.PathTooBig:   {"the path is longer than 1,024 bytes or deeper than 32 levels", doPath},
	cberr.PathTooDeep:  {"the path is too deep", doPath},
	cberr.ValueTooDeep: {
		"the document would be nested deeper than 32 levels",
		"store a flatter document",
	},
	cberr.ValueInvalid: {
		"the value is not JSON where it is put",
		"look at the value that the program passed",
	},
	cberr.DocumentNotJSON:   {"the document is not JSON", "read and write it as a whole"},
	cberr.NumberTooBig:      {"the number in the document is out of range", "look at the document"},
	cberr.DeltaInvalid:      {"the delta is 0, or the sum would be out of range", "use another delta"},
	cberr.PathExists:        {"the path exists", doNothing},
	cberr.XattrUnknownMacro: {"the server does not know the macro", "correct the macro"},
	cberr.XattrInvalidKeyCombo: {
		"one request names several extended attributes", "send one request for each attribute",
	},
	cberr.XattrUnknownVirtualAttribute:      {"the server does not know the virtual attribute", "correct its name"},
	cberr.XattrCannotModifyVirtualAttribute: {"virtual attributes cannot be written", "write another attribute"},
	cberr.XattrNoAccess: {
		"the user may not use the extended attribute",
		"give the user a role for it",
	},
	cberr.PlanningFailure: {
		"the query service finds no plan for the statement",
		"create an index, or use another statement",
	},
	cberr.IndexFailure: {
		"the index service failed",
		"read the text inside the error; look at the index",
	},
	cberr.PreparedStatementFailure: {
		"the prepared statement cannot be used", "prepare it again; the client does that for its own",
	},
	cberr.DMLFailure: {
		"a statement that writes failed",
		"read the text inside the error; a part of it may have been applied",
	},
	cberr.CompilationFailure:     {"the analytics service cannot compile the statement", "correct the statement"},
	cberr.JobQueueFull:           {"the analytics service has too much to do", "send fewer statements at a time"},
	cberr.DatasetNotFound:        {"the dataset does not exist", doCreate},
	cberr.DataverseNotFound:      {"the dataverse does not exist", doCreate},
	cberr.DatasetExists:          {"a dataset of that name exists", doUseOther},
	cberr.DataverseExists:        {"a dataverse of that name exists", doUseOther},
	cberr.LinkNotFound:           {"the link does not exist", doCreate},
	cberr.ViewNotFound:           {"the view or its design document does not exist", doCreate},
	cberr.DesignDocumentNotFound: {"the design document does not exist", doCreate},
	cberr.CollectionExists:       {"a collection of that name exists", doUseOther},
	cberr.ScopeExists:            {"a scope of that name exists", doUseOther},
	cberr.UserNotFound:           {"the user does not exist", doCreate},
	cberr.GroupNotFound:          {"the group does not exist", doCreate},
	cberr.BucketExists:           {"a bucket of that name exists", doUseOther},
	cberr.UserExists:             {"a user of that name exists", doUseOther},
	cberr.BucketNotFlushable:     {"the bucket does not allow a flush", "enable flush for the bucket"},

	cberr.EventingFunctionNotFound:           {"the eventing function does not exist", doEventing},
	cberr.EventingFunctionNotDeployed:        {"the eventing function is not deployed", doEventing},
	cberr.EventingFunctionCompilationFailure: {"the eventing function cannot be compiled", doEventing},
	cberr.EventingFunctionIdenticalKeyspace:  {"source and metadata of the function are the same keyspace", doEventing},
	cberr.EventingFunctionNotBootstrapped:    {"the eventing function has not started yet", doEventing},
	cberr.EventingFunctionDeployed:           {"the eventing function is deployed", doEventing},
	cberr.EventingFunctionPaused:             {"the eventing function is paused", doEventing},

	cberr.Crypto:            {"a field cannot be encrypted or decrypted", doSDK},
	cberr.EncryptionFailure: {"a field cannot be encrypted", doSDK},
	cberr.DecryptionFailure: {"a field cannot be decrypted", doSDK},
	cberr.CryptoKeyNotFound: {"the key of a field does not exist", doSDK},
	cberr.InvalidCryptoKey:  {"the key of a field cannot be used", doSDK},
	cberr.DecrypterNotFound: {"no decrypter is registered for a field", doSDK},
	cberr.EncrypterNotFound: {"no encrypter is registered for a field", doSDK},
	cberr.InvalidCiphertext: {"an encrypted field is malformed", doSDK},

	cberr.DocumentNotFoundOnReplica: {
		"the replica does not have the document",
		"read another copy; the replica may lag behind",
	},
	cberr.ReplicaIndexOutOfBounds: {"the bucket does not have that many replicas", "name a replica that exists"},
	cberr.ReplicaIndexCurrentlyUnavailable: {
		"no node has that replica at the moment", "read another copy; bring the node back",
	},
	cberr.TracerException: {"the tracer of the program failed", doSDK},
	cberr.MeterException:  {"the meter of the program failed", doSDK},
	cberr.TLSFailure: {
		"a TLS handshake failed",
		"run `couchcore doctor`: it names the certificate and what to change",
	},
	cberr.CircuitBreakerOpen: {
		"too many calls to the node had no answer, so this one was not sent",
		"look at the node",
	},
	cberr.BucketAccess: {
		"the user may not use the bucket, or it does not exist",
		"check the bucket's name and the user's roles",
	},
}
