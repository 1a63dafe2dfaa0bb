package memd

import "fmt"

// Opcode is the command of a client request and of its response. The numbers are those of kv_engine's opcode.h.
type Opcode uint8

// Opcodes. Retired ones that every server refuses have no name here, except the two FLUSH commands that memcached
// clients still send.
const (
	OpGet                        Opcode = 0x00
	OpSet                        Opcode = 0x01
	OpAdd                        Opcode = 0x02
	OpReplace                    Opcode = 0x03
	OpDelete                     Opcode = 0x04
	OpIncrement                  Opcode = 0x05
	OpDecrement                  Opcode = 0x06
	OpQuit                       Opcode = 0x07
	OpFlush                      Opcode = 0x08
	OpGetQ                       Opcode = 0x09
	OpNoop                       Opcode = 0x0a
	OpVersion                    Opcode = 0x0b
	OpGetK                       Opcode = 0x0c
	OpGetKQ                      Opcode = 0x0d
	OpAppend                     Opcode = 0x0e
	OpPrepend                    Opcode = 0x0f
	OpStat                       Opcode = 0x10
	OpSetQ                       Opcode = 0x11
	OpAddQ                       Opcode = 0x12
	OpReplaceQ                   Opcode = 0x13
	OpDeleteQ                    Opcode = 0x14
	OpIncrementQ                 Opcode = 0x15
	OpDecrementQ                 Opcode = 0x16
	OpQuitQ                      Opcode = 0x17
	OpFlushQ                     Opcode = 0x18
	OpAppendQ                    Opcode = 0x19
	OpPrependQ                   Opcode = 0x1a
	OpVerbosity                  Opcode = 0x1b
	OpTouch                      Opcode = 0x1c
	OpGAT                        Opcode = 0x1d
	OpGATQ                       Opcode = 0x1e
	OpHello                      Opcode = 0x1f
	OpSASLListMechs              Opcode = 0x20
	OpSASLAuth                   Opcode = 0x21
	OpSASLStep                   Opcode = 0x22
	OpIoctlGet                   Opcode = 0x23
	OpIoctlSet                   Opcode = 0x24
	OpConfigValidate             Opcode = 0x25
	OpConfigReload               Opcode = 0x26
	OpAuditPut                   Opcode = 0x27
	OpAuditConfigReload          Opcode = 0x28
	OpShutdown                   Opcode = 0x29
	OpSetVBucket                 Opcode = 0x3d
	OpGetVBucket                 Opcode = 0x3e
	OpDelVBucket                 Opcode = 0x3f
	OpGetAllVBSeqnos             Opcode = 0x48
	OpGetEx                      Opcode = 0x49
	OpGetExReplica               Opcode = 0x4a
	OpMutateWithMeta             Opcode = 0x4b
	OpDCPOpen                    Opcode = 0x50
	OpDCPAddStream               Opcode = 0x51
	OpDCPCloseStream             Opcode = 0x52
	OpDCPStreamReq               Opcode = 0x53
	OpDCPGetFailoverLog          Opcode = 0x54
	OpDCPStreamEnd               Opcode = 0x55
	OpDCPSnapshotMarker          Opcode = 0x56
	OpDCPMutation                Opcode = 0x57
	OpDCPDeletion                Opcode = 0x58
	OpDCPExpiration              Opcode = 0x59
	OpDCPSetVBucketState         Opcode = 0x5b
	OpDCPNoop                    Opcode = 0x5c
	OpDCPBufferAck               Opcode = 0x5d
	OpDCPControl                 Opcode = 0x5e
	OpDCPSystemEvent             Opcode = 0x5f
	OpDCPPrepare                 Opcode = 0x60
	OpDCPSeqnoAck                Opcode = 0x61
	OpDCPCommit                  Opcode = 0x62
	OpDCPAbort                   Opcode = 0x63
	OpDCPSeqnoAdvanced           Opcode = 0x64
	OpDCPOSOSnapshot             Opcode = 0x65
	OpDCPCachedValue             Opcode = 0x66
	OpDCPCacheTransferEnd        Opcode = 0x67
	OpGetReplica                 Opcode = 0x83
	OpCreateBucket               Opcode = 0x85
	OpDeleteBucket               Opcode = 0x86
	OpListBuckets                Opcode = 0x87
	OpSelectBucket               Opcode = 0x89
	OpObserveSeqno               Opcode = 0x91
	OpObserve                    Opcode = 0x92
	OpEvictKey                   Opcode = 0x93
	OpGetLocked                  Opcode = 0x94
	OpUnlockKey                  Opcode = 0x95
	OpGetFailoverLog             Opcode = 0x96
	OpGetMeta                    Opcode = 0xa0
	OpGetQMeta                   Opcode = 0xa1
	OpSetWithMeta                Opcode = 0xa2
	OpSetQWithMeta               Opcode = 0xa3
	OpAddWithMeta                Opcode = 0xa4
	OpAddQWithMeta               Opcode = 0xa5
	OpDelWithMeta                Opcode = 0xa8
	OpDelQWithMeta               Opcode = 0xa9
	OpReturnMeta                 Opcode = 0xb2
	OpSetClusterConfig           Opcode = 0xb4
	OpGetClusterConfig           Opcode = 0xb5
	OpGetRandomKey               Opcode = 0xb6
	OpSeqnoPersistence           Opcode = 0xb7
	OpGetKeys                    Opcode = 0xb8
	OpCollectionsSetManifest     Opcode = 0xb9
	OpCollectionsGetManifest     Opcode = 0xba
	OpCollectionsGetID           Opcode = 0xbb
	OpCollectionsGetScopeID      Opcode = 0xbc
	OpSubdocGet                  Opcode = 0xc5
	OpSubdocExists               Opcode = 0xc6
	OpSubdocDictAdd              Opcode = 0xc7
	OpSubdocDictUpsert           Opcode = 0xc8
	OpSubdocDelete               Opcode = 0xc9
	OpSubdocReplace              Opcode = 0xca
	OpSubdocArrayPushLast        Opcode = 0xcb
	OpSubdocArrayPushFirst       Opcode = 0xcc
	OpSubdocArrayInsert          Opcode = 0xcd
	OpSubdocArrayAddUnique       Opcode = 0xce
	OpSubdocCounter              Opcode = 0xcf
	OpSubdocMultiLookup          Opcode = 0xd0
	OpSubdocMultiMutation        Opcode = 0xd1
	OpSubdocGetCount             Opcode = 0xd2
	OpSubdocReplaceBodyWithXattr Opcode = 0xd3
	OpRangeScanCreate            Opcode = 0xda
	OpRangeScanContinue          Opcode = 0xdb
	OpRangeScanCancel            Opcode = 0xdc
	OpDropPrivilege              Opcode = 0xfb
	OpAdjustTimeOfDay            Opcode = 0xfc
	OpEWBCtl                     Opcode = 0xfd
	OpGetErrorMap                Opcode = 0xfe
)

var opcodeNames = [256]string{
	OpGet:                        "GET",
	OpSet:                        "SET",
	OpAdd:                        "ADD",
	OpReplace:                    "REPLACE",
	OpDelete:                     "DELETE",
	OpIncrement:                  "INCREMENT",
	OpDecrement:                  "DECREMENT",
	OpQuit:                       "QUIT",
	OpFlush:                      "FLUSH",
	OpGetQ:                       "GETQ",
	OpNoop:                       "NOOP",
	OpVersion:                    "VERSION",
	OpGetK:                       "GETK",
	OpGetKQ:                      "GETKQ",
	OpAppend:                     "APPEND",
	OpPrepend:                    "PREPEND",
	OpStat:                       "STAT",
	OpSetQ:                       "SETQ",
	OpAddQ:                       "ADDQ",
	OpReplaceQ:                   "REPLACEQ",
	OpDeleteQ:                    "DELETEQ",
	OpIncrementQ:                 "INCREMENTQ",
	OpDecrementQ:                 "DECREMENTQ",
	OpQuitQ:                      "QUITQ",
	OpFlushQ:                     "FLUSHQ",
	OpAppendQ:                    "APPENDQ",
	OpPrependQ:                   "PREPENDQ",
	OpVerbosity:                  "VERBOSITY",
	OpTouch:                      "TOUCH",
	OpGAT:                        "GAT",
	OpGATQ:                       "GATQ",
	OpHello:                      "HELLO",
	OpSASLListMechs:              "SASL_LIST_MECHS",
	OpSASLAuth:                   "SASL_AUTH",
	OpSASLStep:                   "SASL_STEP",
	OpIoctlGet:                   "IOCTL_GET",
	OpIoctlSet:                   "IOCTL_SET",
	OpConfigValidate:             "CONFIG_VALIDATE",
	OpConfigReload:               "CONFIG_RELOAD",
	OpAuditPut:                   "AUDIT_PUT",
	OpAuditConfigReload:          "AUDIT_CONFIG_RELOAD",
	OpShutdown:                   "SHUTDOWN",
	OpSetVBucket:                 "SET_VBUCKET",
	OpGetVBucket:                 "GET_VBUCKET",
	OpDelVBucket:                 "DEL_VBUCKET",
	OpGetAllVBSeqnos:             "GET_ALL_VB_SEQNOS",
	OpGetEx:                      "GET_EX",
	OpGetExReplica:               "GET_EX_REPLICA",
	OpMutateWithMeta:             "MUTATE_WITH_META",
	OpDCPOpen:                    "DCP_OPEN",
	OpDCPAddStream:               "DCP_ADD_STREAM",
	OpDCPCloseStream:             "DCP_CLOSE_STREAM",
	OpDCPStreamReq:               "DCP_STREAM_REQ",
	OpDCPGetFailoverLog:          "DCP_GET_FAILOVER_LOG",
	OpDCPStreamEnd:               "DCP_STREAM_END",
	OpDCPSnapshotMarker:          "DCP_SNAPSHOT_MARKER",
	OpDCPMutation:                "DCP_MUTATION",
	OpDCPDeletion:                "DCP_DELETION",
	OpDCPExpiration:              "DCP_EXPIRATION",
	OpDCPSetVBucketState:         "DCP_SET_VBUCKET_STATE",
	OpDCPNoop:                    "DCP_NOOP",
	OpDCPBufferAck:               "DCP_BUFFER_ACKNOWLEDGEMENT",
	OpDCPControl:                 "DCP_CONTROL",
	OpDCPSystemEvent:             "DCP_SYSTEM_EVENT",
	OpDCPPrepare:                 "DCP_PREPARE",
	OpDCPSeqnoAck:                "DCP_SEQNO_ACKNOWLEDGED",
	OpDCPCommit:                  "DCP_COMMIT",
	OpDCPAbort:                   "DCP_ABORT",
	OpDCPSeqnoAdvanced:           "DCP_SEQNO_ADVANCED",
	OpDCPOSOSnapshot:             "DCP_OSO_SNAPSHOT",
	OpDCPCachedValue:             "DCP_CACHED_VALUE",
	OpDCPCacheTransferEnd:        "DCP_CACHE_TRANSFER_END",
	OpGetReplica:                 "GET_REPLICA",
	OpCreateBucket:               "CREATE_BUCKET",
	OpDeleteBucket:               "DELETE_BUCKET",
	OpListBuckets:                "LIST_BUCKETS",
	OpSelectBucket:               "SELECT_BUCKET",
	OpObserveSeqno:               "OBSERVE_SEQNO",
	OpObserve:                    "OBSERVE",
	OpEvictKey:                   "EVICT_KEY",
	OpGetLocked:                  "GET_LOCKED",
	OpUnlockKey:                  "UNLOCK_KEY",
	OpGetFailoverLog:             "GET_FAILOVER_LOG",
	OpGetMeta:                    "GET_META",
	OpGetQMeta:                   "GETQ_META",
	OpSetWithMeta:                "SET_WITH_META",
	OpSetQWithMeta:               "SETQ_WITH_META",
	OpAddWithMeta:                "ADD_WITH_META",
	OpAddQWithMeta:               "ADDQ_WITH_META",
	OpDelWithMeta:                "DEL_WITH_META",
	OpDelQWithMeta:               "DELQ_WITH_META",
	OpReturnMeta:                 "RETURN_META",
	OpSetClusterConfig:           "SET_CLUSTER_CONFIG",
	OpGetClusterConfig:           "GET_CLUSTER_CONFIG",
	OpGetRandomKey:               "GET_RANDOM_KEY",
	OpSeqnoPersistence:           "SEQNO_PERSISTENCE",
	OpGetKeys:                    "GET_KEYS",
	OpCollectionsSetManifest:     "COLLECTIONS_SET_MANIFEST",
	OpCollectionsGetManifest:     "COLLECTIONS_GET_MANIFEST",
	OpCollectionsGetID:           "COLLECTIONS_GET_ID",
	OpCollectionsGetScopeID:      "COLLECTIONS_GET_SCOPE_ID",
	OpSubdocGet:                  "SUBDOC_GET",
	OpSubdocExists:               "SUBDOC_EXISTS",
	OpSubdocDictAdd:              "SUBDOC_DICT_ADD",
	OpSubdocDictUpsert:           "SUBDOC_DICT_UPSERT",
	OpSubdocDelete:               "SUBDOC_DELETE",
	OpSubdocReplace:              "SUBDOC_REPLACE",
	OpSubdocArrayPushLast:        "SUBDOC_ARRAY_PUSH_LAST",
	OpSubdocArrayPushFirst:       "SUBDOC_ARRAY_PUSH_FIRST",
	OpSubdocArrayInsert:          "SUBDOC_ARRAY_INSERT",
	OpSubdocArrayAddUnique:       "SUBDOC_ARRAY_ADD_UNIQUE",
	OpSubdocCounter:              "SUBDOC_COUNTER",
	OpSubdocMultiLookup:          "SUBDOC_MULTI_LOOKUP",
	OpSubdocMultiMutation:        "SUBDOC_MULTI_MUTATION",
	OpSubdocGetCount:             "SUBDOC_GET_COUNT",
	OpSubdocReplaceBodyWithXattr: "SUBDOC_REPLACE_BODY_WITH_XATTR",
	OpRangeScanCreate:            "RANGE_SCAN_CREATE",
	OpRangeScanContinue:          "RANGE_SCAN_CONTINUE",
	OpRangeScanCancel:            "RANGE_SCAN_CANCEL",
	OpDropPrivilege:              "DROP_PRIVILEGE",
	OpAdjustTimeOfDay:            "ADJUST_TIMEOFDAY",
	OpEWBCtl:                     "EWB_CTL",
	OpGetErrorMap:                "GET_ERROR_MAP",
}

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
