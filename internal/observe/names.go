package observe

// Messages of log lines. A message is fixed; facts are attributes.
const (
	MsgLinesLost = "Log lines lost"

	MsgOrphans           = "Orphaned responses observed"
	MsgTerminalSet       = "Terminal condition set"
	MsgTerminalCleared   = "Terminal condition cleared"
	MsgPlaintextLogin    = "Credentials sent over plaintext"
	MsgTLSUnverified     = "TLS verification is off"
	MsgAttributeLimit    = "Attribute limit reached"
	MsgTelemetryPanicked = "Telemetry provider panicked"

	MsgTelemetryConnected = "Application telemetry connected"
	MsgTelemetryLost      = "Application telemetry not connected"

	MsgClusterOpened   = "Cluster opened"
	MsgClusterClosed   = "Cluster closed"
	MsgConnected       = "Connected"
	MsgConnectionLost  = "Connection lost"
	MsgConnectFailed   = "Connecting failed"
	MsgLoginNotRenewed = "A login was not renewed"
	MsgReseeding       = "No node can be reached, asking the seeds again"
	MsgConfigApplied   = "Config applied"
	MsgConfigIgnored   = "Config ignored"
	MsgConfigRefused   = "Config refused"
	MsgErrorMapRefused = "Error map refused"
	MsgSlow            = "Operations over threshold"
	MsgBreakerOpened   = "Circuit breaker opened"
	MsgBreakerClosed   = "Circuit breaker closed"
	MsgGaveUp          = "Gave up retrying"

	MsgSRVFailed          = "DNS SRV lookup failed"
	MsgRetrying           = "Retrying"
	MsgNotRetried         = "Not retried"
	MsgBootstrapStep      = "Bootstrap step"
	MsgCollectionResolved = "Collection resolved"
	MsgCallbackPanicked   = "A callback panicked"
)

// Keys of log attributes.
const (
	KeyBucket       = "bucket"
	KeyCause        = "cause"
	KeyClientID     = "client_id"
	KeyCollection   = "collection"
	KeyConnectionID = "connection_id"
	KeyCount        = "count"
	KeyDelay        = "delay"
	KeyElapsed      = "elapsed"
	KeyEndpoint     = "endpoint"
	KeyEpoch        = "epoch"
	KeyHosts        = "hosts"
	KeyLocal        = "local"
	KeyNodes        = "nodes"
	KeyOperation    = "operation"
	KeyOperationID  = "operation_id"
	KeyPanic        = "panic"
	KeyReason       = "reason"
	KeyReport       = "report"
	KeyRetries      = "retries"
	KeyRevision     = "rev"
	KeyStack        = "stack"
	KeyStep         = "step"
)
