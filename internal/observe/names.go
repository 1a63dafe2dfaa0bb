package observe

// Messages of log lines. A message is fixed; facts are attributes.
const (
	MsgInvariantBroken = "Invariant broken"

	MsgOrphans           = "Orphaned responses observed"
	MsgTerminalSet       = "Terminal condition set"
	MsgTerminalCleared   = "Terminal condition cleared"
	MsgPlaintextLogin    = "Credentials sent over plaintext"
	MsgTLSUnverified     = "TLS verification is off"
	MsgAttributeLimit    = "Attribute limit reached"
	MsgTelemetryPanicked = "Telemetry provider panicked"

	MsgClusterOpened  = "Cluster opened"
	MsgClusterClosed  = "Cluster closed"
	MsgConnected      = "Connected"
	MsgConnectionLost = "Connection lost"
	MsgReconnecting   = "Reconnecting"
	MsgConfigApplied  = "Config applied"
	MsgConfigIgnored  = "Config ignored"
	MsgSlow           = "Operations over threshold"
	MsgLatencies      = "Operation latencies"
	MsgGaveUp         = "Gave up retrying"

	MsgRetrying           = "Retrying"
	MsgNotRetried         = "Not retried"
	MsgBootstrapStep      = "Bootstrap step"
	MsgCollectionResolved = "Collection resolved"
	MsgUnknownOption      = "Unknown connection-string option"
	MsgCallbackPanicked   = "A callback panicked"
)

// Keys of log attributes.
const (
	KeyAttempt      = "attempt"
	KeyAttempts     = "attempts"
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
	KeyEvicted      = "evicted"
	KeyHosts        = "hosts"
	KeyLocal        = "local"
	KeyNodesAdded   = "nodes_added"
	KeyNodesRemoved = "nodes_removed"
	KeyOperation    = "operation"
	KeyOperationID  = "operation_id"
	KeyOption       = "option"
	KeyReason       = "reason"
	KeyReport       = "report"
	KeyRevision     = "rev"
	KeySource       = "source"
	KeyStack        = "stack"
	KeyStatus       = "status"
	KeyStep         = "step"
	KeyWhat         = "what"
)
