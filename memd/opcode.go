package memd

import "fmt"

// Opcode is the command of a client request and of its response. The numbers are those of kv_engine's opcode.h.
type Opcode uint8

// Opcodes. Retired ones that every server refuses have no name here, except the two FLUSH commands that memcached
// clients still send.
const (
	OpGet                           Opcode = 0x00
	OpSet                           Opcode = 0x01
	OpAdd                           Opcode = 0x02
	OpReplace                       Opcode = 0x03
	OpDelete                        Opcode = 0x04
	OpIncrement                     Opcode = 0x05
	OpDecrement                     Opcode = 0x06
	OpQuit                          Opcode = 0x07
	OpFlush                         Opcode = 0x08
	OpGetQ                          Opcode = 0x09
	OpNoop                          Opcode = 0x0a
	OpVersion                       Opcode = 0x0b
	OpGetK                          Opcode = 0x0c
	OpGetKQ                         Opcode = 0x0d
	OpAppend                        Opcode = 0x0e
	OpPrepend                       Opcode = 0x0f
	OpStat                          Opcode = 0x10
	OpSetQ                          Opcode = 0x11
	OpAddQ                          Opcode = 0x12
	OpReplaceQ                      Opcode = 0x13
	OpDeleteQ                       Opcode = 0x14
	OpIncrementQ                    Opcode = 0x15
	OpDecrementQ                    Opcode = 0x16
	OpQuitQ                         Opcode = 0x17
	OpFlushQ                        Opcode = 0x18
	OpAppendQ                       Opcode = 0x19
	OpPrependQ                      Opcode = 0x1a
	OpVerbosity                     Opcode = 0x1b
	OpTouch                         Opcode = 0x1c
	OpGAT                           Opcode = 0x1d
	OpGATQ                          Opcode = 0x1e
	OpHello                         Opcode = 0x1f
	OpSASLListMechs                 Opcode = 0x20
	OpSASLAuth                      Opcode = 0x21
	OpSASLStep                      Opcode = 0x22
	OpIoctlGet                      Opcode = 0x23
	OpIoctlSet                      Opcode = 0x24
	OpConfigValidate                Opcode = 0x25
	OpConfigReload                  Opcode = 0x26
	OpAuditPut                      Opcode = 0x27
	OpAuditConfigReload             Opcode = 0x28
	OpShutdown                      Opcode = 0x29
	OpSetBucketThrottleProperties   Opcode = 0x2a
	OpSetBucketDataLimitExceeded    Opcode = 0x2b
	OpSetActiveEncryptionKeys       Opcode = 0x2d
	OpPruneEncryptionKeys           Opcode = 0x2e
	OpRegisterAuthToken             Opcode = 0x2f
	OpSetVBucket                    Opcode = 0x3d
	OpGetVBucket                    Opcode = 0x3e
	OpDelVBucket                    Opcode = 0x3f
	OpGetAllVBSeqnos                Opcode = 0x48
	OpGetEx                         Opcode = 0x49
	OpGetExReplica                  Opcode = 0x4a
	OpMutateWithMeta                Opcode = 0x4b
	OpDCPOpen                       Opcode = 0x50
	OpDCPAddStream                  Opcode = 0x51
	OpDCPCloseStream                Opcode = 0x52
	OpDCPStreamReq                  Opcode = 0x53
	OpDCPGetFailoverLog             Opcode = 0x54
	OpDCPStreamEnd                  Opcode = 0x55
	OpDCPSnapshotMarker             Opcode = 0x56
	OpDCPMutation                   Opcode = 0x57
	OpDCPDeletion                   Opcode = 0x58
	OpDCPExpiration                 Opcode = 0x59
	OpDCPSetVBucketState            Opcode = 0x5b
	OpDCPNoop                       Opcode = 0x5c
	OpDCPBufferAck                  Opcode = 0x5d
	OpDCPControl                    Opcode = 0x5e
	OpDCPSystemEvent                Opcode = 0x5f
	OpDCPPrepare                    Opcode = 0x60
	OpDCPSeqnoAck                   Opcode = 0x61
	OpDCPCommit                     Opcode = 0x62
	OpDCPAbort                      Opcode = 0x63
	OpDCPSeqnoAdvanced              Opcode = 0x64
	OpDCPOSOSnapshot                Opcode = 0x65
	OpDCPCacheTransfer              Opcode = 0x66
	OpDCPCacheTransferEnd           Opcode = 0x67
	OpGetFusionStorageSnapshot      Opcode = 0x70
	OpReleaseFusionStorageSnapshot  Opcode = 0x71
	OpMountFusionVBucket            Opcode = 0x72
	OpUnmountFusionVBucket          Opcode = 0x73
	OpSyncFusionLogstore            Opcode = 0x74
	OpStartFusionUploader           Opcode = 0x75
	OpStopFusionUploader            Opcode = 0x76
	OpDeleteFusionNamespace         Opcode = 0x77
	OpGetFusionNamespaces           Opcode = 0x78
	OpCreateFusionNamespace         Opcode = 0x79
	OpStopPersistence               Opcode = 0x80
	OpStartPersistence              Opcode = 0x81
	OpSetParam                      Opcode = 0x82
	OpGetReplica                    Opcode = 0x83
	OpSetChronicleAuthToken         Opcode = 0x84
	OpCreateBucket                  Opcode = 0x85
	OpDeleteBucket                  Opcode = 0x86
	OpListBuckets                   Opcode = 0x87
	OpSelectBucket                  Opcode = 0x89
	OpPauseBucket                   Opcode = 0x8a
	OpResumeBucket                  Opcode = 0x8b
	OpValidateBucketConfig          Opcode = 0x8c
	OpObserveSeqno                  Opcode = 0x91
	OpObserve                       Opcode = 0x92
	OpEvictKey                      Opcode = 0x93
	OpGetLocked                     Opcode = 0x94
	OpUnlockKey                     Opcode = 0x95
	OpGetFailoverLog                Opcode = 0x96
	OpGetMeta                       Opcode = 0xa0
	OpGetQMeta                      Opcode = 0xa1
	OpSetWithMeta                   Opcode = 0xa2
	OpSetQWithMeta                  Opcode = 0xa3
	OpAddWithMeta                   Opcode = 0xa4
	OpAddQWithMeta                  Opcode = 0xa5
	OpDelWithMeta                   Opcode = 0xa8
	OpDelQWithMeta                  Opcode = 0xa9
	OpEnableTraffic                 Opcode = 0xad
	OpDisableTraffic                Opcode = 0xae
	OpIfconfig                      Opcode = 0xaf
	OpReturnMeta                    Opcode = 0xb2
	OpCompactDB                     Opcode = 0xb3
	OpSetClusterConfig              Opcode = 0xb4
	OpGetClusterConfig              Opcode = 0xb5
	OpGetRandomKey                  Opcode = 0xb6
	OpSeqnoPersistence              Opcode = 0xb7
	OpGetKeys                       Opcode = 0xb8
	OpCollectionsSetManifest        Opcode = 0xb9
	OpCollectionsGetManifest        Opcode = 0xba
	OpCollectionsGetID              Opcode = 0xbb
	OpCollectionsGetScopeID         Opcode = 0xbc
	OpSubdocGet                     Opcode = 0xc5
	OpSubdocExists                  Opcode = 0xc6
	OpSubdocDictAdd                 Opcode = 0xc7
	OpSubdocDictUpsert              Opcode = 0xc8
	OpSubdocDelete                  Opcode = 0xc9
	OpSubdocReplace                 Opcode = 0xca
	OpSubdocArrayPushLast           Opcode = 0xcb
	OpSubdocArrayPushFirst          Opcode = 0xcc
	OpSubdocArrayInsert             Opcode = 0xcd
	OpSubdocArrayAddUnique          Opcode = 0xce
	OpSubdocCounter                 Opcode = 0xcf
	OpSubdocMultiLookup             Opcode = 0xd0
	OpSubdocMultiMutation           Opcode = 0xd1
	OpSubdocGetCount                Opcode = 0xd2
	OpSubdocReplaceBodyWithXattr    Opcode = 0xd3
	OpRangeScanCreate               Opcode = 0xda
	OpRangeScanContinue             Opcode = 0xdb
	OpRangeScanCancel               Opcode = 0xdc
	OpPrepareSnapshot               Opcode = 0xe0
	OpReleaseSnapshot               Opcode = 0xe1
	OpDownloadSnapshot              Opcode = 0xe2
	OpGetFileFragment               Opcode = 0xe3
	OpISASLRefresh                  Opcode = 0xf1
	OpGetCmdTimer                   Opcode = 0xf3
	OpSetCtrlToken                  Opcode = 0xf4
	OpGetCtrlToken                  Opcode = 0xf5
	OpUpdateExternalUserPermissions Opcode = 0xf6
	OpRBACRefresh                   Opcode = 0xf7
	OpAuthProvider                  Opcode = 0xf8
	OpDropPrivilege                 Opcode = 0xfb
	OpAdjustTimeOfDay               Opcode = 0xfc
	OpEWBCtl                        Opcode = 0xfd
	OpGetErrorMap                   Opcode = 0xfe
)

// Known reports whether o has a name in the opcode table.
func (o Opcode) Known() bool { return opcodeNames[o] != "" }

func (o Opcode) String() string {
	if n := opcodeNames[o]; n != "" {
		return n
	}
	return fmt.Sprintf("Opcode(0x%02x)", uint8(o))
}

// ServerOpcode is the command of a request that a server sends (magic 0x82). It stands in Packet.Opcode.
type ServerOpcode = Opcode

// Server opcodes. Only the first reaches a client; the others are for an authentication provider.
const (
	ServerOpClustermapChange ServerOpcode = 0x01
	ServerOpAuthenticate     ServerOpcode = 0x02
	ServerOpActiveUsers      ServerOpcode = 0x03
	ServerOpGetAuthorization ServerOpcode = 0x04
)

// ServerOpcodeName is the name of a server's request.
func ServerOpcodeName(o ServerOpcode) string {
	switch o {
	case ServerOpClustermapChange:
		return "CLUSTERMAP_CHANGE_NOTIFICATION"
	case ServerOpAuthenticate:
		return "AUTHENTICATE"
	case ServerOpActiveUsers:
		return "ACTIVE_EXTERNAL_USERS"
	case ServerOpGetAuthorization:
		return "GET_AUTHORIZATION"
	}
	return fmt.Sprintf("ServerOpcode(0x%02x)", uint8(o))
}
