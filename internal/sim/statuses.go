package sim

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// What an answer means is written down here once more, from the protocol and from docs/retry.md: judges that asked the
// client's own tables would find its mistakes right.

// meaning is what a status says about the request.
type meaning struct {
	kind    *cberr.Kind  // of the error; nil for a result
	why     retry.Reason // for which it is sent again
	asks    bool         // the node's error map says whether it is
	changed bool         // the node may have changed something
	unsure  bool         // the node itself does not know whether it has
	useless bool         // the connection has no bucket any more
}

// final reports whether the call ends with the answer, and an error.
func (m meaning) final() bool { return m.kind != nil && m.why == retry.Unknown && !m.asks }

// meanings are those of the statuses that have a name, for most operations.
var meanings = map[memd.Status]meaning{
	memd.StatusSuccess: {},

	memd.StatusNotMyVBucket:        {kind: cberr.TemporaryFailure, why: retry.KVNotMyVBucket},
	memd.StatusUnknownCollection:   {kind: cberr.CollectionNotFound, why: retry.KVCollectionOutdated},
	memd.StatusNoBucket:            {kind: cberr.BucketNotFound, why: retry.BucketNotReady, useless: true},
	memd.StatusAuthStale:           {kind: cberr.AuthenticationFailure, why: retry.BucketNotReady},
	memd.StatusLocked:              {kind: cberr.DocumentLocked, why: retry.KVLocked},
	memd.StatusTmpFail:             {kind: cberr.TemporaryFailure, why: retry.KVTemporaryFailure},
	memd.StatusSyncWriteInProgress: {kind: cberr.DurableWriteInProgress, why: retry.KVSyncWriteInProgress},
	memd.StatusSyncWriteReCommitInProgress: {
		kind: cberr.DurableWriteReCommitInProgress, why: retry.KVSyncWriteReCommitInProgress,
	},
	memd.StatusNoCollectionsManifest: {kind: cberr.TemporaryFailure, why: retry.KVErrorMapRetryIndicated},

	memd.StatusWouldThrottle:             {kind: cberr.RateLimited, asks: true},
	memd.StatusRateLimitedNetworkIngress: {kind: cberr.RateLimited, asks: true},
	memd.StatusRateLimitedNetworkEgress:  {kind: cberr.RateLimited, asks: true},
	memd.StatusRateLimitedMaxConnections: {kind: cberr.RateLimited, asks: true},
	memd.StatusRateLimitedMaxCommands:    {kind: cberr.RateLimited, asks: true},
	memd.StatusConfigOnly:                {kind: cberr.TemporaryFailure, asks: true},
	memd.StatusOutOfMemory:               {kind: cberr.TemporaryFailure, asks: true},
	memd.StatusBusy:                      {kind: cberr.TemporaryFailure, asks: true},
	memd.StatusCancelled:                 {kind: cberr.RequestCanceled, asks: true},

	memd.StatusInternal:           {kind: cberr.InternalServerFailure, changed: true},
	memd.StatusSyncWriteAmbiguous: {kind: cberr.DurabilityAmbiguous, changed: true, unsure: true},
	// These are results of other operations. A request that is answered so may have been executed.
	memd.StatusAuthContinue:                  {kind: cberr.Couchbase, changed: true},
	memd.StatusRollback:                      {kind: cberr.Couchbase, changed: true},
	memd.StatusRangeScanMore:                 {kind: cberr.Couchbase, changed: true},
	memd.StatusRangeScanComplete:             {kind: cberr.Couchbase, changed: true},
	memd.StatusSubdocMultiPathFailure:        {kind: cberr.Couchbase, changed: true},
	memd.StatusSubdocMultiPathFailureDeleted: {kind: cberr.Couchbase, changed: true},
	memd.StatusSubdocSuccessDeleted:          {kind: cberr.Couchbase, changed: true},

	memd.StatusKeyNotFound:               {kind: cberr.DocumentNotFound},
	memd.StatusKeyExists:                 {kind: cberr.DocumentExists},
	memd.StatusTooBig:                    {kind: cberr.ValueTooLarge},
	memd.StatusInvalid:                   {kind: cberr.InvalidArgument},
	memd.StatusNotStored:                 {kind: cberr.DocumentExists},
	memd.StatusDeltaBadVal:               {kind: cberr.DeltaInvalid},
	memd.StatusStreamNotFound:            {kind: cberr.Couchbase},
	memd.StatusOpaqueNoMatch:             {kind: cberr.Couchbase},
	memd.StatusNotLocked:                 {kind: cberr.DocumentNotLocked},
	memd.StatusCASValueInvalid:           {kind: cberr.InvalidArgument},
	memd.StatusAuthError:                 {kind: cberr.AuthenticationFailure},
	memd.StatusRange:                     {kind: cberr.InvalidArgument},
	memd.StatusAccess:                    {kind: cberr.AuthenticationFailure},
	memd.StatusNotInitialized:            {kind: cberr.TemporaryFailure},
	memd.StatusEncryptionKeyNotAvailable: {kind: cberr.Couchbase},
	memd.StatusChecksumMismatch:          {kind: cberr.Couchbase},
	memd.StatusExpiryOverflow:            {kind: cberr.InvalidArgument},
	memd.StatusLockExpiryOverflow:        {kind: cberr.InvalidArgument},
	memd.StatusScopeSizeLimitExceeded:    {kind: cberr.QuotaLimited},
	memd.StatusBucketSizeLimitExceeded:   {kind: cberr.QuotaLimited},
	memd.StatusBucketResidentRatioTooLow: {kind: cberr.QuotaLimited},
	memd.StatusBucketDataSizeTooBig:      {kind: cberr.QuotaLimited},
	memd.StatusBucketDiskSpaceTooLow:     {kind: cberr.QuotaLimited},
	memd.StatusBucketPaused:              {kind: cberr.TemporaryFailure},
	memd.StatusUnknownFrameInfo:          {kind: cberr.UnsupportedOperation},
	memd.StatusUnknownCommand:            {kind: cberr.UnsupportedOperation},
	memd.StatusNotSupported:              {kind: cberr.UnsupportedOperation},
	memd.StatusXattrInvalid:              {kind: cberr.InvalidArgument},
	memd.StatusCannotApplyManifest:       {kind: cberr.Couchbase},
	memd.StatusUnknownScope:              {kind: cberr.ScopeNotFound},
	memd.StatusDCPStreamIDInvalid:        {kind: cberr.Couchbase},
	memd.StatusDurabilityInvalidLevel:    {kind: cberr.DurabilityLevelNotAvailable},
	memd.StatusDurabilityImpossible:      {kind: cberr.DurabilityImpossible},
	memd.StatusRangeScanCancelled:        {kind: cberr.RequestCanceled},
	memd.StatusVBUUIDNotEqual:            {kind: cberr.Couchbase},

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

// answeredWith is a request and the status of its answer.
type answeredWith struct {
	op memd.Opcode
	st memd.Status
}

// Statuses that mean something else for an operation.
var (
	meaningsOf = map[answeredWith]meaning{
		{memd.OpReplace, memd.StatusKeyExists}: {kind: cberr.CASMismatch},
		{memd.OpAppend, memd.StatusKeyExists}:  {kind: cberr.CASMismatch},
		{memd.OpPrepend, memd.StatusKeyExists}: {kind: cberr.CASMismatch},
		{memd.OpDelete, memd.StatusKeyExists}:  {kind: cberr.CASMismatch},
		{memd.OpAppend, memd.StatusNotStored}:  {kind: cberr.DocumentNotFound},
		{memd.OpPrepend, memd.StatusNotStored}: {kind: cberr.DocumentNotFound},

		{memd.OpGetReplica, memd.StatusKeyNotFound}:   {kind: cberr.DocumentNotFoundOnReplica},
		{memd.OpGetExReplica, memd.StatusKeyNotFound}: {kind: cberr.DocumentNotFoundOnReplica},
		{memd.OpUnlockKey, memd.StatusLocked}:         {kind: cberr.CASMismatch},
		{memd.OpDelWithMeta, memd.StatusKeyExists}:    {kind: cberr.CASMismatch},

		{memd.OpSubdocMultiMutation, memd.StatusSubdocMultiPathFailure}:        {kind: cberr.Couchbase},
		{memd.OpSubdocMultiMutation, memd.StatusSubdocMultiPathFailureDeleted}: {kind: cberr.Couchbase},
		{memd.OpSubdocMultiMutation, memd.StatusSubdocSuccessDeleted}:          {},
		{memd.OpSubdocMultiLookup, memd.StatusSubdocMultiPathFailure}:          {},
		{memd.OpSubdocMultiLookup, memd.StatusSubdocMultiPathFailureDeleted}:   {},
		{memd.OpSubdocMultiLookup, memd.StatusSubdocSuccessDeleted}:            {},
	}
	meaningsWithCAS = map[answeredWith]meaning{
		{memd.OpSet, memd.StatusKeyExists}:                  {kind: cberr.CASMismatch},
		{memd.OpSetWithMeta, memd.StatusKeyExists}:          {kind: cberr.CASMismatch},
		{memd.OpSubdocMultiMutation, memd.StatusKeyExists}:  {kind: cberr.CASMismatch},
		{memd.OpSubdocArrayPushLast, memd.StatusKeyExists}:  {kind: cberr.CASMismatch},
		{memd.OpSubdocArrayPushFirst, memd.StatusKeyExists}: {kind: cberr.CASMismatch},
		{memd.OpSubdocArrayInsert, memd.StatusKeyExists}:    {kind: cberr.CASMismatch},
		{memd.OpSubdocArrayAddUnique, memd.StatusKeyExists}: {kind: cberr.CASMismatch},
	}
)

// onePathOps are the requests for one path.
var onePathOps = []memd.Opcode{
	memd.OpSubdocGet, memd.OpSubdocExists, memd.OpSubdocGetCount, memd.OpSubdocArrayPushLast,
	memd.OpSubdocArrayPushFirst, memd.OpSubdocArrayInsert, memd.OpSubdocArrayAddUnique,
}

// meaningOf is what a status means for a request. A status without a name is a matter of the error map.
func meaningOf(op memd.Opcode, st memd.Status, cas bool) meaning {
	if m, special := meaningsWithCAS[answeredWith{op, st}]; special && cas {
		return m
	}
	if m, special := meaningsOf[answeredWith{op, st}]; special {
		return m
	}
	if st == memd.StatusSubdocSuccessDeleted && slices.Contains(onePathOps, op) {
		return meaning{}
	}
	if m, known := meanings[st]; known {
		return m
	}
	return meaning{kind: cberr.Couchbase, asks: true, changed: true}
}

// mapEntry is what an error map says of a status.
type mapEntry struct {
	again   bool // the request may be sent again
	changed bool // the node may have executed it all the same
	fetches bool // the client is to ask for the cluster map
	breaks  bool // the connection is of no use any more
	limit   bool // it is a limit that was reached
}

// mapOf reads an error map. What the nodes send is whole.
func mapOf(text []byte) map[memd.Status]mapEntry {
	var m struct {
		Errors map[string]struct{ Attrs []string }
	}
	_ = json.Unmarshal(text, &m)
	out := map[memd.Status]mapEntry{}
	for code, e := range m.Errors {
		st, _ := strconv.ParseUint(code, 16, 16)
		has := func(attrs ...string) bool {
			return slices.ContainsFunc(attrs, func(a string) bool { return slices.Contains(e.Attrs, a) })
		}
		out[memd.Status(st)] = mapEntry{
			again:   has("retry-now", "retry-later", "auto-retry") && !has("no-retry"),
			changed: has("success", "internal", "conn-state-invalidated", "special-handling"),
			fetches: has("fetch-config"), breaks: has("conn-state-invalidated"), limit: has("rate-limit"),
		}
	}
	return out
}

// sentElsewhere reports whether a reason sends the request to another node, or has it get another id of its collection:
// no strategy is asked about it.
func sentElsewhere(why retry.Reason) bool {
	return why == retry.KVNotMyVBucket || why == retry.KVCollectionOutdated
}

// elsewhereAt is when a request leaves that is sent elsewhere each time, see fault 38.
var elsewhereAt = [...]time.Duration{
	0, time.Millisecond, 11 * time.Millisecond, 61 * time.Millisecond, 161 * time.Millisecond,
	661 * time.Millisecond, 1661 * time.Millisecond,
}

// elsewhereWait is how long it waits after so many waits; from the last one on they are equal.
func elsewhereWait(waits int) time.Duration {
	i := min(waits, len(elsewhereAt)-2)
	return elsewhereAt[i+1] - elsewhereAt[i]
}
