package call_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// anyOpcode is an opcode for which no status has a meaning of its own.
const anyOpcode = memd.OpGet

// CB-4: every status has one disposition for every opcode, and it fits together.
func TestEveryStatusHasOneDisposition_CB4(t *testing.T) {
	for _, s := range call.RowsOf() {
		for _, cas := range []bool{false, true} {
			for st := range 1 << 16 {
				d := call.Classify(s.Opcode, memd.Status(st), cas)
				if why := incoherent(d, memd.Status(st)); why != "" {
					t.Fatalf("%s, status 0x%02x: %s: %+v", s.Name, st, why, d)
				}
			}
		}
	}
}

// Each status that has a name has a row, which says whether the server has applied anything, and so has each code of
// the error map of kv_engine's newest version (2, revision 9). Nothing known is left to chance: the error map decides
// only for statuses that are known to leave everything as it was.
func TestEveryNamedStatusHasARow_D132(t *testing.T) {
	newest := []memd.Status{
		0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x1f, 0x20,
		0x21, 0x22, 0x23,
		0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x30, 0x31, 0x32, 0x33, 0x35, 0x36, 0x37, 0x38, 0x50, 0x51, 0x80, 0x81,
		0x82, 0x83, 0x84,
		0x85, 0x86, 0x87, 0x88, 0x8a, 0x8c, 0x8d, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xc0, 0xc1,
		0xc2, 0xc3, 0xc4,
		0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6,
		0xd7, 0xd8,
	}
	require.Len(t, newest, 83)
	for _, st := range newest {
		require.True(t, st.Known(), "0x%02x", uint16(st))
	}
	for st := range 1 << 16 {
		st := memd.Status(st)
		require.Equal(t, st.Known(), call.HasRow(st), "0x%02x", uint16(st))
		for _, s := range call.RowsOf() {
			if d := call.Classify(s.Opcode, st, false); st.Known() && d.Class == call.ClassAskMap {
				require.True(t, d.NotApplied, "%s, 0x%02x", s.Name, uint16(st))
			}
		}
	}
}

// What a map says of a status is followed as far as nothing can have been applied; the orchestrator refuses the rest.
func TestWhatAMapAddsToAStatus_D132(t *testing.T) {
	now, later := errormap.RetryNow, errormap.RetryLater
	for _, c := range []struct {
		st               memd.Status
		attrs            errormap.Attr
		retry, noApplied bool
	}{
		{0x7ff0, now, true, true},
		{0x7ff0, later, true, true},
		{0x7ff0, errormap.AutoRetry, true, true},
		{0x7ff0, now | errormap.NoRetry, false, false},
		{0x7ff0, now | errormap.Success, true, false},
		{0x7ff0, now | errormap.Internal, true, false},
		{0x7ff0, now | errormap.SpecialHandling, true, false},
		{0x7ff0, now | errormap.ConnStateInvalidated, true, false},
		{0x7ff0, errormap.Temp, false, false},
		{memd.StatusOutOfMemory, later | errormap.Internal, true, true}, // the client knows better
		{memd.StatusBusy, now, true, true},
		{memd.StatusInternal, now, false, false},
		{memd.StatusSyncWriteAmbiguous, now, false, false},
		{memd.StatusKeyExists, now, false, true},
		{memd.StatusSubdocMultiPathFailure, now, false, false},
	} {
		d := call.Classify(memd.OpSet, c.st, false).WithMap(errormap.Entry{Attrs: c.attrs})
		require.Equal(t, c.retry, d.Class == call.ClassRetry, "%v %b", c.st, c.attrs)
		require.Equal(t, c.noApplied, d.NotApplied, "%v %b", c.st, c.attrs)
	}
	d := call.Classify(memd.OpSet, memd.StatusTmpFail, false)
	require.Equal(t, d, d.WithMap(errormap.Entry{Attrs: now}), "the map is not asked")
}

// Only the rows that say so are looked up by opcode.
func TestRowsSayWhichStatusesVaryByOpcode(t *testing.T) {
	require.Empty(t, call.StatusesOutOfStep())
}

func incoherent(d call.Disposition, st memd.Status) string {
	switch d.Class {
	case call.ClassSuccess:
		if d != (call.Disposition{Class: call.ClassSuccess}) {
			return "a success that says more"
		}
		if !st.CarriesPayload() {
			return "a success with an error body"
		}
		return ""
	case call.ClassRetry:
		if d.Reason == retry.Unknown || !d.NotApplied {
			return "a retry needs a reason and the proof that nothing was changed"
		}
		if !d.Reason.AllowsNonIdempotent() {
			return "a status's reason must be safe for writes"
		}
	case call.ClassFail, call.ClassAskMap:
		if d.Reason != retry.Unknown {
			return "a reason that no operation asks about"
		}
	default:
		return "no class"
	}
	switch {
	case d.Kind == nil:
		return "a failure without a kind"
	case d.Ambiguous && d.NotApplied:
		return "ambiguous and not applied"
	case d.Class == call.ClassAskMap && !st.Known() && (d.Kind != cberr.Couchbase || d.NotApplied):
		return "an unknown status that claims to be known"
	}
	return ""
}

// CB-5: without help from the map an unknown status is a permanent failure; the dispatcher asks the map.
func TestAnUnknownStatusAsksTheMap_CB5_CB48(t *testing.T) {
	for _, st := range []memd.Status{0x10, 0x1e, 0x7ff0, 0x7ff1, 0x7ff2, 0x7fff, 0xff00, 0xffff} {
		require.False(t, st.Known())
		want := call.Disposition{Class: call.ClassAskMap, Kind: cberr.Couchbase}
		require.Equal(t, want, call.Classify(anyOpcode, st, false))
	}
}

// CB-48, CB-50: the map is asked for these and for what has no name here, and for nothing else.
func TestTheMapIsAskedForTheseAlone_CB48_CB50(t *testing.T) {
	asked := map[memd.Status]*cberr.Kind{
		memd.StatusOutOfMemory: cberr.TemporaryFailure, memd.StatusBusy: cberr.TemporaryFailure,
		memd.StatusConfigOnly: cberr.TemporaryFailure, memd.StatusWouldThrottle: cberr.RateLimited,
		memd.StatusCancelled: cberr.RequestCanceled,
		0x30:                 cberr.RateLimited, 0x31: cberr.RateLimited, 0x32: cberr.RateLimited,
		0x33: cberr.RateLimited,
	}
	for st := range 1 << 16 {
		st := memd.Status(st)
		d := call.Classify(anyOpcode, st, false)
		if kind := asked[st]; kind != nil {
			require.Equal(t, call.Disposition{Class: call.ClassAskMap, Kind: kind, NotApplied: true}, d, st)
			continue
		}
		// The rest is either in the table, or nothing but asked about.
		if alone := d == (call.Disposition{
			Class: call.ClassAskMap,
			Kind:  cberr.Couchbase,
		}); alone != (d.Class == call.ClassAskMap) {
			t.Fatalf("%v: %+v", st, d)
		}
	}
}

func TestStatusesWithAReason_CB58(t *testing.T) {
	want := map[memd.Status]retry.Reason{
		0x07: retry.KVNotMyVBucket, 0x08: retry.BucketNotReady, 0x09: retry.KVLocked, 0x1f: retry.BucketNotReady,
		0x86: retry.KVTemporaryFailure,
		0x88: retry.KVCollectionOutdated, 0x89: retry.KVErrorMapRetryIndicated, 0xa2: retry.KVSyncWriteInProgress,
		0xa4: retry.KVSyncWriteReCommitInProgress,
	}
	for _, s := range call.RowsOf() {
		for st := range 1 << 16 {
			st := memd.Status(st)
			if s.Opcode == memd.OpUnlockKey && st == memd.StatusLocked || s.Has(call.NoRetry) ||
				st == memd.StatusUnknownCollection &&
					(s.Opcode == memd.OpCollectionsGetID || s.Opcode == memd.OpCollectionsGetScopeID) {
				continue // CB-60's, CB-59's, and what is never retried
			}
			d := call.Classify(s.Opcode, st, true)
			if d.Reason != want[st] || (d.Class == call.ClassRetry) != (want[st] != retry.Unknown) {
				t.Fatalf("%s %v: %+v, want %v", s.Name, st, d, want[st])
			}
		}
	}
}

func TestALookedUpCollectionThatIsMissingIsFinal_CB59(t *testing.T) {
	for st, kind := range map[memd.Status]*cberr.Kind{
		memd.StatusUnknownCollection: cberr.CollectionNotFound, memd.StatusUnknownScope: cberr.ScopeNotFound,
	} {
		d := call.Classify(memd.OpCollectionsGetID, st, false)
		require.Equal(t, call.Disposition{Class: call.ClassFail, Kind: kind, NotApplied: true}, d)
	}
	require.Equal(t, call.ClassRetry, call.Classify(anyOpcode, memd.StatusUnknownCollection, false).Class)
}

func TestUnlockWithAnotherCASIsFinal_CB60(t *testing.T) {
	d := call.Classify(memd.OpUnlockKey, memd.StatusLocked, true)
	require.Equal(t, call.Disposition{Class: call.ClassFail, Kind: cberr.CASMismatch, NotApplied: true}, d)
	for _, s := range call.RowsOf() {
		if s.Opcode != memd.OpUnlockKey && !s.Has(call.NoRetry) {
			require.Equal(t, retry.KVLocked, call.Classify(s.Opcode, memd.StatusLocked, true).Reason, s.Name)
		}
	}
}

func TestSyncWriteAmbiguousIsFinalAndAmbiguous(t *testing.T) {
	for _, s := range call.RowsOf() {
		d := call.Classify(s.Opcode, memd.StatusSyncWriteAmbiguous, false)
		require.Equal(t, call.Disposition{Class: call.ClassFail, Kind: cberr.DurabilityAmbiguous, Ambiguous: true}, d,
			s.Name)
	}
}

// D98: what "exists" and "not stored" mean depends on what was asked.
func TestStatusByOpcode_D98(t *testing.T) {
	exists, mismatch, missing := cberr.DocumentExists, cberr.CASMismatch, cberr.DocumentNotFound
	for _, c := range []struct {
		op      memd.Opcode
		st      memd.Status
		without *cberr.Kind // the request named no CAS
		with    *cberr.Kind
	}{
		{memd.OpAdd, memd.StatusKeyExists, exists, exists},
		{memd.OpSet, memd.StatusKeyExists, exists, mismatch},
		{memd.OpReplace, memd.StatusKeyExists, mismatch, mismatch},
		{memd.OpDelete, memd.StatusKeyExists, mismatch, mismatch},
		{memd.OpAppend, memd.StatusKeyExists, mismatch, mismatch},
		{memd.OpPrepend, memd.StatusKeyExists, mismatch, mismatch},
		{memd.OpSubdocMultiMutation, memd.StatusKeyExists, exists, mismatch},
		{memd.OpIncrement, memd.StatusKeyExists, exists, exists},
		{memd.OpDecrement, memd.StatusKeyExists, exists, exists},
		{memd.OpAdd, memd.StatusNotStored, exists, exists},
		{memd.OpAppend, memd.StatusNotStored, missing, missing},
		{memd.OpPrepend, memd.StatusNotStored, missing, missing},
		{memd.OpReplace, memd.StatusKeyNotFound, missing, missing},
		{memd.OpGet, memd.StatusKeyNotFound, missing, missing},
		{memd.OpGetReplica, memd.StatusKeyNotFound, cberr.DocumentNotFoundOnReplica, cberr.DocumentNotFoundOnReplica},
		{memd.OpGetExReplica, memd.StatusKeyNotFound, cberr.DocumentNotFoundOnReplica, cberr.DocumentNotFoundOnReplica},
		{memd.OpSubdocDictAdd, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSubdocDictUpsert, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSubdocDelete, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSubdocReplace, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSubdocArrayPushLast, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSubdocArrayPushFirst, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSubdocArrayInsert, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSubdocArrayAddUnique, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSubdocCounter, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSubdocReplaceBodyWithXattr, memd.StatusKeyExists, exists, mismatch},
		{memd.OpSetWithMeta, memd.StatusKeyExists, exists, mismatch},
		{memd.OpAddWithMeta, memd.StatusKeyExists, exists, exists},
		{memd.OpDelWithMeta, memd.StatusKeyExists, mismatch, mismatch},
		{memd.OpRangeScanCreate, memd.StatusBusy, cberr.TemporaryFailure, cberr.TemporaryFailure},
		{memd.OpIncrement, memd.StatusDeltaBadVal, cberr.DeltaInvalid, cberr.DeltaInvalid},
		{memd.OpUnlockKey, memd.StatusNotLocked, cberr.DocumentNotLocked, cberr.DocumentNotLocked},
		{memd.OpUnlockKey, memd.StatusLocked, mismatch, mismatch},
		{memd.OpSet, memd.StatusTooBig, cberr.ValueTooLarge, cberr.ValueTooLarge},
	} {
		for cas, kind := range map[bool]*cberr.Kind{false: c.without, true: c.with} {
			d := call.Classify(c.op, c.st, cas)
			require.Equal(t, call.ClassFail, d.Class, "%v %v", c.op, c.st)
			require.Same(t, kind, d.Kind, "%v %v, with CAS: %v", c.op, c.st, cas)
			require.True(t, d.NotApplied)
		}
	}
}

// D99: the same kind is behind one status only where the table of errors says so.
func TestDocumentNotJSONCanBeReturned_D99(t *testing.T) {
	require.Same(t, cberr.DocumentNotJSON, call.Classify(anyOpcode, memd.StatusSubdocNotJSON, false).Kind)
}

// The golden file is every status that has a name, and below it every opcode for which one means something else.
func TestStatusTableGolden(t *testing.T) {
	var b strings.Builder
	b.WriteString("# What each named status means for an operation.\n")
	var named []memd.Status
	for st := range 1 << 16 {
		if st := memd.Status(st); st.Known() {
			named = append(named, st)
			fmt.Fprintf(&b, "0x%02x %-41s %s\n", uint16(st), st, words(call.Classify(anyOpcode, st, false)))
		}
	}
	b.WriteString("# Where an opcode, or a CAS in its request, gives a status another meaning.\n")
	for op := range 256 {
		for _, st := range named {
			op, base := memd.Opcode(op), call.Classify(anyOpcode, st, false)
			without, with := call.Classify(op, st, false), call.Classify(op, st, true)
			line := func(when string, d call.Disposition) {
				if d != base {
					fmt.Fprintf(&b, "%-30v %-33v %-8s %s\n", op, st, when, words(d))
				}
			}
			if without == with {
				line("", with)
				continue
			}
			line("no CAS", without)
			line("with CAS", with)
		}
	}
	testkit.Golden(t, "testdata/status.golden", []byte(b.String()), *update)
}

func words(d call.Disposition) string {
	var w []string
	switch d.Class {
	case call.ClassSuccess:
		return "success"
	case call.ClassAskMap:
		w = append(w, "ask the map")
	case call.ClassFail:
		w = append(w, "fail")
	case call.ClassRetry:
		w = append(w, "retry "+d.Reason.String())
	}
	w = append(w, d.Kind.Name())
	if d.NotApplied {
		w = append(w, "not applied")
	}
	if d.Ambiguous {
		w = append(w, "ambiguous")
	}
	return strings.Join(w, ", ")
}

// A write that is answered with another command's success was not acknowledged.
func TestASuccessOfAnotherCommandIsNone(t *testing.T) {
	for op := range 256 {
		op := memd.Opcode(op)
		subdoc := op >= memd.OpSubdocGet && op <= memd.OpSubdocReplaceBodyWithXattr
		lookup := op == memd.OpSubdocMultiLookup
		scan := op == memd.OpRangeScanContinue
		for st, want := range map[memd.Status]bool{
			memd.StatusSuccess: true, memd.StatusAuthContinue: false,
			memd.StatusRangeScanMore: scan, memd.StatusRangeScanComplete: scan,
			memd.StatusSubdocMultiPathFailure: lookup, memd.StatusSubdocSuccessDeleted: subdoc,
			memd.StatusSubdocMultiPathFailureDeleted: lookup,
		} {
			require.Equal(t, want, call.Classify(op, st, false).Class == call.ClassSuccess, "%v %v", op, st)
		}
	}
}
