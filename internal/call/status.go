package call

import (
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Class says what becomes of an answer.
type Class uint8

// Classes of answers.
const (
	ClassAskMap  Class = iota // the error map of the node that answered decides whether it is a retry matter
	ClassSuccess              // the operation's result
	ClassFail                 // the operation's outcome, or a permanent failure
	ClassRetry                // Reason says why the orchestrator is asked
)

// Disposition is what a status means for an operation. NotApplied says that the server has changed nothing; it is set
// for every status with a reason. Ambiguous says that the server itself does not know. Reconnect says that the
// connection is of no use any more.
type Disposition struct {
	Class      Class
	Reason     retry.Reason
	Kind       *cberr.Kind
	NotApplied bool
	Ambiguous  bool
	Reconnect  bool
}

// WithMap is the disposition once the error map of the node that answered was asked, which decides nothing but whether
// a status of ClassAskMap is a retry matter. NotApplied is then as the client knows it, or as the map says: a server
// uses a status that is new to a client only for what was not performed (kv_engine, status.h), unless the map's entry
// contradicts that.
func (d Disposition) WithMap(e errormap.Entry) Disposition {
	if d.Class != ClassAskMap || !e.RetryIndicated() {
		return d
	}
	d.Class, d.Reason = ClassRetry, retry.KVErrorMapRetryIndicated
	d.NotApplied = d.NotApplied || !e.MayHaveApplied()
	return d
}

type row struct {
	kind      *cberr.Kind
	reason    retry.Reason
	askMap    bool
	success   *opcodes // for which it is a success; others can make nothing of it
	ambiguous bool
	applied   bool // the server may have changed something although this is no success
	varies    bool // overrides has it for some opcodes
	reconnect bool // the connection is of no use any more
}

// opcodes is a range of them.
type opcodes struct{ first, last memd.Opcode }

// Who may succeed with a status. Another operation that believed it would take a write for acknowledged that was not.
var (
	anyOpcode     = &opcodes{0, 0xff}
	noOpcode      = &opcodes{1, 0} // of those that are operations: it is one of the login's, or of DCP's
	scanOpcodes   = &opcodes{memd.OpRangeScanContinue, memd.OpRangeScanContinue}
	subdocOpcodes = &opcodes{memd.OpSubdocGet, memd.OpSubdocReplaceBodyWithXattr}
	lookupOpcodes = &opcodes{memd.OpSubdocMultiLookup, memd.OpSubdocMultiLookup}
)

// rows is the one table from status to error and reason (SDK RFC 0058 for the errors, RFC 0049 for the reasons). It has
// every status of kv_engine's status.h and error map. Whatever is neither a success nor marked as applied was not
// applied. Rows with askMap are errors of their own unless the node's error map calls them retryable; their temporary
// state passes by itself. docs/protocol.md says of each why it is what it is.
var rows = [...]row{
	memd.StatusSuccess:                       {success: anyOpcode},
	memd.StatusRangeScanMore:                 {success: scanOpcodes},
	memd.StatusRangeScanComplete:             {success: scanOpcodes},
	memd.StatusSubdocMultiPathFailure:        {success: lookupOpcodes, varies: true},
	memd.StatusSubdocSuccessDeleted:          {success: subdocOpcodes},
	memd.StatusSubdocMultiPathFailureDeleted: {success: lookupOpcodes, varies: true},

	memd.StatusKeyNotFound:               {kind: cberr.DocumentNotFound, varies: true},
	memd.StatusKeyExists:                 {kind: cberr.DocumentExists, varies: true},
	memd.StatusTooBig:                    {kind: cberr.ValueTooLarge},
	memd.StatusInvalid:                   {kind: cberr.InvalidArgument},
	memd.StatusNotStored:                 {kind: cberr.DocumentExists, varies: true},
	memd.StatusDeltaBadVal:               {kind: cberr.DeltaInvalid},
	memd.StatusNotMyVBucket:              {kind: cberr.TemporaryFailure, reason: retry.KVNotMyVBucket},
	memd.StatusNoBucket:                  {kind: cberr.BucketNotFound, reason: retry.BucketNotReady, reconnect: true},
	memd.StatusLocked:                    {kind: cberr.DocumentLocked, reason: retry.KVLocked, varies: true},
	memd.StatusStreamNotFound:            {kind: cberr.Couchbase},
	memd.StatusOpaqueNoMatch:             {kind: cberr.Couchbase},
	memd.StatusNotLocked:                 {kind: cberr.DocumentNotLocked},
	memd.StatusCASValueInvalid:           {kind: cberr.InvalidArgument},
	memd.StatusWouldThrottle:             {kind: cberr.RateLimited, askMap: true},
	memd.StatusConfigOnly:                {kind: cberr.TemporaryFailure, askMap: true},
	memd.StatusAuthStale:                 {kind: cberr.AuthenticationFailure, reason: retry.BucketNotReady},
	memd.StatusAuthError:                 {kind: cberr.AuthenticationFailure},
	memd.StatusAuthContinue:              {success: noOpcode},
	memd.StatusRange:                     {kind: cberr.InvalidArgument},
	memd.StatusRollback:                  {success: noOpcode},
	memd.StatusAccess:                    {kind: cberr.AuthenticationFailure},
	memd.StatusNotInitialized:            {kind: cberr.TemporaryFailure},
	memd.StatusEncryptionKeyNotAvailable: {kind: cberr.Couchbase},
	memd.StatusChecksumMismatch:          {kind: cberr.Couchbase},
	memd.StatusExpiryOverflow:            {kind: cberr.InvalidArgument},
	memd.StatusLockExpiryOverflow:        {kind: cberr.InvalidArgument},
	memd.StatusRateLimitedNetworkIngress: {kind: cberr.RateLimited, askMap: true},
	memd.StatusRateLimitedNetworkEgress:  {kind: cberr.RateLimited, askMap: true},
	memd.StatusRateLimitedMaxConnections: {kind: cberr.RateLimited, askMap: true},
	memd.StatusRateLimitedMaxCommands:    {kind: cberr.RateLimited, askMap: true},
	memd.StatusScopeSizeLimitExceeded:    {kind: cberr.QuotaLimited},
	memd.StatusBucketSizeLimitExceeded:   {kind: cberr.QuotaLimited},
	memd.StatusBucketResidentRatioTooLow: {kind: cberr.QuotaLimited},
	memd.StatusBucketDataSizeTooBig:      {kind: cberr.QuotaLimited},
	memd.StatusBucketDiskSpaceTooLow:     {kind: cberr.QuotaLimited},
	memd.StatusBucketPaused:              {kind: cberr.TemporaryFailure},
	memd.StatusCancelled:                 {kind: cberr.RequestCanceled, askMap: true},
	memd.StatusUnknownFrameInfo:          {kind: cberr.UnsupportedOperation},
	memd.StatusUnknownCommand:            {kind: cberr.UnsupportedOperation},
	memd.StatusOutOfMemory:               {kind: cberr.TemporaryFailure, askMap: true},
	memd.StatusNotSupported:              {kind: cberr.UnsupportedOperation},
	memd.StatusInternal:                  {kind: cberr.InternalServerFailure, applied: true},
	memd.StatusBusy:                      {kind: cberr.TemporaryFailure, askMap: true, varies: true},
	memd.StatusTmpFail:                   {kind: cberr.TemporaryFailure, reason: retry.KVTemporaryFailure},
	memd.StatusXattrInvalid:              {kind: cberr.InvalidArgument},
	memd.StatusUnknownCollection:         {kind: cberr.CollectionNotFound, reason: retry.KVCollectionOutdated, varies: true},
	// A bucket that was just made has none yet; the error maps of all servers that know the status say retry-later.
	memd.StatusNoCollectionsManifest:  {kind: cberr.TemporaryFailure, reason: retry.KVErrorMapRetryIndicated},
	memd.StatusCannotApplyManifest:    {kind: cberr.Couchbase},
	memd.StatusUnknownScope:           {kind: cberr.ScopeNotFound, varies: true},
	memd.StatusDCPStreamIDInvalid:     {kind: cberr.Couchbase},
	memd.StatusDurabilityInvalidLevel: {kind: cberr.DurabilityLevelNotAvailable},
	memd.StatusDurabilityImpossible:   {kind: cberr.DurabilityImpossible},
	memd.StatusSyncWriteInProgress:    {kind: cberr.DurableWriteInProgress, reason: retry.KVSyncWriteInProgress},
	memd.StatusSyncWriteAmbiguous:     {kind: cberr.DurabilityAmbiguous, ambiguous: true, applied: true},
	memd.StatusSyncWriteReCommitInProgress: {
		kind: cberr.DurableWriteReCommitInProgress, reason: retry.KVSyncWriteReCommitInProgress,
	},
	memd.StatusRangeScanCancelled: {kind: cberr.RequestCanceled},
	memd.StatusVBUUIDNotEqual:     {kind: cberr.Couchbase},

	memd.StatusSubdocPathNotFound:           {kind: cberr.PathNotFound},
	memd.StatusSubdocPathMismatch:           {kind: cberr.PathMismatch},
	memd.StatusSubdocPathInvalid:            {kind: cberr.PathInvalid},
	memd.StatusSubdocPathTooBig:             {kind: cberr.PathTooBig},
	memd.StatusSubdocDocTooDeep:             {kind: cberr.PathTooDeep},
	memd.StatusSubdocCantInsert:             {kind: cberr.ValueInvalid},
	memd.StatusSubdocNotJSON:                {kind: cberr.DocumentNotJSON},
	memd.StatusSubdocNumRange:               {kind: cberr.NumberTooBig},
	memd.StatusSubdocDeltaInvalid:           {kind: cberr.DeltaInvalid},
	memd.StatusSubdocPathExists:             {kind: cberr.PathExists},
	memd.StatusSubdocValueTooDeep:           {kind: cberr.ValueTooDeep},
	memd.StatusSubdocInvalidCombo:           {kind: cberr.InvalidArgument},
	memd.StatusSubdocXattrInvalidFlagCombo:  {kind: cberr.InvalidArgument},
	memd.StatusSubdocXattrInvalidKeyCombo:   {kind: cberr.XattrInvalidKeyCombo},
	memd.StatusSubdocXattrUnknownMacro:      {kind: cberr.XattrUnknownMacro},
	memd.StatusSubdocXattrUnknownVattr:      {kind: cberr.XattrUnknownVirtualAttribute},
	memd.StatusSubdocXattrCantModifyVattr:   {kind: cberr.XattrCannotModifyVirtualAttribute},
	memd.StatusSubdocInvalidXattrOrder:      {kind: cberr.InvalidArgument},
	memd.StatusSubdocXattrUnknownVattrMacro: {kind: cberr.XattrUnknownMacro},
	memd.StatusSubdocCanOnlyReviveDeleted:   {kind: cberr.DocumentExists},
	memd.StatusSubdocDeletedCantHaveValue:   {kind: cberr.InvalidArgument},
	memd.StatusSubdocFieldNotBinary:         {kind: cberr.PathMismatch},
}

// rowOf is the row of a status, nil without one.
func rowOf(st memd.Status) *row {
	if int(st) >= len(rows) || rows[st].kind == nil && rows[st].success == nil {
		return nil
	}
	return &rows[st]
}

// Classify gives the one meaning that a status has for an opcode. hasCAS says whether the request named a CAS. It is
// total: every status has exactly one disposition. Kind is never nil but for a success.
func Classify(op memd.Opcode, st memd.Status, hasCAS bool) Disposition {
	r := rowOf(st)
	if r == nil {
		return Disposition{Class: ClassAskMap, Kind: cberr.Couchbase}
	}
	if ok := r.success; ok != nil {
		if op >= ok.first && op <= ok.last {
			return Disposition{Class: ClassSuccess}
		}
		if o, ok := overrideOf(r, op, st); ok {
			return Disposition{Class: ClassFail, Kind: o.kind, NotApplied: true}
		}
		return Disposition{Class: ClassFail, Kind: cberr.Couchbase}
	}
	d := Disposition{
		Class: ClassFail, Kind: r.kind, NotApplied: !r.applied, Ambiguous: r.ambiguous, Reconnect: r.reconnect,
	}
	switch {
	case r.askMap:
		d.Class = ClassAskMap
	case r.reason != retry.Unknown:
		d.Class, d.Reason = ClassRetry, r.reason
	}
	if o, ok := overrideOf(r, op, st); ok {
		if o.unlessCAS && !hasCAS {
			return d
		}
		d.Kind = o.kind
		if o.final {
			d.Class, d.Reason = ClassFail, retry.Unknown
		}
	}
	if s := specs[op]; s != nil && s.Has(NoRetry) {
		d.Class, d.Reason = ClassFail, retry.Unknown
	}
	return d
}

// overrideOf is what a status with the row r means for an opcode, if that is something else. Most statuses need no
// search.
func overrideOf(r *row, op memd.Opcode, st memd.Status) (overrideRow, bool) {
	if !r.varies {
		return overrideRow{}, false
	}
	o, ok := overrides[override{op, st}]
	return o, ok
}

type override struct {
	op memd.Opcode
	st memd.Status
}

type overrideRow struct {
	kind      *cberr.Kind
	final     bool // never a retry matter for this opcode
	unlessCAS bool // holds only when the request named a CAS
}

// overrides are the statuses whose meaning depends on the opcode.
var overrides = map[override]overrideRow{
	{memd.OpReplace, memd.StatusKeyExists}:             {kind: cberr.CASMismatch},
	{memd.OpAppend, memd.StatusKeyExists}:              {kind: cberr.CASMismatch},
	{memd.OpPrepend, memd.StatusKeyExists}:             {kind: cberr.CASMismatch},
	{memd.OpDelete, memd.StatusKeyExists}:              {kind: cberr.CASMismatch},
	{memd.OpSet, memd.StatusKeyExists}:                 {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocMultiMutation, memd.StatusKeyExists}: {kind: cberr.CASMismatch, unlessCAS: true},

	{memd.OpSubdocDictAdd, memd.StatusKeyExists}:              {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocDictUpsert, memd.StatusKeyExists}:           {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocDelete, memd.StatusKeyExists}:               {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocReplace, memd.StatusKeyExists}:              {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocArrayPushLast, memd.StatusKeyExists}:        {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocArrayPushFirst, memd.StatusKeyExists}:       {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocArrayInsert, memd.StatusKeyExists}:          {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocArrayAddUnique, memd.StatusKeyExists}:       {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocCounter, memd.StatusKeyExists}:              {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpSubdocReplaceBodyWithXattr, memd.StatusKeyExists}: {kind: cberr.CASMismatch, unlessCAS: true},
	// The body names the path that failed, and with it the error.
	{memd.OpSubdocMultiMutation, memd.StatusSubdocMultiPathFailure}:        {kind: cberr.Couchbase},
	{memd.OpSubdocMultiMutation, memd.StatusSubdocMultiPathFailureDeleted}: {kind: cberr.Couchbase},

	{memd.OpGetReplica, memd.StatusKeyNotFound}:   {kind: cberr.DocumentNotFoundOnReplica},
	{memd.OpGetExReplica, memd.StatusKeyNotFound}: {kind: cberr.DocumentNotFoundOnReplica},

	// Too many scans at once: the scan has other vbuckets to go on with. Not stored: the very mutation that a snapshot
	// must hold is gone.
	{memd.OpRangeScanCreate, memd.StatusBusy}:      {kind: cberr.TemporaryFailure, final: true},
	{memd.OpRangeScanCreate, memd.StatusNotStored}: {kind: cberr.Couchbase},
	{memd.OpRangeScanContinue, memd.StatusBusy}:    {kind: cberr.TemporaryFailure, final: true},

	{memd.OpSetWithMeta, memd.StatusKeyExists}: {kind: cberr.CASMismatch, unlessCAS: true},
	{memd.OpDelWithMeta, memd.StatusKeyExists}: {kind: cberr.CASMismatch},

	{memd.OpCollectionsGetScopeID, memd.StatusUnknownScope}:      {kind: cberr.ScopeNotFound, final: true},
	{memd.OpCollectionsGetScopeID, memd.StatusUnknownCollection}: {kind: cberr.CollectionNotFound, final: true},

	{memd.OpAppend, memd.StatusNotStored}:  {kind: cberr.DocumentNotFound},
	{memd.OpPrepend, memd.StatusNotStored}: {kind: cberr.DocumentNotFound},

	{memd.OpUnlockKey, memd.StatusLocked}: {kind: cberr.CASMismatch, final: true},

	{memd.OpCollectionsGetID, memd.StatusUnknownCollection}: {kind: cberr.CollectionNotFound, final: true},
	{memd.OpCollectionsGetID, memd.StatusUnknownScope}:      {kind: cberr.ScopeNotFound, final: true},
}
