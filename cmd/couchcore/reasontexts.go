package main

import "github.com/couchcore/couchcore/retry"

// reasonText says of a reason, for people, what it means, when an attempt has it, when it no longer applies, and what
// to do about it.
type reasonText struct{ means, set, cleared, do string }

// reasonTexts has a row for each reason. docs/retry.md has the same rows: a test generates them.
var reasonTexts = map[retry.Reason]reasonText{
	retry.Unknown: {
		"no reason is known",
		"never by the client; it is what core.Config.Retry.Classify returns for \"as without the hook\"",
		"-",
		"nothing: the shipped strategies never retry it",
	},
	retry.SocketNotAvailable: {
		"no connection to the node works",
		"the node is not connected when the request is routed, or its connection ends before the request is written",
		"a connection of that node finishes its handshake, or the map moves the key to another node",
		"read the cause inside the error; run `couchcore doctor`; check host, port, firewall and `network=external`",
	},
	retry.ServiceNotAvailable: {
		"no node runs the service",
		"the cluster map lists no node with the service, or there is no map yet (HTTP services)",
		"a map lists a node with the service",
		"check which services the nodes run; look at `cluster.Diagnostics`",
	},
	retry.NodeNotAvailable: {
		"the map names no node for the request",
		"the vbucket has no active copy (or not the replica that was asked for), or the named node is not in the map",
		"a map names a node",
		"fail over or rebalance; ask for a replica that exists",
	},
	retry.CircuitBreakerOpen: {
		"the node's circuit breaker is open",
		"too many calls to the node timed out (core.CircuitBreaker; off by default)",
		"a canary request to the node is answered after the breaker's sleep window",
		"look at the node; raise the breaker's threshold if it opens too early",
	},
	retry.EndpointNotWritable: {
		"too many requests wait for the node already",
		"the node's queue is full (core.Config.Limits.Queue), or 1,024 HTTP requests wait behind a throttled one",
		"requests of that queue are sent",
		"send fewer requests at a time, or more slowly; raise the limit",
	},
	retry.WriteFailed: {
		"the request was not written completely",
		"the connection ended in the middle of the request, so the server cannot have executed it",
		"the next attempt is written",
		"nothing; if it is frequent, look at the network",
	},
	retry.KVNotMyVBucket: {
		"another node holds the key",
		"status 0x07: the cluster map changed (rebalance, failover)",
		"the newer map, which the answer may bring, names the node",
		"nothing; it never ends if the nodes disagree about the map: look at the cluster",
	},
	retry.KVCollectionOutdated: {
		"the client's id of the collection is out of date",
		"status 0x88 for an operation on documents",
		"the client looks the id up again",
		"nothing; a collection that was dropped ends in COLLECTION_NOT_FOUND",
	},
	retry.ViewsNoActivePartition: {
		"the node has no active partition for the view",
		"HTTP 302 of the view engine",
		"another node answers, or a rebalance ends",
		"nothing",
	},
	retry.CollectionMapRefreshInProgress: {
		"the id of the collection is being looked up",
		"the call needs an id and its lookup has no answer yet, or the lookup's connection was lost",
		"the lookup is answered",
		"nothing; if it lasts, the node that is asked is slow or silent: read the cause inside the error",
	},
	retry.BucketNotReady: {
		"a connection cannot use the bucket yet",
		"SELECT_BUCKET was answered 0x01, or an operation 0x08 (no bucket) or 0x1f (the login is stale)",
		"a connection selects the bucket, or logs in again",
		"check the bucket's name; a bucket that was just created becomes ready",
	},
	retry.NotReady: {
		"there is no cluster map yet",
		"a call is made before the first map of its bucket has come",
		"the first map comes",
		"call WaitReady before the first operation; its error says what every node answered",
	},
	retry.KVErrorMapRetryIndicated: {
		"the server's error map says that the status may be retried",
		"a status that the client gives no reason of its own, marked retry-now, retry-later or auto-retry and not " +
			"no-retry; also 0x89",
		"the next attempt is answered otherwise",
		"look the status up with `couchcore strerror`",
	},
	retry.KVLocked: {
		"the document is locked",
		"status 0x09, but not for an unlock, where it is a CAS mismatch",
		"the lock's owner unlocks it, or the lock expires",
		"wait, or fail at once by a strategy of your own",
	},
	retry.KVSyncWriteInProgress: {
		"a durable write of the document is under way",
		"status 0xa2",
		"that write is committed or aborted",
		"wait; write the document from fewer places",
	},
	retry.KVSyncWriteReCommitInProgress: {
		"a durable write of the document is being committed again",
		"status 0xa4, after a failover",
		"the write is committed",
		"wait",
	},
	retry.KVTemporaryFailure: {
		"the server cannot execute the operation at the moment",
		"status 0x86: no memory is free, or the vbucket is being moved",
		"the server has recovered",
		"if it lasts, the bucket is short of memory: look at its quota and its disk queue",
	},
	retry.AnalyticsTemporaryFailure: {
		"the analytics service is busy",
		"code 23000, 23003 or 23007; any code that the service marks as retriable, for a readonly statement",
		"the service accepts statements again",
		"if it lasts, send fewer statements at a time",
	},
	retry.SearchTooManyRequests: {
		"the search service is over a limit",
		"HTTP 429 of the search service",
		"the service accepts searches again",
		"send fewer searches at a time",
	},
	retry.ServiceResponseCodeIndicated: {
		"the service asks to come back",
		"HTTP 429, or 503 with a delay, for any request; 503 without a delay and 504 for one that is idempotent",
		"the service answers otherwise",
		"if it lasts, send fewer requests; `Retry-After` is obeyed",
	},
	retry.SocketClosedWhileInFlight: {
		"the connection was lost before the answer came",
		"a connection ends with requests on it; only idempotent ones are sent again",
		"the next attempt is answered",
		"a write that ended so may have been applied: read the document, compare, decide",
	},
	retry.QueryPreparedStatementFailure: {
		"the service does not know the plan that the client keeps",
		"code 4040, 4050, 4060, 4070, 4080 or 4090 for a statement with `Prepare`",
		"the client prepares the statement again, before the next attempt",
		"nothing",
	},
	retry.QueryIndexNotFound: {
		"the index service does not find the index",
		"code 5000 with the text queryport.indexNotFound: the index was just created or moved",
		"the service knows the index",
		"if it lasts, the index does not exist any more",
	},
	retry.QueryErrorRetryable: {
		"the query service says that the statement may be sent again",
		"any other error with `retry: true`, for a readonly statement, and not after a timeout or with code 12016",
		"the service answers otherwise",
		"set `Readonly` on statements that only read",
	},
	retry.QueryTransactionBufferFull: {
		"the buffer of a transaction is full",
		"never: RFC 0049 names it, and no code of the service is known for it",
		"-",
		"nothing",
	},
	retry.ViewsTemporaryFailure: {
		"the view engine cannot answer at the moment",
		"an HTTP status of the view engine that is in the table of its codes",
		"the view engine answers",
		"if it lasts, see whether the design document exists, then look at the node's view engine",
	},
	retry.AuthenticationError: {
		"a node refused the credentials",
		"SASL status 0x20 of a connection that brings cluster maps, or HTTP 401 of the stream of maps; other trouble " +
			"does not set it",
		"that node accepts a login; new credentials are set; the node leaves the map",
		"correct user and password: `Cluster.SetCredentials` uses new ones at once",
	},
	retry.TLSError: {
		"a TLS handshake failed",
		"an untrusted certificate, a version, an alert before the first answer, a refusing callback; a lost socket " +
			"does not set it",
		"a later connection to that node passes the handshake; the node leaves the map",
		"run `couchcore doctor`: it names the certificate and what to change",
	},
	retry.BucketAccessError: {
		"the user may not use the bucket, or it does not exist",
		"SELECT_BUCKET was answered 0x24, or HTTP 403 for the bucket's maps; for key-value, and for a view without " +
			"a map of its bucket",
		"any node lets the bucket be selected, or for HTTP 403 the same service gives a map; the node leaves the map",
		"check the bucket's name and the user's roles",
	},
	retry.ScopeNotFound: {
		"the scope does not exist",
		"a lookup that began after the call was answered 0x8c",
		"each call has the scope looked up again",
		"create the scope, or correct its name",
	},
	retry.CollectionNotFound: {
		"the collection does not exist",
		"a lookup that began after the call was answered 0x88",
		"each call has the collection looked up again",
		"create the collection, or correct its name",
	},
	retry.CredentialsFetchFailed: {
		"the user's provider of credentials failed",
		"core.Config.Auth.Credentials returns an error or panics",
		"the provider returns credentials",
		"read the provider's error inside the error",
	},
	retry.EvaluationIndicated: {
		"the evaluation of retry.Do asks for another try",
		"the evaluation returns `retry.Again`",
		"the evaluation returns something else",
		"nothing: it is your own program's word",
	},
}
