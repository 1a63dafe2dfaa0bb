package kv_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// notOurs are the named opcodes that no operation of a data client uses, and why.
var notOurs = map[string][]memd.Opcode{
	"the connection's own handshake": {
		memd.OpHello, memd.OpSASLListMechs, memd.OpSASLAuth, memd.OpSASLStep, memd.OpSelectBucket, memd.OpGetErrorMap,
		memd.OpQuit,
	},
	"quiet forms, which servers may refuse and which answer nothing": {
		memd.OpGetQ, memd.OpGetK, memd.OpGetKQ, memd.OpSetQ, memd.OpAddQ, memd.OpReplaceQ, memd.OpDeleteQ,
		memd.OpIncrementQ,
		memd.OpDecrementQ, memd.OpQuitQ, memd.OpFlushQ, memd.OpAppendQ, memd.OpPrependQ, memd.OpGATQ, memd.OpGetQMeta,
		memd.OpSetQWithMeta,
		memd.OpAddQWithMeta, memd.OpDelQWithMeta,
	},
	"refused by every server": {memd.OpFlush},
	"for change streams, which this client does not have": {
		memd.OpDCPOpen, memd.OpDCPAddStream, memd.OpDCPCloseStream, memd.OpDCPStreamReq, memd.OpDCPGetFailoverLog,
		memd.OpDCPStreamEnd,
		memd.OpDCPSnapshotMarker, memd.OpDCPMutation, memd.OpDCPDeletion, memd.OpDCPExpiration,
		memd.OpDCPSetVBucketState, memd.OpDCPNoop,
		memd.OpDCPBufferAck, memd.OpDCPControl, memd.OpDCPSystemEvent, memd.OpDCPPrepare, memd.OpDCPSeqnoAck,
		memd.OpDCPCommit,
		memd.OpDCPAbort, memd.OpDCPSeqnoAdvanced, memd.OpDCPOSOSnapshot, memd.OpDCPCacheTransfer,
		memd.OpDCPCacheTransferEnd,
		memd.OpGetAllVBSeqnos, memd.OpSeqnoPersistence,
	},
	"for the management of nodes and buckets": {
		memd.OpVerbosity, memd.OpIoctlGet, memd.OpIoctlSet, memd.OpConfigValidate, memd.OpConfigReload, memd.OpAuditPut,
		memd.OpAuditConfigReload,
		memd.OpShutdown, memd.OpSetBucketThrottleProperties, memd.OpSetBucketDataLimitExceeded,
		memd.OpSetActiveEncryptionKeys,
		memd.OpPruneEncryptionKeys, memd.OpRegisterAuthToken, memd.OpSetVBucket, memd.OpGetVBucket, memd.OpDelVBucket,
		memd.OpGetFusionStorageSnapshot, memd.OpReleaseFusionStorageSnapshot, memd.OpMountFusionVBucket,
		memd.OpUnmountFusionVBucket,
		memd.OpSyncFusionLogstore, memd.OpStartFusionUploader, memd.OpStopFusionUploader, memd.OpDeleteFusionNamespace,
		memd.OpGetFusionNamespaces, memd.OpCreateFusionNamespace, memd.OpStopPersistence, memd.OpStartPersistence,
		memd.OpSetParam,
		memd.OpSetChronicleAuthToken, memd.OpCreateBucket, memd.OpDeleteBucket, memd.OpListBuckets, memd.OpPauseBucket,
		memd.OpResumeBucket,
		memd.OpValidateBucketConfig, memd.OpEvictKey, memd.OpEnableTraffic, memd.OpDisableTraffic, memd.OpIfconfig,
		memd.OpCompactDB,
		memd.OpSetClusterConfig, memd.OpCollectionsSetManifest, memd.OpPrepareSnapshot, memd.OpReleaseSnapshot,
		memd.OpDownloadSnapshot,
		memd.OpGetFileFragment, memd.OpISASLRefresh, memd.OpGetCmdTimer, memd.OpSetCtrlToken, memd.OpGetCtrlToken,
		memd.OpUpdateExternalUserPermissions, memd.OpRBACRefresh, memd.OpAuthProvider, memd.OpDropPrivilege,
		memd.OpAdjustTimeOfDay, memd.OpEWBCtl,
	},
	"for gateways that keep documents' metadata themselves, and for debugging": {
		memd.OpReturnMeta,
		memd.OpMutateWithMeta, memd.OpGetKeys,
	},
}

// Every opcode with a name is an operation, or has a reason for not being one. That each operation has a golden request
// and a golden answer is what TestEncodeGolden and TestDecodeGolden say.
func TestEveryOpcodeIsAnOperationOrHasAReason(t *testing.T) {
	reasons := map[memd.Opcode]string{}
	for why, ops := range notOurs {
		for _, op := range ops {
			require.Empty(t, reasons[op], op)
			require.True(t, op.Known(), op)
			reasons[op] = why
		}
	}
	for op := range 256 {
		op := memd.Opcode(op)
		if !op.Known() {
			require.Nil(t, call.SpecOf(op), op)
			continue
		}
		require.NotEqual(t, call.SpecOf(op) != nil, reasons[op] != "", "%v is one or the other", op)
	}
	requested := map[memd.Opcode]bool{}
	for _, e := range encodings() {
		wire, err := e.op.encoded(e.wire)
		require.NoError(t, err)
		requested[memd.Opcode(wire[1])] = true
	}
	for _, r := range rowsOf() {
		require.True(t, requested[r.Opcode], "%s has no golden request", r.Name)
	}
}

// D107: a field that is set has an effect: on what is sent, or as an error, or on what is made of the answer.
func TestEveryFieldHasAnEffect_D107(t *testing.T) {
	wholeOnly := map[string]bool{"Into": true, "KeepCompressed": true} // which a Get does not say beside Paths
	require.Len(t, allOps(), len(subjects()))
	fields := 0
	for _, some := range allOps() {
		typ := reflect.TypeOf(some)
		for _, f := range reflect.VisibleFields(typ) {
			if f.Name == "Common" { // its fields follow
				continue
			}
			fields++
			op := some
			if whole, ok := op.(kv.Get); ok && wholeOnly[f.Name] {
				whole.Paths = nil
				op = whole
			}
			v := reflect.New(typ).Elem()
			v.Set(reflect.ValueOf(op))
			before := effect(t, v.Interface())
			set(t, v.FieldByIndex(f.Index), f)
			require.NotEqual(t, before, effect(t, v.Interface()), "%s.%s", typ.Name(), f.Name)
		}
	}
	require.Greater(t, fields, 400)
}

// allOps is a value of every operation, as its struct.
func allOps() []any {
	key, one := []byte("abc"), []byte("1")
	scan := kv.RangeScan{VBucket: 1, ID: [16]byte{1}}
	return []any{
		kv.AddWithMeta{Key: key},
		kv.Append{Key: key},
		kv.Decrement{Key: key, Initial: new(uint64)},
		kv.DeleteWithMeta{Key: key},
		kv.Exists{Key: key},
		kv.GetFailoverLog{},
		kv.Get{Key: key, Paths: []string{"p"}},
		kv.GetAndLock{Key: key},
		kv.GetAndTouch{Key: key},
		kv.GetClusterConfig{KnownEpoch: 1, KnownRev: 1},
		kv.GetCollectionID{Path: "s.c"},
		kv.GetEx{Key: key},
		kv.GetEx{Key: key, Replica: 2},
		kv.GetManifest{},
		kv.GetOrNull{Key: key},
		kv.GetMeta{Key: key},
		kv.GetRandom{},
		kv.GetReplica{Key: key, Replica: 2},
		kv.GetScopeID{},
		kv.GetVersion{},
		kv.Increment{Key: key, Initial: new(uint64)},
		kv.Insert{Key: key},
		kv.LookupIn{Key: key, Specs: []kv.LookupSpec{kv.GetPath("a")}},
		kv.MutateIn{Key: key, Specs: []kv.MutateSpec{kv.UpsertPath("a", one)}},
		kv.Noop{},
		kv.Observe{Key: key},
		kv.ObserveSeqno{},
		kv.LookupPath{Key: key, Spec: kv.GetPath("a")},
		kv.MutatePath{Key: key, Spec: kv.UpsertPath("a", one)},
		kv.Prepend{Key: key},
		kv.RangeScanCancel{Scan: scan},
		kv.RangeScanContinue{Scan: scan},
		kv.RangeScanCreate{Range: &kv.ScanRange{Start: one}},
		kv.Remove{Key: key},
		kv.Replace{Key: key},
		kv.SetWithMeta{Key: key},
		kv.Stat{},
		kv.Touch{Key: key},
		kv.Unlock{Key: key, CAS: 1},
		kv.Upsert{Key: key},
	}
}

// set gives a field another value.
func set(t *testing.T, v reflect.Value, f reflect.StructField) {
	t.Helper()
	switch x := v.Interface().(type) {
	case nil: // the one interface
		v.Set(reflect.ValueOf(retry.BestEffort{}))
	case *kv.Hedge:
		v.Set(reflect.ValueOf(&kv.Hedge{}))
	case []byte:
		v.SetBytes([]byte("other"))
	case string:
		v.SetString("other")
	case bool:
		v.SetBool(!x)
	case kv.Expiry:
		v.Set(reflect.ValueOf(kv.ExpireAfter(time.Minute)))
	case time.Duration:
		v.SetInt(int64(time.Second))
	case *uint32:
		n := uint32(5)
		v.Set(reflect.ValueOf(&n))
	case *uint64:
		n := uint64(5)
		v.Set(reflect.ValueOf(&n))
	case kv.Meta:
		v.Set(reflect.ValueOf(kv.Meta{RevSeqno: 1}))
	case []string:
		v.Set(reflect.ValueOf([]string{"q"}))
	case []kv.LookupSpec:
		v.Set(reflect.ValueOf([]kv.LookupSpec{kv.ExistsPath("q")}))
	case []kv.MutateSpec:
		v.Set(reflect.ValueOf([]kv.MutateSpec{kv.RemovePath("q")}))
	case kv.LookupSpec:
		v.Set(reflect.ValueOf(kv.ExistsPath("q")))
	case kv.MutateSpec:
		v.Set(reflect.ValueOf(kv.RemovePath("q")))
	case kv.RangeScan:
		v.Set(reflect.ValueOf(kv.RangeScan{VBucket: 9}))
	case *kv.ScanRange:
		v.Set(reflect.ValueOf(&kv.ScanRange{Start: []byte("q")}))
	case kv.MutationToken:
		v.Set(reflect.ValueOf(kv.MutationToken{UUID: 1}))
	case memd.Datatype:
		v.Set(reflect.ValueOf(memd.DatatypeJSON))
	default:
		switch {
		case v.CanInt():
			v.SetInt(v.Int() + 1)
		case v.CanUint():
			v.SetUint(v.Uint() + 1)
		default:
			t.Fatalf("%s: a %v is new to this test", f.Name, f.Type)
		}
	}
}

// effect is all that an operation says to its dispatcher: the wire form, where it is to go, what it needs, what becomes
// of its answer; or its error. What the dispatcher makes of that is tested with it.
func effect(t *testing.T, op any) any {
	t.Helper()
	var r call.Request
	if err := kv.Encode(op, &r); err != nil {
		return err.Error()
	}
	w := call.Wire{Features: allFeatures, DurabilityMS: 1, VBucket: 1, Via: &call.Via{Local: r.Connection()}}
	wire, err := r.AppendTo(nil, &w)
	require.NoError(t, err)
	return []any{
		wire, r.Replica(), r.Wrap, r.Pinned, r.Node(), r.ByVBucket, r.VBucket, r.ServerGroup(), r.Connection(), r.Into,
		r.KeepCompressed, r.Hedge(),
		r.Scope(), r.Collection(), r.CollectionID(), r.Retry(), r.Timeout, r.Block(),
	}
}

// D108: what is used as a key or compared is a comparable value.
func TestKeysAreComparableValues_D108(t *testing.T) {
	for _, v := range []any{
		kv.MutationToken{},
		call.Compression{},
		call.Disposition{},
		call.Wire{},
		kv.MutationToken{},
	} {
		typ := reflect.TypeOf(v)
		require.True(t, typ.Comparable(), typ)
		for i := range typ.NumField() {
			kind := typ.Field(i).Type.Kind()
			require.NotContains(t, []reflect.Kind{reflect.Interface, reflect.Chan, reflect.UnsafePointer}, kind,
				"%v.%s", typ, typ.Field(i).Name)
		}
	}
}
