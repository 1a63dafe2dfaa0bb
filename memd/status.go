package memd

import "fmt"

// Status is a response's outcome. The numbers and names are those of kv_engine's status.h.
type Status uint16

// Statuses.
const (
	StatusSuccess                       Status = 0x00
	StatusKeyNotFound                   Status = 0x01
	StatusKeyExists                     Status = 0x02
	StatusTooBig                        Status = 0x03
	StatusInvalid                       Status = 0x04
	StatusNotStored                     Status = 0x05
	StatusDeltaBadVal                   Status = 0x06
	StatusNotMyVBucket                  Status = 0x07
	StatusNoBucket                      Status = 0x08
	StatusLocked                        Status = 0x09
	StatusStreamNotFound                Status = 0x0a
	StatusOpaqueNoMatch                 Status = 0x0b
	StatusWouldThrottle                 Status = 0x0c
	StatusConfigOnly                    Status = 0x0d
	StatusNotLocked                     Status = 0x0e
	StatusCASValueInvalid               Status = 0x0f
	StatusAuthStale                     Status = 0x1f
	StatusAuthError                     Status = 0x20
	StatusAuthContinue                  Status = 0x21
	StatusRange                         Status = 0x22
	StatusRollback                      Status = 0x23
	StatusAccess                        Status = 0x24
	StatusNotInitialized                Status = 0x25
	StatusEncryptionKeyNotAvailable     Status = 0x26
	StatusChecksumMismatch              Status = 0x27
	StatusExpiryOverflow                Status = 0x28
	StatusLockExpiryOverflow            Status = 0x29
	StatusRateLimitedNetworkIngress     Status = 0x30
	StatusRateLimitedNetworkEgress      Status = 0x31
	StatusRateLimitedMaxConnections     Status = 0x32
	StatusRateLimitedMaxCommands        Status = 0x33
	StatusScopeSizeLimitExceeded        Status = 0x34
	StatusBucketSizeLimitExceeded       Status = 0x35
	StatusBucketResidentRatioTooLow     Status = 0x36
	StatusBucketDataSizeTooBig          Status = 0x37
	StatusBucketDiskSpaceTooLow         Status = 0x38
	StatusBucketPaused                  Status = 0x50
	StatusCancelled                     Status = 0x51
	StatusUnknownFrameInfo              Status = 0x80
	StatusUnknownCommand                Status = 0x81
	StatusOutOfMemory                   Status = 0x82
	StatusNotSupported                  Status = 0x83
	StatusInternal                      Status = 0x84
	StatusBusy                          Status = 0x85
	StatusTmpFail                       Status = 0x86
	StatusXattrInvalid                  Status = 0x87
	StatusUnknownCollection             Status = 0x88
	StatusNoCollectionsManifest         Status = 0x89 // of servers before 8.0
	StatusCannotApplyManifest           Status = 0x8a
	StatusUnknownScope                  Status = 0x8c
	StatusDCPStreamIDInvalid            Status = 0x8d
	StatusDurabilityInvalidLevel        Status = 0xa0
	StatusDurabilityImpossible          Status = 0xa1
	StatusSyncWriteInProgress           Status = 0xa2
	StatusSyncWriteAmbiguous            Status = 0xa3
	StatusSyncWriteReCommitInProgress   Status = 0xa4
	StatusRangeScanCancelled            Status = 0xa5
	StatusRangeScanMore                 Status = 0xa6
	StatusRangeScanComplete             Status = 0xa7
	StatusVBUUIDNotEqual                Status = 0xa8
	StatusSubdocPathNotFound            Status = 0xc0
	StatusSubdocPathMismatch            Status = 0xc1
	StatusSubdocPathInvalid             Status = 0xc2
	StatusSubdocPathTooBig              Status = 0xc3
	StatusSubdocDocTooDeep              Status = 0xc4
	StatusSubdocCantInsert              Status = 0xc5
	StatusSubdocNotJSON                 Status = 0xc6
	StatusSubdocNumRange                Status = 0xc7
	StatusSubdocDeltaInvalid            Status = 0xc8
	StatusSubdocPathExists              Status = 0xc9
	StatusSubdocValueTooDeep            Status = 0xca
	StatusSubdocInvalidCombo            Status = 0xcb
	StatusSubdocMultiPathFailure        Status = 0xcc
	StatusSubdocSuccessDeleted          Status = 0xcd
	StatusSubdocXattrInvalidFlagCombo   Status = 0xce
	StatusSubdocXattrInvalidKeyCombo    Status = 0xcf
	StatusSubdocXattrUnknownMacro       Status = 0xd0
	StatusSubdocXattrUnknownVattr       Status = 0xd1
	StatusSubdocXattrCantModifyVattr    Status = 0xd2
	StatusSubdocMultiPathFailureDeleted Status = 0xd3
	StatusSubdocInvalidXattrOrder       Status = 0xd4
	StatusSubdocXattrUnknownVattrMacro  Status = 0xd5
	StatusSubdocCanOnlyReviveDeleted    Status = 0xd6
	StatusSubdocDeletedCantHaveValue    Status = 0xd7
	StatusSubdocFieldNotBinary          Status = 0xd8
)

var statusNames = [...]string{
	StatusSuccess:                       "SUCCESS",
	StatusKeyNotFound:                   "KEY_ENOENT",
	StatusKeyExists:                     "KEY_EEXISTS",
	StatusTooBig:                        "E2BIG",
	StatusInvalid:                       "EINVAL",
	StatusNotStored:                     "NOT_STORED",
	StatusDeltaBadVal:                   "DELTA_BADVAL",
	StatusNotMyVBucket:                  "NOT_MY_VBUCKET",
	StatusNoBucket:                      "NO_BUCKET",
	StatusLocked:                        "LOCKED",
	StatusStreamNotFound:                "DCP_STREAM_NOT_FOUND",
	StatusOpaqueNoMatch:                 "OPAQUE_NO_MATCH",
	StatusWouldThrottle:                 "EWOULD_THROTTLE",
	StatusConfigOnly:                    "ECONFIG_ONLY",
	StatusNotLocked:                     "NOT_LOCKED",
	StatusCASValueInvalid:               "CAS_VALUE_INVALID",
	StatusAuthStale:                     "AUTH_STALE",
	StatusAuthError:                     "AUTH_ERROR",
	StatusAuthContinue:                  "AUTH_CONTINUE",
	StatusRange:                         "ERANGE",
	StatusRollback:                      "ROLLBACK",
	StatusAccess:                        "EACCESS",
	StatusNotInitialized:                "NOT_INITIALIZED",
	StatusEncryptionKeyNotAvailable:     "ENCRYPTION_KEY_NOT_AVAILABLE",
	StatusChecksumMismatch:              "CHECKSUM_MISMATCH",
	StatusExpiryOverflow:                "EXPIRY_OVERFLOW",
	StatusLockExpiryOverflow:            "LOCK_EXPIRY_OVERFLOW",
	StatusRateLimitedNetworkIngress:     "RATE_LIMITED_NETWORK_INGRESS",
	StatusRateLimitedNetworkEgress:      "RATE_LIMITED_NETWORK_EGRESS",
	StatusRateLimitedMaxConnections:     "RATE_LIMITED_MAX_CONNECTIONS",
	StatusRateLimitedMaxCommands:        "RATE_LIMITED_MAX_COMMANDS",
	StatusScopeSizeLimitExceeded:        "SCOPE_SIZE_LIMIT_EXCEEDED",
	StatusBucketSizeLimitExceeded:       "BUCKET_SIZE_LIMIT_EXCEEDED",
	StatusBucketResidentRatioTooLow:     "BUCKET_RESIDENT_RATIO_TOO_LOW",
	StatusBucketDataSizeTooBig:          "BUCKET_DATA_SIZE_TOO_BIG",
	StatusBucketDiskSpaceTooLow:         "BUCKET_DISK_SPACE_TOO_LOW",
	StatusBucketPaused:                  "BUCKET_PAUSED",
	StatusCancelled:                     "CANCELLED",
	StatusUnknownFrameInfo:              "UNKNOWN_FRAME_INFO",
	StatusUnknownCommand:                "UNKNOWN_COMMAND",
	StatusOutOfMemory:                   "ENOMEM",
	StatusNotSupported:                  "NOT_SUPPORTED",
	StatusInternal:                      "EINTERNAL",
	StatusBusy:                          "EBUSY",
	StatusTmpFail:                       "ETMPFAIL",
	StatusXattrInvalid:                  "XATTR_EINVAL",
	StatusUnknownCollection:             "UNKNOWN_COLLECTION",
	StatusNoCollectionsManifest:         "NO_COLLECTIONS_MANIFEST",
	StatusCannotApplyManifest:           "CANNOT_APPLY_COLLECTIONS_MANIFEST",
	StatusUnknownScope:                  "UNKNOWN_SCOPE",
	StatusDCPStreamIDInvalid:            "DCP_STREAM_ID_INVALID",
	StatusDurabilityInvalidLevel:        "DURABILITY_INVALID_LEVEL",
	StatusDurabilityImpossible:          "DURABILITY_IMPOSSIBLE",
	StatusSyncWriteInProgress:           "SYNC_WRITE_IN_PROGRESS",
	StatusSyncWriteAmbiguous:            "SYNC_WRITE_AMBIGUOUS",
	StatusSyncWriteReCommitInProgress:   "SYNC_WRITE_RE_COMMIT_IN_PROGRESS",
	StatusRangeScanCancelled:            "RANGE_SCAN_CANCELLED",
	StatusRangeScanMore:                 "RANGE_SCAN_MORE",
	StatusRangeScanComplete:             "RANGE_SCAN_COMPLETE",
	StatusVBUUIDNotEqual:                "VB_UUID_NOT_EQUAL",
	StatusSubdocPathNotFound:            "SUBDOC_PATH_ENOENT",
	StatusSubdocPathMismatch:            "SUBDOC_PATH_MISMATCH",
	StatusSubdocPathInvalid:             "SUBDOC_PATH_EINVAL",
	StatusSubdocPathTooBig:              "SUBDOC_PATH_E2BIG",
	StatusSubdocDocTooDeep:              "SUBDOC_DOC_E2DEEP",
	StatusSubdocCantInsert:              "SUBDOC_VALUE_CANTINSERT",
	StatusSubdocNotJSON:                 "SUBDOC_DOC_NOTJSON",
	StatusSubdocNumRange:                "SUBDOC_NUM_ERANGE",
	StatusSubdocDeltaInvalid:            "SUBDOC_DELTA_EINVAL",
	StatusSubdocPathExists:              "SUBDOC_PATH_EEXISTS",
	StatusSubdocValueTooDeep:            "SUBDOC_VALUE_ETOODEEP",
	StatusSubdocInvalidCombo:            "SUBDOC_INVALID_COMBO",
	StatusSubdocMultiPathFailure:        "SUBDOC_MULTI_PATH_FAILURE",
	StatusSubdocSuccessDeleted:          "SUBDOC_SUCCESS_DELETED",
	StatusSubdocXattrInvalidFlagCombo:   "SUBDOC_XATTR_INVALID_FLAG_COMBO",
	StatusSubdocXattrInvalidKeyCombo:    "SUBDOC_XATTR_INVALID_KEY_COMBO",
	StatusSubdocXattrUnknownMacro:       "SUBDOC_XATTR_UNKNOWN_MACRO",
	StatusSubdocXattrUnknownVattr:       "SUBDOC_XATTR_UNKNOWN_VATTR",
	StatusSubdocXattrCantModifyVattr:    "SUBDOC_XATTR_CANT_MODIFY_VATTR",
	StatusSubdocMultiPathFailureDeleted: "SUBDOC_MULTI_PATH_FAILURE_DELETED",
	StatusSubdocInvalidXattrOrder:       "SUBDOC_INVALID_XATTR_ORDER",
	StatusSubdocXattrUnknownVattrMacro:  "SUBDOC_XATTR_UNKNOWN_VATTR_MACRO",
	StatusSubdocCanOnlyReviveDeleted:    "SUBDOC_CAN_ONLY_REVIVE_DELETED_DOCUMENTS",
	StatusSubdocDeletedCantHaveValue:    "SUBDOC_DELETED_DOCUMENT_CANT_HAVE_VALUE",
	StatusSubdocFieldNotBinary:          "SUBDOC_FIELD_NOT_BINARY_VALUE",
}

// Known reports whether s has a name in the status table.
func (s Status) Known() bool { return s.name() != "" }

// CarriesPayload reports whether a response with s has a payload of its own in its value, where other failures have
// an error body (kv_engine's success class).
func (s Status) CarriesPayload() bool {
	switch s {
	case StatusSuccess, StatusAuthContinue, StatusRollback, StatusRangeScanMore, StatusRangeScanComplete,
		StatusSubdocMultiPathFailure, StatusSubdocSuccessDeleted, StatusSubdocMultiPathFailureDeleted:
		return true
	}
	return false
}

func (s Status) name() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return ""
}

func (s Status) String() string {
	if n := s.name(); n != "" {
		return n
	}
	return fmt.Sprintf("Status(0x%02x)", uint16(s))
}
