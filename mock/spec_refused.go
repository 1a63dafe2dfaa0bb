package mock

import "github.com/couchcore/couchcore/memd"

// refusal is a group of opcodes that a server executes, or once did, and the mock answers with NOT_SUPPORTED (0x83), as
// a server does that is not built for them or refuses them to all accounts.
type refusal struct {
	group string // as FIDELITY.md names it
	ops   []memd.Opcode
}

// refused has every named opcode without a row in specs.
var refused = []refusal{
	{"flush", []memd.Opcode{memd.OpFlush, memd.OpFlushQ}},
	{"writes that only replication sends", []memd.Opcode{memd.OpMutateWithMeta}},
	{"DCP", []memd.Opcode{
		memd.OpDCPOpen, memd.OpDCPAddStream, memd.OpDCPCloseStream, memd.OpDCPStreamReq, memd.OpDCPGetFailoverLog,
		memd.OpDCPStreamEnd, memd.OpDCPSnapshotMarker, memd.OpDCPMutation, memd.OpDCPDeletion, memd.OpDCPExpiration,
		memd.OpDCPSetVBucketState, memd.OpDCPNoop, memd.OpDCPBufferAck, memd.OpDCPControl, memd.OpDCPSystemEvent,
		memd.OpDCPPrepare, memd.OpDCPSeqnoAck, memd.OpDCPCommit, memd.OpDCPAbort, memd.OpDCPSeqnoAdvanced,
		memd.OpDCPOSOSnapshot, memd.OpDCPCacheTransfer, memd.OpDCPCacheTransferEnd,
	}},
	{"what the cluster manager sends", []memd.Opcode{
		memd.OpIoctlGet, memd.OpIoctlSet, memd.OpConfigValidate, memd.OpConfigReload, memd.OpAuditPut,
		memd.OpAuditConfigReload,
		memd.OpShutdown, memd.OpSetBucketThrottleProperties, memd.OpSetBucketDataLimitExceeded,
		memd.OpSetActiveEncryptionKeys,
		memd.OpPruneEncryptionKeys, memd.OpRegisterAuthToken, memd.OpSetVBucket, memd.OpDelVBucket,
		memd.OpStopPersistence,
		memd.OpStartPersistence, memd.OpSetParam, memd.OpSetChronicleAuthToken, memd.OpCreateBucket,
		memd.OpDeleteBucket,
		memd.OpPauseBucket, memd.OpResumeBucket, memd.OpValidateBucketConfig, memd.OpEnableTraffic,
		memd.OpDisableTraffic,
		memd.OpIfconfig, memd.OpCompactDB, memd.OpSetClusterConfig, memd.OpCollectionsSetManifest, memd.OpISASLRefresh,
		memd.OpGetCmdTimer, memd.OpSetCtrlToken, memd.OpGetCtrlToken, memd.OpUpdateExternalUserPermissions,
		memd.OpRBACRefresh,
		memd.OpAuthProvider,
	}},
	{"snapshots of files and fusion storage", []memd.Opcode{
		memd.OpGetFusionStorageSnapshot, memd.OpReleaseFusionStorageSnapshot, memd.OpMountFusionVBucket,
		memd.OpUnmountFusionVBucket, memd.OpSyncFusionLogstore, memd.OpStartFusionUploader, memd.OpStopFusionUploader,
		memd.OpDeleteFusionNamespace, memd.OpGetFusionNamespaces, memd.OpCreateFusionNamespace, memd.OpPrepareSnapshot,
		memd.OpReleaseSnapshot, memd.OpDownloadSnapshot, memd.OpGetFileFragment,
	}},
	{"test hooks of a server", []memd.Opcode{memd.OpDropPrivilege, memd.OpAdjustTimeOfDay, memd.OpEWBCtl}},
}
